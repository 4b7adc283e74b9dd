"""The names of NVIDIA's nccl.m2n (nccl-extensions 0.1) for memory of the host: a tensor that M ranks hold one way, for N ranks that
want it another way. Arrays and torch tensors of the CPU instead of GPU buffers, a weftcomm.Communicator instead of NCCL's.

What nccl.m2n leaves to the caller is checked here, on all ranks together: shapes, types and placements that do not fit, a
buffer that is missing, and memory that is read and written at once are one error on every rank, before anything moves.
"""

from __future__ import annotations

import threading
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from ._errors import InvalidArgument, PeerDied
from .reshard import Layout, Plan, Receiver, Sender
from .transfer import Agent

__all__ = [
    "MAX_TENSOR_DIMS",
    "MESH_NDIMS",
    "Config",
    "DistTensor",
    "Handle",
    "Mesh",
    "Replicate",
    "Shard",
    "finalize",
    "group",
    "group_abort",
    "group_end",
    "group_start",
    "init",
    "reshard",
    "xdtensor_reshard",
]

MAX_TENSOR_DIMS = 3
MESH_NDIMS = 2
_MOST_TEXT = 400  # bytes of a message that other ranks repeat
_TYPES = {"half": "float16", "float": "float32", "double": "float64", "long": "int64", "int": "int32", "char": "int8", "byte": "uint8"}
_TYPES["float8_e4m3"] = "float8_e4m3fn"
_SIZES = {"float8_e4m3fn": 1, "float8_e5m2": 1, "bfloat16": 2}


@dataclass(frozen=True)
class Replicate:
    """The ranks along this axis of the mesh hold the same."""


@dataclass(frozen=True)
class Shard:
    """The ranks along this axis of the mesh share dimension `dim` out."""

    dim: int


@dataclass(frozen=True)
class Config:
    """max_cta is accepted as None only: there are no kernels here."""

    max_cta: int | None = None

    def __post_init__(self) -> None:
        if self.max_cta is not None:
            raise InvalidArgument(f"max_cta={self.max_cta}: memory of the host is moved by no kernel")


class Mesh:
    """One or two dimensions of ranks that follow each other from start_rank on; the last dimension varies fastest."""

    def __init__(self, dims: Sequence[int], start_rank: int = 0) -> None:
        self.dims, self.start_rank = tuple(int(d) for d in dims), int(start_rank)
        if not 1 <= len(self.dims) <= MESH_NDIMS or min(self.dims) < 1:
            raise InvalidArgument(f"a mesh has 1 or {MESH_NDIMS} positive dimensions, not {self.dims}")
        if self.start_rank < 0:
            raise InvalidArgument(f"start_rank {self.start_rank} is negative")

    @classmethod
    def from_ranks(cls, ranks: Any) -> Mesh:
        grid = np.asarray(ranks)
        if grid.size == 0 or grid.ravel().tolist() != list(range(int(grid.min()), int(grid.min()) + grid.size)):
            raise InvalidArgument(f"the ranks of a mesh follow each other: {grid.tolist()}")
        return cls(grid.shape, int(grid.min()))

    @classmethod
    def from_device_mesh(cls, device_mesh: Any) -> Mesh:
        return cls.from_ranks(device_mesh.mesh)

    @property
    def ndims(self) -> int:
        return len(self.dims)

    @property
    def size(self) -> int:
        return prod(self.dims)

    @property
    def ranks(self) -> range:
        return range(self.start_rank, self.start_rank + self.size)


def _placement(placement: Any, ndims: int) -> str:
    """As weft.layout/1 has it; nccl.m2n's, torch's, or a number for Shard."""
    name = type(placement).__name__
    if name == "Replicate":
        return "Replicate()"
    if name == "Partial":
        raise InvalidArgument(f"{placement!r}: sums that are not made yet cannot be moved; reduce them first")
    if isinstance(placement, bool) or (name != "Shard" and not isinstance(placement, int)):
        raise InvalidArgument(f"placement {placement!r}: there are Replicate() and Shard(dim)")
    dim = placement if isinstance(placement, int) else int(placement.dim)
    if name == "Shard" and -ndims <= dim < 0:
        dim += ndims
    if not 0 <= dim < ndims:
        raise InvalidArgument(f"Shard({dim}) of a tensor with {ndims} dimensions")
    return f"Shard({dim})"


