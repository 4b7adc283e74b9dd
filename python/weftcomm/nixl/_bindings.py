"""Constants, exceptions and descriptor lists under NIXL's names."""

from __future__ import annotations

import enum
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

DEFAULT_COMM_PORT = 8888
NIXL_INIT_AGENT = ""
HAVE_UCX_GPU_DEVICE_API = False


class nixl_mem_t(enum.Enum):
    """Kinds of memory. weft has DRAM_SEG, FILE_SEG and, where a GPU is, VRAM_SEG."""

    DRAM_SEG = 0
    VRAM_SEG = 1
    BLK_SEG = 2
    OBJ_SEG = 3
    FILE_SEG = 4


class nixl_xfer_op_t(enum.Enum):
    NIXL_READ = 0
    NIXL_WRITE = 1


class nixl_status_t(enum.Enum):
    NIXL_IN_PROG = 1
    NIXL_SUCCESS = 0
    NIXL_ERR_NOT_POSTED = -1
    NIXL_ERR_INVALID_PARAM = -2
    NIXL_ERR_BACKEND = -3
    NIXL_ERR_NOT_FOUND = -4
    NIXL_ERR_MISMATCH = -5
    NIXL_ERR_NOT_ALLOWED = -6
    NIXL_ERR_REPOST_ACTIVE = -7
    NIXL_ERR_UNKNOWN = -8
    NIXL_ERR_NOT_SUPPORTED = -9


class nixl_thread_sync_t(enum.Enum):
    NIXL_THREAD_SYNC_NONE = 0
    NIXL_THREAD_SYNC_STRICT = 1
    NIXL_THREAD_SYNC_RW = 2


class nixl_cost_t(enum.Enum):
    NIXL_COST_ANALYTICAL_BACKEND = 0


DRAM_SEG, VRAM_SEG, BLK_SEG, OBJ_SEG, FILE_SEG = nixl_mem_t
NIXL_READ, NIXL_WRITE = nixl_xfer_op_t
NIXL_IN_PROG, NIXL_SUCCESS = nixl_status_t.NIXL_IN_PROG, nixl_status_t.NIXL_SUCCESS
NIXL_ERR_NOT_POSTED, NIXL_ERR_INVALID_PARAM = nixl_status_t.NIXL_ERR_NOT_POSTED, nixl_status_t.NIXL_ERR_INVALID_PARAM
NIXL_ERR_BACKEND, NIXL_ERR_NOT_FOUND = nixl_status_t.NIXL_ERR_BACKEND, nixl_status_t.NIXL_ERR_NOT_FOUND
NIXL_ERR_MISMATCH, NIXL_ERR_NOT_ALLOWED = nixl_status_t.NIXL_ERR_MISMATCH, nixl_status_t.NIXL_ERR_NOT_ALLOWED
NIXL_ERR_REPOST_ACTIVE, NIXL_ERR_UNKNOWN = nixl_status_t.NIXL_ERR_REPOST_ACTIVE, nixl_status_t.NIXL_ERR_UNKNOWN
NIXL_ERR_NOT_SUPPORTED = nixl_status_t.NIXL_ERR_NOT_SUPPORTED
NIXL_THREAD_SYNC_NONE, NIXL_THREAD_SYNC_STRICT, NIXL_THREAD_SYNC_RW = nixl_thread_sync_t
NIXL_THREAD_SYNC_DEFAULT = NIXL_THREAD_SYNC_NONE
NIXL_COST_ANALYTICAL_BACKEND = nixl_cost_t.NIXL_COST_ANALYTICAL_BACKEND


class nixlNotPostedError(Exception):
    pass


class nixlInvalidParamError(Exception):
    pass


class nixlBackendError(Exception):
    pass


class nixlNotFoundError(Exception):
    pass


class nixlMismatchError(Exception):
    pass


class nixlNotAllowedError(Exception):
    pass


class nixlRepostActiveError(Exception):
    pass


class nixlUnknownError(Exception):
    pass


class nixlNotSupportedError(Exception):
    pass


class nixlRemoteDisconnectError(Exception):
    pass


class nixlCancelledError(Exception):
    pass


class nixlNoTelemetryError(Exception):
    pass


