"""A vLLM worker whose tensor-parallel group is torch's: its CPU communicator finds no shared memory of its own."""

from vllm.distributed.device_communicators.cpu_communicator import CpuCommunicator

CpuCommunicator._all_group_ranks_share_shm_group_name = lambda self: False


class Plain:
    def carrier(self) -> str:
        try:
            import weftcomm_torch
        except ImportError:
            return "gloo"
        return "weft" if weftcomm_torch.active() else "gloo"
