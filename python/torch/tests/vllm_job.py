"""A rank of tensor parallelism by a stand-in of vLLM: its CpuCommunicator's constructor and calls, and its entry point.

python vllm_job.py RANK RANKS FILE PLATFORM: prints the carrier, whether vLLM's shared memory was asked for, and the answers.
"""

import importlib.metadata
import json
import os
import sys
import types

import torch
import torch.distributed as dist


class CpuCommunicator:
    """As vllm/distributed/device_communicators/cpu_communicator.py of vLLM 0.11 to 0.32."""

    def __init__(self, cpu_group, device=None, device_group=None, unique_name="", **keywords):
        self.device_group, self.unique_name = device_group, unique_name
        self.ranks = dist.get_process_group_ranks(device_group)
        self.dist_module = dist
        self.own = unique_name.startswith("tp") and self._all_group_ranks_share_shm_group_name()

    def _all_group_ranks_share_shm_group_name(self):
        return True

    def all_reduce(self, x):
        self.dist_module.all_reduce(x, group=self.device_group)
        return x

    def gather(self, x, dst):
        of_all = [torch.empty_like(x) for _ in self.ranks] if self.device_group.rank() == dst else None
        self.dist_module.gather(x, of_all, dst=self.ranks[dst], group=self.device_group)
        return None if of_all is None else torch.cat(of_all).tolist()

    def all_gather(self, x):
        of_all = torch.empty((len(x) * len(self.ranks), *x.shape[1:]), dtype=x.dtype)
        self.dist_module.all_gather_into_tensor(of_all, x, group=self.device_group)
        return of_all.tolist()


def stand_in(platform):
    modules = {}
    for name in ("vllm", "vllm.platforms", "vllm.distributed", "vllm.distributed.device_communicators",
                 "vllm.distributed.device_communicators.cpu_communicator"):  # fmt: skip
        modules[name] = sys.modules[name] = types.ModuleType(name)
    modules["vllm.platforms"].current_platform = types.SimpleNamespace(is_cpu=lambda: platform == "cpu")
    modules["vllm.distributed.device_communicators.cpu_communicator"].CpuCommunicator = CpuCommunicator


def main():
    rank, ranks, file, platform = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4]
    stand_in(platform)
    for plugin in importlib.metadata.entry_points(group="vllm.general_plugins", name="weft"):
        plugin.load()()
        plugin.load()()  # vLLM may load its plugins twice in one process
    dist.init_process_group("gloo", init_method=f"file://{file}", rank=rank, world_size=ranks)
    for first in range(0, ranks, 2):  # groups of two, whose ranks' numbers differ from those of the world
        group = dist.new_group([first, first + 1], backend="gloo")
        if rank in (first, first + 1):
            mine = group
    tp = CpuCommunicator(mine, device_group=mine, unique_name="tp:0")
    mixed = torch.arange(8.0, dtype=torch.bfloat16).reshape(2, 4).t()[:2]  # not contiguous
    answers = {
        "carrier": "gloo" if tp.dist_module is dist else type(tp.dist_module).__module__,
        "own": tp.own,
        "sum": tp.all_reduce(torch.full((3,), rank + 1.0, dtype=torch.bfloat16)).tolist(),
        "gathered": tp.gather(torch.tensor([rank]), 1),
        "all": tp.all_gather(mixed + rank),
    }
    sys.stdout.write(json.dumps(answers) + "\n")
    sys.stdout.flush()
    dist.barrier()
    dist.destroy_process_group()
    os._exit(0)  # threads of torch's own gloo sometimes abort a process that ends on a busy machine


main()
