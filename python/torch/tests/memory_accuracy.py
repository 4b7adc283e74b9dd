"""Peaks of memory that a rehearsal counts, beside those of torch's own MemTracker in the same run.

Rehearsed itself: weftcomm rehearse --on dgx-h100 --as 0 memory_accuracy.py. One line per model: what, both peaks in MiB, difference.
"""

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.distributed._tools.mem_tracker import MemTracker
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.utils.checkpoint import checkpoint


class Block(nn.Module):
    def __init__(self, width, heads, keep):
        super().__init__()
        self.norm, self.heads, self.keep = nn.LayerNorm(width), heads, keep
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def inner(self, x):
        b, t, d = x.shape
        q, k, v = self.qkv(self.norm(x)).view(b, t, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        x = x + self.out(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(b, t, d))
        return x + self.down(F.gelu(self.up(x)))

    def forward(self, x):
        return self.inner(x) if self.keep else checkpoint(self.inner, x, use_reentrant=False)


class Model(nn.Module):
    def __init__(self, width, layers, keep, words=8000):
        super().__init__()
        self.embedding, self.head = nn.Embedding(words, width), nn.Linear(width, words)
        self.blocks = nn.ModuleList(Block(width, 8, keep) for _ in range(layers))

    def forward(self, x):
        x = self.embedding(x)
        for block in self.blocks:
            x = block(x)
        return self.head(x)


def peaks(width, layers, keep, sharded, length):
    """Bytes: what the rehearsal counts, what MemTracker counts."""
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    with torch.device("cuda"):
        model = Model(width, layers, keep)
    if sharded:
        policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
        for block in model.blocks:
            fully_shard(block, mp_policy=policy)
        fully_shard(model, mp_policy=policy)
    optimizer = torch.optim.AdamW(model.parameters(), foreach=True)
    tracker = MemTracker()
    tracker.track_external(model, optimizer)
    with tracker:
        for _ in range(2):
            x = torch.randint(0, 8000, (2, length), device="cuda")
            with torch.autocast("cuda", dtype=torch.bfloat16, enabled=not sharded):
                loss = F.cross_entropy(model(x).view(-1, 8000).float(), x.view(-1))
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            del loss, x
            tracker.reset_mod_stats()
    theirs = max(s["Total"] for d, s in tracker.get_tracker_snapshot("peak").items() if d.type == "cuda")
    return torch.cuda.max_memory_allocated() - before, theirs


dist.init_process_group("nccl")
torch.cuda.set_device(0)
for width, layers, keep, sharded, length in [
    (512, 4, True, False, 512),
    (512, 4, False, False, 512),
    (1024, 8, True, True, 1024),
    (1024, 8, False, True, 1024),
]:
    ours, theirs = peaks(width, layers, keep, sharded, length)
    words = f"{'FSDP2' if sharded else 'one GPU'}, width {width}, {layers} layers, {'all kept' if keep else 'checkpoints'}"
    print(f"{words} | {ours / 2**20:.1f} | {theirs / 2**20:.1f} | {100 * (ours / theirs - 1):+.2f} %", flush=True)
