"""DistributedDataParallel's reducer in Python: torch's own reads the contents of tensors, which a rehearsal has not."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist

MIB = 1024 * 1024
FIND_UNUSED = 2  # the place of find_unused_parameters behind the process group


class Bucket:
    """What a communication hook gets: the part of dist.GradBucket that hooks use."""

    def __init__(self, index: int, parameters: list[Any], last: bool) -> None:
        self._index, self._parameters, self._last = index, parameters, last
        first = parameters[0]
        self._buffer = torch.empty(sum(p.numel() for p in parameters), dtype=first.dtype, device=first.device)
        self.missing = len(parameters)

    def index(self) -> int:
        return self._index

    def is_last(self) -> bool:
        return self._last

    def buffer(self) -> torch.Tensor:
        return self._buffer

    def set_buffer(self, buffer: torch.Tensor) -> None:
        self._buffer = buffer

    def parameters(self) -> list[Any]:
        return self._parameters

    def gradients(self) -> list[Any]:
        return list(self._buffer.split([p.numel() for p in self._parameters]))


class Reducer:
    """Buckets in the order in which DDP expects gradients, reduced as soon as they are full. Thread: autograd's."""

    def __init__(self, parameters: Any, buckets: Any, limits: Any, group: Any, *rest: Any, **options: Any) -> None:
        self._group = group
        self._finds_unused = bool(rest[FIND_UNUSED]) if len(rest) > FIND_UNUSED else False
        self._unfinished = False  # a backward pass left parameters out, and did not look for such
        parameters = list(parameters)
        order = [list(bucket) for bucket in buckets]  # in the order in which they become ready
        self._buckets = [Bucket(i, [parameters[p] for p in b], i + 1 == len(order)) for i, b in enumerate(order)]
        self._hook: Any = None
        self._reducing = False  # from a forward pass with synchronisation to the end of its backward pass
        self._works: list[tuple[Bucket, Any]] = []
        self._queued = False
        self._next = 0
        self._handles = [
            p.register_post_accumulate_grad_hook(self._arrival(bucket))
            for bucket in self._buckets
            for p in bucket.parameters()
        ]

    def _arrival(self, bucket: Bucket) -> Any:
        def arrived(_: Any) -> None:
            if not self._reducing:
                return
            if not self._queued:
                self._queued = True
                torch.autograd.Variable._execution_engine.queue_callback(self._finish)
            bucket.missing -= 1
            while self._next < len(self._buckets) and self._buckets[self._next].missing <= 0:
                self._start(self._buckets[self._next])
                self._next += 1

        return arrived

    def _start(self, bucket: Bucket) -> None:
        self._copy(bucket, into_bucket=True)
        if self._hook is None:
            bucket.buffer().div_(self._group.size())
            work = self._group.allreduce([bucket.buffer()])
        else:
            work = self._hook(bucket)
        self._works.append((bucket, work))

    @staticmethod
    def _copy(bucket: Bucket, into_bucket: bool) -> None:
        """Gradients into their bucket or back; unused parameters have none."""
        pairs = [(v, p.grad) for v, p in zip(bucket.gradients(), bucket.parameters(), strict=True) if p.grad is not None]
        if pairs:
            parts, gradients = [v.view_as(g) for v, g in pairs], [g for _, g in pairs]
            torch._foreach_copy_(*((parts, gradients) if into_bucket else (gradients, parts)))

    def _finish(self) -> None:
        """At the end of the backward pass: what is left, then a wait for each bucket in order. Without
        find_unused_parameters a bucket that lacks a gradient is never reduced, and nothing is waited for."""
        if self._next < len(self._buckets) and not self._finds_unused:
            self._unfinished = True
            self._works, self._next, self._queued, self._reducing = [], 0, False, False
            return
        for bucket in self._buckets[self._next :]:
            self._start(bucket)  # of unused parameters
        for bucket, work in self._works:
            work.wait()
            self._copy(bucket, into_bucket=False)
        for bucket in self._buckets:
            bucket.missing = len(bucket.parameters())
        self._works, self._next, self._queued, self._reducing = [], 0, False, False

    def _register_comm_hook(self, state: Any, hook: Any) -> None:
        self._hook = lambda bucket: hook(state, bucket)

    def _register_builtin_comm_hook(self, _: Any) -> None:
        self._hook = None

    def _set_static_graph(self) -> None:
        self._finds_unused = True  # in the first backward pass, for all

    def prepare_for_forward(self) -> None:
        if self._unfinished:
            raise RuntimeError(
                "Expected to have finished reduction in the prior iteration before starting a new one: parameters of the "
                "module were not used in producing loss (find_unused_parameters=True looks for them)"
            )

    def prepare_for_backward(self, _: Any) -> None:
        self._reducing = True

    def _rebuild_buckets(self) -> bool:
        return False

    def _remove_autograd_hooks(self) -> None:
        for handle in self._handles:
            handle.remove()

    def __getattr__(self, name: str) -> Any:
        """Statistics, loggers and the like, which change no call."""
        if name.startswith("__"):
            raise AttributeError(name)
        return lambda *_, **__: None


class Logger:
    def __init__(self, *_: Any) -> None:
        pass

    def __getattr__(self, name: str) -> Any:
        return lambda *_, **__: None


def install_reducer() -> None:
    import torch.nn.parallel.distributed as parallel

    dist.Reducer, dist.Logger = Reducer, Logger  # type: ignore[misc,assignment]
    # Shapes are compared by `weft rehearse`, from what the ranks broadcast.
    parallel._verify_param_shape_across_processes = lambda *_, **__: True  # type: ignore[assignment]
