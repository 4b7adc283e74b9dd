"""Memory by address, for tests: NIXL's helpers."""

from __future__ import annotations

import ctypes

_C = ctypes.CDLL(None)
_C.malloc.restype = ctypes.c_void_p
_C.malloc.argtypes = [ctypes.c_size_t]
_C.free.argtypes = [ctypes.c_void_p]


def malloc_passthru(size: int) -> int:
    """The address of `size` bytes, until free_passthru()."""
    address = _C.malloc(size)
    if not address:
        raise MemoryError(f"{size} bytes")
    return int(address)


def free_passthru(address: int) -> None:
    _C.free(address)


def ba_buf(address: int, size: int) -> None:
    """Fills memory with the byte 0xba."""
    ctypes.memset(address, 0xBA, size)


def verify_transfer(first: int, second: int, size: int) -> None:
    """Raises RuntimeError where two pieces of memory differ."""
    if ctypes.string_at(first, size) != ctypes.string_at(second, size):
        raise RuntimeError(f"{size} bytes at {first:#x} and {second:#x} differ")
