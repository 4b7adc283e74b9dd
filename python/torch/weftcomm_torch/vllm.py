"""weft as the communicator of vLLM's CPU workers: their tensor-parallel groups call weft's backend.

vLLM loads `register` in each of its processes (entry point vllm.general_plugins). It has an effect where weft stands for
gloo (WEFT_AS_GLOO=1): all_reduce, all_gather and gather of a group that weft carries go to the group's backend directly,
instead of vLLM's shared-memory collectives, which serve the ranks of one host only.
"""

from __future__ import annotations

import sys
from typing import Any

from . import _gloo


class Calls:
    """What vLLM's CpuCommunicator asks of torch.distributed, without the functions of torch.distributed in between.

    Each call returns when its result is there, on the caller's thread. Errors: as of torch.distributed's calls.
    """

    def __init__(self, group: Any) -> None:
        import torch
        import torch.distributed as dist
        from torch.distributed import distributed_c10d as c10d

        self._backend = group._get_backend(torch.device("cpu"))
        self._rank_in = lambda rank: dist.get_group_rank(group, rank)
        self._sum = dist.AllreduceOptions()
        self._all_gather = c10d.AllgatherOptions()
        for options in (self._sum, self._all_gather):
            options.asyncOp = False
        self._gather_options = dist.GatherOptions

    def all_reduce(self, input: Any, group: Any = None) -> None:
        """Sums `input` in place."""
        self._backend.allreduce([input], self._sum).wait()

    def all_gather_into_tensor(self, output: Any, input: Any, group: Any = None) -> None:
        """output: the inputs of all ranks, one after the other."""
        self._backend._allgather_base(output, input.contiguous(), self._all_gather).wait()

    def gather(self, input: Any, gather_list: Any, dst: int = -1, group: Any = None) -> None:
        """gather_list: on rank dst, a tensor for each rank; None on others. dst: a rank of the default group."""
        options = self._gather_options()
        options.rootRank, options.asyncOp = self._rank_in(dst), False
        self._backend.gather([] if gather_list is None else [gather_list], [input], options).wait()


def _weft_carries(group: Any) -> bool:
    import torch

    adapter: Any = sys.modules.get("weftcomm_torch._adapter")
    cpu = torch.device("cpu")
    if adapter is None or group is None or cpu not in group._device_types:
        return False
    return isinstance(group._get_backend(cpu), adapter.ProcessGroupWeft)


def register() -> None:
    """Puts weft's calls in the place of vLLM's own in groups that weft carries; may be called again.

    Without WEFT_AS_GLOO=1, or on another platform than the CPU, it changes nothing.
    """
    if not _gloo.asked_for():
        return
    from vllm.platforms import current_platform

    if not current_platform.is_cpu():
        return
    from vllm.distributed.device_communicators.cpu_communicator import CpuCommunicator

    make, share = CpuCommunicator.__init__, CpuCommunicator._all_group_ranks_share_shm_group_name
    if hasattr(make, "mended_by_weft"):
        return

    def ranks_share_memory_of_vllm(self: Any) -> bool:
        return not _weft_carries(self.device_group) and bool(share(self))

    def communicator(self: Any, *args: Any, **keywords: Any) -> None:
        make(self, *args, **keywords)
        if _weft_carries(self.device_group):
            self.dist_module = Calls(self.device_group)

    communicator.mended_by_weft = True  # type: ignore[attr-defined]
    CpuCommunicator._all_group_ranks_share_shm_group_name = ranks_share_memory_of_vllm
    CpuCommunicator.__init__ = communicator
