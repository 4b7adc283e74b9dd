"""Timeouts of groups that exist."""

from __future__ import annotations

import sys
from typing import Any


def mend() -> None:
    """Makes `distributed_c10d._set_pg_timeout` set the timeout of groups of weft's.

    torch sets it for classes that it knows, gloo's and NCCL's, and only warns for others.
    """
    import torch
    from torch.distributed import distributed_c10d as c10d

    set_timeout = c10d._set_pg_timeout
    if hasattr(set_timeout, "mended_by_weft"):
        return

    def set_pg_timeout(timeout: Any, group: Any = None) -> None:
        adapter = sys.modules.get("weftcomm_torch._adapter")
        cpu, chosen = torch.device("cpu"), c10d._get_default_group() if group is None else group
        if adapter is None or c10d._rank_not_in_group(chosen) or cpu not in chosen._device_types:
            return set_timeout(timeout, group)
        backend = chosen._get_backend(cpu)
        if not isinstance(backend, adapter.ProcessGroupWeft):
            return set_timeout(timeout, group)
        backend._set_default_timeout(timeout)
        if len(chosen._device_types) > 1:
            set_timeout(timeout, group)

    set_pg_timeout.__doc__ = set_timeout.__doc__
    set_pg_timeout.mended_by_weft = True  # type: ignore[attr-defined]
    c10d._set_pg_timeout = set_pg_timeout
