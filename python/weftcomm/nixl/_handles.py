"""What nixl_agent hands out, and its configuration."""

from __future__ import annotations

from ..transfer import List, Request
from ._bindings import DEFAULT_COMM_PORT, nixl_thread_sync_t


class nixl_prepped_dlist_handle:
    """A prepared list."""

    def __init__(self, prepared: List, is_local: bool) -> None:
        self._list, self._is_local = prepared, is_local
        self._released = False

    def __repr__(self) -> str:
        return f"nixl_prepped_dlist_handle({len(self._list)} elements, released={self._released})"

    def release(self) -> None:
        self._released = True


class nixl_xfer_handle:
    """A transfer request."""

    def __init__(self, request: Request, elements: int) -> None:
        self._request, self._elements = request, elements
        self._released = False
        self._begun = self._post_seconds = self._seconds = 0.0

    def __repr__(self) -> str:
        return f"nixl_xfer_handle({self._request.state}, released={self._released})"

    def release(self) -> None:
        """A transfer that runs is cancelled."""
        if not self._released and self._request.state == "running":
            self._request.cancel()
        self._released = True


class nixl_agent_config:
    """As NIXL's. weft's agents may be called from any thread and need no progress thread, so enable_prog_thread,
    num_threads and sync_mode change nothing."""

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
