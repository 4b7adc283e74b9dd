"""One rank: times collectives on float32 NumPy arrays, by weftcomm, by weftcomm in registered memory, or by
mpi4py (first argument: weft, registered, mpi4py). Prints JSON on rank 0.

Keys are "COLLECTIVE BYTES", where BYTES are those of the larger of input and output; values are the least and the median
time of a call in microseconds over blocks of calls. Every result of a first call is checked.
"""

import json
import sys
import time

import numpy as np

SIZES = (8, 1 << 10, 64 << 10, 4 << 20)
BLOCKS = 15
BLOCK_S = 0.006  # how long a block of calls takes about

library = sys.argv[1]
if library == "mpi4py":
    from mpi4py import MPI

    world = MPI.COMM_WORLD
    rank, size = world.Get_rank(), world.Get_size()
    barrier, share = world.Barrier, world.Bcast

    def calls(small, large):
        return {
            "all_reduce": lambda: world.Allreduce(MPI.IN_PLACE, large),
            "all_gather": lambda: world.Allgather(small, large),
            "broadcast": lambda: world.Bcast(large),
            "reduce_scatter": lambda: world.Reduce_scatter_block(large, small),
            "all_to_all": lambda: world.Alltoall(large, other),
        }

else:
    import weftcomm

    world = weftcomm.init()
    rank, size = world.rank, world.size
    barrier, share = world.barrier, world.broadcast

    def calls(small, large):
        return {
            "all_reduce": lambda: world.all_reduce(large, out=large),
            "all_gather": lambda: world.all_gather(small, out=large),
            "broadcast": lambda: world.broadcast(large),
            "reduce_scatter": lambda: world.reduce_scatter(large, out=small),
            "all_to_all": lambda: world.all_to_all(large, out=other),
        }


RIGHT = {
    "all_reduce": lambda small, large: (large == size).all(),
    "all_gather": lambda small, large: (large == 1).all(),
    "broadcast": lambda small, large: (large == 1).all(),
    "reduce_scatter": lambda small, large: (small == size).all(),
    "all_to_all": lambda small, large: (other == 1).all(),
}


def empty(count):
    return world.empty(count) if library == "registered" else np.empty(count, "float32")


results = {}
for nbytes in SIZES:
    count = max(1, nbytes // 4 // size)
    small, large, other = (empty(n) for n in (count, count * size, count * size))
    for name, call in calls(small, large).items():
        small[:] = 1
        large[:] = 1
        call()
        assert RIGHT[name](small, large), name
        large[:] = 0  # sums of zeros stay finite
        small[:] = 0
        barrier()
        begin = time.perf_counter()
        for _ in range(3):
            call()
        block = np.array([min(2000, max(1, int(BLOCK_S * 3 / (time.perf_counter() - begin))))])
        share(block)
        times = []
        for _ in range(BLOCKS):
            barrier()
            begin = time.perf_counter()
            for _ in range(int(block[0])):
                call()
            times.append((time.perf_counter() - begin) / int(block[0]) * 1e6)
        times.sort()
        results[f"{name} {nbytes}"] = (times[0], times[len(times) // 2])
if rank == 0:
    print(json.dumps(results), flush=True)
barrier()
