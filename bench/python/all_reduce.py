"""One rank: times in-place all_reduce of a float32 NumPy array, by weftcomm or mpi4py (first argument)."""

import json
import sys
import time

import numpy as np

SIZES = (8, 1 << 10, 64 << 10, 4 << 20)
library = sys.argv[1]
if library == "mpi4py":
    from mpi4py import MPI

    world = MPI.COMM_WORLD
    rank, size = world.Get_rank(), world.Get_size()
    barrier = world.Barrier
else:
    import weftcomm

    world = weftcomm.init()
    rank, size = world.rank, world.size
    barrier = world.barrier

results = {}
for kind in ("plain", "registered") if library == "weft" else ("plain",):
    for nbytes in SIZES:
        x = world.empty(nbytes // 4) if kind == "registered" else np.empty(nbytes // 4, "float32")
        x[:] = 1
        if library == "mpi4py":
            call = lambda: world.Allreduce(MPI.IN_PLACE, x)  # noqa: E731
        else:
            call = lambda: world.all_reduce(x, out=x)  # noqa: E731
        call()
        assert x[0] == size
        x[:] = 0  # sums of zeros stay finite
        block = max(1, min(2000, (8 << 20) // nbytes))
        times = []
        for _ in range(60):
            barrier()
            begin = time.perf_counter()
            for _ in range(block):
                call()
            times.append((time.perf_counter() - begin) / block * 1e6)
        times.sort()
        results[f"{kind} {nbytes}"] = (times[0], times[len(times) // 2])
if rank == 0:
    print(json.dumps(results), flush=True)
barrier()
