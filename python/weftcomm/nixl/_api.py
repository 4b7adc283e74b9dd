"""nixl_agent over weft's agent: NIXL's calls, states and exceptions."""

from __future__ import annotations

import functools
import os
import tempfile
import time
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from .. import _errors
from ..transfer import Agent, Costs, Etcd, List, measure_costs
from . import _bindings as bindings
from ._bindings import DEFAULT_COMM_PORT, nixl_mem_t, nixl_thread_sync_t, nixlRegDList, nixlXferDList
from ._descriptors import KINDS, Descriptors
from ._handles import nixl_agent_config, nixl_prepped_dlist_handle, nixl_xfer_handle
from ._listener import Listener, ask, own_address
from ._memory import BACKENDS, Registered, memory_of
from .logging import get_logger

__all__ = [
    "DEFAULT_COMM_PORT",
    "nixl_agent",
    "nixl_agent_config",
    "nixl_backend_handle",
    "nixl_prepped_dlist_handle",
    "nixl_thread_sync_t",
    "nixl_xfer_handle",
]

T = TypeVar("T")
logger = get_logger(__name__)
nixl_backend_handle = int


_OPERATIONS = {"READ": False, "WRITE": True}  # does it write?
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


def _exception(error: _errors.Error) -> Exception:
    return _EXCEPTIONS.get(error.code, bindings.nixlBackendError)(str(error))


def _call(call: Callable[[], T]) -> T:
    """The call, with weft's exceptions as NIXL's."""
    try:
        return call()
    except _errors.Error as error:
        raise _exception(error) from error
    except ValueError as error:
        raise bindings.nixlInvalidParamError(str(error)) from error


@functools.lru_cache(maxsize=1)
def _costs() -> Costs:
    return measure_costs(tempfile.gettempdir())


def _bytes(message: bytes | str) -> bytes:
    return message.encode() if isinstance(message, str) else bytes(message)


def _text(name: bytes | str) -> str:
    return name.decode() if isinstance(name, bytes) else name


