"""A model whose parameters `fully_shard` has cut into a shard per member. The next member keeps a copy of each shard with
its optimizer's state, gets the shard's gradients before a step ends, and makes the same update: so the copy is always that
of the last finished step, and a lost member's shard is there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.tensor import DTensor

from ._members import Lost, Members


class _Cut:
    """A model that is cut over some members, with the optimizer, and the copy of the shards of the member before."""

    def __init__(self, owner: Sharded, members: tuple[int, ...], rank: int) -> None:
        self.members, self.rank = members, rank
        self.mesh = init_device_mesh("cpu", (len(members),))
        self.model = owner.make_model(self.mesh)
        self.parameters: list[Any] = [p for p in self.model.parameters() if p.requires_grad]
        for p in self.parameters:
            if not isinstance(p, DTensor) or not p.placements[0].is_shard(0):
                raise ValueError("weftcomm_torch.elastic: every parameter is to be cut along axis 0 by fully_shard(mesh=mesh)")
        self.optimizer = owner.make_optimizer(self.parameters)
        before = (rank - 1) % len(members)
        self.copies = [torch.nn.Parameter(self.rows(p, before).clone()) for p in map(_zeros, self.parameters)]
        self.copies_optimizer = owner.make_optimizer(self.copies)

    def rows(self, full: torch.Tensor, rank: int) -> torch.Tensor:
        """The rows of a whole tensor that are a rank's, cut as torch.chunk does."""
        return _rows(full, len(self.members), rank)


class Sharded:
    """Made by `Elastic.sharded`. `model` and `optimizer` are new objects after every change of the members."""

    ready = False

    def __init__(self, members: Members, make_model: Callable[[DeviceMesh], Any],
                 make_optimizer: Callable[[Any], torch.optim.Optimizer]) -> None:  # fmt: skip
        self.make_model, self.make_optimizer = make_model, make_optimizer
        self._members = members
        self._now: _Cut | None = None
        self._next: _Cut | None = None

    @property
    def model(self) -> torch.nn.Module:
        model: torch.nn.Module = self._cut().model
        return model

    @property
    def optimizer(self) -> torch.optim.Optimizer:
        return self._cut().optimizer

    def _cut(self) -> _Cut:
        if self._now is None:
            raise RuntimeError("weftcomm_torch.elastic: a sharded model is there from the first step on")
        return self._now

    def step(self, loss: Callable[[torch.nn.Module], torch.Tensor], before: Callable[[torch.nn.Module], object] | None = None) -> torch.Tensor:
        """One step: forward and backward of `loss(model)`, and the optimizer's, once all members have all gradients.

        When a member is lost the rest do all of it again. before: called with the model in between, for what changes gradients.
        Errors: DistBackendError; Lost: a member and the next were lost at once.
        """
        while True:
            value, done = None, True
            try:
                self.optimizer.zero_grad()
                value = loss(self.model)
                value.backward()  # type: ignore[no-untyped-call]
                if before is not None:
                    before(self.model)
                self._send_gradients()
            except dist.DistBackendError as problem:
                done, value = False, None
                self._members.recover("forward or backward", problem)
            if done and self._members.agree(True, "the step's end"):
                break
        cut = self._cut()
        for own, copy in zip(cut.optimizer.param_groups, cut.copies_optimizer.param_groups):
            copy.update({key: setting for key, setting in own.items() if key != "params"})  # a schedule may have changed it
        cut.optimizer.step()
        cut.copies_optimizer.step()
        self._members.step += 1
        assert value is not None
        return value.detach()

    def _send_gradients(self) -> None:
        """This member's gradients to the next member, and those of the one before to its copies here."""
        cut = self._cut()
        n = len(cut.members)
        if n == 1:
            return
        mine = [p.grad.to_local() if p.grad is not None else torch.zeros_like(p.to_local()) for p in cut.parameters]
        for kind in {g.dtype for g in mine}:
            out = torch.cat([g.reshape(-1) for g in mine if g.dtype == kind])
            into = [c for c in cut.copies if c.dtype == kind]
            got = torch.empty(sum(c.numel() for c in into), dtype=kind)
            send, receive = [0] * n, [0] * n
            send[(cut.rank + 1) % n], receive[(cut.rank - 1) % n] = out.numel(), got.numel()
            dist.all_to_all_single(got, out, receive, send)
            for copy, gradient in zip(into, torch.split(got, [c.numel() for c in into])):
                copy.grad = gradient.view_as(copy)
        for copy, p in zip(cut.copies, cut.parameters):
            if p.grad is None:  # on all members alike
                copy.grad = None

    # --- after a change of the members ---

    def restore(self, members: Members, have: list[bool]) -> None:
        """Cuts the state anew over the members. Errors: DistBackendError; Lost."""
        old = self._now
        new = _Cut(self, members.members, members.rank)
        if not self._founded(members, have):
            start = [p.full_tensor() for p in new.parameters]  # what make_model made, the same for all: of rank 0
            for full, p, copy in zip(start, new.parameters, new.copies):
                dist.broadcast(full, have.index(True))
                self._put(new, full, p, copy)
        else:
            source = have.index(True)
            layout = tuple(members.broadcast(list(old.members) if old and members.rank == source else None, source))
            self._move(members, old if self.ready else None, new, layout, source)
        self._next = new

    def adopt(self) -> None:
        self._now, self._next, self.ready = self._next, None, True

    def _founded(self, members: Members, have: list[bool]) -> bool:
        """Has any member a state that has been cut?"""
        cut = torch.tensor([int(self._now is not None)])
        dist.all_reduce(cut, dist.ReduceOp.MAX)
        return bool(cut)

    @staticmethod
    def _put(new: _Cut, full: torch.Tensor, p: Any, copy: torch.Tensor) -> None:
        with torch.no_grad():
            p.to_local().copy_(new.rows(full, new.rank))
            copy.copy_(new.rows(full, (new.rank - 1) % len(new.members)))

    def _move(self, members: Members, old: _Cut | None, new: _Cut, layout: tuple[int, ...], source: int) -> None:
        pieces = _sources(layout, members.members)
        kinds = members.broadcast(self._kinds(old) if members.rank == source else None, source)
        for i, (p, copy) in enumerate(zip(new.parameters, new.copies)):
            held: Any = (old.parameters[i].to_local(), old.copies[i]) if old else None
            self._put(new, _whole(p.shape, p.dtype, held, old, pieces, members.rank), p, copy)
            for key, value in kinds[i].items():
                if value is None:  # as the parameter is
                    held = _states(old, i, key)
                    full = _whole(p.shape, p.dtype, held, old, pieces, members.rank)
                    local = new.rows(full, new.rank).clone()
                    own: Any = DTensor.from_local(local, new.mesh, p.placements, run_check=False, shape=p.shape, stride=p.stride())
                    other = new.rows(full, (new.rank - 1) % len(new.members)).clone()
                else:
                    own, other = _same(value), _same(value)
                new.optimizer.state[p][key] = own
                new.copies_optimizer.state[copy][key] = other
        settings = members.broadcast(
            [{k: v for k, v in g.items() if k != "params"} for g in old.optimizer.param_groups] if old and members.rank == source else None, source
        )
        for optimizer in (new.optimizer, new.copies_optimizer):
            for group, setting in zip(optimizer.param_groups, settings):
                group.update(setting)

    @staticmethod
    def _kinds(old: _Cut | None) -> list[dict[str, Any]] | None:
        """Of every parameter: the names of its optimizer's states; with the value where it is not cut as the parameter is."""
        if old is None:
            return None
        return [
            {key: None if isinstance(s, DTensor) and s.shape == p.shape else s for key, s in old.optimizer.state.get(p, {}).items()}
            for p in old.parameters
        ]  # fmt: skip


