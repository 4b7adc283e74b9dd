"""A pipeline by hand: activations go from rank to rank, then a ring in one batch. MISTAKE=NAME plants one."""

import os

import torch
import torch.distributed as dist

MISTAKE = os.environ.get("MISTAKE", "")
device = "cuda" if torch.cuda.is_available() else "cpu"
dist.init_process_group("nccl" if device == "cuda" else "gloo")
rank, world = dist.get_rank(), dist.get_world_size()
if device == "cuda":
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
weight = torch.randn(512, 512, device=device, dtype=torch.bfloat16)
even, odd = dist.new_group(list(range(world))), dist.new_group(list(range(world)))
x = torch.randn(128, 512, device=device, dtype=torch.bfloat16)
for step in range(2):
    if rank > 0:
        dist.recv(x, rank - 1)
    x = x @ weight
    if rank < world - 1:
        dist.send(x, rank + 1)
if MISTAKE == "ring":
    dist.send(x, (rank + 1) % world)  # line: ring
    dist.recv(x, (rank - 1) % world)
else:
    to, source = (rank + 1) % world, (rank - 1) % world
    for work in dist.batch_isend_irecv([dist.P2POp(dist.isend, x, to), dist.P2POp(dist.irecv, torch.empty_like(x), source)]):
        work.wait()
if MISTAKE == "order" and rank == 1:
    even, odd = odd, even
dist.all_reduce(x, group=even)  # line: even
dist.all_reduce(x, group=odd)  # line: odd
objects = [None] * world
dist.all_gather_object(objects, {"rank": rank})
assert len(objects) == world and all(o is not None for o in objects)
settings = [{"seed": 7}] if rank == 0 else [None]
dist.broadcast_object_list(settings, src=0)
assert settings == [{"seed": 7}]
if MISTAKE == "receive" and rank == 0:
    dist.send(x, 1)  # line: lost
