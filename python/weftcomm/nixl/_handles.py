"""What nixl_agent hands out, and its configuration."""

from __future__ import annotations

import threading
import time
from datetime import timedelta
from typing import Any

from .. import _errors
from ..transfer import List, Request
from ._bindings import DEFAULT_COMM_PORT, nixl_thread_sync_t, nixlRepostActiveError
from ._notifications import Notifications, fits


class nixl_prepped_dlist_handle:
    """A prepared list."""

    def __init__(self, prepared: List, is_local: bool, peer: str, is_storage: bool) -> None:
        self._list, self._is_local, self._peer, self._is_storage = prepared, is_local, peer, is_storage
        self._released = False

    def __repr__(self) -> str:
        return f"nixl_prepped_dlist_handle({len(self._list)} elements, released={self._released})"

    def release(self) -> None:
        self._released = True


class nixl_xfer_handle:
    """A transfer request. Thread: any."""

    def __init__(
        self, request: Request, elements: int, peer: str, is_storage: bool, notify: bytes, notifications: Notifications
    ) -> None:
        self._request, self._elements, self._is_storage = request, elements, is_storage
        self._peer, self._notify, self._notifications = peer, notify, notifications
        self._lock = threading.Lock()
        self._unsent = b""  # a notification that is too long for weft's own, when the data is there
        self._error: Exception | None = None
        self._released = False
        self._begun = self._post_seconds = self._seconds = 0.0

    def __repr__(self) -> str:
        return f"nixl_xfer_handle({self._request.state}, released={self._released})"

    def runs(self) -> bool:
        return self._request.state == "running"

    def post(self, notify: bytes) -> None:
        """Requires: it does not run."""
        with self._lock:
            message = notify or self._notify
            self._unsent, self._error = (b"", None) if fits(message) else (message, None)
            self._begun = time.time()
            begin = time.perf_counter()
            self._request.post(b"" if self._unsent else message)
            self._post_seconds = self._seconds = time.perf_counter() - begin
            self._finish()

    def advance(self) -> bool:
        """Moves some of it. Whether it runs."""
        with self._lock:
            if self._request.state == "running":
                self._request.poll()
                self._seconds = time.time() - self._begun
                self._finish()
            return self._request.state == "running"

    def _finish(self) -> None:
        if self._unsent and self._request.state == "done":
            message, self._unsent = self._unsent, b""
            try:
                self._notifications.send(self._peer, message)
            except Exception as error:  # for the next question about the state
                self._error = error

    def release(self) -> None:
        """A transfer that runs is cancelled. Raises: nixlRepostActiveError where the peer has not confirmed what was written
        so far; the handle stays, and release() may be called again."""
        with self._lock:
            if not self._released and self._request.state == "running":
                try:
                    self._request.cancel()
                except _errors.Timeout as error:
                    raise nixlRepostActiveError(str(error)) from error
            self._released = True


class nixlAgentConfig:
    """num_workers, pthrDelay, lthrDelay and syncMode change nothing: weft's agents may be called from any thread."""

    def __init__(
        self,
        useProgThread: bool = False,
        useListenThread: bool = False,
        listenPort: int = DEFAULT_COMM_PORT,
        syncMode: nixl_thread_sync_t | int = nixl_thread_sync_t.NIXL_THREAD_SYNC_NONE,
        numWorkers: int = 1,
        pthrDelay: int = 0,
        lthrDelay: int = 100000,
        captureTelemetry: bool = False,
    ) -> None:
        self.useProgThread = useProgThread
        self.useListenThread = useListenThread
        self.listenPort = listenPort
        self.syncMode = syncMode
        self.pthrDelay = pthrDelay
        self.lthrDelay = lthrDelay
        self.captureTelemetry = captureTelemetry
        self.etcdWatchTimeout = timedelta(seconds=5)
        self._of: Any = None  # the agent that nixlAgent shall be a view of


class nixl_agent_config:
    """As NIXL's. weft's agents may be called from any thread, so num_threads and sync_mode change nothing.
    enable_prog_thread: a thread moves what was posted, and takes notifications, between the caller's calls."""

    def __init__(
        self,
        enable_prog_thread: bool = True,
        enable_listen_thread: bool = False,
        listen_port: int = DEFAULT_COMM_PORT,
        capture_telemetry: bool = False,
        num_threads: int = 0,
        backends: list[str] = ["UCX"],
        sync_mode: nixl_thread_sync_t | None = None,
    ) -> None:
        if sync_mode is not None and not isinstance(sync_mode, nixl_thread_sync_t):
            raise TypeError(f"sync_mode must be a nixl_thread_sync_t (got {type(sync_mode).__name__!r})")
        self.backends = backends
        self.enable_pthread = enable_prog_thread
        self.enable_listen = enable_listen_thread
        self.port = listen_port
        self.capture_telemetry = capture_telemetry
        self.num_threads = num_threads
        self.sync_mode = sync_mode

    def _for_binding(self, agent: Any) -> nixlAgentConfig:
        """As nixlAgent has it. agent: that it shall be a view of."""
        strict = nixl_thread_sync_t.NIXL_THREAD_SYNC_STRICT
        usual = strict if self.enable_listen else nixl_thread_sync_t.NIXL_THREAD_SYNC_NONE
        mode = (self.sync_mode or usual).value
        config = nixlAgentConfig(self.enable_pthread, self.enable_listen, self.port, mode, captureTelemetry=self.capture_telemetry)
        config._of = agent
        return config
