"""Where agents leave their metadata for each other; weftcomm.transfer has the names."""

from __future__ import annotations

import base64
import http.client
import json
import os
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import quote

from . import _arguments
from ._errors import Error, InvalidArgument


class Store(Protocol):
    """Where agents leave their metadata: torch's TCPStore and FileStore, a Redis client, Etcd, a Folder, or anything that has
    both calls. get() of a key that is not there returns None, waits, or raises KeyError."""

    def set(self, key: str, value: bytes, /) -> Any: ...

    def get(self, key: str, /) -> Any: ...


class Folder:
    """A store of files in a folder that all agents see; it is made where it is not there. A reader never sees half of a value.
    Thread: any."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path = Path(path)
        self._path.mkdir(parents=True, exist_ok=True)

    def set(self, key: str, value: bytes, /) -> None:
        """Replaces the value of the key."""
        file = self._file(key, "set")
        if not isinstance(value, (bytes, bytearray, memoryview)):
            raise _arguments.refuse(f"value {_arguments.shown(value)}: it is bytes", "set")
        part = file.with_name(f"{file.name}.{os.getpid()}.{time.monotonic_ns()}.part")
        part.write_bytes(value)
        part.replace(file)

    def get(self, key: str, /) -> bytes | None:
        """The value of the key; None: there is none."""
        try:
            return self._file(key, "get").read_bytes()
        except FileNotFoundError:
            return None

    def _file(self, key: str, operation: str) -> Path:
        """A file of the folder itself, whatever the key."""
        name = quote(_arguments.text(key, "key", operation), safe="")
        if name in ("", ".", ".."):
            raise _arguments.refuse(f"key {key!r}: it names no file", operation)
        return self._path / name


class Etcd:
    """A store in etcd from 3.4 on, through its JSON gateway.

    urls: "http://host:2379", or several, of which the first that answers is asked. prefix: in front of every key. timeout: seconds
    for each of them. user, password: where etcd asks for them. ssl: an ssl.SSLContext for https. Calls raise Error, with one line:
    nobody answers, or what etcd says. Thread: any.
    """

    def __init__(
        self, urls: str, prefix: str = "", timeout: float = 5.0, user: str = "", password: str = "", ssl: Any = None
    ) -> None:
        self._urls = [url.strip().rstrip("/") for url in urls.split(",") if url.strip()]
        for url in self._urls:
            if not url.startswith(("http://", "https://")):
                raise InvalidArgument(f"etcd: '{url}' is not the address of a server: http://HOST:PORT")
        if not self._urls:
            raise InvalidArgument("etcd: no address is given")
        self._prefix, self._timeout, self._ssl = prefix, timeout, ssl
        self._user = (user, password) if user else None
        self._token = ""

    def set(self, key: str, value: bytes, /) -> None:
        """Replaces the value of the key."""
        self._ask("kv/put", {"key": self._key(key), "value": base64.b64encode(value).decode()})

    def get(self, key: str, /) -> bytes | None:
        """The value of the key; None: there is none."""
        found = self._ask("kv/range", {"key": self._key(key)}).get("kvs") or []
        return base64.b64decode(found[0].get("value", "")) if found else None

    def delete(self, key: str, /, *, prefix: bool = False) -> int:
        """Removes the key, or all keys that begin with it; returns how many there were."""
        question = {"key": self._key(key)}
        if prefix:  # etcd's form of a range: up to the key whose last byte is one more
            name = (self._prefix + key).encode()
            end = name.rstrip(b"\xff")
            question["range_end"] = base64.b64encode(end[:-1] + bytes([end[-1] + 1]) if end else b"\0").decode()
        return int(self._ask("kv/deleterange", question).get("deleted", 0))

    def _key(self, key: str) -> str:
        return base64.b64encode((self._prefix + key).encode()).decode()

    def _ask(self, call: str, question: dict[str, str]) -> dict[str, Any]:
        if self._user is None:
            return self._post(call, question)
        if self._token:
            try:
                return self._post(call, question)
            except Error as error:
                if "invalid auth token" not in str(error):
                    raise
            self._token = ""  # it has expired
        self._token = self._post("auth/authenticate", {"name": self._user[0], "password": self._user[1]})["token"]
        return self._post(call, question)

    def _post(self, call: str, question: dict[str, str]) -> dict[str, Any]:
        problems = []
        for url in self._urls:
            headers = {"Content-Type": "application/json", **({"Authorization": self._token} if self._token else {})}
            request = urllib.request.Request(f"{url}/v3/{call}", json.dumps(question).encode(), headers)
            try:
                with urllib.request.urlopen(request, timeout=self._timeout, context=self._ssl) as answer:
                    got = json.load(answer)
            except urllib.error.HTTPError as error:
                raise Error(f"etcd at {url}: {_said(error)}") from None
            except (OSError, http.client.HTTPException, ValueError) as error:
                reason = getattr(error, "reason", None) or error
                problems.append(f"etcd at {url}: {' '.join(str(reason).split()) or type(reason).__name__}")
                continue
            if not isinstance(got, dict):
                raise Error(f"etcd at {url}: it answers no object")
            return got
        raise Error("; ".join(problems))


def _said(error: urllib.error.HTTPError) -> str:
    try:
        text = json.load(error).get("error")
    except (OSError, ValueError, AttributeError):
        text = None
    return " ".join(str(text or f"HTTP {error.code} {error.reason}").split())
