"""Tensors laid out one way, wanted another way: plans between layouts, and the ranks that carry them out.

A layout is a path (weft.layout/1, safetensors or their index), "vllm:tp=8,kv_heads=8" or "megatron:tp=8" (the other
layout's tensors as these systems split them), or a Layout, which has a reader for torch's DTensors. docs/reshard.md.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Union

import numpy as np

from . import _arguments, _core, _errors
from ._errors import InvalidArgument
from .transfer import Agent, Region

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Layout", "Pair", "Plan", "Receiver", "Sender"]

_NUMPY = {"float64": "f8", "float32": "f4", "float16": "f2", "int64": "i8", "int32": "i4", "int16": "i2", "int8": "i1"}
_NUMPY |= {"uint64": "u8", "uint32": "u4", "uint16": "u2", "uint8": "u1", "bool": "?"}


class Layout:
    """How tensors are spread over ranks, as weft.layout/1."""

    def __init__(self, ranks: int) -> None:
        self._value: dict[str, Any] = {"schema": "weft.layout/1", "ranks": ranks, "meshes": [], "tensors": []}

    def mesh(self, name: str, axes: Mapping[str, int], ranks: Sequence[int] | None = None) -> str:
        """A grid of ranks; the last axis varies fastest. ranks: 0, 1, … where they are not given. Returns the name."""
        mesh: dict[str, Any] = {"name": name, "axes": [{"name": axis, "size": size} for axis, size in axes.items()]}
        if ranks is not None:
            mesh["ranks"] = list(ranks)
        self._value["meshes"].append(mesh)
        return name

    def tensor(self, name: str, shape: Sequence[int], type: str, placements: Sequence[Any], mesh: str) -> None:
        """placements: one per axis of the mesh, DTensor's or their text: "Shard(0)", "Replicate()",
        "_StridedShard(dim=0, sf=2)"."""
        self._value["tensors"].append(
            {"name": name, "shape": list(shape), "type": type, "placements": [p if isinstance(p, str) else repr(p) for p in placements], "mesh": mesh}
        )

    @classmethod
    def of_dtensors(cls, tensors: Mapping[str, Any], ranks: int | None = None) -> Layout:
        """Of a state dict: a DTensor as its mesh and placements say; any other tensor every rank of `ranks` has whole.
        ranks: of all; else the largest of the meshes and one more."""
        meshes: dict[tuple[Any, ...], str] = {}
        known: list[tuple[str, dict[str, int], list[int]]] = []
        rows = []
        for name, tensor in tensors.items():
            mesh, placements = getattr(tensor, "device_mesh", None), getattr(tensor, "placements", ())
            axes, members = {"all": 0}, [-1]
            if mesh is not None:
                grid = np.asarray(mesh.mesh)
                names = getattr(mesh, "mesh_dim_names", None) or [f"dim{i}" for i in range(grid.ndim)]
                axes, members = dict(zip(names, grid.shape)), [int(r) for r in grid.ravel()]
            key = (tuple(axes.items()), tuple(members))
            if key not in meshes:
                meshes[key] = f"mesh{len(meshes)}"
                known.append((meshes[key], {a: int(n) for a, n in axes.items()}, members))
            dtype = str(tensor.dtype).removeprefix("torch.")
            rows.append((name, [int(n) for n in tensor.shape], dtype, placements or ("Replicate()",), meshes[key]))
        whole = ranks or 1 + max((r for _, _, members in known for r in members), default=0) or 1
        layout = cls(max(whole, 1))
        for mesh_name, axes, members in known:
            every = members == [-1]
            layout.mesh(mesh_name, {"all": max(whole, 1)} if every else axes, None if every else members)
        for row in rows:
            layout.tensor(*row)
        return layout

    def text(self) -> str:
        return json.dumps(self._value)


Source = Union[Layout, str, "os.PathLike[str]"]


class Pair(NamedTuple):
    """What one sender moves to one receiver."""

    sender: int
    receiver: int
    bytes: int
    pieces: int


def _word(layout: Source) -> str:
    return layout.text() if isinstance(layout, Layout) else os.fspath(layout)


class Plan:
    """The moves from one layout to another.

    convert: tensors that the second layout has with another type (float32, bfloat16, float16, float8_e4m3fn) are converted by
    their senders, with the scales NAME_scale_inv where the second layout has these. Raises: InvalidArgument, one line naming
    tensor and rank, where the layouts do not cover or fit each other.
    """

    def __init__(self, source: Source, target: Source, *, same_ranks: bool = False, convert: bool = False) -> None:
        self._core = _core.reshard_plan(_word(source), _word(target), same_ranks, convert)
        self._convert = convert

    def pairs(self) -> list[Pair]:
        return [Pair(*pair) for pair in self._core.pairs()]

    @property
    def senders(self) -> int:
        return self._core.ranks("from")

    @property
    def receivers(self) -> int:
        return self._core.ranks("to")

    def explain(self) -> str:
        """Bytes per pair of ranks, the largest first."""
        pairs = sorted(self.pairs(), key=lambda p: -p.bytes)
        lines = [f"{sum(p.bytes for p in pairs)} B from {self.senders} to {self.receivers} ranks, {self._core.patterns()} patterns"]
        lines += [f"  {p.sender} -> {p.receiver}: {p.bytes} B in {p.pieces} pieces" for p in pairs]
        return "\n".join(lines)


def _place(region: Region) -> tuple[int, int, int]:
    return region.number, region.address, region.bytes


def _views(parts: list[tuple[str, str, int, tuple[int, ...], int]], region: Region) -> dict[str, NDArray[Any]]:
    """A rank's parts in its region. Types that NumPy has not (bfloat16, float8) are unsigned integers of their size."""
    memory, views = region.array(), {}
    for name, type, offset, shape, size in parts:
        dtype = np.dtype(_NUMPY.get(type, f"u{size}" if size in (1, 2, 4, 8) else f"V{size}"))
        count = int(np.prod(shape, dtype=np.int64))
        views[name] = memory[offset : offset + count * size].view(dtype).reshape(shape)
    return views


