"""A model that every member has: DistributedDataParallel whose buckets are summed over the members, and again from what
was kept when a member is lost."""

from __future__ import annotations

import atexit
import queue
import threading
import time
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist

from ._members import Members


class _Thread:
    """Runs calls one after the other; what they raise is raised where they are waited for. It does not keep a program alive."""

    def __init__(self) -> None:
        self._calls: queue.SimpleQueue[tuple[Callable[[], Any], torch.futures.Future[Any]] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, daemon=True, name="weft elastic")
        self._thread.start()
        atexit.register(self._end)

    def _end(self) -> None:
        """A thread that comes back from a future while Python ends would end the process with it."""
        self._calls.put(None)
        self._thread.join(timeout=5)

    def start(self, call: Callable[[], Any]) -> torch.futures.Future[Any]:
        future: torch.futures.Future[Any] = torch.futures.Future()
        self._calls.put((call, future))
        return future

    def _run(self) -> None:
        while (given := self._calls.get()) is not None:
            call, future = given
            try:
                future.set_result(call())
            except BaseException as problem:
                future.set_exception(problem)
            del call, future, given


class _Bucket:
    """A bucket of this step: its input, which is kept until all members have all sums, and its average."""

    def __init__(self, index: int, kept: torch.Tensor, parts: list[tuple[torch.nn.Parameter, int]]) -> None:
        self.index, self.kept, self.parts = index, kept, parts
        self.average = torch.empty_like(kept)
        self.handed_over = False  # DDP may have copied an average that a loss has made void
        self.renewed = False


class Replicated(torch.nn.Module):
    """Made by `Members.ddp`. Its gradients are the averages over the members after `Members.commit`, and not before."""

    _wrapped: Any  # DDP

    def __init__(self, members: Members, module: torch.nn.Module, options: dict[str, Any]) -> None:
        super().__init__()
        self.module = module
        self._members, self._options = members, options
        self._kept: list[_Bucket] = []
        self._thread = _Thread()
        self._group = _alone()
        self._made_in = -1  # the step
        self._wrap()

    def _wrap(self) -> None:
        """DDP over a group of this process alone: the members may change without it."""
        ddp = torch.nn.parallel.DistributedDataParallel(self.module, process_group=self._group, **self._options)
        ddp.register_comm_hook(self, _hook)
        object.__setattr__(self, "_wrapped", ddp)  # no submodule: its parameters are the module's
        self._stale = False

    def begin_anew(self) -> None:
        """Buckets are cut again at the next step, as a newcomer's, unless they were in this one."""
        self._stale = self._made_in != self._members.step

    def forward(self, *values: Any, **named: Any) -> Any:
        if self._stale:
            self._wrap()
            self._made_in = self._members.step
        return self._wrapped(*values, **named)

    def no_sync(self) -> Any:
        """A context in which backward() only adds up gradients, as DDP's."""
        return self._wrapped.no_sync()

    def gradients_of(self, bucket: Any) -> torch.futures.Future[torch.Tensor]:
        buffer = bucket.buffer()
        if any(known.index == bucket.index() for known in self._kept):
            raise RuntimeError("weftcomm_torch.elastic: a second backward() in one step; let all but the last run under no_sync()")
        starts = [part.storage_offset() - buffer.storage_offset() for part in bucket.gradients()]
        kept = buffer.clone() if self._options.get("gradient_as_bucket_view") else buffer
        entry = _Bucket(bucket.index(), kept, list(zip(bucket.parameters(), starts)))
        self._kept.append(entry)
        return self._thread.start(lambda: self._first(entry))

    def _first(self, entry: _Bucket) -> torch.Tensor:
        try:
            self._average(entry)
        except dist.DistBackendError as problem:
            self._again(f"bucket {entry.index}", problem, entry)
        entry.handed_over = True
        return entry.average

    def _average(self, entry: _Bucket) -> None:
        torch.mul(entry.kept, 1.0 / self._members.size, out=entry.average)  # as DDP without a hook
        dist.all_reduce(entry.average)

    def _again(self, at: str, problem: BaseException | None, last: _Bucket | None) -> None:
        """The step's buckets up to `last` (None: all) anew, with the members that are left."""
        said_no = problem is None
        while True:
            if not said_no:
                self._members.recover(at, problem)
            began = time.monotonic()
            try:
                for entry in self._kept:
                    self._average(entry)
                    entry.renewed = entry.handed_over
                    if entry is last:
                        break
                self._members.redone(time.monotonic() - began)
                return
            except dist.DistBackendError as again:
                problem, said_no = again, False

    def commit(self) -> None:
        """Returns when all members have all averages in their gradients."""
        self._thread.start(self._agree).wait()
        for entry in self._kept:
            if entry.renewed:
                for parameter, start in entry.parts:
                    if parameter.grad is not None:
                        parameter.grad.copy_(entry.average[start : start + parameter.numel()].view_as(parameter))
        self._kept.clear()

    def _agree(self) -> None:
        while not self._members.agree(True, "the step's end"):
            self._again("the step's end", None, None)


def _hook(model: Replicated, bucket: Any) -> torch.futures.Future[torch.Tensor]:
    return model.gradients_of(bucket)


_hook.__annotations__.clear()  # DDP takes its own class as an annotation, or none


class Copies:
    """The state of a replicated model: what any member has."""

    ready = False

    def __init__(self, model: Replicated | None, more: dict[str, Any]) -> None:
        self._model, self._more = model, more

    def restore(self, members: Members, have: list[bool]) -> None:
        if not all(have):
            source = have.index(True)
            mine = {name: kept.state_dict() for name, kept in self._more.items()} if members.rank == source else None
            everything = members.broadcast(mine, source)
            if not self.ready:
                for name, kept in self._more.items():
                    kept.load_state_dict(everything[name])
            if self._model is not None:
                self._model.begin_anew()

    def adopt(self) -> None:
        self.ready = True


def _alone() -> dist.ProcessGroup:
    """A process group of this process only, which torch.distributed does not list."""
    from torch._C._distributed_c10d import HashStore

    from .. import _compiled

    store = HashStore()
    backend = _compiled().join(store, 0, 1, _compiled().Options())
    group = dist.ProcessGroup(store, 0, 1)
    custom = dist.ProcessGroup.BackendType.CUSTOM
    group._set_default_backend(custom)
    group._register_backend(torch.device("cpu"), custom, backend)
    return group