class nixl_agent(Descriptors):
    """NIXL's agent over weftcomm.transfer.Agent.

    The environment's WEFT_KEY, where it is set, authenticates metadata, and the agent then serves peers on other machines
    by TCP, at the address WEFT_LISTEN; if that is not set, at the one that this machine's default route has. Without a key
    peers are on this machine. With NIXL_ETCD_ENDPOINTS, metadata that is sent to no address goes to etcd, under
    NIXL_ETCD_NAMESPACE (/nixl/agents), the agent's name and the label, and is fetched from there.
    """

    def __init__(
        self, agent_name: str, nixl_conf: nixl_agent_config | None = None, instantiate_all: bool = False
    ) -> None:
        config = nixl_conf or nixl_agent_config()
        self.name = _text(agent_name)
        key = os.environ.get("WEFT_KEY", "")
        listen = (os.environ.get("WEFT_LISTEN") or f"{own_address()}:0") if key else ""
        self.agent = _call(lambda: Agent(self.name, key=key, listen=listen))
        self.notifs: dict[str, list[bytes]] = {}
        self.backends: dict[str, nixl_backend_handle] = {}
        self.backend_mems: dict[str, list[str]] = {}
        self.backend_options: dict[str, dict[str, str]] = {}
        self.plugin_list = list(BACKENDS)
        self.nixl_mems = dict(KINDS)
        self.nixl_ops = {"WRITE": bindings.NIXL_WRITE, "READ": bindings.NIXL_READ}
        self._registered = Registered(self.agent)
        self._peers: set[str] = set()
        self._telemetry = config.capture_telemetry or os.environ.get("NIXL_TELEMETRY_ENABLE", "").lower() in ("1", "y", "yes", "on")
        for backend in list(BACKENDS) if instantiate_all and nixl_conf is None else config.backends:
            if backend in BACKENDS:
                self.create_backend(backend)
            else:
                logger.warning("Skipping backend registration %s due to the missing plugin.", backend)
        self._key = key
        self._listener = Listener(config.port, key, self) if config.enable_listen else None

    # Backends: weft chooses a path per region by itself; the names are accepted.

    def get_plugin_list(self) -> list[str]:
        return self.plugin_list

    def get_plugin_mem_types(self, backend: str) -> list[str]:
        return memory_of(backend)

    def get_plugin_params(self, backend: str) -> dict[str, str]:
        return {}

    def get_backend_mem_types(self, backend: str) -> list[str]:
        return self.backend_mems.get(backend, [])

    def get_backend_params(self, backend: str) -> dict[str, str]:
        return self.backend_options.get(backend, {})

    def create_backend(self, backend: str, initParams: dict[str, str] = {}) -> None:
        if backend not in BACKENDS:
            raise bindings.nixlNotFoundError(f"no backend is called '{backend}'; there are {', '.join(BACKENDS)}")
        if backend in self.backends:
            raise bindings.nixlInvalidParamError(f"backend '{backend}' has been created")
        self.backends[backend] = len(self.backends) + 1
        self.backend_mems[backend] = memory_of(backend)
        self.backend_options[backend] = {}

    def _known(self, backends: list[str]) -> None:
        for backend in backends:
            self.backends[backend]

    # Memory

    def register_memory(self, reg_list: Any, mem_type: str | None = None, backends: list[str] = []) -> Any:
        """Memory that lies within memory that is registered shares its region."""
        descs = self.get_reg_descs(reg_list, mem_type)
        self._known(backends)
        if not isinstance(descs, nixlRegDList):
            raise TypeError("no registration list can be made of this")
        _call(lambda: self._registered.add(descs))
        return descs

    def deregister_memory(self, dereg_list: nixlRegDList, backends: list[str] = []) -> None:
        self._known(backends)
        _call(lambda: self._registered.remove(dereg_list))

    def query_memory(self, reg_list: Any, backend: str, mem_type: str | None = None) -> list[dict[str, str] | None]:
        """Files by path (metaInfo), with their size and time of change; None where there is none."""
        descs = self.get_reg_descs(reg_list, mem_type)
        if backend not in self.backends:
            raise ValueError(f"Backend '{backend}' not found. Available backends: {list(self.backends)}")
        if descs.getType() is not nixl_mem_t.FILE_SEG:
            raise bindings.nixlNotSupportedError("only files can be asked about")
        found: list[dict[str, str] | None] = []
        for desc in descs:
            try:
                known = os.stat(desc[3].decode())
                found.append({"size": str(known.st_size), "mtime": str(int(known.st_mtime)), "mode": str(known.st_mode)})
            except OSError:
                found.append(None)
        return found

    # Lists and requests

    def prep_xfer_dlist(
        self, agent_name: str | bytes, xfer_list: Any, mem_type: str | None = None, backends: list[str] = []
    ) -> nixl_prepped_dlist_handle:
        """agent_name: "" or "NIXL_INIT_AGENT" for the local side; this agent's or a peer's name for the remote side."""
        self._known(backends)
        name = _text(agent_name)
        is_local = name in ("", "NIXL_INIT_AGENT")
        strided = isinstance(xfer_list, np.ndarray) and xfer_list.ndim == 2 and xfer_list.shape[1] == 5
        if strided and mem_type is None:
            raise ValueError("Please specify a mem type for strided descriptors")
        if strided:
            kind, rows = KINDS[str(mem_type)], np.asarray(xfer_list, dtype=np.uint64)
        else:
            descs = self.get_xfer_descs(xfer_list, mem_type)
            if not isinstance(descs, nixlXferDList):
                raise TypeError("no transfer list can be made of this")
            kind, rows = descs.getType(), descs._rows
        peer = "" if is_local or name == self.name else name
        return nixl_prepped_dlist_handle(_call(lambda: self._registered.prepare(peer, kind, rows)), is_local)

    def make_connection(self, remote_agent: str | bytes, backends: list[str] = []) -> None:
        """add_remote_agent() has connected."""
        self._known(backends)
        if _text(remote_agent) not in self._peers | {self.name}:
            raise bindings.nixlNotFoundError(f"no peer is called '{_text(remote_agent)}'")

    def estimate_xfer_cost(self, req_handle: nixl_xfer_handle) -> tuple[int, int, str]:
        """Microseconds, their uncertainty, and how they were found. The first call of a process measures the machine."""
        self.agent.set_costs(_costs())
        estimate = _call(req_handle._request.estimate)
        us = estimate.seconds * 1e6
        return round(us), round(us * estimate.error), "ANALYTICAL_BACKEND"

    def _handle(self, operation: str, local: List, remote: List, elements: int, **options: Any) -> nixl_xfer_handle:
        make = self.agent.write if _OPERATIONS[operation] else self.agent.read
        return nixl_xfer_handle(_call(lambda: make(local, remote, **options)), elements)

    def make_prepped_xfer(
        self,
        operation: str,
        local_xfer_side: nixl_prepped_dlist_handle,
        local_indices: Any,
        remote_xfer_side: nixl_prepped_dlist_handle,
        remote_indices: Any,
        notif_msg: bytes = b"",
        backends: list[str] = [],
        skip_desc_merge: bool = False,
    ) -> nixl_xfer_handle:
        _OPERATIONS[operation]
        self._known(backends)
        for side in (local_xfer_side, remote_xfer_side):
            if side._released:
                raise bindings.nixlInvalidParamError("a prepared list that was released")
        if remote_xfer_side._is_local or not local_xfer_side._is_local:
            raise bindings.nixlInvalidParamError("local and remote side are exchanged")
        if len(local_indices) == 0:
            raise bindings.nixlInvalidParamError("a transfer without elements")
        return self._handle(
            operation,
            local_xfer_side._list,
            remote_xfer_side._list,
            len(local_indices),
            local_blocks=local_indices,
            remote_blocks=remote_indices,
            notify=_bytes(notif_msg),
        )

    def initialize_xfer(
        self,
        operation: str,
        local_descs: nixlXferDList,
        remote_descs: nixlXferDList,
        remote_agent: str | bytes,
        notif_msg: bytes = b"",
        backends: list[str] = [],
    ) -> nixl_xfer_handle:
        _OPERATIONS[operation]
        local = self.prep_xfer_dlist("", local_descs, backends=backends)
        remote = self.prep_xfer_dlist(remote_agent, remote_descs, backends=backends)
        elements = local_descs.descCount()
        return self._handle(operation, local._list, remote._list, elements, notify=_bytes(notif_msg))

    def transfer(self, handle: nixl_xfer_handle, notif_msg: bytes = b"") -> str:
        """Posts: "DONE", "PROC" or "ERR"; failures raise as in NIXL."""
        if handle._released:
            raise bindings.nixlInvalidParamError("a request that was released")
        if handle._request.state == "running":
            raise bindings.nixlRepostActiveError("the request is running: it can be posted again after its end")
        handle._begun = time.time()
        begin = time.perf_counter()
        message = _bytes(notif_msg) or None
        state = _call(lambda: handle._request.post(message))
        handle._post_seconds = handle._seconds = time.perf_counter() - begin
        return self._status(handle, state)

    def check_xfer_state(self, handle: nixl_xfer_handle) -> str:
        if handle._request.state == "prepared":
            raise bindings.nixlNotPostedError("the request has not been posted")
        if handle._request.state == "running":
            state = handle._request.poll()
            handle._seconds = time.time() - handle._begun
            return self._status(handle, state)
        return self._status(handle, handle._request.state)

    def _status(self, handle: nixl_xfer_handle, state: str) -> str:
        if state == "done":
            return "DONE"
        if state == "running":
            return "PROC"
        error = handle._request.error
        assert error is not None
        raise _exception(error)

    def get_xfer_telemetry(self, handle: nixl_xfer_handle) -> bindings.nixlXferTelemetry:
        """Needs capture_telemetry."""
        if not self._telemetry:
            raise bindings.nixlNoTelemetryError("nothing is captured: see capture_telemetry of nixl_agent_config")
        if handle._request.state == "prepared":
            raise bindings.nixlNotPostedError("the request has not been posted")
        t = bindings.nixlXferTelemetry()
        t.startTime = int(handle._begun * 1e6)
        t.postDuration, t.xferDuration = int(handle._post_seconds * 1e6), int(handle._seconds * 1e6)
        t.totalBytes, t.descCount = handle._request.moved_bytes, handle._elements
        return t

    def query_xfer_backend(self, handle: nixl_xfer_handle) -> str:
        return next(iter(self.backends), "WEFT")

    def release_xfer_handle(self, handle: nixl_xfer_handle) -> None:
        handle.release()

    def release_dlist_handle(self, handle: nixl_prepped_dlist_handle) -> None:
        handle.release()

    def prep_mem_view(self, dlist: Any, backends: list[str] | None = None) -> int:
        raise bindings.nixlNotSupportedError("views of memory for kernels need a GPU")

    def release_mem_view(self, mvh: int) -> None:
        raise bindings.nixlNotSupportedError("views of memory for kernels need a GPU")

    # Notifications

    def get_new_notifs(self, backends: list[str] = []) -> dict[str, list[bytes]]:
        self._known(backends)
        new: dict[str, list[bytes]] = {}
        for n in self.agent.notifications():
            new.setdefault(n.peer, []).append(n.bytes)
        return new

    def update_notifs(self, backends: list[str] = []) -> dict[str, list[bytes]]:
        for name, messages in self.get_new_notifs(backends).items():
            self.notifs.setdefault(name, []).extend(messages)
        return self.notifs

    def check_remote_xfer_done(
        self,
        remote_agent_name: str | bytes,
        lookup_tag: bytes,
        backends: list[str] = [],
        tag_is_prefix: bool = True,
    ) -> bool:
        """Takes one notification with this tag out of those that have arrived."""
        messages = self.update_notifs(backends).get(_text(remote_agent_name), [])
        tag = _bytes(lookup_tag)
        for i, message in enumerate(messages):
            if message.startswith(tag) if tag_is_prefix else tag in message:
                del messages[i]
                return True
        return False

    def send_notif(self, remote_agent_name: str | bytes, notif_msg: bytes, backend: str | None = None) -> None:
        if backend is not None:
            self._known([backend])
        name = _text(remote_agent_name)
        _call(lambda: self.agent.notify("" if name == self.name else name, _bytes(notif_msg)))

    # Metadata

    def get_agent_metadata(self) -> bytes:
        return _call(self.agent.metadata)

    def get_partial_agent_metadata(
        self, descs: nixlRegDList, inc_conn_info: bool = False, backends: list[str] = []
    ) -> bytes:
        """How to reach this agent stands in it whether inc_conn_info or not."""
        self._known(backends)
        return _call(lambda: self.agent.metadata(self._registered.regions(descs)))

    def add_remote_agent(self, metadata: bytes) -> bytes:
        """The peer's name, as bytes."""
        try:
            name = self.agent.load(bytes(metadata))
        except _errors.Error as error:
            if f"'{self.name}' has this agent's own name" in str(error):
                raise bindings.nixlInvalidParamError(str(error)) from error
            if error.code == "invalid_argument":
                raise bindings.nixlMismatchError(str(error)) from error
            raise _exception(error) from error
        self._peers.add(name)
        return name.encode()

    def remove_remote_agent(self, agent: str | bytes) -> None:
        name = _text(agent)
        if name in self._peers:
            self._peers.discard(name)
            _call(lambda: self.agent.forget(name))

    def check_remote_metadata(self, agent: str | bytes, descs: nixlXferDList | None = None) -> bool:
        name = _text(agent)
        if name not in self._peers:
            return False
        if descs is None or descs.isEmpty():
            return True
        try:
            self.prep_xfer_dlist(name, descs)
        except bindings.nixlNotFoundError:
            return False
        return True

    # By socket: the peer must have enable_listen_thread. Without an address by etcd, where the environment names one.

    def _etcd(self) -> Etcd:
        urls = os.environ.get("NIXL_ETCD_ENDPOINTS", "")
        if not urls:
            raise bindings.nixlInvalidParamError("no central store of metadata: set NIXL_ETCD_ENDPOINTS, or give the peer's address")
        return _call(lambda: Etcd(urls, os.environ.get("NIXL_ETCD_NAMESPACE") or "/nixl/agents"))

    def send_local_metadata(self, ip_addr: str = "", port: int = DEFAULT_COMM_PORT) -> None:
        if ip_addr:
            ask((ip_addr, port), self._key, b"SEND", self.get_agent_metadata())
        else:
            _call(lambda: self._etcd().set(f"/{self.name}/metadata", self.get_agent_metadata()))

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
            _call(lambda: self._etcd().set(f"/{self.name}/{label}", metadata))

    def fetch_remote_metadata(
        self, remote_agent: str | bytes, ip_addr: str = "", port: int = DEFAULT_COMM_PORT, label: str = ""
    ) -> None:
        """Loads it; check_remote_metadata() says whether that worked, as in NIXL."""
        name = _text(remote_agent)
        if ip_addr:
            place = f"the agent at {ip_addr}:{port}"
            metadata: bytes | None = ask((ip_addr, port), self._key, b"LOAD", b"")
        else:
            place = f"the agent under '{name}' in etcd"
            metadata = _call(lambda: self._etcd().get(f"/{name}/{label or 'metadata'}"))
        if metadata:
            found = self.add_remote_agent(metadata)
            if found != _bytes(remote_agent):
                logger.error("%s is '%s', not '%s'", place, found.decode(), name)

    def invalidate_local_metadata(self, ip_addr: str = "", port: int = DEFAULT_COMM_PORT) -> None:
        if ip_addr:
            ask((ip_addr, port), self._key, b"INVL", self.name.encode())
        else:
            _call(lambda: self._etcd().delete(f"/{self.name}/", prefix=True))
