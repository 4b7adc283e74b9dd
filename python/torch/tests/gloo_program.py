"""A program that knows nothing of weft: it asks for gloo, by torchrun's names. Prints what it finds."""

import os
import sys
from datetime import timedelta

import torch
import torch.distributed as dist

dist.init_process_group("gloo", timeout=timedelta(seconds=30))
rank, ranks = dist.get_rank(), dist.get_world_size()
x = torch.full((5,), float(rank + 1))
dist.all_reduce(x)
assert x.tolist() == [float(sum(range(1, ranks + 1)))] * 5, x
group = dist.new_group(list(range(ranks)), backend="gloo")
objects = [None] * ranks
dist.all_gather_object(objects, {"rank": rank}, group=group)
assert [o["rank"] for o in objects] == list(range(ranks))
dist.monitored_barrier(timeout=timedelta(seconds=20))
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 4))  # whose logger looks at gloo's options
model(torch.ones(2, 4)).sum().backward()
backend = dist.group.WORLD._get_backend(torch.device("cpu"))
sys.stdout.write(f"{dist.get_backend()} {backend.name()} {sys.argv[1:]}\n")
sys.stdout.flush()
dist.destroy_process_group()
os._exit(0)  # threads of torch's own gloo sometimes abort a process that ends on a busy machine
