"""Lists of rows and blocks, and memory of GPUs, as callers of weftcomm.transfer give them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Union

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

Table = Union[Sequence[Sequence[int]], "NDArray[Any]"]


def _of_gpu(array: Any) -> tuple[int, int, int]:
    """Address, bytes and GPU of an array of a GPU's memory: torch has device.index, CuPy device.id."""
    interface = array.__cuda_array_interface__
    address, read_only = interface["data"]
    item = np.dtype(interface["typestr"]).itemsize
    size = item * math.prod(interface["shape"])
    dense: list[int] = []
    step = item
    for length in reversed(interface["shape"]):
        dense.insert(0, step)
        step *= length
    if read_only or interface.get("strides") not in (None, tuple(dense)):
        raise ValueError("memory to be registered must be contiguous and writable")
    device = getattr(array, "device", None)
    gpu = getattr(device, "index", getattr(device, "id", None))
    return address, size, gpu if isinstance(gpu, int) else 0


def _column(numbers: Any, kind: Any) -> Any:
    if numbers is None:
        return None
    given = np.asarray(numbers)
    if given.size > 0 and given.dtype.kind not in "iu":
        raise ValueError(f"blocks of type {given.dtype}: they are whole numbers")
    if given.dtype.kind == "i" and given.size > 0 and int(given.min()) < 0:
        raise ValueError(f"block {int(given.min())} is negative")
    return np.ascontiguousarray(given, dtype=kind).reshape(-1)


def _table(rows: Table, kind: Any, defaults: tuple[int, ...]) -> Any:
    """An array with a column for each default; rows may leave out the last ones."""
    if not isinstance(rows, np.ndarray):
        lengths = {len(row) if hasattr(row, "__len__") else 0 for row in rows}
        if len(lengths) > 1:
            rows = [tuple(row) + defaults[len(row) :] for row in rows]
    given = np.asarray(rows)
    if given.ndim != 2 or not 2 <= given.shape[1] <= len(defaults):
        raise ValueError(f"a list is a table of 2 to {len(defaults)} columns, not of shape {given.shape}")
    if given.size > 0 and given.dtype.kind not in "iuO":
        raise ValueError(f"a list of type {given.dtype}: its columns are whole numbers")
    if given.shape[1] == len(defaults) and given.dtype == kind:
        return np.ascontiguousarray(given)
    table = np.empty((given.shape[0], len(defaults)), dtype=kind)
    table[:] = np.array(defaults, dtype=kind)
    table[:, : given.shape[1]] = given
    return table
