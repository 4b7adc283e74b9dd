"""An extension of vLLM's workers, which says what carries their tensor-parallel group.

WITHOUT_OWN=1 in the environment: vLLM's CPU communicator finds no shared memory of its own, so that torch's group carries
the tensors.
"""

import os

from vllm.distributed.device_communicators.cpu_communicator import CpuCommunicator

if os.environ.get("WITHOUT_OWN") == "1":
    CpuCommunicator._all_group_ranks_share_shm_group_name = lambda self: False


class Extension:
    def carrier(self) -> str:
        from vllm.distributed import get_tp_group

        module = get_tp_group().device_communicator.dist_module
        if type(module).__module__ == "weftcomm_torch.vllm":
            return "weft"
        return "vLLM's shared memory" if type(module).__name__ == "_CPUSHMDistributed" else "gloo"
