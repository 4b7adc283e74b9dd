"""Expert parallelism on the CPU: tokens go to the ranks that hold their experts (`dispatch`) and come back (`combine`).

    rows, routing = experts.dispatch(tokens, chosen, owners)     # tokens [T, H], chosen [T, K]: expert numbers, -1: none
    outputs = torch.cat([expert(part) for expert, part in zip(mine, rows.split(routing.counts))])
    result = experts.combine(outputs, routing, weights)          # [T, H]: the sum over K of weight times output

A token travels once to each rank that has experts of it. Counts travel once: what comes back, and both ways of backward(),
know them. All ranks of the group call both, like collectives; the numbers of tokens may differ, and may be 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist

__all__ = ["Routing", "combine", "dispatch", "owners"]


@dataclass(frozen=True)
class Routing:
    """Where the rows of a dispatch have come from; combine() takes it."""

    counts: list[int]  # rows of each expert of this rank, in the order of their numbers
    experts: list[int]  # their numbers
    _group: Any
    _shape: tuple[int, int]  # of `chosen`
    _slots: torch.Tensor  # token times K plus place: of every row that comes back, in its order
    _back: torch.Tensor  # the row of an expert, of every row that goes back
    _sent: list[int]  # rows that come back from each rank
    _received: list[int]  # rows that go back to each rank


def owners(experts: int, group: Any = None, lost: tuple[int, ...] = (), size: int | None = None) -> torch.Tensor:
    """The rank of every expert: equal blocks of `experts` over `size` ranks (the group's unless given).

    lost: of these `size` ranks, those that are gone; their experts get -1, and the others' ranks are those of a group
    without them. Errors: ValueError.
    """
    ranks = (dist.get_world_size(group) if size is None else size)
    if experts < 1 or experts % ranks != 0:
        raise ValueError(f"weft: {experts} experts cannot be shared out evenly among {ranks} ranks")
    wrong = [r for r in lost if not 0 <= r < ranks]
    if wrong:
        raise ValueError(f"weft: rank {wrong[0]}, said to be lost, is not one of {ranks}")
    now = iter(range(ranks))
    of_rank = [-1 if r in lost else next(now) for r in range(ranks)]
    return torch.tensor(of_rank).repeat_interleave(experts // ranks)


def dispatch(
    tokens: torch.Tensor, chosen: torch.Tensor, owners: torch.Tensor | Sequence[int], group: Any = None
) -> tuple[torch.Tensor, Routing]:
    """The rows that the experts of this rank are to work on, ordered by expert, then by source rank and token.

    chosen: expert numbers, -1 for none. owners: the rank of every expert; -1: lost, and its tokens go nowhere. Errors:
    ValueError; DistBackendError, as of any collective.
    """
    n, me = dist.get_world_size(group), dist.get_rank(group)
    owners = _ranks_of_experts(owners)
    _check(tokens, chosen, owners, n)
    places = chosen.shape[1]
    rank_of = torch.where(chosen >= 0, owners[chosen.clamp(min=0)], -1)  # [T, K]
    wanted = torch.stack([(rank_of == r).any(dim=1) for r in range(n)])  # [ranks, T]
    to, token = wanted.nonzero(as_tuple=True)  # ordered by rank, then by token
    rows = wanted.sum(dim=1).tolist()
    # Says for every row which experts want it there, by place.
    asked = torch.where(rank_of[token] == to[:, None], chosen[token], -1)  # [rows, K]
    back = (asked >= 0).nonzero(as_tuple=False)  # what comes back: ordered by rank, token, place
    returned = torch.zeros(n, dtype=torch.int64).index_add_(0, to[back[:, 0]], torch.ones(len(back), dtype=torch.int64))
    counts = torch.stack([torch.tensor(rows, dtype=torch.int64), returned], dim=1)
    counts_here = torch.empty_like(counts)
    dist.all_to_all_single(counts_here, counts, group=group)
    received, goes_back = counts_here[:, 0].tolist(), counts_here[:, 1].tolist()
    asked_here = torch.empty(sum(received), places, dtype=torch.int64)
    dist.all_to_all_single(asked_here, asked, received, rows, group=group)
    there = _exchange(tokens.index_select(0, token), rows, received, group)
    pairs = (asked_here >= 0).nonzero(as_tuple=False)  # ordered as what goes back
    numbers = asked_here[pairs[:, 0], pairs[:, 1]]
    order = numbers.argsort(stable=True)
    own = (owners == me).nonzero(as_tuple=True)[0].tolist()
    if not set(numbers.tolist()) <= set(own):
        raise ValueError("weft: ranks disagree on the owners of experts")
    every = torch.bincount(numbers, minlength=len(owners)).tolist()
    position = torch.empty_like(order)
    position[order] = torch.arange(len(order))
    routing = Routing([every[e] for e in own], own, group, (chosen.shape[0], places), token[back[:, 0]] * places + back[:, 1],
                      position, returned.tolist(), goes_back)  # fmt: skip
    return there.index_select(0, pairs[order, 0]), routing


def combine(outputs: torch.Tensor, routing: Routing, weights: torch.Tensor) -> torch.Tensor:
    """Every token's sum over its experts of weight times output, added in the order of `chosen`; on the tokens' rank.

    weights: as `chosen`; of an expert that is -1 or lost its weight counts for nothing. Errors: ValueError.
    """
    tokens, places = routing._shape
    if tuple(weights.shape) != routing._shape:
        raise ValueError(f"weft: weights are {list(weights.shape)}, but dispatch() was called with {list(routing._shape)} choices")
    if outputs.dim() != 2 or len(outputs) != len(routing._back):
        raise ValueError(f"weft: the experts' output has shape {list(outputs.shape)}; {len(routing._back)} rows were dispatched here")
    came = _exchange(outputs.index_select(0, routing._back), routing._received, routing._sent, routing._group)
    by_place = came.new_zeros(tokens * places, outputs.shape[1]).index_copy(0, routing._slots, came)
    by_place = by_place.view(tokens, places, outputs.shape[1])
    result: torch.Tensor = by_place[:, 0] * weights[:, 0, None]
    for k in range(1, places):
        result = result + by_place[:, k] * weights[:, k, None]
    return result


def _exchange(rows: torch.Tensor, send: list[int], receive: list[int], group: Any) -> torch.Tensor:
    got: torch.Tensor = _Exchange.apply(rows, send, receive, group)  # type: ignore[no-untyped-call]
    return got


class _Exchange(torch.autograd.Function):
    """Rows to other ranks, and their gradients back, by counts that all know."""

    @staticmethod
    def forward(ctx: Any, rows: torch.Tensor, send: list[int], receive: list[int], group: Any) -> torch.Tensor:
        ctx.way = send, receive, group
        got = rows.new_empty(sum(receive), rows.shape[1])
        dist.all_to_all_single(got, rows.contiguous(), receive, send, group=group)
        return got

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        send, receive, group = ctx.way
        return _exchange(gradients[0], receive, send, group), None, None, None


def _ranks_of_experts(owners: Any) -> torch.Tensor:
    try:
        return torch.as_tensor(owners)
    except (TypeError, ValueError, RuntimeError) as problem:
        raise ValueError(f"weft: owners is a tensor or a list of ranks, not {type(owners).__name__}: {problem}") from problem


def _check(tokens: torch.Tensor, chosen: torch.Tensor, owners: torch.Tensor, ranks: int) -> None:
    for name, given in (("tokens", tokens), ("chosen", chosen)):
        if not isinstance(given, torch.Tensor):
            raise ValueError(f"weft: {name} is a tensor, not {type(given).__name__}")
    if tokens.dim() != 2:
        raise ValueError(f"weft: tokens are a matrix, not {list(tokens.shape)}")
    if chosen.dim() != 2 or len(chosen) != len(tokens) or chosen.shape[1] < 1 or chosen.dtype != torch.int64:
        raise ValueError(f"weft: chosen is [{len(tokens)}, K] of int64, not {list(chosen.shape)} of {chosen.dtype}")
    if owners.dim() != 1 or owners.dtype != torch.int64 or (len(owners) > 0 and not -1 <= int(owners.min()) <= int(owners.max()) < ranks):
        raise ValueError(f"weft: owners has a rank of the group of {ranks}, or -1, for every expert")
    if chosen.numel() > 0 and not -1 <= int(chosen.min()) <= int(chosen.max()) < len(owners):
        raise ValueError(f"weft: expert {int(chosen.max())} is not one of {len(owners)}")
