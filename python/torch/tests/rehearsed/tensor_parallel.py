"""A two-dimensional mesh: DTensor's tensor parallelism within nodes, gradients averaged by hand across them."""

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

device = "cuda" if torch.cuda.is_available() else "cpu"
dist.init_process_group("nccl" if device == "cuda" else "gloo")
tp = min(8, dist.get_world_size())
mesh = init_device_mesh(device, (dist.get_world_size() // tp, tp), mesh_dim_names=("dp", "tp"))
model = nn.Sequential(nn.Linear(1024, 4096), nn.GELU(), nn.Linear(4096, 1024)).to(device)
model = parallelize_module(model, mesh["tp"], {"0": ColwiseParallel(), "2": RowwiseParallel()})
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(2):
    loss = model(torch.randn(64, 1024, device=device)).square().sum()  # line: forward
    loss.backward()
    for parameter in model.parameters():
        dist.all_reduce(parameter.grad.to_local(), group=mesh["dp"].get_group())  # line: gradients
    optimizer.step()
    optimizer.zero_grad()
