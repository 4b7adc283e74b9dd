"""torch.distributed.pipelining: a stage per rank, 1F1B. MISTAKE=NAME plants one."""

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.pipelining import PipelineStage, Schedule1F1B

MISTAKE = os.environ.get("MISTAKE", "")
device = "cuda" if torch.cuda.is_available() else "cpu"
dist.init_process_group("nccl" if device == "cuda" else "gloo")
rank, world = dist.get_rank(), dist.get_world_size()
place = torch.device(device, int(os.environ["LOCAL_RANK"])) if device == "cuda" else torch.device("cpu")
if device == "cuda":
    torch.cuda.set_device(place)
model = nn.Sequential(nn.Linear(32, 32), nn.GELU(), nn.Linear(32, 32)).to(place)
chunks = 2 * world
if MISTAKE == "chunks" and rank == world - 1:
    chunks = world
stage = PipelineStage(model, rank, world, place, input_args=(torch.randn(2, 32, device=place, requires_grad=rank > 0),),
                      output_args=(torch.randn(2, 32, device=place, requires_grad=True),))  # fmt: skip
schedule = Schedule1F1B(stage, chunks, loss_fn=lambda out, target: (out - target).square().mean())
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(2):
    x = torch.randn(2 * chunks, 32, device=place)
    if rank == 0:
        schedule.step(x)  # line: first
    elif rank == world - 1:
        schedule.step(target=torch.randn(2 * chunks, 32, device=place))  # line: last
    else:
        schedule.step()  # line: middle
    optimizer.step()
    optimizer.zero_grad()
dist.barrier()
dist.destroy_process_group()
