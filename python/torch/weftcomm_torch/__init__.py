"""backend="weft" for torch.distributed on the CPU.

`import torch` registers the backend by itself (entry point torch.backends); the compiled part is loaded when the first
process group is made, so that it cannot break the import. For another torch it is compiled then, once (_build.py).
"""

from __future__ import annotations

import atexit
import os
import pickle
import sys
from datetime import timedelta
from typing import Any, NamedTuple

from . import _gloo, _monitored, _numbered, _shrunk, _timeouts
from ._gradients import TopK as TopK
from ._gradients import bf16_sum_hook as bf16_sum_hook
from ._gradients import fp8_sum_hook as fp8_sum_hook
from ._gradients import topk_hook as topk_hook
from ._memory import allocations as allocations
from ._memory import empty as empty

__all__ = [
    "Group", "Options", "TopK", "active", "allocations", "as_gloo", "bf16_sum_hook", "empty", "flight_record", "fp8_sum_hook",
    "register", "topk_hook", "write_flight_record",
]  # fmt: skip


def __dir__() -> list[str]:
    return sorted(__all__)


def _compiled() -> Any:
    from . import _build

    return _build.load()


def Options(  # noqa: N802 (a class in the compiled part)
    timeout: timedelta | None = None, reproducible: bool = False, algorithm: str = "", transport: str = ""
) -> Any:
    """pg_options of init_process_group and new_group.

    timeout: of every call that does not bring its own. reproducible: the same bits whatever the algorithm and number of
    cores. algorithm: of all_reduce, instead of weft's choice. transport: "shm", "tcp", "shm+tcp", "ucx", "shm+ucx".
    Errors: ValueError, for values of other types.
    """
    if timeout is not None and not isinstance(timeout, timedelta):
        raise ValueError(f"weft: Options: timeout is a datetime.timedelta, not {timeout!r}")
    if not isinstance(reproducible, bool):
        raise ValueError(f"weft: Options: reproducible is True or False, not {reproducible!r}")
    for name, value in (("algorithm", algorithm), ("transport", transport)):
        if not isinstance(value, str):
            raise ValueError(f"weft: Options: {name} is a text, not {value!r}")
    seconds = 1800.0 if timeout is None else timeout.total_seconds()
    return _compiled().Options(seconds, reproducible, algorithm, transport)


_rank: int | None = None  # of this process in the job, as its last group had it


def _create(opts: Any, options: Any) -> Any:
    from torch._C._distributed_c10d import Backend

    global _rank
    adapter = _compiled()
    _rank = opts.global_ranks_in_group[opts.group_rank] if opts.global_ranks_in_group else opts.group_rank
    made = getattr(options, "made_by_elastic", None)
    if made is not None:
        return made
    if options is not None and not isinstance(options, Backend.Options):
        raise ValueError(f"weft: pg_options is {options!r}: it is a weftcomm_torch.Options")
    if not isinstance(options, adapter.Options):  # those of another backend: "cpu:weft,cuda:nccl" has one for both
        options = adapter.Options(timeout=opts.timeout.total_seconds())
    options.global_ranks_in_group = opts.global_ranks_in_group
    if getattr(opts, "enable_reconfigure", False):  # torch 2.14
        options.enable_reconfigure = True
    _buckets_in_registered_memory()
    _say_what_is_raised()
    return adapter.join(opts.store, opts.group_rank, opts.group_size, options)


def _say_what_is_raised() -> None:
    """The ranks that wait for a script that ends with an exception learn what it raised, before it is printed."""
    before = sys.excepthook
    if getattr(before, "says_to_groups", False):
        return
    atexit.register(_compiled().end_threads)

    def say(kind: Any, raised: Any, trace: Any) -> None:
        text = str(raised)
        _compiled().abort_all(f"raised {kind.__name__}: {text}" if text else f"raised {kind.__name__}")
        before(kind, raised, trace)

    say.says_to_groups = True  # type: ignore[attr-defined]
    sys.excepthook = say


def _buckets_in_registered_memory() -> None:
    """Makes DDP ask its group for its buckets' memory, unless the environment says otherwise.

    torch does so only where DDP_DISABLE_COMM_MEM is 0. Groups of other backends answer for themselves.
    """
    os.environ.setdefault("DDP_DISABLE_COMM_MEM", "0")


def flight_record(only_active: bool = False) -> dict[str, Any]:
    """The last calls of this process's groups, in the layout of torch's flight recorder.

    only_active: without calls that have completed. TORCH_FR_BUFFER_SIZE says how many calls are kept: 2000 unless set.
    """
    record: dict[str, Any] = pickle.loads(_compiled().flight_record(only_active))
    return record


def write_flight_record(prefix: str) -> str:
    """Writes this process's flight record to the file `prefix` followed by its rank; returns the file's name.

    `python -m torch.distributed.flight_recorder.fr_trace FOLDER` compares the files of all ranks. With
    TORCH_FR_DUMP_TEMP_FILE=PREFIX in the environment a rank writes its own when a call fails. After
    destroy_process_group() the rank is the one that this process had. Errors: OSError; ValueError: it had no group.
    """
    name = f"{prefix}{_rank_of_process()}"
    with open(name, "wb") as file:
        file.write(_compiled().flight_record(False))
    return name


def _rank_of_process() -> int:
    import torch.distributed as dist

    if dist.is_initialized():
        return dist.get_rank()
    if _rank is not None:
        return _rank
    started_as = os.environ.get("RANK", "")  # by torchrun, or by `weftcomm run --as-gloo`
    if not started_as.isdigit():
        raise ValueError("weft: this process has no rank: it has made no group")
    return int(started_as)


class Group(NamedTuple):
    """A process group that weft carries."""

    name: str
    asked_for: str  # the name of the backend that the program gave: "weft" or "gloo"
    rank: int
    size: int


def active() -> list[Group]:
    """The groups of this process that weft carries, also under gloo's name; an empty list: weft carries none.

    The class of such a group's backend is ProcessGroupWeft. With WEFT_DEBUG set, rank 0 says so in one line when the first
    group is made.
    """
    adapter = sys.modules.get("weftcomm_torch._adapter")
    return [] if adapter is None else sorted(Group(*group) for group in adapter.carried())


def as_gloo() -> None:
    """From now on, groups of backend "gloo" in this process are weft's; those that exist stay what they are.

    Programs and libraries that ask for gloo by name, or construct ProcessGroupGloo, need no change. For processes that
    this one starts, `weftcomm run --as-gloo` or WEFT_AS_GLOO=1 does the same. Errors: ImportError: no compiled part is
    here for this torch, and none can be compiled.
    """
    _gloo.put_weft(_compiled())
    _buckets_in_registered_memory()


def register() -> None:
    """Makes the name "weft" known to torch.distributed; may be called again."""
    try:
        import torch.distributed as dist

        if dist.is_available() and not hasattr(dist.Backend, "WEFT"):
            dist.Backend.register_backend("weft", _create, extended_api=True, devices=["cpu"])
            _shrunk.mend()
            _numbered.mend()
            _monitored.mend()
            _timeouts.mend()
        if dist.is_available() and _gloo.asked_for():
            _as_gloo_or_refusal()
    except Exception as problem:  # nothing here may break `import torch`
        import warnings

        warnings.warn(f"backend weft is not available: {problem}", stacklevel=2)


def _as_gloo_or_refusal() -> None:
    try:
        _gloo.check_value()
        as_gloo()
    except Exception as problem:
        _gloo.put_refusal(problem)


register()
