#!/usr/bin/env python3
"""PyTorch's nccl backend with two processes on one GPU, through whatever libnccl.so.2 is preloaded. Exit: 0 all right."""

import os
import sys
import time

RANKS = 2


def rank_story(rank):
    import torch
    import torch.distributed as dist
    torch.cuda.set_device(0)
    dist.init_process_group("nccl", rank=rank, world_size=RANKS)
    x = torch.full((1 << 18,), float(rank + 1), device="cuda")
    dist.all_reduce(x)
    parts = [torch.empty(1000, device="cuda") for _ in range(RANKS)]
    dist.all_gather(parts, torch.full((1000,), float(rank), device="cuda"))
    scattered = torch.empty(1000, device="cuda")
    dist.reduce_scatter_tensor(scattered, torch.ones(RANKS * 1000, device="cuda"))
    torch.cuda.synchronize()
    right = bool((x == 3).all()) and all(bool((p == r).all()) for r, p in enumerate(parts)) and bool((scattered == 2).all())
    begin = time.perf_counter()
    for _ in range(20):
        dist.all_reduce(x)
    torch.cuda.synchronize()
    each = (time.perf_counter() - begin) / 20
    dist.destroy_process_group()
    if rank == 0:
        print(f"torch {torch.__version__}: {'right' if right else 'WRONG'}; all_reduce of 1 MiB {each * 1e6:.1f} us")
    return 0 if right else 1


def main():
    os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
    os.environ.setdefault("MASTER_PORT", "29511")
    children = []
    for rank in range(RANKS):
        child = os.fork()  # before torch is loaded
        if child == 0:
            sys.exit(rank_story(rank))
        children.append(child)
    return max(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children)


if __name__ == "__main__":
    sys.exit(main())
