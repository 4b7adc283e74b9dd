"""Memory of a rehearsed GPU: blocks and segments by the rules of torch's caching allocator.

The sizes are those of c10/cuda/CUDACachingAllocator in torch 2.13: blocks of 512 B; up to 1 MiB from segments of 2 MiB,
up to 10 MiB from segments of 20 MiB, larger ones from segments rounded up to 2 MiB. Segments belong to a stream.
"""

from __future__ import annotations

import bisect
from typing import Any

KIB, MIB = 1024, 1024 * 1024
BLOCK, SMALL, SMALL_SEGMENT, LARGE_SEGMENT, OWN_SEGMENT = 512, MIB, 2 * MIB, 20 * MIB, 10 * MIB
REPORTED = 16 * MIB  # growth of the peak of allocated memory after which it is written again


class Block:
    __slots__ = ("size", "start", "segment", "pool", "free", "before", "after")

    def __init__(self, size: int, start: int, segment: int, pool: Any) -> None:
        self.size, self.start, self.segment, self.pool = size, start, segment, pool
        self.free = False
        self.before: Block | None = None
        self.after: Block | None = None

    def __lt__(self, other: Block) -> bool:
        return (self.size, self.segment, self.start) < (other.size, other.segment, other.start)


class Allocator:
    """One GPU. `allocated` and `reserved` are bytes; peaks are written to the record where they grow."""

    def __init__(self, record: Any) -> None:
        self._record = record
        self._free: dict[tuple[int, bool], list[Block]] = {}
        self._segments = 0
        self.allocated = self.reserved = self.peak = self.peak_reserved = 0
        self.peak_since = self.peak_reserved_since = 0  # since torch.cuda.reset_peak_memory_stats()
        self._written = self._written_reserved = 0

    def allocate(self, size: int, stream: int) -> Block | None:
        if size <= 0:
            return None
        size = (size + BLOCK - 1) // BLOCK * BLOCK
        small = size <= SMALL
        pool = self._free.setdefault((stream, small), [])
        at = bisect.bisect_left(pool, Block(size, -1, -1, None))
        if at < len(pool):
            block = pool.pop(at)
        else:
            segment = SMALL_SEGMENT if small else LARGE_SEGMENT
            if size >= OWN_SEGMENT:
                segment = (size + 2 * MIB - 1) // (2 * MIB) * (2 * MIB)
            self._segments += 1
            block = Block(segment, 0, self._segments, pool)
            self.reserved += segment
            self.peak_reserved = max(self.peak_reserved, self.reserved)
        rest = block.size - size
        if rest >= BLOCK if small else rest > SMALL:
            self._split(block, size)
        block.free = False
        self.allocated += block.size
        self.peak = max(self.peak, self.allocated)
        self.peak_since = max(self.peak_since, self.allocated)
        self.peak_reserved_since = max(self.peak_reserved_since, self.reserved)
        if self.peak >= self._written + REPORTED or self.peak_reserved > self._written_reserved:
            self.write_peak()
        return block

    def _split(self, block: Block, size: int) -> None:
        rest = Block(block.size - size, block.start + size, block.segment, block.pool)
        rest.free, rest.before, rest.after = True, block, block.after
        if block.after is not None:
            block.after.before = rest
        block.size, block.after = size, rest
        bisect.insort(block.pool, rest)

    def release(self, block: Block | None) -> None:
        if block is None:
            return
        self.allocated -= block.size
        for other in (block.before, block.after):
            if other is None or not other.free:
                continue
            del block.pool[bisect.bisect_left(block.pool, other)]
            first, second = (other, block) if other is block.before else (block, other)
            first.size += second.size
            first.after = second.after
            if second.after is not None:
                second.after.before = first
            block = first
        block.free = True
        bisect.insort(block.pool, block)

    def give_back(self) -> None:
        """torch.cuda.empty_cache(): segments that are free as a whole."""
        for pool in self._free.values():
            kept = [block for block in pool if block.before is not None or block.after is not None]
            self.reserved -= sum(block.size for block in pool) - sum(block.size for block in kept)
            pool[:] = kept

    def reset_peaks(self, *_: Any) -> None:
        self.peak_since, self.peak_reserved_since = self.allocated, self.reserved

    def write_peak(self) -> None:
        self._written, self._written_reserved = self.peak, self.peak_reserved
        self._record.write(kind="memory", allocated=self.peak, reserved=self.peak_reserved, line=self._record.line())
