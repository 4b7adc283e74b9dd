"""DDP's exchange of gradients, and memory for tensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch


def bf16_sum_hook(state: Any, bucket: Any) -> Any:
    """A DDP communication hook: gradients travel as bfloat16 and are summed as float32, in the order of the ranks.

    model.register_comm_hook(group, weftcomm_torch.bf16_sum_hook): state is the process group; None: the default group.
    Each rank sums one part of the bucket and rounds the average once, so that a sum of many ranks loses no more than that
    of two, and every run gives the same bits. It sends as many bytes as torch's bf16_compress_hook.
    """
    import torch
    import torch.distributed as dist

    group = dist.group.WORLD if state is None else state
    ranks = dist.get_world_size(group)
    gradients = bucket.buffer()
    part = -(-gradients.numel() // ranks)
    mine = torch.zeros(ranks * part, dtype=torch.bfloat16, device=gradients.device)
    mine[: gradients.numel()].copy_(gradients)
    parts = torch.empty_like(mine)

    def average(_: Any) -> Any:
        total = torch.zeros(part, dtype=torch.float32, device=gradients.device)
        for of_rank in parts.view(ranks, part):
            total += of_rank
        dist.all_gather_into_tensor(mine, (total / ranks).bfloat16(), group=group)
        return gradients.copy_(mine[: gradients.numel()])

    return dist.all_to_all_single(parts, mine, group=group, async_op=True).get_future().then(average)


# DDP wants either its own class as an annotation, which only `import torch` gives, or none.
bf16_sum_hook.__annotations__.clear()


def empty(shape: int | Sequence[int], dtype: torch.dtype | None = None, group: Any = None) -> torch.Tensor:
    """A CPU tensor in registered memory of a group of weft's, which its ranks read without intermediate copies.

    dtype: torch's default unless given. group: the default group unless given. Large messages (from a few KiB): either all
    ranks pass such tensors to a collective, or none does. Where no registered memory is left (WEFT_HEAP), the tensor is
    plain. Errors: ValueError, for a group of another backend.
    """
    import math

    import torch
    import torch.distributed as dist

    sizes = [shape] if isinstance(shape, int) else list(shape)
    cpu = torch.device("cpu")
    backend = (dist.distributed_c10d._get_default_group() if group is None else group)._get_backend(cpu)
    from . import _compiled

    if not isinstance(backend, _compiled().ProcessGroupWeft):
        raise ValueError(f"weft: the group's backend is {backend.name()}; registered memory is of groups of weft's")
    kind = torch.get_default_dtype() if dtype is None else dtype
    flat: torch.Tensor = backend.allocate_tensor(math.prod(sizes), dtype=kind, device=cpu)
    return flat.view(sizes)
