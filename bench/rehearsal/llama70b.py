"""Llama 3 70B with FSDP2 over tensor parallelism of 8 over a pipeline of 8, two steps: how long its rehearsal takes.

  /usr/bin/time -v weftcomm rehearse --on dgx-h100:nodes=512 bench/rehearsal/llama70b.py
"""

import os

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.distributed.pipelining import PipelineStage, Schedule1F1B
from torch.distributed.tensor import Replicate
from torch.distributed.tensor.parallel import ColwiseParallel, parallelize_module

from llama import Block, shard_layers

WIDTH, LAYERS, HEADS, KV_HEADS, FFN, WORDS, LENGTH = 8192, int(os.environ.get("LAYERS", "80")), 64, 8, 28672, 128256, 8192
TP, PP, PARTS = 8, 8, 8


class Stage(nn.Module):
    """The layers of one pipeline stage; the first has the embedding, the last the head."""

    def __init__(self, place):
        super().__init__()
        self.embedding = nn.Embedding(WORDS, WIDTH) if place == 0 else None
        self.blocks = nn.ModuleList(Block(WIDTH, HEADS, KV_HEADS, FFN) for _ in range(LAYERS // PP))
        self.norm = nn.RMSNorm(WIDTH) if place == PP - 1 else None
        self.head = nn.Linear(WIDTH, WORDS, bias=False) if place == PP - 1 else None

    def forward(self, x):
        x = x if self.embedding is None else self.embedding(x)
        for block in self.blocks:
            x = block(x)
        return x if self.head is None else self.head(self.norm(x))


def loss_of(logits, words):
    return F.cross_entropy(logits.view(-1, WORDS).float(), words.view(-1))


dist.init_process_group("nccl")
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
shape = (PP, dist.get_world_size() // (PP * TP), TP)
mesh = init_device_mesh("cuda", shape, mesh_dim_names=("pp", "dp", "tp"))
place = mesh["pp"].get_local_rank()
with torch.device("meta"):
    model = Stage(place)
shard_layers(model.blocks, mesh["tp"])
policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
if model.head is not None:
    parallelize_module(model, mesh["tp"], {"head": ColwiseParallel(output_layouts=Replicate())})
for block in model.blocks:
    fully_shard(block, mesh=mesh["dp"], mp_policy=policy, reshard_after_forward=False)
fully_shard(model, mesh=mesh["dp"], mp_policy=policy, reshard_after_forward=False)
model.to_empty(device="cuda")
words = torch.empty(1, LENGTH, dtype=torch.int64, device="cuda")
hidden = torch.empty(1, LENGTH, WIDTH, dtype=torch.bfloat16, device="cuda", requires_grad=True)
logits = torch.empty(1, LENGTH, WORDS, dtype=torch.bfloat16, device="cuda", requires_grad=True)
stage = PipelineStage(
    model, place, PP, torch.device("cuda"), input_args=(words if place == 0 else hidden,),
    output_args=(logits if place == PP - 1 else hidden,), group=mesh["pp"].get_group(),
)  # fmt: skip
schedule = Schedule1F1B(stage, PARTS, loss_fn=loss_of)
optimizer = torch.optim.AdamW(model.parameters(), foreach=True)
for step in range(2):
    x = torch.randint(0, WORDS, (PARTS, LENGTH), device="cuda")
    given = (x,) if place == 0 else ()
    schedule.step(*given, **({"target": x} if place == PP - 1 else {}))
    optimizer.step()
    optimizer.zero_grad()
