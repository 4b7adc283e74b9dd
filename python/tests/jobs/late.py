import time

import numpy as np

import weftcomm as weft

comm = weft.init(timeout=0.3)
if comm.rank == 0:
    try:
        comm.all_reduce(np.ones(1))
    except TimeoutError as e:
        print(f"{type(e).__name__}: {isinstance(e, weft.Timeout) and e.ranks == (1,)}", flush=True)
else:
    time.sleep(1)
