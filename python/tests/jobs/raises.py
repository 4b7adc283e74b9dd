"""Rank 1 raises; the others wait for it and print what they read of it, and whether that was soon."""

import time

import numpy as np

import weftcomm as weft

comm = weft.init()
comm.barrier()
if comm.rank == 1:
    time.sleep(0.2)
    raise RuntimeError("no data")
begin = time.monotonic()
try:
    comm.all_reduce(np.ones(4))
except weft.Aborted as error:
    print(f"rank {comm.rank}: {error}; soon: {time.monotonic() - begin < 1.5}; ranks {error.ranks}", flush=True)
