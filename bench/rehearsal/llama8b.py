"""Llama 3 8B with FSDP2 over tensor parallelism of 8, two steps: how long its rehearsal takes.

  /usr/bin/time -v weftcomm rehearse --on dgx-h100:nodes=128 bench/rehearsal/llama8b.py
"""

import os

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import Replicate
from torch.distributed.tensor.parallel import ColwiseParallel, parallelize_module

from llama import Block, shard_layers

WIDTH, LAYERS, HEADS, KV_HEADS, FFN, WORDS, LENGTH, TP = 4096, int(os.environ.get("LAYERS", "32")), 32, 8, 14336, 128256, 8192, 8


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(WORDS, WIDTH)
        self.blocks = nn.ModuleList(Block(WIDTH, HEADS, KV_HEADS, FFN) for _ in range(LAYERS))
        self.norm, self.head = nn.RMSNorm(WIDTH), nn.Linear(WIDTH, WORDS, bias=False)

    def forward(self, x):
        x = self.embedding(x)
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


dist.init_process_group("nccl")
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
mesh = init_device_mesh("cuda", (dist.get_world_size() // TP, TP), mesh_dim_names=("dp", "tp"))
with torch.device("meta"):
    model = Model()
shard_layers(model.blocks, mesh["tp"])
parallelize_module(model, mesh["tp"], {"head": ColwiseParallel(output_layouts=Replicate())})
policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
for block in model.blocks:
    fully_shard(block, mesh=mesh["dp"], mp_policy=policy)
fully_shard(model, mesh=mesh["dp"], mp_policy=policy)
model.to_empty(device="cuda")
optimizer = torch.optim.AdamW(model.parameters(), foreach=True)
for step in range(2):
    x = torch.randint(0, WORDS, (1, LENGTH), device="cuda")
    loss = F.cross_entropy(model(x).view(-1, WORDS).float(), x.view(-1))
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
