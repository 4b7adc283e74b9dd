"""HSDP over a mesh of two dimensions, a distributed checkpoint, objects by torch's names. MISTAKE=NAME plants one."""

import os
import tempfile

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch import nn
from torch.distributed.checkpoint.state_dict import get_model_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

MISTAKE = os.environ.get("MISTAKE", "")
device = "cuda" if torch.cuda.is_available() else "cpu"
dist.init_process_group("nccl" if device == "cuda" else "gloo")
rank, world = dist.get_rank(), dist.get_world_size()
if device == "cuda":
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
mesh = init_device_mesh(device, (2, world // 2), mesh_dim_names=("replicate", "shard"))
model = nn.Sequential(nn.Linear(64, 64), nn.GELU(), nn.Linear(64, 64)).to(device)
for layer in model:
    fully_shard(layer, mesh=mesh)
fully_shard(model, mesh=mesh)
optimizer = torch.optim.AdamW(model.parameters())
for step in range(2):
    loss = model(torch.randn(4, 64, device=device)).square().mean()
    loss.backward()  # line: backward
    if MISTAKE == "norm" and rank == 1:
        dist.all_reduce(torch.ones((), device=device))  # line: norm
    optimizer.step()
    optimizer.zero_grad()
folder = [os.path.join(tempfile.gettempdir(), f"weft-checkpoint-{os.getppid()}")]
dist.broadcast_object_list(object_list=folder, src=0)  # line: folder
if MISTAKE != "checkpoint" or rank == 0:
    dcp.save({"model": get_model_state_dict(model)}, checkpoint_id=folder[0])  # line: save
losses = [None] * world if rank == 0 else None
dist.gather_object(obj=rank, object_gather_list=losses, dst=1 if MISTAKE == "root" and rank == 2 else 0)  # line: gather
mine = [None]
if MISTAKE == "scatter" and rank == world - 1:
    dist.barrier()  # line: instead
else:
    dist.scatter_object_list(mine, list(range(world)) if rank == 0 else None, src=0)  # line: scatter
everyone = [None] * (world // 2)
if MISTAKE != "shard" or rank != 3:
    dist.all_gather_object(object_list=everyone, obj=rank, group=mesh.get_group("shard"))  # line: shard
dist.barrier()  # line: end
dist.destroy_process_group()