def _copy(name: str, part: NDArray[Any], type: str, tensor: Any, into: bool) -> None:
    """Between a rank's part in its region and an array, a torch tensor or what this rank has of a DTensor."""
    local = tensor.to_local() if hasattr(tensor, "to_local") else tensor
    torch = sys.modules.get("torch")
    is_torch = torch is not None and isinstance(local, torch.Tensor)
    if not is_torch and not isinstance(local, np.ndarray):
        raise InvalidArgument(f"tensor {name}: is a {local.__class__.__name__}, no array and no torch tensor")
    has = str(local.dtype).removeprefix("torch.")
    if tuple(local.shape) != part.shape:
        raise InvalidArgument(f"tensor {name}: this rank's part has shape {list(part.shape)}, not {list(local.shape)}")
    if has != type and (is_torch or local.dtype != part.dtype):
        raise InvalidArgument(f"tensor {name}: has elements of {type}, not of {has}")
    if part.size == 0:
        return
    if is_torch:
        assert torch is not None
        mine = torch.from_numpy(part.reshape(-1).view(np.uint8)).view(local.dtype).reshape(part.shape)
        with torch.no_grad():
            local.copy_(mine) if into else mine.copy_(local)
    elif into:
        if not local.flags.writeable:
            raise InvalidArgument(f"tensor {name}: is read-only")
        local.view(part.dtype)[...] = part
    else:
        part[...] = np.ascontiguousarray(local).view(part.dtype).reshape(part.shape)


class _Parts:
    """A rank's parts by name."""

    tensors: dict[str, NDArray[Any]]
    _types: dict[str, str]

    def _see(self, parts: list[tuple[str, str, int, tuple[int, ...], int]], region: Region) -> None:
        self.tensors = _views(parts, region)
        self._types = {part[0]: part[1] for part in parts}

    def _copy_all(self, tensors: Mapping[str, Any], into: bool) -> None:
        for name in self.tensors:
            if name not in tensors:
                raise InvalidArgument(f"tensor {name}: is missing; this rank has {self.tensors[name].size} elements of it")
        for name, tensor in tensors.items():
            if name in self.tensors:
                _copy(name, self.tensors[name], self._types[name], tensor, into)
                continue
            local = tensor.to_local() if hasattr(tensor, "to_local") else tensor
            if int(np.prod(tuple(local.shape), dtype=np.int64)) > 0:
                raise InvalidArgument(f"tensor {name}: the layout gives this rank no part of it")


