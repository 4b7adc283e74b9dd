"""Notifications of any size, and of any number that nobody has taken."""

from __future__ import annotations

import threading
import time

from .. import _errors
from ..transfer import Agent
from ._bindings import nixlBackendError

# Longer ones go in parts: this word, the bytes of all parts, where this one begins, its bytes.
_PART = b"\0weft:p\0"
_HEAD = len(_PART) + 16
_MOST = 4096  # bytes that weft's queues take
_WAIT = 5.0  # seconds for a peer to take some, where its queue is full


def fits(message: bytes) -> bool:
    return len(message) <= _MOST and not message.startswith(_PART)


class Notifications:
    """Takes what has arrived, so that senders need not wait until the caller asks. Thread: any."""

    def __init__(self, agent: Agent) -> None:
        self._agent = agent
        self._taking, self._sending = threading.Lock(), threading.Lock()
        self._new: dict[str, list[bytes]] = {}
        self._parts: dict[str, bytearray] = {}

    def collect(self) -> bool:
        """Whether there were any."""
        with self._taking:
            came = self._agent.notifications()
            for n in came:
                message = self._joined(n.peer, n.bytes)
                if message is not None:
                    self._new.setdefault(n.peer, []).append(message)
            return bool(came)

    def take(self) -> dict[str, list[bytes]]:
        self.collect()
        with self._taking:
            taken, self._new = self._new, {}
            return taken

    def send(self, peer: str, message: bytes) -> None:
        """Raises: nixlBackendError where the peer takes none for seconds; weft's errors."""
        with self._sending:
            if fits(message):
                return self._push(peer, message)
            step = _MOST - _HEAD
            for at in range(0, len(message), step):
                head = _PART + len(message).to_bytes(8, "little") + at.to_bytes(8, "little")
                self._push(peer, head + message[at : at + step])

    def _push(self, peer: str, message: bytes) -> None:
        limit = time.monotonic() + _WAIT
        while True:
            try:
                return self._agent.notify(peer, message)
            except _errors.NoResources as error:
                if time.monotonic() > limit:
                    raise nixlBackendError(f"{error}; it has taken none for {_WAIT:.0f} s") from error
            self.collect()  # the peer may be waiting for this side
            time.sleep(0.0002)

    def _joined(self, peer: str, message: bytes) -> bytes | None:
        if not message.startswith(_PART):
            return message
        total, at = (int.from_bytes(message[i : i + 8], "little") for i in (len(_PART), len(_PART) + 8))
        parts = self._parts.setdefault(peer, bytearray())
        if at == 0:
            parts.clear()
        if at != len(parts):  # a part of one whose beginning was lost with a former self of the peer
            return None
        parts += message[_HEAD:]
        return bytes(self._parts.pop(peer)) if len(parts) >= total else None
