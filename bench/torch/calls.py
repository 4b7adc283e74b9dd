#!/usr/bin/env python3
"""Times calls of torch.distributed on CPU tensors with gloo and with weft, block by block in turn in the same two processes.

  build/torch/venv/bin/python bench/torch/calls.py [--quick] [--only CALL...] [--beside MODULE:BACKEND]

One thread per rank, async_op=False. Beside the backends stand the floor, the same call on backend "fake", which is Python and
torch's dispatcher alone, and the bound, a copy of the bytes that a rank reads of its peer by one thread (torch's copy_).
"registered": the tensor lies in memory of the group's allocate_tensor. --beside times a third backend, which the import of
MODULE registers, as oneccl_bindings_for_pytorch:ccl; calls that it refuses are left empty. Reported are minima and medians
over blocks, in us.
"""

import argparse
import importlib
import statistics
import sys
import tempfile
import time
from datetime import timedelta

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch.testing._internal.distributed.fake_pg import FakeStore

SIZES = {
    "all_reduce": (4, 64, 4 << 10, 64 << 10, 1 << 20, 16 << 20, 64 << 20),
    "reduce_scatter": (64, 4 << 10, 64 << 10, 1 << 20, 16 << 20),
    "all_gather": (64, 4 << 10, 64 << 10, 1 << 20, 16 << 20),
    "all_to_all": (64, 4 << 10, 64 << 10, 1 << 20, 16 << 20),
    "broadcast": (4, 4 << 10, 64 << 10, 1 << 20, 16 << 20, 64 << 20),
    "reduce": (4, 4 << 10, 64 << 10, 1 << 20, 16 << 20),
    "send_recv": (4, 4 << 10, 64 << 10, 1 << 20, 16 << 20),
    "barrier": (0,),
}


def call_of(name, size, group, make):
    """The call, on tensors that `make` gives; size: bytes of the larger of input and output."""
    if name == "barrier":
        return lambda: dist.barrier(group=group)
    x = make(size // 4)
    if name == "all_reduce":
        return lambda: dist.all_reduce(x, group=group)
    if name == "broadcast":
        return lambda: dist.broadcast(x, 0, group=group)
    if name == "reduce":
        return lambda: dist.reduce(x, 0, group=group)
    if name in ("all_to_all", "send_recv"):
        y = make(size // 4)
    if name == "all_to_all":
        return lambda: dist.all_to_all_single(y, x, group=group)
    if name == "send_recv":
        rank, peer = dist.get_rank(), 1 - dist.get_rank()
        return lambda: (dist.send(x, peer, group=group), dist.recv(y, peer, group=group)) if rank == 0 else (dist.recv(y, peer, group=group), dist.send(x, peer, group=group))
    part = make(size // 8)
    if name == "reduce_scatter":
        return lambda: dist.reduce_scatter_tensor(part, x, group=group)
    return lambda: dist.all_gather_into_tensor(x, part, group=group)


def microseconds(call, times):
    begin = time.perf_counter()
    for _ in range(times):
        call()
    return (time.perf_counter() - begin) / times * 1e6


def floors():
    """Least us of every kind of call on backend fake, in a process of its own."""
    dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=2)
    calls = {name: call_of(name, 64, None, torch.zeros) for name in SIZES}
    found = {name: min(microseconds(call, 200) for _ in range(20)) for name, call in calls.items()}
    print(found, flush=True)


def bound(name, size):
    """Least us of a copy of what a rank needs of its peer: half a message, for both copies of an all_reduce."""
    half = torch.zeros(max(1, size // 8))
    to = torch.zeros_like(half)
    return 0.0 if name == "barrier" else min(microseconds(lambda: to.copy_(half), 10) for _ in range(10)) * (2 if name == "all_reduce" else 1)


def rank_main(rank, file, options, floor):
    torch.set_num_threads(1)
    if options.beside:
        importlib.import_module(options.beside.partition(":")[0])
    dist.init_process_group("gloo", init_method=f"file://{file}", rank=rank, world_size=2, timeout=timedelta(seconds=120))
    weft, own = dist.new_group(backend="weft"), dist.new_group(backend="weft")  # ranks vote on how calls of a group reach memory
    allocate = own._get_backend(torch.device("cpu")).allocate_tensor
    beside = dist.new_group(backend=options.beside.partition(":")[2]) if options.beside else None

    def registered(n):
        return allocate(n, dtype=torch.float32, device=torch.device("cpu")).zero_()

    if rank == 0:
        third = f" {options.beside.partition(':')[2]} | its over weft |" if options.beside else ""
        print(f"| call, bytes | gloo, min / median | weft | registered | gloo over weft: minima, medians | over registered |{third} floor | bound |")
        print("|---" * (10 if third else 8) + "|")
    for name in options.only:
        for size in SIZES[name]:
            calls = {
                "gloo": call_of(name, size, dist.group.WORLD, torch.zeros),
                "weft": call_of(name, size, weft, torch.zeros),
                "registered": call_of(name, size, own, registered),
            }
            if beside and answers(call := call_of(name, size, beside, torch.zeros)):
                calls["beside"] = call
            block = max(1, min(100, (2 << 20) // max(size, 1)))
            rounds = (6 if size > 1 << 20 else 15) if options.quick else (12 if size > 1 << 20 else 30)
            times = {key: [] for key in calls}
            for _ in range(rounds):
                for key, call in calls.items():
                    dist.barrier(group=weft)
                    times[key].append(microseconds(call, block))
            if rank == 0:
                print_row(name, size, times, floor[name], bound(name, size), bool(beside))
    dist.destroy_process_group()


def answers(call):
    """Does the backend have this call, on all ranks?"""
    try:
        call()
    except RuntimeError:
        return False
    return True


def print_row(name, size, times, floor, bound, three):
    least = {n: min(t) for n, t in times.items()}
    median = {n: statistics.median(t) for n, t in times.items()}
    cells = [f"{least[n]:.1f} / {median[n]:.1f}" for n in ("gloo", "weft", "registered")]

    def over(other, n):
        return f"{least[other] / least[n]:.1f}x, {median[other] / median[n]:.1f}x"

    cells += [over("gloo", n) for n in ("weft", "registered")]
    if three:
        cells += [f"{least['beside']:.1f} / {median['beside']:.1f}", over("beside", "weft")] if "beside" in times else ["", ""]
    print(f"| {name}, {size} | " + " | ".join(cells) + f" | {floor:.1f} | {bound:.1f} |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="half the blocks")
    parser.add_argument("--only", nargs="+", choices=list(SIZES), default=list(SIZES), metavar="CALL", help=", ".join(SIZES))
    parser.add_argument("--beside", metavar="MODULE:BACKEND", help="a third backend, and the module that registers it")
    parser.add_argument("--floors", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.floors:
        return floors()
    import ast
    import subprocess

    printed = subprocess.run([sys.executable, __file__, "--floors"], capture_output=True, text=True, check=True).stdout
    with tempfile.TemporaryDirectory() as folder:
        mp.spawn(rank_main, args=(folder + "/meet", options, ast.literal_eval(printed.splitlines()[-1])), nprocs=2)


if __name__ == "__main__":
    main()
