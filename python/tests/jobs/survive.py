import os
import signal

import numpy as np

import weftcomm as weft

comm = weft.init()
comm.all_reduce(np.ones(10))
if comm.rank == 1:
    os.kill(os.getpid(), signal.SIGKILL)
try:
    comm.all_reduce(np.ones(100_000))
except weft.PeerDied as e:
    print(f"PeerDied ranks={e.ranks} operation={e.operation}", flush=True)
rest = comm.shrink()
print(f"{rest.size} survivors, sum {rest.all_reduce(np.ones(1))[0]}", flush=True)