class DistTensor:
    """One side of a reshard. buffer: None on ranks outside of the mesh, which say local_shape and dtype all the same."""

    def __init__(
        self,
        buffer: Any,
        local_shape: Sequence[int] | None = None,
        dtype: Any = None,
        *,
        mesh: Mesh | Sequence[int],
        placements: Sequence[Any],
    ) -> None:
        if buffer is None and (local_shape is None or dtype is None):
            raise InvalidArgument("without a buffer a tensor needs local_shape and dtype")
        self.buffer, self.mesh = buffer, mesh if isinstance(mesh, Mesh) else Mesh.from_ranks(mesh)
        self.local_shape = tuple(int(n) for n in (buffer.shape if local_shape is None else local_shape))
        name = str(buffer.dtype if dtype is None else dtype).removeprefix("torch.")
        if dtype is not None and not isinstance(dtype, str) and not str(dtype).startswith("torch."):
            name = np.dtype(dtype).name
        self.dtype = _TYPES.get(name, name)
        if not 1 <= len(self.local_shape) <= MAX_TENSOR_DIMS:
            raise InvalidArgument(f"a tensor has 1 to {MAX_TENSOR_DIMS} dimensions, not the shape {list(self.local_shape)}")
        if len(placements) != self.mesh.ndims:
            raise InvalidArgument(f"{len(placements)} placements for a mesh of {self.mesh.ndims} dimensions")
        self.placements = [_placement(p, len(self.local_shape)) for p in placements]
        if len({p for p in self.placements if p != "Replicate()"}) < sum(p != "Replicate()" for p in self.placements):
            raise InvalidArgument(f"{', '.join(self.placements)}: a dimension is shared out along one axis")
        if buffer is not None and tuple(buffer.shape) != self.local_shape:
            raise InvalidArgument(f"local_shape {list(self.local_shape)} of a buffer of {list(buffer.shape)}")

    @property
    def ndims(self) -> int:
        return len(self.local_shape)

    @property
    def is_participating(self) -> bool:
        return self.buffer is not None

    @property
    def global_shape(self) -> list[int]:
        shape = list(self.local_shape)
        for size, placement in zip(self.mesh.dims, self.placements):
            if placement != "Replicate()":
                shape[int(placement[6:-1])] *= size
        return shape

    def _layout(self, ranks: int) -> Layout:
        layout = Layout(ranks)
        layout.mesh("m", {f"axis{i}": n for i, n in enumerate(self.mesh.dims)}, self.mesh.ranks)
        layout.tensor("tensor", self.global_shape, self.dtype, self.placements, "m")
        return layout


def _extent(buffer: Any) -> tuple[int, int]:
    """First byte and the one behind the last."""
    if hasattr(buffer, "data_ptr"):
        if not buffer.is_contiguous():
            raise InvalidArgument("a buffer is contiguous")
        return buffer.data_ptr(), buffer.data_ptr() + buffer.numel() * buffer.element_size()
    if not buffer.flags.c_contiguous:
        raise InvalidArgument("a buffer is contiguous")
    return buffer.ctypes.data, buffer.ctypes.data + buffer.nbytes


def _checked(comm: Any, src: DistTensor, dst: DistTensor) -> Plan:
    for name, side in (("src", src), ("dst", dst)):
        if side.mesh.ranks[-1] >= comm.size:
            raise InvalidArgument(f"{name}: rank {side.mesh.ranks[-1]} of the mesh; there are {comm.size} ranks")
        if (comm.rank in side.mesh.ranks) != side.is_participating:
            raise InvalidArgument(f"{name}: rank {comm.rank} has {'a' if side.is_participating else 'no'} buffer, and its mesh is {side.mesh.ranks}")
    if src.is_participating and dst.is_participating:
        (a, b), (c, d) = _extent(src.buffer), _extent(dst.buffer)
        if a < d and c < b:
            raise InvalidArgument("src and dst overlap in memory: what is written there would be read")
    return Plan(src._layout(comm.size), dst._layout(comm.size))


