"""DDP's exchange of gradients."""

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


def fp8_sum_hook(state: Any, bucket: Any) -> Any:
    """A DDP communication hook: gradients travel as float8_e4m3fn, scaled per part, and are summed as float32.

    model.register_comm_hook(group, weftcomm_torch.fp8_sum_hook): state is the process group; None: the default group.
    Every part of a bucket carries its own scale, so that its largest value is the largest of the type (448). A value is
    off by a sixteenth at most, those below 2e-6 of a part's largest one become zero. It sends half of what bf16 does.
    """
    import torch
    import torch.distributed as dist

    group = dist.group.WORLD if state is None else state
    ranks = dist.get_world_size(group)
    gradients = bucket.buffer()
    part = -(-gradients.numel() // ranks)
    part = -(-part // 4) * 4  # the scale behind it is aligned
    record = part + 4
    largest = torch.finfo(torch.float8_e4m3fn).max

    def packed(values: Any) -> Any:  # [rows, part] float32 -> [rows, record] bytes
        scale = values.abs().amax(dim=1, keepdim=True).float() / largest
        scale = torch.where(scale > 0, scale, torch.ones_like(scale))
        small = (values / scale).clamp(-largest, largest).to(torch.float8_e4m3fn)
        return torch.cat([small.view(torch.uint8), scale.view(torch.uint8)], dim=1)

    def unpacked(records: Any) -> Any:
        small = records[:, :part].contiguous().view(torch.float8_e4m3fn).float()
        return small * records[:, part:].contiguous().view(torch.float32)

    padded = torch.zeros(ranks * part, dtype=torch.float32, device=gradients.device)
    padded[: gradients.numel()].copy_(gradients)
    mine = packed(padded.view(ranks, part)).contiguous()
    parts = torch.empty_like(mine)

    def average(_: Any) -> Any:
        total = torch.zeros(part, dtype=torch.float32, device=gradients.device)
        for of_rank in unpacked(parts):
            total += of_rank
        dist.all_gather_into_tensor(mine.view(-1), packed((total / ranks).view(1, part)).view(-1), group=group)
        return gradients.copy_(unpacked(mine).view(-1)[: gradients.numel()])

    return dist.all_to_all_single(parts.view(-1), mine.view(-1), group=group, async_op=True).get_future().then(average)


class TopK:
    """The state of topk_hook: which share of a bucket's gradients travels, and what has not travelled yet.

    share: above 0, at most 1. group: the default group unless given. Errors: ValueError, for another share.
    """

    def __init__(self, share: float, group: Any = None) -> None:
        if not 0 < share <= 1:
            raise ValueError(f"weft: a share of the gradients is above 0 and at most 1, not {share}")
        self.share = share
        self.group = group
        self.errors: dict[int, Any] = {}


def topk_hook(state: TopK, bucket: Any) -> Any:
    """A DDP communication hook: each rank sends its largest gradients with their indices; the rest waits (error feedback).

    model.register_comm_hook(weftcomm_torch.TopK(0.01), weftcomm_torch.topk_hook). The model of it: weft train
    --compress topk:1%.
    """
    import torch
    import torch.distributed as dist

    group = dist.group.WORLD if state.group is None else state.group
    ranks = dist.get_world_size(group)
    gradients = bucket.buffer()
    wanted = gradients.float()
    waiting = state.errors.get(bucket.index())
    if waiting is not None and waiting.numel() == wanted.numel():  # DDP makes its buckets anew after the first step
        wanted = wanted + waiting
    count = max(1, round(state.share * wanted.numel()))
    indices = wanted.abs().topk(count, sorted=False).indices
    values = wanted[indices]
    error = wanted.clone()
    error[indices] = 0
    state.errors[bucket.index()] = error
    mine = torch.cat([values.view(torch.int32), indices.int()])
    everyones = torch.empty(ranks * mine.numel(), dtype=torch.int32, device=gradients.device)

    def average(_: Any) -> Any:
        total = torch.zeros_like(wanted)
        for of_rank in everyones.view(ranks, 2 * count):  # in the order of the ranks: every run gives the same bits
            total.index_add_(0, of_rank[count:].long(), of_rank[:count].contiguous().view(torch.float32))
        return gradients.copy_(total / ranks)

    return dist.all_gather_into_tensor(everyones, mine, group=group, async_op=True).get_future().then(average)


# DDP wants either its own class as an annotation, which only `import torch` gives, or none.
for _hook in (bf16_sum_hook, fp8_sum_hook, topk_hook):
    _hook.__annotations__.clear()
