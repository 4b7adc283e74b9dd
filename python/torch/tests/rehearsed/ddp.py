"""DDP with mixed precision, accumulation and a loss that is averaged over the ranks. MISTAKE=NAME plants one."""

import contextlib
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
model = nn.Sequential(nn.Linear(1024, 1024), nn.GELU(), nn.Linear(1024, 1024)).to(device)
if MISTAKE == "memory":
    cache = torch.empty(32, 1 << 30, device=device)  # line: memory
model = DistributedDataParallel(model)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
for step in range(3):
    for part in range(2):
        x = torch.randn(64, 1024, device=device)
        with model.no_sync() if part == 0 else contextlib.nullcontext():
            with torch.autocast(device, dtype=torch.bfloat16):
                loss = model(x).float().square().mean()
            loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad()
    total = loss.detach().clone().reshape(1)
    if MISTAKE == "shape" and rank == world - 1:
        total = total.repeat(2)
    if not (MISTAKE == "skipped" and rank == world - 1 and step == 1):
        dist.all_reduce(total)  # line: loss
    if MISTAKE == "branch" and rank == 0 and step == 2:
        dist.broadcast(total, 0)  # line: branch
    if rank == 0:
        print(step, total.item())
dist.barrier()  # line: barrier
dist.destroy_process_group()
