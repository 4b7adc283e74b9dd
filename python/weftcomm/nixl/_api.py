"""nixl_agent over weft's agent: NIXL's calls, states and exceptions."""

from __future__ import annotations

import functools
import os
import tempfile
import time
import weakref
from typing import Any

import numpy as np

from .. import _errors
from ..transfer import Agent, Costs, measure_costs
from . import _bindings as bindings
from . import _bindings as nixlBind
from . import _serdes
from ._bindings import DEFAULT_COMM_PORT, nixl_mem_t, nixl_thread_sync_t, nixlRegDList, nixlXferDList
from ._descriptors import KINDS, Descriptors
from ._exchange import Exchange, as_bytes, as_text, call, exception_of
from ._handles import nixl_agent_config, nixl_prepped_dlist_handle, nixl_xfer_handle
from ._listener import Listener, own_address
from ._memory import BACKENDS, Registered, is_storage, memory_of
from ._notifications import Notifications
from ._progress import Progress
from .logging import get_logger

__all__ = [
    "DEFAULT_COMM_PORT",
    "nixlBind",
    "nixl_agent",
    "nixl_agent_config",
    "nixl_backend_handle",
    "nixl_prepped_dlist_handle",
    "nixl_thread_sync_t",
    "nixl_xfer_handle",
]

logger = get_logger(__name__)
nixl_backend_handle = int

_OPERATIONS = {"READ": False, "WRITE": True}  # does it write?


@functools.lru_cache(maxsize=1)
def _costs() -> Costs:
    return measure_costs(tempfile.gettempdir())


def _deadline() -> float | None:
    """WEFT_TRANSFER_TIMEOUT: seconds that a transfer may take. Raises: nixlInvalidParamError."""
    text = os.environ.get("WEFT_TRANSFER_TIMEOUT", "")
    try:
        seconds = float(text or "0")
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds < 1e9:
        raise bindings.nixlInvalidParamError(f"WEFT_TRANSFER_TIMEOUT is '{text}'; it is a number of seconds, 0 for none")
    return seconds or None


