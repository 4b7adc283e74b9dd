"""Registered memory for tensors: what a group's ranks read without intermediate copies."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch


def empty(shape: int | Sequence[int], dtype: torch.dtype | None = None, group: Any = None) -> torch.Tensor:
    """A CPU tensor in registered memory of a group of weft's, which its ranks read without intermediate copies.

    dtype: torch's default unless given. group: the default group unless given. Where no registered memory is left
    (WEFT_HEAP), the tensor is plain. Errors: ValueError, for a group of another backend.
    """
    import torch

    sizes = [shape] if isinstance(shape, int) else list(shape)
    kind = torch.get_default_dtype() if dtype is None else dtype
    flat: torch.Tensor = _backend(group).allocate_tensor(math.prod(sizes), dtype=kind, device=torch.device("cpu"))
    return flat.view(sizes)


@contextlib.contextmanager
def allocations(group: Any = None) -> Iterator[None]:
    """`with weftcomm_torch.allocations():` CPU tensors of 4 KiB and more that torch makes, on any thread, lie in registered
    memory, activations and gradients included, until the block ends or WEFT_HEAP is used up; then they are plain.

    group: the default group unless given. Tensors may outlive the block and the group. A child of fork() gets plain
    memory. Errors: ValueError, for a group of another backend.
    """
    from . import _compiled

    user = _compiled().place_tensors(_backend(group))
    try:
        yield
    finally:
        _compiled().place_tensors_no_more(user)


def _backend(group: Any) -> Any:
    import torch
    import torch.distributed as dist

    from . import _compiled

    of = dist.distributed_c10d._get_default_group() if group is None else group
    backend = of._get_backend(torch.device("cpu"))
    if not isinstance(backend, _compiled().ProcessGroupWeft):
        raise ValueError(f"weft: the group's backend is {backend.name()}; registered memory is of groups of weft's")
    return backend
