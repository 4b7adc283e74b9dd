"""Metadata in the form of NIXL's own agents, so that these and agents of weft load each other's: nixlSerDes, a row of tagged values,
each TAG, 8 bytes of length, the value, "|" (src/utils/serdes and src/infra of NIXL 1.5). weft's metadata stands in it as what
NIXL's backend WEFT, weft's plugin, says of its connection and of each registration."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from typing import NamedTuple

MAGIC = b"nixlSerDes|"
_BACKEND = b"WEFT"


class Section(NamedTuple):
    """Registered memory: NIXL's number of the kind, the descriptor, and weft's metadata of the region."""

    kind: int
    address: int
    length: int
    device: int
    metadata: bytes


class Malformed(ValueError):
    """The text is not NIXL's form, or has nothing of the backend WEFT."""


class _Reader:
    def __init__(self, text: bytes) -> None:
        self._text, self._at = text, len(MAGIC)

    def value(self, tag: bytes) -> bytes:
        begin = self._at + len(tag) + 8
        if self._text[self._at : self._at + len(tag)] != tag or len(self._text) < begin:
            raise Malformed(f"NIXL's metadata has no {tag.decode() or 'value'} at byte {self._at}")
        end = begin + int.from_bytes(self._text[begin - 8 : begin], "little")
        if self._text[end : end + 1] != b"|":
            raise Malformed(f"NIXL's metadata ends within {tag.decode() or 'the value'} at byte {self._at}")
        self._at = end + 1
        return self._text[begin:end]

    def number(self, tag: bytes) -> int:
        return int.from_bytes(self.value(tag), "little")


def read(text: bytes) -> tuple[str, list[bytes]]:
    """The agent's name, and weft's metadata in NIXL's: of the connection, then of each region. Raises: Malformed."""
    if not text.startswith(MAGIC):
        raise Malformed("not NIXL's metadata")
    reader = _Reader(text)
    found: list[bytes] = []
    others: set[str] = set()
    name = reader.value(b"Agent").decode(errors="replace")
    for _ in range(reader.number(b"Conns")):
        backend, connection = reader.value(b"t"), reader.value(b"c")
        if backend == _BACKEND:
            found.append(connection)
        else:
            others.add(backend.decode(errors="replace"))
    if reader.value(b"") != b"MemSection":
        raise Malformed("NIXL's metadata has no MemSection")
    for _ in range(reader.number(b"nixlSecElms")):
        backend = reader.value(b"bknd")
        if reader.value(b"nixlDList") != b"nixlSDList":
            raise Malformed("NIXL's metadata has a list of another kind")
        reader.number(b"t")
        for _ in range(reader.number(b"n")):
            descriptor = reader.value(b"")
            if backend == _BACKEND:
                found.append(descriptor[24:])
    if not found:
        raise Malformed(f"agent '{name}' has no backend WEFT, weft's plugin for NIXL; it has {', '.join(sorted(others)) or 'none'}")
    return name, found


def _value(tag: bytes, value: bytes) -> bytes:
    return tag + struct.pack("<Q", len(value)) + value + b"|"


def write(name: str, connection: bytes | None, sections: Iterable[Section]) -> bytes:
    """connection: None where it is not to be in it, as in partial metadata."""
    by_kind: dict[int, list[Section]] = {}
    for section in sorted(sections, key=lambda s: (s.kind, s.device, s.address)):
        by_kind.setdefault(section.kind, []).append(section)
    text = MAGIC + _value(b"Agent", name.encode()) + _value(b"Conns", struct.pack("<Q", connection is not None))
    if connection is not None:
        text += _value(b"t", _BACKEND) + _value(b"c", connection)
    text += _value(b"", b"MemSection") + _value(b"nixlSecElms", struct.pack("<Q", len(by_kind)))
    return text + b"".join(_list(kind, rows) for kind, rows in by_kind.items())


def _list(kind: int, rows: Sequence[Section]) -> bytes:
    head = _value(b"bknd", _BACKEND) + _value(b"nixlDList", b"nixlSDList") + _value(b"t", struct.pack("<i", kind)) + _value(b"n", struct.pack("<Q", len(rows)))
    return head + b"".join(_value(b"", struct.pack("<QQQ", r.address, r.length, r.device) + r.metadata) for r in rows)
