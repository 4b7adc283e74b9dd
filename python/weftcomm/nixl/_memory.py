"""What a nixl_agent has registered: descriptors, and weft's regions behind them."""

from __future__ import annotations

import os
import re
from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import Any

import numpy as np

from .. import _errors
from ..transfer import Agent, List, Region, gpus
from ._bindings import nixl_mem_t, nixlBackendError, nixlNotFoundError, nixlNotSupportedError, nixlRegDList
from ._serdes import Section

_DRAM, _VRAM = nixl_mem_t.DRAM_SEG, nixl_mem_t.VRAM_SEG
_FILE, _OBJ = nixl_mem_t.FILE_SEG, nixl_mem_t.OBJ_SEG
_Desc = tuple[nixl_mem_t, int, int, int]  # kind, address, bytes, device


# Names of NIXL's plugins whose work weft's paths do, with the memory that they move.
BACKENDS = {"UCX": ["DRAM_SEG"], "POSIX": ["FILE_SEG", "DRAM_SEG"], "OBJ": ["OBJ_SEG", "DRAM_SEG"], "WEFT": ["DRAM_SEG", "FILE_SEG"]}


def memory_of(backend: str) -> list[str]:
    """Not known when the module is imported: looking for GPUs begins CUDA, which a process may do only after its forks."""
    gpu = ["VRAM_SEG"] if backend in ("UCX", "WEFT") and gpus() > 0 else []
    return [*BACKENDS.get(backend, []), *gpu]


def is_storage(kind: nixl_mem_t) -> bool:
    return kind in (_FILE, _OBJ)


# As NIXL's POSIX plugin: how the file is opened, then its path.
_PATH = re.compile(r"(ro|rw)((?:,(?:create|direct|sync))*):(.+)", re.DOTALL)


def _text(more: bytes) -> str:
    return more.decode(errors="replace") or "the open descriptor"


def _file_of(kind: nixl_mem_t, device: int, more: bytes) -> tuple[int, int] | None:
    """Which file an open descriptor is; None where the file is named, and where the descriptor is none."""
    if kind is not _FILE or _PATH.fullmatch(more.decode(errors="surrogateescape")) or device >= 1 << 31:
        return None
    try:
        known = os.fstat(device)
    except OSError:
        return None
    return known.st_dev, known.st_ino


@dataclass(eq=False)
class _Shared:
    """A region, and how many registered descriptors lie within it."""

    region: Region
    begin: int
    end: int
    device: int  # a file's descriptor, or its number, as an object's
    more: bytes = b""  # a file's MODES:PATH, an object's key
    kind: nixl_mem_t = _DRAM
    users: int = 0
    file: tuple[int, int] | None = None  # of an open descriptor: its file system and its number there

    def place(self) -> tuple[nixl_mem_t, int]:
        return _place(self.kind, self.device)


def _place(kind: nixl_mem_t, device: int) -> tuple[nixl_mem_t, int]:
    return kind, 0 if kind is _DRAM else device


class _Places:
    """Regions of one kind on one device, by where they begin. Regions of memory do not overlap; those of a file begin at 0."""

    def __init__(self) -> None:
        self._begins: list[int] = []
        self.regions: list[_Shared] = []

    def add(self, region: _Shared) -> None:
        at = bisect_right(self._begins, region.begin)
        self._begins.insert(at, region.begin)
        self.regions.insert(at, region)

    def remove(self, region: _Shared) -> None:
        at = self.regions.index(region, bisect_left(self._begins, region.begin))
        del self._begins[at], self.regions[at]

    def around(self, begin: int, end: int) -> _Shared | None:
        for at in range(bisect_right(self._begins, begin) - 1, -1, -1):
            region = self.regions[at]
            if end <= region.end:
                return region
            if region.kind in (_DRAM, _VRAM):
                return None
        return None


