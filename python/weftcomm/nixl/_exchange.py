"""How agents exchange metadata by themselves, and weft's errors as NIXL's."""

from __future__ import annotations

import os
from collections.abc import Callable
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


class Exchange:
    """Part of nixl_agent: metadata by socket, where the peer has enable_listen_thread, or by etcd, where the environment names
    one and no address is given."""

    name: str
    _key: str
    get_agent_metadata: Callable[[], bytes]
    get_partial_agent_metadata: Callable[..., bytes]
    add_remote_agent: Callable[[bytes], bytes]

    def _etcd(self) -> Etcd:
        urls = os.environ.get("NIXL_ETCD_ENDPOINTS", "")
        if not urls:
            raise bindings.nixlInvalidParamError("no central store of metadata: set NIXL_ETCD_ENDPOINTS, or give the peer's address")
        return call(lambda: Etcd(urls, os.environ.get("NIXL_ETCD_NAMESPACE") or "/nixl/agents"))

    def send_local_metadata(self, ip_addr: str = "", port: int = DEFAULT_COMM_PORT) -> None:
        if ip_addr:
            ask((ip_addr, port), self._key, b"SEND", self.get_agent_metadata())
        else:
            call(lambda: self._etcd().set(f"/{self.name}/metadata", self.get_agent_metadata()))

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
            call(lambda: self._etcd().set(f"/{self.name}/{label}", metadata))

    def fetch_remote_metadata(
        self, remote_agent: str | bytes, ip_addr: str = "", port: int = DEFAULT_COMM_PORT, label: str = ""
    ) -> None:
        """Loads it; check_remote_metadata() says whether that worked, as in NIXL."""
        name = as_text(remote_agent)
        if ip_addr:
            place = f"the agent at {ip_addr}:{port}"
            metadata: bytes | None = ask((ip_addr, port), self._key, b"LOAD", b"")
        else:
            place = f"the agent under '{name}' in etcd"
            metadata = call(lambda: self._etcd().get(f"/{name}/{label or 'metadata'}"))
        if metadata:
            found = self.add_remote_agent(metadata)
            if found != as_bytes(remote_agent):
                logger.error("%s is '%s', not '%s'", place, found.decode(), name)

    def invalidate_local_metadata(self, ip_addr: str = "", port: int = DEFAULT_COMM_PORT) -> None:
        if ip_addr:
            ask((ip_addr, port), self._key, b"INVL", self.name.encode())
        else:
            call(lambda: self._etcd().delete(f"/{self.name}/", prefix=True))
