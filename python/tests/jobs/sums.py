import numpy as np

import weftcomm as weft

comm = weft.init()
for size in (1, 1000, 300_000):
    x = np.arange(size, dtype="float32") + comm.rank
    y = comm.all_reduce(x)
    expected = comm.size * np.arange(size, dtype="float32") + sum(range(comm.size))
    np.testing.assert_array_equal(y, expected)
    registered = comm.empty(size)
    registered[:] = x
    comm.all_reduce(registered, out=registered)
    np.testing.assert_array_equal(registered, expected)
    work = comm.all_gather(x, wait=False)
    assert work.result().shape == (comm.size * size,)
print(f"right on rank {comm.rank}", flush=True)
comm.finalize()
