"""dist.monitored_barrier for groups of weft's."""

from __future__ import annotations

from typing import Any


def mend() -> None:
    """Makes `dist.monitored_barrier` serve groups of weft's: torch 2.13 has it for the name gloo only."""
    import torch.distributed as dist
    from torch.distributed import distributed_c10d as c10d

    barrier = c10d.monitored_barrier
    if hasattr(barrier, "mended_by_weft"):
        return

    def monitored_barrier(group: Any = None, timeout: Any = None, wait_all_ranks: bool = False) -> Any:
        if c10d._rank_not_in_group(group) or c10d.get_backend(group) != "weft":
            return barrier(group, timeout, wait_all_ranks)
        chosen = c10d._get_default_group() if group is None else group
        limit = c10d.default_pg_timeout if timeout is None else timeout
        return chosen.monitored_barrier(limit, wait_all_ranks=wait_all_ranks)

    monitored_barrier.__doc__ = barrier.__doc__
    monitored_barrier.mended_by_weft = True  # type: ignore[attr-defined]
    for module in (c10d, dist):
        module.monitored_barrier = monitored_barrier  # type: ignore[attr-defined]
