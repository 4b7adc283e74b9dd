"""A process group that records every call instead of communicating."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from torch.utils._pytree import tree_leaves

# Types by weft's names; others keep torch's.
TYPES = {
    torch.float32: "float",
    torch.float64: "double",
    torch.float16: "half",
    torch.bfloat16: "bfloat16",
    torch.int8: "int8",
    torch.uint8: "uint8",
    torch.int32: "int32",
    torch.int64: "int64",
    torch.float8_e4m3fn: "fp8_e4m3",
    torch.float8_e5m2: "fp8_e5m2",
}
REDUCTIONS = {"SUM": "sum", "AVG": "avg", "PRODUCT": "prod", "MIN": "min", "MAX": "max"}


def type_name(dtype: torch.dtype) -> str:
    return TYPES.get(dtype, str(dtype).removeprefix("torch."))


def reduction_name(op: Any) -> str:
    """"sum" of ReduceOp.SUM, of its object form and of functional collectives' strings."""
    text = op if isinstance(op, str) else str(getattr(op, "op", op))
    text = text.rsplit(".", 1)[-1].rstrip(">").split(":")[0]
    return REDUCTIONS.get(text.upper(), text.lower())


def numel(tensors: Any) -> int:
    """Elements of a tensor or of all tensors of nested lists."""
    if isinstance(tensors, torch.Tensor):
        return int(tensors.numel())
    return sum(numel(each) for each in tensors or ())


def first(tensors: Any) -> torch.Tensor:
    while not isinstance(tensors, torch.Tensor):
        tensors = tensors[0]
    return tensors


class RecordedFuture(torch.futures.Future):
    """A future of a recorded call: complete at once; a wait for it is recorded."""

    def wait(self) -> Any:
        work: Work | None = getattr(self, "work", None)
        if work is not None:
            work.wait()
        return super().wait()

    def then(self, callback: Any) -> Any:
        """What a communication hook returns: the wait for it is the wait for the call."""
        after = RecordedFuture()
        after.work = getattr(self, "work", None)  # type: ignore[attr-defined]
        after.set_result(callback(self))
        return after


class Work(dist.Work):
    """A call whose result is there; wait() is an event of the current stream, or of the host for tensors of the CPU."""

    def __init__(self, record: Any, ids: list[int], tensors: Any, host: bool) -> None:
        super().__init__()
        self._record, self._ids, self._tensors, self._host = record, ids, tensors, host

    def wait(self, timeout: Any = None) -> bool:
        for number in self._ids:
            self._record.write(
                kind="wait", id=number, stream=self._record.stream, host=self._host, line=self._record.line()
            )
        return True

    def synchronize(self) -> None:
        self.wait()

    def is_completed(self) -> bool:
        return True

    def is_success(self) -> bool:
        return True

    def result(self) -> Any:
        return self._tensors

    def get_future(self) -> Any:
        future = RecordedFuture()
        future.work = self  # type: ignore[attr-defined]
        future.set_result(self._tensors)
        return future


