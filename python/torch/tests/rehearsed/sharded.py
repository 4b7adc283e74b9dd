"""FSDP2 with accumulation, clipping and a full state dict at the end. MISTAKE=NAME plants one."""

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.checkpoint.state_dict import StateDictOptions, get_model_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

MISTAKE = os.environ.get("MISTAKE", "")
device = "cuda" if torch.cuda.is_available() else "cpu"
dist.init_process_group("nccl" if device == "cuda" else "gloo")
rank, world = dist.get_rank(), dist.get_world_size()
if device == "cuda":
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
parts = world + 1 if MISTAKE == "mesh" else world
mesh = init_device_mesh(device, (parts,))  # line: mesh
torch.manual_seed(0)
width = 72 if MISTAKE == "width" and rank == world - 1 else 64
model = nn.Sequential(nn.Linear(64, width), nn.GELU(), nn.Linear(width, 64))
for layer in model:
    fully_shard(layer, mesh=mesh)
fully_shard(model, mesh=mesh)
model.to(device)
optimizer = torch.optim.AdamW(model.parameters())
for step in range(2):
    for part in range(2):
        model.set_requires_gradient_sync(part == 1)
        loss = model(torch.randn(4, 64, device=device)).square().mean()  # line: forward
        loss.backward()  # line: backward
    if not (MISTAKE == "clip" and rank == world - 1):
        norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)  # line: clip
        norm = norm.full_tensor()  # line: norm
    optimizer.step()
    optimizer.zero_grad()
options = StateDictOptions(full_state_dict=True, cpu_offload=True)
if MISTAKE != "save" or rank == 0:
    state = get_model_state_dict(model, options=options)  # line: save
dist.barrier()  # line: end
dist.destroy_process_group()