def _agreed(comm: Any, problem: Exception | None) -> None:
    """Raises on all ranks what one of them found; the others say whose it is."""
    fine, ended = comm.agree(problem is None)
    if ended:
        raise problem or PeerDied(f"reshard: {'rank' if len(ended) == 1 else 'ranks'} {', '.join(map(str, ended))} ended or did not come", ranks=tuple(ended))
    if fine:
        return
    found = [text.decode(errors="replace") for text in _texts(comm, str(problem or "").encode()[:_MOST_TEXT])]
    if problem is not None:
        raise problem
    culprit = next((r for r, text in enumerate(found) if text), None)
    raise InvalidArgument(f"reshard: rank {culprit}: {found[culprit]}" if culprit is not None else "reshard: a rank's arguments do not fit")


def _texts(comm: Any, mine: bytes) -> list[bytes]:
    """Of every rank."""
    lengths = comm.all_gather(np.array([len(mine)], dtype=np.int64))
    padded = np.zeros(max(1, int(lengths.max())), dtype=np.uint8)
    padded[: len(mine)] = np.frombuffer(mine, dtype=np.uint8)
    every = comm.all_gather(padded).reshape(comm.size, -1)
    return [every[r, : int(n)].tobytes() for r, n in enumerate(lengths)]


def _addresses(comm: Any, mine: tuple[bytes, int, int] | None) -> list[tuple[bytes, int, int] | None]:
    metadata, region, table = mine or (b"", 0, 0)
    numbers = comm.all_gather(np.array([region, table], dtype=np.int64)).reshape(comm.size, 2)
    return [(text, int(a), int(b)) if text else None for text, (a, b) in zip(_texts(comm, metadata), numbers)]


def _run(comm: Any, src: DistTensor, dst: DistTensor) -> None:
    problem: Exception | None = None
    plan: Plan | None = None
    sender: Sender | None = None
    name = f"m2n-{uuid.uuid4()}"
    here, there = Agent(f"{name}-to", pages=16), Agent(f"{name}-from", pages=16)
    try:
        plan = _checked(comm, src, dst)
        if src.is_participating:
            sender = Sender(plan, comm.rank, there)
            sender.copy_from({"tensor": src.buffer})
            sender.publish(1)
    except Exception as error:
        problem = error
    _agreed(comm, problem)
    assert plan is not None
    addresses = _addresses(comm, sender.address() if sender is not None else None)
    try:
        if dst.is_participating:
            receiver = Receiver(plan, comm.rank, here, addresses)
            receiver.pull(1)
            receiver.copy_to({"tensor": dst.buffer})
    except Exception as error:
        problem = error
    _agreed(comm, problem)  # nobody's memory goes before all have read


_group = threading.local()


def group_start() -> None:
    """Calls of this thread are recorded until group_end()."""
    _group.levels = getattr(_group, "levels", 0) + 1
    _group.calls = getattr(_group, "calls", [])


def group_end() -> None:
    """Ends one level; the outermost runs what was recorded, in order."""
    if getattr(_group, "levels", 0) == 0:
        raise InvalidArgument("group_end() without group_start()")
    _group.levels -= 1
    if _group.levels == 0:
        calls, _group.calls = _group.calls, []
        for call in calls:
            _run(*call)


def group_abort() -> None:
    """Forgets what this thread has recorded."""
    _group.levels, _group.calls = 0, []


@contextmanager
def group() -> Iterator[None]:
    group_start()
    try:
        yield
    except BaseException:
        group_abort()
        raise
    group_end()


class Handle:
    """For programs that make one: there is no state to keep."""

    def __init__(self) -> None:
        self._open = True

    @classmethod
    def create(cls, config: Config | None = None) -> Handle:
        return cls()

    def reshard(self, comm: Any, src: DistTensor, dst: DistTensor, *, stream: None = None) -> None:
        """Returns when dst has its elements on all ranks. All ranks call it. Raises: InvalidArgument on all of them."""
        if not self._open:
            raise InvalidArgument("the handle has been destroyed")
        if stream is not None:
            raise InvalidArgument("stream: memory of the host is moved before the call returns")
        if getattr(_group, "levels", 0) > 0:
            _group.calls.append((comm, src, dst))
        else:
            _run(comm, src, dst)

    def destroy(self) -> None:
        self._open = False

    def __enter__(self) -> Handle:
        return self

    def __exit__(self, *_: object) -> None:
        self.destroy()


