"""DDP as tutorials have it: batch norm, validation, an average, a checkpoint. MISTAKE=NAME plants one."""

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

MISTAKE = os.environ.get("MISTAKE", "")
device = "cuda" if torch.cuda.is_available() else "cpu"
dist.init_process_group("nccl" if device == "cuda" else "gloo")
rank, world = dist.get_rank(), dist.get_world_size()
if device == "cuda":
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
model = nn.Sequential(nn.Linear(64, 64), nn.BatchNorm1d(64), nn.ReLU(), nn.Linear(64, 8)).to(device)
model = DistributedDataParallel(model)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
batches = 3
if MISTAKE == "uneven" and rank == 0:
    batches = 4
for step in range(batches):
    x, y = torch.randn(16, 64, device=device), torch.zeros(16, dtype=torch.long, device=device)
    loss = nn.functional.cross_entropy(model(x), y)  # line: forward
    if MISTAKE == "nan" and rank == world - 1 and step == 1:
        optimizer.zero_grad()
        continue
    loss.backward()  # line: backward
    optimizer.step()
    optimizer.zero_grad()
    total = loss.detach().clone().reshape(1)
    if MISTAKE == "type" and rank == world - 1:
        total = total.double()
    root = 0
    if MISTAKE == "root" and rank == world - 1:
        root = rank
    dist.all_reduce(total)  # line: average
    dist.broadcast(total, root)  # line: root
    if MISTAKE == "early" and rank == 0 and step == 1:
        break
if MISTAKE == "validate" and rank == 0:
    model(torch.randn(16, 64, device=device))  # line: validate
if rank == 0:
    state = model.state_dict()
    if MISTAKE == "barrier":
        dist.barrier()  # line: saved
if MISTAKE == "seed" and rank == 0:
    seed = torch.tensor([7], device=device)
    dist.broadcast(seed, 0)  # line: seed
metrics = [torch.zeros(2, device=device) for _ in range(world)]
if not (MISTAKE == "metrics" and rank == world - 1):
    dist.all_gather(metrics, torch.ones(2, device=device))  # line: metrics
dist.barrier()  # line: end
dist.destroy_process_group()
