"""weft under gloo's name, for programs that ask for gloo (decision 0138)."""

from __future__ import annotations

import os
from typing import Any

VARIABLE = "WEFT_AS_GLOO"


def asked_for() -> bool:
    """True where `weftcomm run --as-gloo` or WEFT_AS_GLOO=1 has asked for it, or a value that has no meaning may have."""
    return os.environ.get(VARIABLE, "") not in ("", "0")


def check_value() -> None:
    """Errors: ValueError: the variable has another value than 0 and 1."""
    value = os.environ.get(VARIABLE, "")
    if value not in ("", "0", "1"):
        raise ValueError(f"it is '{value}', which is neither 0 nor 1")


def _put(replacement: Any, wrap: Any) -> None:
    """Puts a class in the place of ProcessGroupGloo, wherever torch keeps that name."""
    import torch
    import torch.distributed as dist
    from torch.distributed import distributed_c10d as c10d

    replacement.__module__ = "torch.distributed.distributed_c10d"
    # Its own name is ProcessGroupWeft, which messages and `type(group)` show.
    for module in (c10d, dist, torch._C._distributed_c10d):
        module.ProcessGroupGloo = replacement  # type: ignore[attr-defined]
    c10d._create_process_group_wrapper = wrap
    # torch's C++ casts the backend of a group of type GLOO to its own class, DDP's logger for one.
    types: Any = c10d.ProcessGroup.BackendType
    types.GLOO = types.CUSTOM
    c10d.Backend.backend_type_map["gloo"] = types.CUSTOM


def _unwrapped(wrapped_pg: Any, *_args: Any, **_keywords: Any) -> Any:
    """TORCH_DISTRIBUTED_DEBUG=DETAIL compares calls by a second group of gloo's; weft compares them itself."""
    return wrapped_pg


def put_weft(adapter: Any) -> None:
    """From now on "gloo" is weft in this process."""
    _put(adapter.ProcessGroupWeft, _unwrapped)


def put_refusal(problem: Exception) -> None:
    """A group of "gloo" cannot be made: rather an exception than another backend than the one that was asked for."""

    class ProcessGroupGloo:
        def __init__(self, *_args: Any, **_keywords: Any) -> None:
            raise ImportError(f"{VARIABLE}: weft cannot stand for gloo: {problem}") from problem

    _put(ProcessGroupGloo, _unwrapped)
