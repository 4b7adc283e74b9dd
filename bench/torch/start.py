#!/usr/bin/env python3
"""How long many ranks take to make a process group, with gloo and with weft: python bench/torch/start.py [--ranks 64] [--rounds 3].

The ranks are forked from one process that has imported torch, so that the import is not in the time. It runs from when all
ranks have been forked until the last has left its first barrier, which the first all_reduce precedes.
"""

import argparse
import os
import statistics
import tempfile
import time
from datetime import timedelta

import torch
import torch.distributed as dist
import torch.multiprocessing as mp


def rank_main(rank, ranks, backend, file, ready, go, ended):
    torch.set_num_threads(1)
    ready.release()
    go.wait()
    dist.init_process_group(backend, init_method=f"file://{file}", rank=rank, world_size=ranks, timeout=timedelta(seconds=120))
    x = torch.ones(1)
    dist.all_reduce(x)
    assert x == ranks
    dist.barrier()
    ended.put(time.monotonic())
    dist.destroy_process_group()


def seconds(context, ranks, backend):
    ready, go, ended = context.Semaphore(0), context.Event(), context.Queue()
    with tempfile.TemporaryDirectory() as folder:
        processes = [
            context.Process(target=rank_main, args=(r, ranks, backend, folder + "/meet", ready, go, ended)) for r in range(ranks)
        ]
        for p in processes:
            p.start()
        for _ in processes:
            ready.acquire()
        begin = time.monotonic()
        go.set()
        last = max(ended.get(timeout=300) for _ in processes)
        for p in processes:
            p.join()
    return last - begin


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    context = mp.get_context("fork")
    found = {"gloo": [], "weft": []}
    for _ in range(options.rounds):
        for backend, times in found.items():
            times.append(seconds(context, options.ranks, backend))
    print(f"| {options.ranks} ranks, s | min | median |\n|---|---|---|")
    for backend, times in found.items():
        print(f"| {backend} | {min(times):.2f} | {statistics.median(times):.2f} |")


if __name__ == "__main__":
    main()
