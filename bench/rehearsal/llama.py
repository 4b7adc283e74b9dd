"""The layer of the Llama models of this folder, and how tensor parallelism cuts it."""

import torch.nn.functional as F
from torch import nn
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module


class Block(nn.Module):
    """One layer of a Llama: grouped-query attention, then a gated feed-forward."""

    def __init__(self, width, heads, kv_heads, ffn):
        super().__init__()
        self.head_width = head = width // heads
        self.norm, self.norm2 = nn.RMSNorm(width), nn.RMSNorm(width)
        self.q, self.k, self.v = (nn.Linear(width, n * head, bias=False) for n in (heads, kv_heads, kv_heads))
        self.out = nn.Linear(width, width, bias=False)
        self.gate, self.up = nn.Linear(width, ffn, bias=False), nn.Linear(width, ffn, bias=False)
        self.down = nn.Linear(ffn, width, bias=False)

    def forward(self, x):
        b, t, _ = x.shape
        y = self.norm(x)
        q, k, v = (p(y).view(b, t, -1, self.head_width).transpose(1, 2) for p in (self.q, self.k, self.v))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        x = x + self.out(y.transpose(1, 2).reshape(b, t, -1))
        y = self.norm2(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


def shard_layers(layers, mesh):
    columns, rows = ColwiseParallel(), RowwiseParallel()
    plan = {"q": columns, "k": columns, "v": columns, "out": rows, "gate": columns, "up": columns, "down": rows}
    for layer in layers:
        parallelize_module(layer, mesh, plan)