class Sender(_Parts):
    """One rank of the first layout. `tensors` are its parts, in memory that receivers read; publish() says that they are a
    version. Receivers read while the sender does anything else."""

    def __init__(self, plan: Plan, rank: int, agent: Agent, block_bytes: int = 16 << 10) -> None:
        self._plan, self._rank, self._agent = plan, rank, agent
        parts, size = plan._core.parts("from", rank)
        self._region = agent.allocate(size)
        self._given = self._region
        if plan._convert:
            parts, size = plan._core.parts("given", rank)
            self._given = agent.allocate(size)
        self._see(parts, self._given)
        self._core = _core.reshard_publisher(agent._core, _place(self._region), block_bytes)

    def begin(self) -> None:
        """From here on the tensors may be written; who reads them now gets an error."""
        self._core.begin()

    def copy_from(self, tensors: Mapping[str, Any]) -> None:
        """Copies this rank's parts out of arrays, torch tensors or DTensors, by name: a state dict. Raises: InvalidArgument
        naming the tensor whose shape or type is another, that is missing, or that the layout does not have."""
        self._copy_all(tensors, into=False)

    def publish(self, version: int) -> None:
        """The tensors are version `version`, 1 or more and above those published before, until begin(). Converts them where the
        plan says so. Raises: InvalidArgument."""
        version = _arguments.integer(version, "version", "publish", 1, _arguments.INT64[1])
        if self._plan._convert:
            self._plan._core.convert(self._rank, _place(self._given), _place(self._region))
        self._core.publish(version)

    def address(self) -> tuple[bytes, int, int]:
        """For Receiver: bytes to carry there, and the numbers of two regions."""
        return self._agent.metadata(), self._region.number, self._core.table


class Receiver(_Parts):
    """One rank of the second layout. `tensors` are its parts, which are there when pull() has returned.

    senders: their address() by rank, one for each; None, or one that cannot be reached: lost, so that others that hold the same
    must do. Raises: InvalidArgument, Mismatch, NoResources.
    """

    def __init__(
        self, plan: Plan, rank: int, agent: Agent, senders: Sequence[tuple[bytes, int, int] | None]
    ) -> None:
        self._agent = agent
        parts, size = plan._core.parts("to", rank)
        self._region = agent.allocate(size)
        self._see(parts, self._region)
        senders = list(_arguments.several(senders, "senders", "Receiver", "addresses"))
        if len(senders) != plan.senders:
            text = f"senders: {len(senders)} addresses for {plan.senders} ranks"
            raise _errors.InvalidArgument(text, operation="Receiver")
        memory = [(bytes(s[0]), s[1]) for s in senders if s is not None]
        if len(set(memory)) != len(memory):
            raise _errors.InvalidArgument("senders: two ranks have one address", operation="Receiver")
        peers = [self._peer_or_lost(s) for s in senders]
        self._core = _core.reshard_receiver(plan._core, rank, agent._core, _place(self._region), peers)

    def _peer(self, sender: tuple[bytes, int, int]) -> tuple[str, int, int | None]:
        return self._agent.load(sender[0]), sender[1], sender[2]

    def _peer_or_lost(self, sender: tuple[bytes, int, int] | None) -> tuple[str, int, int | None]:
        if sender is None:
            return "", 0, None
        try:
            return self._peer(sender)
        except (_errors.InvalidArgument, _errors.Mismatch, _errors.NoResources):
            raise
        except _errors.Error:
            return "", 0, None

    def pull(self, version: int, timeout: float = 60.0) -> None:
        """Gets version `version`; of what it had from the same sender before, only blocks that have changed. Called again for
        the same version after an error, it gets only what is missing. Raises: PeerDied where nobody is left that has a
        part, Mismatch where a sender has another version or began one meanwhile, Timeout."""
        version = _arguments.integer(version, "version", "pull", 1, _arguments.INT64[1])
        if version != getattr(self, "_version", None):
            self._core.begin(version)
            self._version = version
        self._core.pull(_errors.seconds(timeout, "pull"))

    def copy_to(self, tensors: Mapping[str, Any]) -> None:
        """Copies this rank's parts into arrays, torch tensors or DTensors, by name. Raises: as Sender.copy_from()."""
        self._copy_all(tensors, into=True)

    def returned(self, rank: int, sender: tuple[bytes, int, int]) -> None:
        """A sender that was lost is there again."""
        self._core.returned(rank, self._peer(sender))

    @property
    def arrived(self) -> int:
        """Bytes of the version that have come."""
        return self._core.arrived

    @property
    def lost(self) -> list[int]:
        return self._core.lost
