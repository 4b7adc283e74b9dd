"""How agents exchange metadata by themselves, and weft's errors as NIXL's."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable
from datetime import timedelta
from typing import Any, TypeVar

from .. import _errors
from ..transfer import Etcd
from . import _bindings as bindings
from ._bindings import DEFAULT_COMM_PORT, nixlRegDList
from ._listener import ask
from .logging import get_logger

T = TypeVar("T")
logger = get_logger(__name__)

_EXCEPTIONS: dict[str, type[Exception]] = {
    "invalid_argument": bindings.nixlInvalidParamError,
    "not_found": bindings.nixlNotFoundError,
    "unsupported": bindings.nixlNotSupportedError,
    "mismatch": bindings.nixlMismatchError,
    "peer_died": bindings.nixlRemoteDisconnectError,
    "peer_left": bindings.nixlRemoteDisconnectError,
    "timeout": bindings.nixlBackendError,
    "aborted": bindings.nixlCancelledError,
    "no_resources": bindings.nixlBackendError,
}


def exception_of(error: _errors.Error) -> Exception:
    return _EXCEPTIONS.get(error.code, bindings.nixlBackendError)(str(error))


def call(what: Callable[[], T]) -> T:
    """The call, with weft's exceptions as NIXL's."""
    try:
        return what()
    except _errors.Error as error:
        raise exception_of(error) from error
    except ValueError as error:
        raise bindings.nixlInvalidParamError(str(error)) from error


def as_bytes(message: bytes | str) -> bytes:
    return message.encode() if isinstance(message, str) else bytes(message)


def as_text(name: bytes | str) -> str:
    return name.decode() if isinstance(name, bytes) else name


class _TorchStore:
    """torch's TCPStore at NIXL_TCPSTORE_ENDPOINT, which some process of the job serves, as Etcd is used. A value that is not there
    yet is waited for."""

    def __init__(self, endpoint: str) -> None:
        host, _, port = endpoint.rpartition(":")
        if not host or not port.isdigit() or not 0 < int(port) < 1 << 16:
            raise bindings.nixlInvalidParamError(f"NIXL_TCPSTORE_ENDPOINT must be host:port, not {endpoint}")
        try:
            from torch.distributed import TCPStore  # type: ignore[import-not-found, unused-ignore]
        except ImportError as error:
            raise bindings.nixlNotSupportedError("NIXL_TCPSTORE_ENDPOINT: torch is not installed") from error
        self._wait = _milliseconds("NIXL_TCPSTORE_OP_TIMEOUT_MS", 5000)
        try:
            self._store = TCPStore(host, int(port), None, False, timedelta(milliseconds=_milliseconds("NIXL_TCPSTORE_TIMEOUT_MS", 30000)))
        except Exception as error:
            raise bindings.nixlBackendError(f"TCPStore {endpoint}: {str(error).splitlines()[0]}") from error

    def set(self, key: str, value: bytes) -> None:
        self._store.set(f"nixl/agents{key}", value)

    def get(self, key: str) -> bytes | None:
        until = time.monotonic() + self._wait * 1e-3
        while not self._store.check([f"nixl/agents{key}"]):
            if time.monotonic() >= until:
                return None
            time.sleep(0.01)
        return bytes(self._store.get(f"nixl/agents{key}"))

    def forget(self, keys: Iterable[str]) -> None:
        for key in keys:
            self._store.delete_key(f"nixl/agents{key}")


def _milliseconds(variable: str, usual: int) -> int:
    text = os.environ.get(variable) or str(usual)
    if not text.isdigit() or int(text) == 0:
        raise bindings.nixlInvalidParamError(f"{variable}: {text} is no number of milliseconds")
    return int(text)


class Exchange:
    """Part of nixl_agent: metadata by socket, where the peer has enable_listen_thread, or by torch's TCPStore or etcd, where the
    environment names one and no address is given."""

    name: str
    _key: str
    get_agent_metadata: Callable[[], bytes]
    get_partial_agent_metadata: Callable[..., bytes]
    add_remote_agent: Callable[[bytes], bytes]
    _store: _TorchStore | None
    _labels: set[str]

    def _central(self) -> Etcd | _TorchStore:
        if self._store is None:
            endpoint, urls = os.environ.get("NIXL_TCPSTORE_ENDPOINT", ""), os.environ.get("NIXL_ETCD_ENDPOINTS", "")
            if endpoint:
                self._store = _TorchStore(endpoint)
            elif urls:
                return call(lambda: Etcd(urls, os.environ.get("NIXL_ETCD_NAMESPACE") or "/nixl/agents"))
            else:
                raise bindings.nixlInvalidParamError(
                    "no central store of metadata: set NIXL_TCPSTORE_ENDPOINT or NIXL_ETCD_ENDPOINTS, or give the peer's address"
                )
        return self._store

    def _publish(self, label: str, metadata: bytes) -> None:
        call(lambda: self._central().set(f"/{self.name}/{label}", metadata))
        self._labels.add(f"/{self.name}/{label}")

    def send_local_metadata(self, ip_addr: str = "", port: int = DEFAULT_COMM_PORT) -> None:
        if ip_addr:
            ask((ip_addr, port), self._key, b"SEND", self.get_agent_metadata())
        else:
            self._publish("metadata", self.get_agent_metadata())

    def send_partial_agent_metadata(
        self,
        descs: nixlRegDList,
        inc_conn_info: bool = False,
        backends: list[str] = [],
        ip_addr: str = "",
        port: int = DEFAULT_COMM_PORT,
        label: str = "",
    ) -> None:
        metadata = self.get_partial_agent_metadata(descs, inc_conn_info, backends)
        if ip_addr:
            ask((ip_addr, port), self._key, b"SEND", metadata)
        elif not label:
            raise bindings.nixlInvalidParamError("partial metadata goes to a central store under a label")
        else:
            self._publish(label, metadata)

    def fetch_remote_metadata(
        self, remote_agent: str | bytes, ip_addr: str = "", port: int = DEFAULT_COMM_PORT, label: str = ""
    ) -> None:
        """Loads it; check_remote_metadata() says whether that worked, as in NIXL."""
        name = as_text(remote_agent)
        if ip_addr:
            place = f"the agent at {ip_addr}:{port}"
            metadata: bytes | None = ask((ip_addr, port), self._key, b"LOAD", b"")
        else:
            place = f"the agent under '{name}' in the central store"
            metadata = call(lambda: self._central().get(f"/{name}/{label or 'metadata'}"))
        if metadata:
            found = self.add_remote_agent(metadata)
            if found != as_bytes(remote_agent):
                logger.error("%s is '%s', not '%s'", place, found.decode(), name)

    def invalidate_local_metadata(self, ip_addr: str = "", port: int = DEFAULT_COMM_PORT) -> None:
        if ip_addr:
            ask((ip_addr, port), self._key, b"INVL", self.name.encode())
        else:
            store = self._central()
            if isinstance(store, _TorchStore):
                store.forget(self._labels)
            else:
                call(lambda: store.delete(f"/{self.name}/", prefix=True))
            self._labels.clear()
