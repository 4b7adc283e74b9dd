"""Metadata by socket: a thread that answers, and the side that asks.

The listener sends 16 random bytes. The asker sends 4 bytes of a verb, the length of its data (8 bytes, little-endian), the
data and an HMAC-SHA-256 over all of this with the common key. The answer is a length and data. A wrong HMAC ends the
connection; without a key the key is empty, as metadata then is not authenticated either.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import socket
import threading
from typing import Any

from .logging import get_logger

logger = get_logger(__name__)

_MOST = 1 << 30  # bytes of metadata
_TIME = 5.0  # seconds for an answer
_MAC = hashlib.sha256().digest_size


def own_address() -> str:
    """The address by which this machine reaches others; without a route the loopback's. Nothing is sent."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))  # an address for documentation (RFC 5737)
            return str(probe.getsockname()[0])
        except OSError:
            return "127.0.0.1"


def _receive(connection: socket.socket, size: int) -> bytes:
    data = bytearray()
    while len(data) < size:
        more = connection.recv(min(size - len(data), 1 << 20))
        if not more:
            raise OSError("the connection has ended")
        data += more
    return bytes(data)


def _block(connection: socket.socket) -> tuple[bytes, bytes]:
    header = _receive(connection, 8)
    size = int.from_bytes(header, "little")
    if size > _MOST:
        raise OSError(f"{size} bytes of metadata; at most {_MOST} are read")
    return header, _receive(connection, size)


def ask(address: tuple[str, int], key: str, verb: bytes, data: bytes) -> bytes:
    """The answer; empty, with a line in the log, where there is none: NIXL's calls do not say it either."""
    try:
        with socket.create_connection(address, timeout=_TIME) as connection:
            message = verb + len(data).to_bytes(8, "little") + data
            challenge = _receive(connection, 16)
            connection.sendall(message + hmac.new(key.encode(), challenge + message, "sha256").digest())
            return _block(connection)[1]
    except OSError as error:
        logger.error("metadata of the agent at %s:%s: %s", *address, error)
        return b""


class Listener:
    """Answers peers in a thread: LOAD with this agent's metadata; SEND loads the peer's; INVL forgets the peer."""

    def __init__(self, port: int, key: str, agent: Any) -> None:
        self._key, self._agent = key, agent
        # Without a key any process could ask: only those of this machine may.
        self._socket = socket.create_server(("" if key else "127.0.0.1", port))
        threading.Thread(target=self._run, name="weftcomm.nixl listener", daemon=True).start()

    def _run(self) -> None:
        while True:
            try:
                connection, peer = self._socket.accept()
            except OSError:
                return
            try:
                with connection:
                    connection.settimeout(_TIME)
                    self._answer(connection)
            except Exception as error:
                logger.error("a peer at %s: %s", peer[0], error)

    def _answer(self, connection: socket.socket) -> None:
        challenge = os.urandom(16)
        connection.sendall(challenge)
        verb = _receive(connection, 4)
        header, data = _block(connection)
        mac = hmac.new(self._key.encode(), challenge + verb + header + data, "sha256").digest()
        if not hmac.compare_digest(mac, _receive(connection, _MAC)):
            raise OSError("refused: another key")
        answer = b""
        if verb == b"LOAD":
            answer = self._agent.get_agent_metadata()
        elif verb == b"SEND":
            self._agent.add_remote_agent(data)
        elif verb == b"INVL":
            self._agent.remove_remote_agent(data)
        else:
            raise OSError(f"no such question: {verb!r}")
        connection.sendall(len(answer).to_bytes(8, "little") + answer)