class Registered:
    """Descriptors are registered as often as NIXL allows; one that lies within another shares its region."""

    def __init__(self, agent: Agent) -> None:
        self._agent = agent
        self._counts: Counter[_Desc] = Counter()
        self._behind: dict[_Desc, _Shared] = {}
        self._regions: defaultdict[tuple[nixl_mem_t, int], _Places] = defaultdict(_Places)
        self.bucket: dict[str, str] | None = None  # parameters of the back end OBJ, where it has been created

    def add(self, descs: nixlRegDList) -> None:
        kind = descs.getType()
        if kind is _VRAM and gpus() == 0:
            raise nixlNotSupportedError("no memory of GPUs: none is here, or weft was built without CUDA")
        if kind not in (_DRAM, _VRAM, _FILE, _OBJ) or (kind is _OBJ and self.bucket is None):
            raise nixlNotFoundError(f"no path moves {kind.name}")
        added: list[_Desc] = []
        try:
            for address, size, device, more in descs:
                self._add((kind, address, size, device), more)
                added.append((kind, address, size, device))
        except Exception:
            for key in added:
                self._remove(key)
            raise

    def _add(self, key: _Desc, more: bytes) -> None:
        kind, address, size, device = key
        if size == 0:
            self._counts[key] += 1
            return
        if kind in (_DRAM, _VRAM) and address == 0:
            raise nixlBackendError(f"{size} bytes at address 0")
        if kind in (_FILE, _OBJ):
            self._check_number(kind, device, more)
        if self._counts[key] == 0:
            shared = self._around(kind, address, size, device)
            if shared is None:
                shared = self._opened(kind, address, size, device, more)
                self._regions[shared.place()].add(shared)
            self._behind[key] = shared
        self._behind[key].users += 1
        self._counts[key] += 1

    def _check_number(self, kind: nixl_mem_t, device: int, more: bytes) -> None:
        """Lists name a file or an object by its number alone."""
        known = self._regions.get((kind, device))
        if known is None:
            return
        file = _file_of(kind, device, more)
        for r in known.regions:
            if r.file != file:
                raise nixlBackendError(f"descriptor {device} is another file than when it was registered: deregister that one first")
            if r.more != more:
                raise nixlBackendError(
                    f"{'file' if kind is _FILE else 'object'} {device} is {_text(r.more)} and cannot be {_text(more)}, too: each "
                    f"{'file' if kind is _FILE else 'object'} needs a device id of its own"
                )

    def _around(self, kind: nixl_mem_t, address: int, size: int, device: int) -> _Shared | None:
        known = self._regions.get(_place(kind, device))
        return None if known is None else known.around(address, address + size)

    def _opened(self, kind: nixl_mem_t, address: int, size: int, device: int, more: bytes) -> _Shared:
        if kind is _DRAM:
            return _Shared(self._agent.add_memory((address, size)), address, address + size, device)
        if kind is _VRAM:
            return _Shared(self._agent.add_memory((address, size, device)), address, address + size, device, kind=kind)
        if kind is _OBJ:
            region = self.object(more.decode(errors="surrogateescape") or str(device), address + size)
            return _Shared(region, 0, region.bytes, device, more, kind)
        region = self._opened_file(device, more.decode(errors="surrogateescape"), address + size)
        return _Shared(region, 0, region.bytes, device, more, kind, file=_file_of(kind, device, more))

    def object(self, key: str, size: int) -> Region:
        """size 0: as the server says; it must exist."""
        of = self.bucket or {}
        bucket = of.get("bucket") or os.environ.get("AWS_DEFAULT_BUCKET", "")
        if not bucket:
            raise nixlBackendError("OBJ: no bucket: set the back end's parameter bucket, or AWS_DEFAULT_BUCKET")
        endpoint = of.get("endpoint_override", "") or os.environ.get("AWS_ENDPOINT_OVERRIDE", "")
        if endpoint and "://" not in endpoint:
            endpoint = f"{of.get('scheme') or 'https'}://{endpoint}"
        try:
            return self._agent.add_object(
                f"s3://{bucket}/{key}",
                size,
                endpoint=endpoint,
                location=of.get("region", ""),
                key_id=of.get("access_key", ""),
                secret=of.get("secret_key", ""),
                session=of.get("session_token", ""),
                authorities=of.get("ca_bundle", ""),
            )
        except _errors.Error as error:
            raise nixlBackendError(str(error)) from error

    def _opened_file(self, device: int, more: str, size: int) -> Region:
        """A file is named by MODES:PATH in the last column, or is open, with its descriptor as the device."""
        named = _PATH.fullmatch(more)
        opened = -1
        try:
            if named is None:
                return self._agent.add_open_file(device if device < 1 << 31 else -1, bytes=size)
            access, options, path = named.group(1), set(named.group(2).split(",")), named.group(3)
            flags = (os.O_RDONLY if access == "ro" else os.O_RDWR) | os.O_CLOEXEC | os.O_NONBLOCK
            flags |= (os.O_CREAT if "create" in options else 0) | (os.O_SYNC if "sync" in options else 0)
            opened = os.open(path, flags, 0o666)
            return self._agent.add_open_file(opened, bytes=size, past_cache="direct" in options, name=_text(os.fsencode(path)))
        except OSError as error:
            raise nixlBackendError(f"file {more}: {error.strerror}") from error
        except _errors.Error as error:
            raise nixlBackendError(str(error)) from error
        finally:
            if opened >= 0:
                os.close(opened)

    def look(self, key: str) -> dict[str, str] | None:
        """An object, as query_memory() says it: None where there is none."""
        try:
            region = self.object(key, 0)
        except nixlBackendError as error:
            if ": 404 NoSuchKey" in str(error):
                return None
            raise
        size = region.bytes
        self._agent.deregister(region)
        return {"size": str(size)}

    def remove(self, descs: nixlRegDList) -> None:
        keys = [(descs.getType(), d[0], d[1], d[2]) for d in descs]
        for key, n in Counter(keys).items():
            if self._counts[key] < n:
                raise nixlNotFoundError(f"{key[2]} bytes at {key[1]:#x} are not registered")
        for key in keys:
            self._remove(key)

    def _remove(self, key: _Desc) -> None:
        self._counts[key] -= 1
        shared = self._behind.get(key)
        if self._counts[key] == 0:
            del self._counts[key]
            self._behind.pop(key, None)
        if shared is None:
            return
        shared.users -= 1
        if shared.users == 0:
            places = self._regions[shared.place()]
            places.remove(shared)
            if not places.regions:
                del self._regions[shared.place()]
            self._agent.deregister(shared.region)

    def regions(self, descs: nixlRegDList) -> list[Region]:
        found: dict[int, Region] = {}
        for d in descs:
            shared = self._behind.get((descs.getType(), d[0], d[1], d[2]))
            if shared is None:
                raise nixlNotFoundError(f"{d[1]} bytes at {d[0]:#x} are not registered")
            found[shared.region.number] = shared.region
        return list(found.values())

    def sections(self, of: list[Region] | None = None) -> list[Section]:
        """Memory that peers reach, with weft's metadata of each; of: these regions only."""
        numbers = None if of is None else {r.number for r in of}
        return [
            Section(r.kind.value, r.begin, r.end - r.begin, r.device, self._agent.metadata([r.region]))
            for places in self._regions.values()
            for r in places.regions
            if r.kind in (_DRAM, _VRAM) and (numbers is None or r.region.number in numbers)
        ]

    def prepare(self, peer: str, kind: nixl_mem_t, rows: Any) -> List:
        """rows: address, bytes, device[, stride, count]."""
        if kind in (_DRAM, _VRAM):
            columns = [0, 1] if rows.shape[1] == 3 else [0, 1, 3, 4]
            return self._agent.prepare_addresses(peer, np.ascontiguousarray(rows[:, columns]))
        if kind not in (_FILE, _OBJ):
            raise nixlNotSupportedError(f"no path moves {kind.name}")
        table = np.empty((len(rows), 5), dtype=np.int64)
        table[:, 1] = rows[:, 0]
        table[:, 2] = rows[:, 1]
        table[:, 3], table[:, 4] = (0, 1) if rows.shape[1] == 3 else (rows[:, 3], rows[:, 4])
        for i, row in enumerate(rows):
            around = self._around(kind, int(row[0]), int(row[1]), int(row[2]))
            if around is None or peer:
                raise nixlNotFoundError(f"{int(row[1])} bytes at {int(row[0])} of {'file' if kind is _FILE else 'object'} {int(row[2])} are not registered")
            table[i, 0] = around.region.number
        return self._agent.prepare("", table)
