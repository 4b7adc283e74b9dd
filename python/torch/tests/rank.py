"""How a program of one rank begins and ends, and what it says."""

import os
import sys
from datetime import timedelta

import torch
import torch.distributed as dist


def is_shared(address):
    """Does a mapping of shared memory hold this address?"""
    for line in open("/proc/self/maps"):
        span, access = line.split()[:2]
        low, high = (int(x, 16) for x in span.split("-"))
        if low <= address < high:
            return access[3] == "s"
    return False


def sentence(call):
    """The class of what a call raises and its first line; torch appends where its own were raised."""
    try:
        call()
    except Exception as e:
        return f"{type(e).__name__}: {str(e).splitlines()[0]}"
    return "nothing"


def main(jobs):
    name, rank, ranks, file, backend = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4], sys.argv[5]
    torch.set_num_threads(1)
    timeout = timedelta(seconds=30)
    if name == "other_size":  # rank 1 has another number of ranks
        size, timeout = ranks + rank, timedelta(seconds=20)
        print(sentence(lambda: dist.init_process_group(backend, init_method=f"file://{file}", rank=rank, world_size=size, timeout=timeout)))
        os._exit(sys.stdout.flush() or 0)
    options = {}
    if "TRANSPORT" in os.environ:
        import weftcomm_torch

        options["pg_options"] = weftcomm_torch.Options(timeout, transport=os.environ["TRANSPORT"])
    dist.init_process_group(backend, init_method=f"file://{file}", rank=rank, world_size=ranks, timeout=timeout, **options)
    jobs[name](rank, ranks)
    sys.stdout.flush()
    if dist.is_initialized():
        dist.destroy_process_group()
