"""Memory of a rehearsed GPU: blocks and segments by the rules of torch's caching allocator.

The sizes are those of c10/cuda/CUDACachingAllocator in torch 2.13: blocks of 512 B; up to 1 MiB from segments of 2 MiB,
up to 10 MiB from segments of 20 MiB, larger ones from segments rounded up to 2 MiB. Segments belong to a stream.
Every allocation and release is kept with its line, category and module: what lies in memory at the peak, and a snapshot
in the form of torch.cuda.memory._snapshot().
"""

from __future__ import annotations

import bisect
import os
import pickle
from typing import Any

KIB, MIB = 1024, 1024 * 1024
BLOCK, SMALL, SMALL_SEGMENT, LARGE_SEGMENT, OWN_SEGMENT = 512, MIB, 2 * MIB, 20 * MIB, 10 * MIB
REPORTED = 16 * MIB  # growth of the peak of allocated memory after which it is written again


class Use:
    """One allocation: what for, by whom. `category` may become known later, before it is released."""

    __slots__ = ("address", "size", "asked", "stream", "category", "module", "line")

    def __init__(self, address: int, size: int, asked: int, stream: int, why: tuple[str, str, str]) -> None:
        self.address, self.size, self.asked, self.stream = address, size, asked, stream
        self.category, self.module, self.line = why


class Block:
    __slots__ = ("size", "start", "segment", "pool", "free", "before", "after", "use")

    def __init__(self, size: int, start: int, segment: int, pool: Any) -> None:
        self.size, self.start, self.segment, self.pool = size, start, segment, pool
        self.free = False
        self.use: Use | None = None
        self.before: Block | None = None
        self.after: Block | None = None

    def __lt__(self, other: Block) -> bool:
        return (self.size, self.segment, self.start) < (other.size, other.segment, other.start)


class Allocator:
    """One GPU. `allocated` and `reserved` are bytes; peaks are written to the record where they grow."""

    def __init__(self, record: Any) -> None:
        self._record = record
        self._free: dict[tuple[int, bool], list[Block]] = {}
        self._segments: list[tuple[int, int, int]] = []  # address, size, stream, of every segment there was
        self._address = 1 << 40  # of the next segment
        self._log: list[tuple[str, Any]] = []  # "alloc" and "free" of uses, "segment_alloc" and "segment_free" of numbers
        self._at_peak = 0  # length of the log when most was allocated
        self.allocated = self.reserved = self.peak = self.peak_reserved = 0
        self.peak_since = self.peak_reserved_since = 0  # since torch.cuda.reset_peak_memory_stats()
        self._written = self._written_reserved = 0

    def allocate(self, size: int, stream: int, why: tuple[str, str, str] = ("", "", "")) -> Block | None:
        """`why`: category, module, line."""
        if size <= 0:
            return None
        asked = size
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
            block = Block(segment, 0, len(self._segments), pool)
            self._segments.append((self._address, segment, stream))
            self._log.append(("segment_alloc", block.segment))
            self._address += segment + 2 * MIB
            self.reserved += segment
            self.peak_reserved = max(self.peak_reserved, self.reserved)
        rest = block.size - size
        if rest >= BLOCK if small else rest > SMALL:
            self._split(block, size)
        block.free = False
        block.use = Use(self._segments[block.segment][0] + block.start, block.size, asked, stream, why)
        self._log.append(("alloc", block.use))
        self.allocated += block.size
        if self.allocated > self.peak:
            self.peak, self._at_peak = self.allocated, len(self._log)
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
        self._log.append(("free", block.use))
        block.use = None
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
            for block in pool:
                if block.before is None and block.after is None:
                    self._log.append(("segment_free", block.segment))
            self.reserved -= sum(block.size for block in pool) - sum(block.size for block in kept)
            pool[:] = kept

    def reset_peaks(self, *_: Any) -> None:
        self.peak_since, self.peak_reserved_since = self.allocated, self.reserved

    def write_peak(self) -> None:
        self._written, self._written_reserved = self.peak, self.peak_reserved
        self._record.write(kind="memory", allocated=self.peak, reserved=self.peak_reserved, line=self._record.line())

    def write_held(self) -> None:
        """What lay in memory when it was most, by category and module."""
        held: dict[int, Use] = {}
        for action, use in self._log[: self._at_peak]:
            if action == "alloc":
                held[id(use)] = use
            elif action == "free":
                held.pop(id(use), None)
        sums: dict[tuple[str, str], int] = {}
        for use in held.values():
            sums[use.category, use.module] = sums.get((use.category, use.module), 0) + use.size
        for (category, module), size in sorted(sums.items(), key=lambda item: -item[1]):
            self._record.write(kind="held", category=category, module=module, bytes=size)

    def snapshot(self, folder: str) -> dict[str, Any]:
        """As torch.cuda.memory._snapshot() has it; time is the number of the event."""

        def frames(use: Use) -> list[dict[str, Any]]:
            file, _, number = use.line.rpartition(":")
            name = f"{use.module} [{use.category}]" if use.module else use.category
            return [{"filename": os.path.join(folder, file), "line": int(number or 0), "name": name}] if file else []

        trace, living, gone = [], {}, set()
        for time, (action, what) in enumerate(self._log):
            if action.startswith("segment"):
                address, size, stream = self._segments[what]
                more: dict[str, Any] = {"frames": []}
                if action == "segment_free":
                    gone.add(what)
            else:
                address, size, stream = what.address, what.size, what.stream
                more = {"frames": frames(what), "category": what.category}
                if action == "alloc":
                    living[address] = what
                else:
                    del living[address]
            for part in ("free_requested", "free_completed") if action == "free" else (action,):
                trace.append({"action": part, "addr": address, "size": size, "stream": stream, "time_us": time, **more})
        addresses = sorted(living)
        segments = []
        for number, (start, length, stream) in enumerate(self._segments):
            if number in gone:
                continue
            inside = addresses[bisect.bisect_left(addresses, start) : bisect.bisect_left(addresses, start + length)]
            segments.append(segment_of(start, length, stream, [living[a] for a in inside], frames))
        return {"segments": segments, "device_traces": [trace], "allocator_settings": {}, "external_annotations": []}

    def write_snapshot(self, path: str, folder: str) -> None:
        with open(path, "wb") as file:
            pickle.dump(self.snapshot(folder), file)


def segment_of(start: int, length: int, stream: int, uses: list[Use], frames: Any) -> dict[str, Any]:
    blocks, at = [], start
    for use in uses:
        if use.address > at:
            blocks.append(gap(at, use.address))
        active = {"address": use.address, "size": use.size, "requested_size": use.asked, "state": "active_allocated"}
        blocks.append({**active, "frames": frames(use)})
        at = use.address + use.size
    if at < start + length:
        blocks.append(gap(at, start + length))
    held = sum(use.size for use in uses)
    return {
        "device": 0, "address": start, "total_size": length, "stream": stream, "is_expandable": False,
        "segment_type": "small" if length == SMALL_SEGMENT and all(u.size <= SMALL for u in uses) else "large",
        "segment_pool_id": (0, 0), "allocated_size": held, "active_size": held,
        "requested_size": sum(use.asked for use in uses), "frames": [], "blocks": blocks,
    }  # fmt: skip


def gap(start: int, end: int) -> dict[str, Any]:
    return {"address": start, "size": end - start, "requested_size": 0, "state": "inactive", "frames": []}
