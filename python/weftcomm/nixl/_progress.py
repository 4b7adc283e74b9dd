"""The thread that moves posted transfers between the caller's polls, where nixl_agent_config asks for one."""

from __future__ import annotations

import os
import threading
import time
from typing import TYPE_CHECKING

from .. import _errors
from ._notifications import Notifications

if TYPE_CHECKING:
    from ._handles import nixl_xfer_handle

_IDLE = 0.005  # seconds between looks for notifications
_REST = 0.0002  # where the peer is not ready


class Progress:
    """Ends with stop(), or when nothing refers to its agent."""

    def __init__(self, notifications: Notifications) -> None:
        self._notifications = notifications
        self._wake = threading.Condition()
        self._running: list[nixl_xfer_handle] = []
        self._stopped = False
        self._thread: threading.Thread | None = None
        self._process = os.getpid()

    def start(self) -> None:
        """Once. In a child of fork() there is no thread."""
        if self._thread is None and self._process == os.getpid():
            self._thread = threading.Thread(target=self._run, name="weft-nixl-progress", daemon=True)
            self._thread.start()

    def add(self, handle: nixl_xfer_handle) -> None:
        self.start()
        with self._wake:
            if handle not in self._running:
                self._running.append(handle)
            self._wake.notify()

    def stop(self) -> None:
        with self._wake:
            self._stopped = True
            self._running.clear()
            self._wake.notify()
        if self._thread is not None and self._thread is not threading.current_thread() and self._process == os.getpid():
            self._thread.join(1.0)

    def _run(self) -> None:
        while True:
            with self._wake:
                if not self._running and not self._stopped:
                    self._wake.wait(_IDLE)
                if self._stopped:
                    return
                handles = list(self._running)
            moved, ended = False, []
            for handle in handles:
                before = handle._request.moved_bytes
                if not handle.advance():
                    ended.append(handle)
                moved = moved or handle._request.moved_bytes != before
            try:
                moved = self._notifications.collect() or moved
            except _errors.Error:
                return
            if ended:
                with self._wake:
                    self._running = [handle for handle in self._running if handle not in ended]
            if handles and not moved:
                time.sleep(_REST)
