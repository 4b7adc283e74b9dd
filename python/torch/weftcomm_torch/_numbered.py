"""Numbers of a group's calls."""

from __future__ import annotations

import sys
from typing import Any


def mend() -> None:
    """Makes `group._get_sequence_number_for_group()` answer for groups of weft's.

    torch 2.13 asks the backend only where a group's type is GLOO, NCCL or UCC, and raises for others.
    """
    from torch.distributed import distributed_c10d as c10d

    number = c10d.ProcessGroup._get_sequence_number_for_group
    if hasattr(number, "mended_by_weft"):
        return

    def sequence_number(group: Any) -> int:
        adapter = sys.modules.get("weftcomm_torch._adapter")
        if adapter is not None:
            import torch

            try:
                backend = group._get_backend(torch.device("cpu"))
            except RuntimeError:  # none for the CPU
                backend = None
            if isinstance(backend, adapter.ProcessGroupWeft):
                return int(backend._get_sequence_number_for_group())
        return int(number(group))

    sequence_number.mended_by_weft = True  # type: ignore[attr-defined]
    c10d.ProcessGroup._get_sequence_number_for_group = sequence_number