class nixl_agent(Descriptors, Exchange):
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
        self.name = as_text(agent_name)
        if not self.name:
            raise ValueError("an agent needs a name")
        key = os.environ.get("WEFT_KEY", "")
        listen = (os.environ.get("WEFT_LISTEN") or f"{own_address()}:0") if key else ""
        self._weft = call(lambda: Agent(self.name, key=key, listen=listen))
        self.notifs: dict[str, list[bytes]] = {}
        self.backends: dict[str, nixl_backend_handle] = {}
        self.backend_mems: dict[str, list[str]] = {}
        self.backend_options: dict[str, dict[str, str]] = {}
        self.plugin_list = list(BACKENDS)
        self.nixl_mems = dict(KINDS)
        self.nixl_ops = {"WRITE": bindings.NIXL_WRITE, "READ": bindings.NIXL_READ}
        self._registered = Registered(self._weft)
        self._notifications = Notifications(self._weft)
        self._progress = Progress(self._notifications) if config.enable_pthread else None
        if self._progress is not None:
            weakref.finalize(self, self._progress.stop)
        self._deadline = _deadline()
        self._peers: set[str] = set()
        asked = os.environ.get("NIXL_TELEMETRY_ENABLE", "").lower()  # before the configuration, where it is set
        self._telemetry = asked in ("1", "y", "yes", "on", "true") if asked else config.capture_telemetry
        for backend in list(BACKENDS) if instantiate_all and nixl_conf is None else config.backends:
            if backend in BACKENDS:
                self.create_backend(backend)
            else:
                logger.warning("Skipping backend registration %s due to the missing plugin.", backend)
        # The binding's calls for callers that want these: a view of this agent, which it does not keep.
        self.agent: Any = bindings.nixlAgent(self.name, config._for_binding(weakref.proxy(self)))  # type: ignore[attr-defined]
        self._key, self._store, self._labels = key, None, set()
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
        options = self._object_options(initParams) if backend == "OBJ" else {}
        self.backends[backend] = len(self.backends) + 1
        self.backend_mems[backend] = memory_of(backend)
        self.backend_options[backend] = options
        if backend == "OBJ":
            self._registered.bucket = self.backend_options[backend]

    @staticmethod
    def _object_options(given: dict[str, str]) -> dict[str, str]:
        known = {"access_key", "secret_key", "session_token", "bucket", "endpoint_override", "scheme", "region", "ca_bundle"}
        # weft signs paths with the bucket in them, sends checksums of its own, and needs no accelerator of Amazon's.
        same = {"use_virtual_addressing", "req_checksum", "resp_checksum", "crtMinLimit", "throughput_target_gbps", "num_threads"}
        same |= {"accelerated", "type"}
        if given.get("accelerated", "false") != "false":
            raise bindings.nixlNotSupportedError(f"OBJ: accelerated is {given['accelerated']}; objects go through the host's memory")
        if strange := sorted(given.keys() - known - same):
            raise bindings.nixlInvalidParamError(f"OBJ: parameter {strange[0]} is not known")
        return {name: value for name, value in given.items() if name in known}

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
        call(lambda: self._registered.add(descs))
        return descs

    def deregister_memory(self, dereg_list: nixlRegDList, backends: list[str] = []) -> None:
        self._known(backends)
        call(lambda: self._registered.remove(dereg_list))

    def query_memory(self, reg_list: Any, backend: str, mem_type: str | None = None) -> list[dict[str, str] | None]:
        """Files by path (metaInfo), with their size and time of change, and objects by key; None where there is none."""
        descs = self.get_reg_descs(reg_list, mem_type)
        if backend not in self.backends:
            raise ValueError(f"Backend '{backend}' not found. Available backends: {list(self.backends)}")
        found: list[dict[str, str] | None] = []
        if descs.getType() is nixl_mem_t.OBJ_SEG:
            for desc in descs:
                found.append(self._registered.look(desc[3].decode() or str(desc[2])))
            return found
        if descs.getType() is not nixl_mem_t.FILE_SEG:
            raise bindings.nixlNotSupportedError("only files and objects can be asked about")
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
        name = as_text(agent_name)
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
        return nixl_prepped_dlist_handle(call(lambda: self._registered.prepare(peer, kind, rows)), is_local, peer, is_storage(kind))

    def make_connection(self, remote_agent: str | bytes, backends: list[str] = []) -> None:
        """add_remote_agent() has connected."""
        self._known(backends)
        if as_text(remote_agent) not in self._peers | {self.name}:
            raise bindings.nixlNotFoundError(f"no peer is called '{as_text(remote_agent)}'")

    def estimate_xfer_cost(self, req_handle: nixl_xfer_handle) -> tuple[int, int, str]:
        """Microseconds, their uncertainty, and how they were found. The first call of a process measures the machine."""
        self._weft.set_costs(_costs())
        estimate = call(req_handle._request.estimate)
        us = estimate.seconds * 1e6
        return round(us), round(us * estimate.error), "ANALYTICAL_BACKEND"

    def _handle(
        self,
        operation: str,
        local: nixl_prepped_dlist_handle,
        remote: nixl_prepped_dlist_handle,
        elements: int,
        notify: bytes,
        **blocks: Any,
    ) -> nixl_xfer_handle:
        make = self._weft.write if _OPERATIONS[operation] else self._weft.read
        if self._deadline is not None:
            blocks["deadline"] = self._deadline
        request = call(lambda: make(local._list, remote._list, **blocks))
        storage = local._is_storage or remote._is_storage
        return nixl_xfer_handle(request, elements, remote._peer, storage, notify, self._notifications)

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
            local_xfer_side,
            remote_xfer_side,
            len(local_indices),
            as_bytes(notif_msg),
            local_blocks=local_indices,
            remote_blocks=remote_indices,
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
        return self._handle(operation, local, remote, local_descs.descCount(), as_bytes(notif_msg))

    def transfer(self, handle: nixl_xfer_handle, notif_msg: bytes = b"") -> str:
        """Posts: "DONE", "PROC" or "ERR"; failures raise as in NIXL."""
        if handle._released:
            raise bindings.nixlInvalidParamError("a request that was released")
        if handle.runs():
            raise bindings.nixlRepostActiveError("the request is running: it can be posted again after its end")
        call(lambda: handle.post(as_bytes(notif_msg)))
        if handle.runs() and self._progress is not None:
            self._progress.add(handle)
        return self._status(handle)

    def check_xfer_state(self, handle: nixl_xfer_handle) -> str:
        if handle._request.state == "prepared":
            raise bindings.nixlNotPostedError("the request has not been posted")
        handle.advance()
        return self._status(handle)

    def _status(self, handle: nixl_xfer_handle) -> str:
        state = handle._request.state
        if state == "done":
            if handle._error is not None:
                raise handle._error
            return "DONE"
        if state == "running":
            return "PROC"
        error = handle._request.error
        assert error is not None
        # NIXL's back ends for storage have one status for whatever goes wrong; engines take it as a miss.
        raise bindings.nixlBackendError(str(error)) if handle._is_storage and state == "failed" else exception_of(error)

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
        return call(self._notifications.take)

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
        messages = self.update_notifs(backends).get(as_text(remote_agent_name), [])
        tag = as_bytes(lookup_tag)
        for i, message in enumerate(messages):
            if message.startswith(tag) if tag_is_prefix else tag in message:
                del messages[i]
                return True
        return False

    def send_notif(self, remote_agent_name: str | bytes, notif_msg: bytes, backend: str | None = None) -> None:
        if backend is not None:
            self._known([backend])
        name = as_text(remote_agent_name)
        call(lambda: self._notifications.send("" if name == self.name else name, as_bytes(notif_msg)))

    # Metadata

    # Metadata has NIXL's form where the backend WEFT was created: agents of NIXL's wheel with weft's plugin read it.

    def get_agent_metadata(self) -> bytes:
        if "WEFT" not in self.backends:
            return call(self._weft.metadata)
        return call(lambda: _serdes.write(self.name, self._weft.metadata([]), self._registered.sections()))

    def get_partial_agent_metadata(
        self, descs: nixlRegDList, inc_conn_info: bool = False, backends: list[str] = []
    ) -> bytes:
        """How to reach this agent stands in it whether inc_conn_info or not."""
        self._known(backends)
        regions = call(lambda: self._registered.regions(descs))
        if "WEFT" not in self.backends:
            return call(lambda: self._weft.metadata(regions))
        return call(lambda: _serdes.write(self.name, self._weft.metadata([]), self._registered.sections(regions)))

    def add_remote_agent(self, metadata: bytes) -> bytes:
        """The peer's name, as bytes. Also of an agent of NIXL's wheel with weft's plugin."""
        try:
            name = self._load(bytes(metadata))
        except _errors.Error as error:
            if f"'{self.name}' has this agent's own name" in str(error):
                raise bindings.nixlInvalidParamError(str(error)) from error
            if error.code == "invalid_argument":
                raise bindings.nixlMismatchError(str(error)) from error
            raise exception_of(error) from error
        self._peers.add(name)
        if self._progress is not None:
            self._progress.start()
        return name.encode()

    def _load(self, metadata: bytes) -> str:
        if not metadata.startswith(_serdes.MAGIC):
            return self._weft.load(metadata)
        try:
            name, parts = _serdes.read(metadata)
        except _serdes.Malformed as error:
            raise bindings.nixlMismatchError(str(error)) from error
        for part in parts:
            if (said := self._weft.load(part)) != name:
                raise bindings.nixlMismatchError(f"metadata of agent '{name}' has memory of agent '{said}'")
        return name

    def remove_remote_agent(self, agent: str | bytes) -> None:
        name = as_text(agent)
        if name in self._peers:
            self._peers.discard(name)
            call(lambda: self._weft.forget(name))

    def check_remote_metadata(self, agent: str | bytes, descs: nixlXferDList | None = None) -> bool:
        name = as_text(agent)
        if name not in self._peers:
            return False
        try:
            self._weft.check(name)
        except _errors.Error:
            return False
        if descs is None or descs.isEmpty():
            return True
        try:
            self.prep_xfer_dlist(name, descs)
        except bindings.nixlNotFoundError:
            return False
        return True