def init(config: Config | None = None) -> Handle:
    return Handle.create(config)


def finalize(handle: Handle | None = None) -> None:
    if handle is not None:
        handle.destroy()


def _sides(sides: dict[str, list[Any]]) -> list[DistTensor]:
    """Both sides; what one of them does not say of shape and type follows from the other."""
    shapes, types = [], []
    for name, (buffer, mesh, placements, shape, dtype) in sides.items():
        if mesh is None or placements is None:
            raise InvalidArgument(f"{name}_mesh and {name}_placements are needed on every rank")
        if buffer is not None or (shape is not None and dtype is not None):
            side = DistTensor(buffer, shape, dtype, mesh=mesh, placements=placements)
            shapes.append(side.global_shape)
            types.append(side.dtype)
    if not shapes:
        raise InvalidArgument("a rank without buffers says src_local_shape and src_dtype, or dst's")
    made = []
    for name, (buffer, mesh, placements, shape, dtype) in sides.items():
        if buffer is None and shape is None:
            grid, shape = mesh if isinstance(mesh, Mesh) else Mesh.from_ranks(mesh), list(shapes[0])
            for size, placement in zip(grid.dims, placements):
                text = _placement(placement, len(shape))
                if text == "Replicate()":
                    continue
                if shape[int(text[6:-1])] % size != 0:
                    raise InvalidArgument(f"{name}: {shape[int(text[6:-1])]} elements are not shared out evenly by {size} ranks")
                shape[int(text[6:-1])] //= size
        made.append(DistTensor(buffer, shape, dtype if dtype is not None or buffer is not None else types[0], mesh=mesh, placements=placements))
    if made[0].global_shape != made[1].global_shape:
        raise InvalidArgument(f"src has the shape {made[0].global_shape}, dst {made[1].global_shape}")
    return made


def _reshard(comm: Any, sides: dict[str, list[Any]], stream: None, handle: Handle | None) -> None:
    try:
        src, dst = _sides(sides)
    except Exception as error:
        if getattr(_group, "levels", 0) == 0:
            _agreed(comm, error)  # the others wait there
        raise
    (handle or Handle()).reshard(comm, src, dst, stream=stream)


def reshard(
    src: Any,
    dst: Any,
    comm: Any,
    stream: None = None,
    *,
    src_mesh: Any = None,
    src_placements: Sequence[Any] | None = None,
    src_local_shape: Sequence[int] | None = None,
    src_dtype: Any = None,
    dst_mesh: Any = None,
    dst_placements: Sequence[Any] | None = None,
    dst_local_shape: Sequence[int] | None = None,
    dst_dtype: Any = None,
    handle: Handle | None = None,
) -> None:
    """Elements of src, as its mesh and placements spread them, into dst. All ranks of comm call it; src is None on ranks outside of
    src_mesh, dst outside of dst_mesh. Returns when dst is there on all ranks. Raises: InvalidArgument."""
    sides = {
        "src": [src, src_mesh, src_placements, src_local_shape, src_dtype],
        "dst": [dst, dst_mesh, dst_placements, dst_local_shape, dst_dtype],
    }
    _reshard(comm, sides, stream, handle)


def xdtensor_reshard(
    src: Any,
    dst: Any,
    comm: Any,
    stream: None = None,
    *,
    src_mesh: Any = None,
    src_placements: Sequence[Any] | None = None,
    dst_mesh: Any = None,
    dst_placements: Sequence[Any] | None = None,
    handle: Handle | None = None,
) -> None:
    """The same; a DTensor says its mesh and placements itself."""
    given = {"src": [src, src_mesh, src_placements], "dst": [dst, dst_mesh, dst_placements]}
    for side in given.values():
        if hasattr(side[0], "device_mesh"):
            tensor = side[0]
            side[1:] = [side[1] or Mesh.from_device_mesh(tensor.device_mesh), side[2] or tensor.placements]
            side[0] = tensor.to_local()
    _reshard(comm, {name: [*side, None, None] for name, side in given.items()}, stream, handle)
