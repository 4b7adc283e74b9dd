"""Files in a rehearsal: tensors have no contents, so none of the script's files is written or changed by a checkpoint."""

from __future__ import annotations

import dataclasses
import os
from contextlib import contextmanager
from pathlib import Path
from typing import Any


class Files:
    """torch.save writes nothing; torch.load gives what the same rank saved under that name. Distributed checkpoints are
    written below `folder`, which the ranks of a rehearsal share; a rank finds there what it has helped to save, as ranks
    are rehearsed one after the other."""

    def __init__(self, record: Any, folder: str) -> None:
        self._record = record
        self._written = Path(folder) / "files"
        self._own: set[Path] = set()  # checkpoints that this rank has helped to save
        self._made: list[str] = []  # folders, in the order in which the script made them

    def install(self) -> None:
        self._plain_saves()
        self._checkpoints()
        self._folders()
        asynchronous_saves(self._record)

    def leave(self) -> None:
        """Removes the folders that the script has made for files that were not written."""
        for path in reversed(self._made):
            try:
                os.rmdir(path)
            except OSError:
                pass

    def _plain_saves(self) -> None:
        import torch

        record = self._record
        from torch.utils._pytree import tree_leaves

        saved: dict[str, Any] = {}
        load, save = torch.load, torch.save

        def save_here(thing: Any, file: Any, *args: Any, **options: Any) -> None:
            if not isinstance(file, (str, os.PathLike)) and not any(isinstance(t, torch.Tensor) for t in tree_leaves(thing)):
                return save(thing, file, *args, **options)
            record.note("torch.save writes no file: tensors have no contents")
            if isinstance(file, (str, os.PathLike)):
                saved[os.path.abspath(file)] = thing
            return None

        def load_here(file: Any, *args: Any, **options: Any) -> Any:
            if isinstance(file, (str, os.PathLike)) and os.path.abspath(file) in saved:
                return saved[os.path.abspath(file)]
            return load(file, *args, **options)

        torch.save, torch.load = save_here, load_here

    def _checkpoints(self) -> None:
        # A rank plans a distributed checkpoint from the plans of all ranks, of which some have not been rehearsed:
        # whether the shards of all fill each tensor cannot be said.
        from torch.distributed.checkpoint import default_planner
        from torch.distributed.checkpoint.filesystem import FileSystem, FileSystemReader
        from torch.distributed.checkpoint.planner import LoadItemType

        record = self._record

        def all_is_well(*_: Any) -> list[str]:
            record.note("the global plan of a checkpoint is not validated: plans of ranks that come later are this rank's own")
            return []

        default_planner._validate_global_plan = all_is_well

        def there(path: Any) -> Path:
            return self._written / os.path.abspath(path).lstrip(os.sep)

        def either(path: Any) -> Path:
            mine = not self._own.isdisjoint((there(path), *there(path).parents))
            return there(path) if mine and there(path).exists() else Path(path)

        def mkdir(_: Any, path: Any) -> None:
            self._own.add(there(path))
            there(path).mkdir(parents=True, exist_ok=True)

        @contextmanager
        def create_stream(_: Any, path: Any, mode: str) -> Any:
            if "w" not in mode and "a" not in mode and "+" not in mode:
                with open(either(path), mode) as stream:
                    yield stream
                return
            record.note("a distributed checkpoint writes no file of the script: tensors have no contents")
            there(path).parent.mkdir(parents=True, exist_ok=True)
            with open(there(path), mode) as stream:
                yield stream

        def rename(_: Any, path: Any, new: Any) -> None:
            there(new).parent.mkdir(parents=True, exist_ok=True)
            there(path).replace(there(new))

        def ls(_: Any, path: Any) -> list[str]:
            names = {p.name for where in {Path(path), either(path)} if where.is_dir() for p in where.iterdir()}
            return [os.path.join(path, name) for name in sorted(names)]

        read_data = FileSystemReader.read_data

        def read_own(reader: Any, plan: Any, planner: Any) -> Any:
            """Of a checkpoint of this run, tensors are as they were: what was saved had no contents. So are objects that
            another rank is to have saved."""
            if there(reader.path) not in self._own:
                return read_data(reader, plan, planner)
            objects = [i for i in plan.items if i.type == LoadItemType.BYTE_IO and i.storage_index in reader.storage_data]
            for item in plan.items:
                if item.type != LoadItemType.BYTE_IO:
                    planner.commit_tensor(item, planner.resolve_tensor(item).detach())
            return read_data(reader, dataclasses.replace(plan, items=objects), planner)

        FileSystemReader.read_data = read_own  # type: ignore[method-assign]
        FileSystem.create_stream, FileSystem.rename, FileSystem.ls = create_stream, rename, ls  # type: ignore[method-assign,assignment]
        FileSystem.mkdir = mkdir  # type: ignore[method-assign,assignment]
        FileSystem.exists = lambda _, path: either(path).exists()  # type: ignore[method-assign,assignment]
        FileSystem.rm_file = lambda _, path: there(path).unlink(missing_ok=True)  # type: ignore[method-assign,assignment]

    def _folders(self) -> None:
        mkdir = os.mkdir

        def noted(path: Any, *args: Any, **options: Any) -> None:
            mkdir(path, *args, **options)
            self._made.append(os.path.abspath(os.fsdecode(path)))

        os.mkdir = noted  # also of os.makedirs and pathlib


def asynchronous_saves(record: Any) -> None:
    """torch's copies state into shared memory and saves in a thread; here the save's calls are made at once."""
    import concurrent.futures

    from torch.distributed import checkpoint
    from torch.distributed.checkpoint import state_dict_saver

    from weftcomm_torch.rehearse._distributed import replace

    def made_at_once(before: Any) -> Any:
        def async_save(state_dict: Any, **options: Any) -> Any:
            import torch
            import torch.distributed as dist

            group = options.get("process_group")
            if dist.is_initialized():
                group = group or dist.distributed_c10d._get_default_group()
                if torch.device("cpu") not in group._device_types:
                    return before(state_dict, **options)  # refuses
            record.note("async_save makes its calls at once, and takes no time")
            known = ("checkpoint_id", "storage_writer", "planner", "process_group", "no_dist", "use_collectives")
            done: concurrent.futures.Future[Any] = concurrent.futures.Future()
            done.set_result(checkpoint.save(state_dict, **{k: v for k, v in options.items() if k in known}))
            return done

        return async_save

    replace(state_dict_saver, "async_save", made_at_once)