class nixlXferTelemetry:
    """Of the last post of a transfer. startTime: microseconds since 1970; durations in microseconds."""

    def __init__(self) -> None:
        self.startTime = 0
        self.postDuration = 0
        self.xferDuration = 0
        self.totalBytes = 0
        self.descCount = 0


class _DescList:
    """Rows of (address, bytes, device) of one kind of memory. `_rows`: an Nx3 array of uint64."""

    _columns = 3

    def __init__(self, type: nixl_mem_t, descs: Any = 0) -> None:
        self._type = type
        if isinstance(descs, int):
            descs = np.zeros((descs, 3), dtype=np.uint64)
        self._rows, self._more = self._taken(descs)

    def _taken(self, descs: Any) -> tuple[Any, list[Any]]:
        """The numbers, and what each row has besides."""
        if isinstance(descs, np.ndarray):
            if descs.ndim != 2 or descs.shape[1] != 3:
                raise ValueError(f"a list of descriptors is an Nx3 array, not of shape {descs.shape}")
            return np.array(descs, dtype=np.uint64), []
        rows = np.array([d[:3] for d in descs], dtype=np.uint64).reshape(-1, 3)
        return rows, []

    def getType(self) -> nixl_mem_t:
        return self._type

    def descCount(self) -> int:
        return len(self._rows)

    def isEmpty(self) -> bool:
        return len(self._rows) == 0

    def __getitem__(self, i: int) -> tuple[Any, ...]:
        row = self._rows[i]
        return int(row[0]), int(row[1]), int(row[2])

    def __setitem__(self, i: int, desc: Sequence[Any]) -> None:
        self._rows[i] = desc[:3]

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        return (self[i] for i in range(len(self._rows)))

    def append(self, desc: Sequence[Any]) -> None:
        self._rows = np.concatenate([self._rows, np.array([desc[:3]], dtype=np.uint64)])

    addDesc = append

    def remDesc(self, i: int) -> None:
        if not 0 <= i < len(self._rows):
            raise IndexError("Index is out of range")
        self._rows = np.delete(self._rows, i, axis=0)

    def clear(self) -> None:
        self._rows = self._rows[:0]
        self._more = []

    def index(self, desc: Sequence[Any]) -> int:
        found = np.flatnonzero((self._rows == np.array(desc[:3], dtype=np.uint64)).all(axis=1))
        if len(found) == 0:
            raise nixlNotFoundError(f"no descriptor {tuple(desc[:3])} in a list of {len(self._rows)}")
        return int(found[0])

    def print(self) -> None:
        print(f"DescList of mem type {self._type.value}")
        for desc in self:
            print(*desc)

    def __eq__(self, other: object) -> bool:
        return (
            type(other) is type(self)
            and isinstance(other, _DescList)
            and other._type is self._type
            and np.array_equal(other._rows, self._rows)
            and other._more == self._more
        )

    __hash__ = None  # type: ignore[assignment]


class nixlXferDList(_DescList):
    """(address, bytes, device)."""


class _LongerList(_DescList):
    """With a fourth column."""

    def _taken(self, descs: Any) -> tuple[Any, list[Any]]:
        rows, _ = super()._taken(descs)
        if isinstance(descs, np.ndarray):
            return rows, [self._fourth("")] * len(rows)
        return rows, [self._fourth(d[3]) for d in descs]

    @staticmethod
    def _fourth(value: Any) -> Any:
        return value.encode() if isinstance(value, str) else bytes(value)

    def __getitem__(self, i: int) -> tuple[Any, ...]:
        return (*super().__getitem__(i), self._more[i])

    def __setitem__(self, i: int, desc: Sequence[Any]) -> None:
        super().__setitem__(i, desc)
        self._more[i] = self._fourth(desc[3])

    def append(self, desc: Sequence[Any]) -> None:
        super().append(desc)
        self._more.append(self._fourth(desc[3]))

    addDesc = append

    def remDesc(self, i: int) -> None:
        super().remDesc(i)
        del self._more[i]


class nixlRegDList(_LongerList):
    """(address, bytes, device, what the backend is to know)."""

    def trim(self) -> nixlXferDList:
        return nixlXferDList(self._type, self._rows)


class nixlRemoteDList(_LongerList):
    """(address, bytes, device, the agent's name)."""

    @staticmethod
    def _fourth(value: Any) -> Any:
        return value.decode() if isinstance(value, bytes) else str(value)
