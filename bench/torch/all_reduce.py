"""Times all_reduce of float32 tensors with gloo and weft in one process, block by block in turn: python all_reduce.py."""

import statistics
import sys
import tempfile
import time

import torch
import torch.distributed as dist
import torch.multiprocessing as mp

SIZES = (4, 64, 4 << 10, 64 << 10, 1 << 20, 16 << 20, 64 << 20)


def rank_main(rank, file):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{file}", rank=rank, world_size=2)
    groups = {"gloo": dist.group.WORLD, "weft": dist.new_group(backend="weft")}
    if rank == 0:
        print("| all_reduce | gloo, min / median (us) | weft | ratio of minima / medians |\n|---|---|---|---|")
    for size in SIZES:
        x = torch.zeros(size // 4)
        block = max(1, min(200, (4 << 20) // size))
        times = {name: [] for name in groups}
        for _ in range(12 if size > 1 << 20 else 30):
            for name, group in groups.items():
                dist.barrier(group=group)
                begin = time.perf_counter()
                for _ in range(block):
                    dist.all_reduce(x, group=group)
                times[name].append((time.perf_counter() - begin) / block * 1e6)
        if rank == 0:
            least = {n: min(t) for n, t in times.items()}
            median = {n: statistics.median(t) for n, t in times.items()}
            print(
                f"| {size} B | {least['gloo']:.1f} / {median['gloo']:.1f} | {least['weft']:.1f} / {median['weft']:.1f} "
                f"| {least['gloo'] / least['weft']:.1f}x / {median['gloo'] / median['weft']:.1f}x |",
                flush=True,
            )
    for name, group in groups.items():
        times = []
        for _ in range(30):
            begin = time.perf_counter()
            for _ in range(100):
                dist.barrier(group=group)
            times.append((time.perf_counter() - begin) / 100 * 1e6)
        if rank == 0:
            print(f"barrier, {name}: {min(times):.1f} / {statistics.median(times):.1f} us", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        mp.spawn(rank_main, args=(folder + "/meet",), nprocs=2)
    sys.exit(0)