def _zeros(p: DTensor) -> torch.Tensor:
    return torch.zeros(p.shape, dtype=p.dtype)


def _same(value: Any) -> Any:
    return value.clone() if isinstance(value, torch.Tensor) else value


def _rows(full: torch.Tensor, parts: int, rank: int) -> torch.Tensor:
    chunks = full.chunk(parts, dim=0)
    return chunks[rank] if rank < len(chunks) else full[:0]


def _sources(layout: tuple[int, ...], now: tuple[int, ...]) -> list[tuple[int, bool]]:
    """For every rank of the old layout: the rank that has its shard now, and whether that is the copy. Errors: Lost."""
    found = []
    for rank, member in enumerate(layout):
        after = layout[(rank + 1) % len(layout)]
        if member in now:
            found.append((now.index(member), False))
        elif after in now:
            found.append((now.index(after), True))
        else:
            raise Lost(f"weftcomm_torch.elastic: members {member} and {after}, which had the copy of its shard, were lost at once")
    return found


def _states(old: _Cut | None, i: int, key: str) -> tuple[torch.Tensor, torch.Tensor] | None:
    if old is None:
        return None
    return old.optimizer.state[old.parameters[i]][key].to_local(), old.copies_optimizer.state[old.copies[i]].get(key, torch.empty(0))


def _whole(shape: torch.Size, kind: torch.dtype, held: tuple[torch.Tensor, torch.Tensor] | None, old: _Cut | None,
           pieces: list[tuple[int, bool]], rank: int) -> torch.Tensor:  # fmt: skip
    """A whole tensor of the shards that the members have. Errors: DistBackendError."""
    n = len(pieces)
    rows = [_rows(torch.empty(shape, device="meta"), n, r).shape[0] for r in range(n)]
    width = 1
    for size in shape[1:]:
        width *= size
    parts: list[list[torch.Tensor]] = [[] for _ in range(dist.get_world_size())]
    for (holder, of_copy), count in zip(pieces, rows):
        into = torch.empty(count * width, dtype=kind)
        if holder == rank and held is not None:
            into = held[int(of_copy)].detach().reshape(-1).contiguous()
        parts[holder].append(into)
    mine = torch.cat(parts[rank]) if parts[rank] else torch.empty(0, dtype=kind)
    gathered = [torch.empty(sum(p.numel() for p in of_rank), dtype=kind) for of_rank in parts]
    dist.all_gather(gathered, mine)
    at = [0] * len(parts)
    whole = []
    for (holder, _), count in zip(pieces, rows):
        whole.append(gathered[holder][at[holder] : at[holder] + count * width])
        at[holder] += count * width
    return torch.cat(whole).view(shape)