class Group(dist.ProcessGroup):
    """`number`: of the group in this rank's record; `ranks`: its members as ranks of the job; `devices`: those whose
    tensors its back ends take."""

    def __init__(self, record: Any, number: int, ranks: list[int], rank: int, name: str, devices: Any) -> None:
        super().__init__(rank, len(ranks))
        self._record, self._number, self._ranks, self._rank, self._name = record, number, ranks, rank, name
        self._batch = 0
        self._devices = devices

    @property
    def _device_types(self) -> Any:
        return self._devices

    def size(self) -> int:
        return len(self._ranks)

    def rank(self) -> int:
        return self._rank

    def name(self) -> str:
        return "rehearsal"

    def getBackendName(self) -> str:  # noqa: N802 (torch's name)
        return "rehearsal"

    @property
    def group_name(self) -> str:
        return self._name

    @property
    def pg_name(self) -> str:
        return self._name

    def __repr__(self) -> str:
        return f"rehearsed group of ranks {self._ranks}"

    def record_call(self, op: str, tensors: Any, count: int, size: int, **more: Any) -> tuple[int, bool]:
        """Writes a call of `count` elements per rank whose larger side has `size` elements; its id, and whether the
        host itself waits for it."""
        tensor = first(tensors) if tensors is not None else None
        host = tensor is None or tensor.device.type == "cpu"
        if tensor is not None and tensor.device.type not in (d.type for d in self._devices):
            raise RuntimeError(f"No backend type associated with device type {tensor.device.type}")
        for each in tree_leaves(tensors):
            if isinstance(each, torch.Tensor):
                each.known = None  # type: ignore[attr-defined]  # nobody knows what other ranks bring
        number = self._record.next_id()
        self._record.write(
            kind="call",
            id=number,
            op=op,
            group=self._number,
            count=count,
            type=type_name(tensor.dtype) if tensor is not None else "",
            bytes=size * tensor.element_size() if tensor is not None else 0,
            stream=self._record.stream,
            host=host,
            line=self._record.line(),
            **more,
        )
        return number, host

    def _call(self, op: str, tensors: Any, count: int, size: int, result: Any = None, **more: Any) -> Work:
        number, host = self.record_call(op, tensors, count, size, **more)
        return Work(self._record, [number], tensors if result is None else result, host)

    def allreduce(self, tensors: Any, opts: Any = None) -> Work:
        tensors = [tensors] if isinstance(tensors, torch.Tensor) else tensors
        op = opts.reduceOp if hasattr(opts, "reduceOp") else opts if opts is not None else dist.ReduceOp.SUM
        n = numel(tensors)
        return self._call("all_reduce", tensors, n, n, reduce=reduction_name(op))

    def allreduce_coalesced(self, tensors: Any, opts: Any = None) -> Work:
        return self.allreduce(tensors, opts)

    def broadcast(self, tensors: Any, opts: Any = None, *_: Any) -> Work:
        tensors = [tensors] if isinstance(tensors, torch.Tensor) else tensors
        root = opts if isinstance(opts, int) else opts.rootRank if opts is not None else 0
        n = numel(tensors)
        return self._call("broadcast", tensors, n, n, root=self._ranks[root])

    def reduce(self, tensors: Any, opts: Any = None) -> Work:
        n = numel(tensors)
        root, op = self._ranks[opts.rootRank], reduction_name(opts.reduceOp)
        return self._call("reduce", tensors, n, n, root=root, reduce=op)

    def _gathered(self, outputs: Any, inputs: Any) -> Work:
        parts = outputs[0] if isinstance(outputs, list) and outputs and isinstance(outputs[0], list) else []
        sizes = [numel(part) for part in parts]
        if len(set(sizes)) > 1 and sizes[self.rank()] == numel(inputs):
            return self._gathered_unevenly(outputs, inputs, sizes)
        if not parts and numel(outputs) != numel(inputs) * self.size():
            raise ValueError("output tensor size must be equal to world_size times input tensor size")
        return self._call("all_gather", inputs, numel(inputs), numel(outputs), result=outputs)

    def _gathered_unevenly(self, outputs: Any, inputs: Any, sizes: list[int]) -> Work:
        """As torch's NCCL back end makes it: a broadcast of each member's part."""
        made = [self.record_call("broadcast", inputs, n, n, root=self._ranks[i]) for i, n in enumerate(sizes)]
        return Work(self._record, [number for number, _ in made], outputs, made[0][1])

    def allgather(self, outputs: Any, inputs: Any, opts: Any = None) -> Work:
        return self._gathered(outputs, inputs)

    def _allgather_base(self, output: Any, source: Any, opts: Any = None) -> Work:
        return self._gathered(output, source)

    def all_gather_single(self, output: Any, source: Any, opts: Any = None) -> Work:
        return self._gathered(output, source)

    def allgather_coalesced(self, outputs: Any, inputs: Any, opts: Any = None) -> Work:
        return self._gathered(outputs, inputs)

    def allgather_into_tensor_coalesced(self, outputs: Any, inputs: Any, opts: Any = None) -> Work:
        return self._gathered(outputs, inputs)

    def all_gather_single_coalesced(self, outputs: Any, inputs: Any, opts: Any = None) -> Work:
        return self._gathered(outputs, inputs)

    def _scattered(self, outputs: Any, inputs: Any, opts: Any) -> Work:
        op = getattr(opts, "reduceOp", dist.ReduceOp.SUM)
        if isinstance(inputs, torch.Tensor) and numel(inputs) != numel(outputs) * self.size():
            raise ValueError("input tensor must be the same size as output size times world size")
        return self._call("reduce_scatter", outputs, numel(outputs), numel(inputs), reduce=reduction_name(op))

    def reduce_scatter(self, outputs: Any, inputs: Any, opts: Any = None) -> Work:
        return self._scattered(outputs, inputs, opts)

    def _reduce_scatter_base(self, output: Any, source: Any, opts: Any = None) -> Work:
        return self._scattered(output, source, opts)

    def reduce_scatter_single(self, output: Any, source: Any, opts: Any = None) -> Work:
        return self._scattered(output, source, opts)

    def reduce_scatter_tensor_coalesced(self, outputs: Any, inputs: Any, opts: Any = None) -> Work:
        return self._scattered(outputs, inputs, opts)

    def reduce_scatter_single_coalesced(self, outputs: Any, inputs: Any, opts: Any = None) -> Work:
        return self._scattered(outputs, inputs, opts)

    def exchanged(self, output: Any, source: Any, receives: list[int], sends: list[int]) -> Work:
        """All-to-all with the elements that go to and come from each member; empty: equal parts."""
        more = {"sends": sends, "receives": receives} if sends or receives else {}
        size = max(numel(source), numel(output))
        return self._call("all_to_all", output, numel(source), size, result=output, **more)

    def all_to_all_single(
        self, output: Any, source: Any, receives: Any = None, sends: Any = None, opts: Any = None
    ) -> Work:
        return self.exchanged(output, source, *splits(output, source, receives, sends, self.size()))

    def alltoall_base(
        self, output: Any, source: Any, receives: Any = None, sends: Any = None, opts: Any = None
    ) -> Work:
        return self.all_to_all_single(output, source, receives, sends, opts)

    def alltoall(self, outputs: Any, inputs: Any, opts: Any = None) -> Work:
        return self.exchanged(outputs, inputs, [numel(t) for t in outputs], [numel(t) for t in inputs])

    def gather(self, outputs: Any, inputs: Any, opts: Any = None) -> Work:
        n = numel(inputs)
        return self._call("gather", inputs, n, n * self.size(), root=self._ranks[opts.rootRank])

    def scatter(self, outputs: Any, inputs: Any, opts: Any = None) -> Work:
        n = numel(outputs)
        return self._call("scatter", outputs, n, n * self.size(), root=self._ranks[opts.rootRank])

    def barrier(self, opts: Any = None) -> Work:
        return self._call("barrier", None, 0, 0)

    def monitored_barrier(self, *_: Any, **__: Any) -> None:
        self.barrier().wait()

    def send(self, tensors: Any, peer: int, tag: int = 0) -> Work:
        n = numel(tensors)
        return self._call("send", tensors, n, n, peer=self._ranks[peer], tag=tag, batch=self._batch)

    def recv(self, tensors: Any, peer: int, tag: int = 0) -> Work:
        n = numel(tensors)
        return self._call("recv", tensors, n, n, peer=self._ranks[peer], tag=tag, batch=self._batch)

    def recv_anysource(self, tensors: Any, tag: int = 0) -> Work:
        raise NotImplementedError("weftcomm rehearse: recv from any source has no answer without the senders: name src")

    def _start_coalescing(self, *_: Any) -> None:
        self._batch = self._record.next_id()

    def _end_coalescing(self, *_: Any) -> Work:
        self._batch = 0
        return Work(self._record, [], None, False)


def splits(output: Any, source: Any, receives: Any, sends: Any, ranks: int) -> tuple[list[int], list[int]]:
    """Elements from and to each member, of split sizes along the first dimension; empty lists: equal parts."""
    if not receives and not sends:
        return [], []
    row_out = numel(output) // max(1, output.shape[0])
    row_in = numel(source) // max(1, source.shape[0])
    receives = receives or [output.shape[0] // ranks] * ranks
    sends = sends or [source.shape[0] // ranks] * ranks
    return [int(n) * row_out for n in receives], [int(n) * row_in for n in sends]
