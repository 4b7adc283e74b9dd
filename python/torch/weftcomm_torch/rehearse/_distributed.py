"""torch.distributed of a rehearsed rank: every back end's groups record; objects are supplied by a rule."""

from __future__ import annotations

import os
import pickle
import sys
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
import torch.distributed.distributed_c10d as c10d

from ._group import Group, Work
from ._reducer import install_reducer

OBJECT_RULE = "objects of other ranks are those of this rank"


def replace(module: Any, name: str, make: Callable[[Any], Any]) -> None:
    """Replaces a function wherever torch's modules have bound it."""
    before = getattr(module, name)
    after = make(before)
    for other in list(sys.modules.values()):
        if getattr(other, "__name__", "").startswith("torch") and getattr(other, "__dict__", {}).get(name) is before:
            setattr(other, name, after)


def devices_of(backend: str) -> list[torch.device]:
    """Of "nccl", "gloo" or "cpu:gloo,cuda:nccl": on which devices tensors can be communicated."""
    if ":" in backend:
        return [torch.device(part.partition(":")[0].strip()) for part in backend.split(",")]
    return [torch.device("cuda")] if backend == "nccl" else [torch.device("cpu"), torch.device("cuda")]


class Distributed:
    """What a rehearsed rank's torch.distributed shares: its groups by name, and the folder of exchanged objects."""

    def __init__(self, record: Any, folder: str) -> None:
        self.record, self.folder = record, folder
        self.groups: dict[str, Group] = {}
        self._created = 0
        self._objects = 0
        self._making: list[int] = []
        self._backend = "nccl"
        self._devices: list[torch.device] = []  # of the group that is being made

    def install(self) -> None:
        dist.Backend.register_backend("rehearsal", self._create, extended_api=True, devices=["cpu", "cuda"])
        for name in ("is_nccl_available", "is_gloo_available"):
            replace(c10d, name, lambda _: lambda: True)
        replace(c10d, "init_process_group", self._init)
        replace(c10d, "_new_process_group_helper", self._new_group)
        replace(c10d, "_new_group_with_tag", self._made_by_all)
        replace(c10d, "get_backend", lambda _: lambda group=None: "nccl" if "nccl" in self._backend else self._backend)
        replace(c10d, "_set_pg_timeout", lambda _: lambda *_, **__: None)  # nobody waits for real
        replace(c10d, "batch_isend_irecv", self._batch)
        replace(c10d, "monitored_barrier", lambda _: lambda group=None, *a, **k: self.group_of(group).barrier().wait())
        replace(c10d, "all_gather_object", lambda _: self._all_gather_object)
        replace(c10d, "gather_object", lambda _: self._gather_object)
        replace(c10d, "broadcast_object_list", lambda _: self._broadcast_objects)
        replace(c10d, "scatter_object_list", lambda _: self._scatter_objects)
        install_reducer()

    def group_of(self, group: Any) -> Any:
        return c10d._get_default_group() if group is None else group

    def _init(self, before: Any) -> Any:
        def init_process_group(backend: Any = None, init_method: Any = None, *args: Any, **options: Any) -> None:
            names = ("timeout", "world_size", "rank", "store", "group_name", "pg_options", "device_id")
            options |= dict(zip(names, args, strict=False))
            world = options.get("world_size", -1)
            if world not in (-1, None, self.record.world):
                raise ValueError(f"the script asks for {world} ranks, the rehearsal has {self.record.world}")
            self._backend = str(backend or "cpu:gloo,cuda:nccl")
            before("rehearsal", store=dist.HashStore(), rank=self.record.rank, world_size=self.record.world)

        return init_process_group

    def _new_group(self, before: Any) -> Any:
        def _new_process_group_helper(
            size: int, rank: int, ranks: Any, backend: Any, *args: Any, **options: Any
        ) -> Any:
            members = list(ranks) or list(range(size))
            self._created += 1
            self.record.write(kind="group", group=self._created, ranks=members, line=self.record.line())
            self._making = members
            named = self._backend if str(backend) in ("None", "rehearsal", "undefined") else str(backend)
            self._devices = devices_of(named)
            options.pop("device_id", None)
            options["backend_options"] = None
            rest = list(args)
            if len(rest) > 2:
                rest[2] = None
                options.pop("backend_options")
            return before(size, rank, ranks, "rehearsal", *rest, **options)

        return _new_process_group_helper

    def _made_by_all(self, before: Any) -> Any:
        """All ranks of the job come to new_group, members or not, unless it synchronizes locally."""

        def _new_group_with_tag(ranks: Any = None, *args: Any, **options: Any) -> Any:
            group = before(ranks, *args, **options)
            local = options.get("use_local_synchronization", args[5] if len(args) > 5 else False)
            if not local:
                self._call("new_group", None)
            return group

        return _new_group_with_tag

    def _create(self, options: Any, _: Any) -> Group:
        group = Group(self.record, self._created, self._making, options.group_rank, options.group_id, self._devices)
        self.groups[options.group_id] = group
        return group

    def _batch(self, before: Any) -> Any:
        def batch_isend_irecv(operations: list[Any]) -> Any:
            groups = {id(self.group_of(o.group)): self.group_of(o.group) for o in operations}.values()
            number = self.record.next_id()
            for group in groups:
                group._batch = number
            try:
                works = before(operations)
            finally:
                for group in groups:
                    group._batch = 0
            ids = [i for work in works for i in work._ids]
            return [Work(self.record, ids, None, works[0]._host)] if works else []

        return batch_isend_irecv

    # Objects. A rank that was rehearsed before this one has left what it sent; else the rule holds.

    def _call(self, op: str, group: Any, **more: Any) -> None:
        number, _ = self.group_of(group).record_call(op, None, 0, 0, **more)
        self.record.write(kind="wait", id=number, stream=self.record.stream, host=True, line=self.record.line())

    def _keep(self, thing: Any) -> None:
        with open(os.path.join(self.folder, f"object-{self.record.rank}-{self._objects}"), "wb") as file:
            try:
                pickle.dump(thing, file)
            except Exception:  # an object without a pickled form cannot be sent by torch either
                self.record.note("an object that cannot be pickled is not handed to other ranks")

    def _of(self, rank: int, own: Any) -> Any:
        """What a rank sent at this place of the program: its own file, else the rule."""
        path = os.path.join(self.folder, f"object-{rank}-{self._objects}")
        if rank == self.record.rank:
            return own
        try:
            with open(path, "rb") as file:
                return pickle.load(file)
        except (OSError, EOFError, pickle.UnpicklingError):
            self.record.note(OBJECT_RULE)
            return own

    # Names of arguments are torch's: callers use them.
    def _all_gather_object(self, object_list: list[Any], obj: Any, group: Any = None) -> None:
        self._objects += 1
        self._keep(obj)
        self._call("all_gather_object", group)
        for i, rank in enumerate(self.group_of(group)._ranks):
            object_list[i] = self._of(rank, obj)

    def _gather_object(
        self, obj: Any, object_gather_list: Any = None, dst: Any = None, group: Any = None, group_dst: Any = None
    ) -> None:
        self._objects += 1
        self._keep(obj)
        ranks = self.group_of(group)._ranks
        root = ranks[group_dst] if group_dst is not None else dst or 0
        self._call("gather_object", group, root=root)
        if self.record.rank == root:
            for i, rank in enumerate(ranks):
                object_gather_list[i] = self._of(rank, obj)

    def _broadcast_objects(
        self, object_list: list[Any], src: Any = None, group: Any = None, device: Any = None, group_src: Any = None
    ) -> None:
        self._objects += 1
        ranks = self.group_of(group)._ranks
        root = ranks[group_src] if group_src is not None else src or 0
        if self.record.rank == root:
            self._keep(list(object_list))
        self._call("broadcast_object_list", group, root=root)
        object_list[:] = self._of(root, list(object_list))

    def _scatter_objects(
        self, scatter_object_output_list: list[Any], scatter_object_input_list: Any = None, src: Any = None,
        group: Any = None, group_src: Any = None
    ) -> None:
        self._objects += 1
        ranks = self.group_of(group)._ranks
        root = ranks[group_src] if group_src is not None else src or 0
        if self.record.rank == root:
            self._keep(list(scatter_object_input_list))
        self._call("scatter_object_list", group, root=root)
        scattered = self._of(root, scatter_object_input_list)
        scatter_object_output_list[0] = scattered[ranks.index(self.record.rank)] if scattered else None
