"""Objects, groups of halves, an uneven exchange. MISTAKE=NAME plants one."""

import os

import torch
import torch.distributed as dist

MISTAKE = os.environ.get("MISTAKE", "")
device = "cuda" if torch.cuda.is_available() else "cpu"
dist.init_process_group("nccl" if device == "cuda" else "gloo")
rank, world = dist.get_rank(), dist.get_world_size()
if device == "cuda":
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
halves = [list(range(world // 2)), list(range(world // 2, world))]
mine = 0 if rank < world // 2 else 1
if MISTAKE == "members":
    group = dist.new_group(halves[1]) if mine == 1 else None  # line: members
else:
    group = [dist.new_group(half) for half in halves][mine]
settings = [{"batch": 8}] if rank == 0 else [None]
if MISTAKE != "broadcast" or rank == 0:
    dist.broadcast_object_list(settings, src=0)  # line: settings
gathered = [None] * world if rank == 0 or MISTAKE == "gather" else None
to = rank if MISTAKE == "gather" and rank == world - 1 else 0
dist.gather_object({"rank": rank}, gathered, dst=to)  # line: gather
if rank == 0:
    assert len(gathered) == world and gathered[0] == {"rank": 0}
names = [None] * world
if MISTAKE != "names" or rank != 1:
    dist.all_gather_object(names, f"host{rank}")  # line: names
out = [None]
dist.scatter_object_list(out, [f"part{i}" for i in range(world)] if rank == 0 else None, src=0)
x = torch.ones(4, device=device)
dist.all_reduce(x, group=group)  # line: half
sends = [1 + (rank + j) % 2 for j in range(world)]
receives = [1 + (rank + j) % 2 for j in range(world)]
if MISTAKE == "splits" and rank == 0:
    sends[1] += 1
source = torch.ones(sum(sends), 3, device=device)
target = torch.empty(sum(receives), 3, device=device)
dist.all_to_all_single(target, source, receives, sends)  # line: exchange
dist.barrier()  # line: end
dist.destroy_process_group()
