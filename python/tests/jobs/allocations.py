"""Arrays that NumPy makes inside of comm.allocations() lie in memory that the ranks share, and come back to it."""

import gc

import numpy as np

import weftcomm as weft
from allocations_shared import is_shared


def sums(comm, x, y):
    np.testing.assert_array_equal(comm.all_reduce(x), np.full_like(x, comm.size * (comm.size + 1) / 2))
    np.testing.assert_array_equal(comm.all_gather(y, stack=True)[comm.size - 1], np.full_like(y, 2.0 * comm.size))


comm = weft.init()
plain = np.full(1 << 20, comm.rank + 1.0)
with comm.allocations():
    x = np.full(1 << 20, comm.rank + 1.0)
    y = x * 2  # what arithmetic makes, too
    zeros, small = np.zeros(1 << 16), np.zeros(16)
    sums(comm, x, y)
    grown = np.arange(1000.0)
    grown.resize(3000)
    assert grown[999] == 999 and not grown[1000:].any()
    grown.resize(10)
    assert grown[9] == 9
    many = [np.full(1 << 20, 3.0, "uint8") for _ in range(12)]  # more than WEFT_HEAP
    assert all((m == 3).all() for m in many)
    if comm.rank == 0:
        del many  # and this rank makes its arrays in other places than the others from here on
    sums(comm, np.full(70000, comm.rank + 1.0, "float32"), y)
after = np.full(1 << 20, comm.rank + 1.0)
assert is_shared(x) and is_shared(y) and is_shared(zeros), "the arrays are in plain memory"
assert not zeros.any() and not is_shared(plain) and not is_shared(after) and not is_shared(small)
try:
    with comm.allocations():
        raise ValueError
except ValueError:
    assert not is_shared(np.zeros(1 << 16))

with comm.allocations():
    a = np.empty(1 << 16)
    at = a.__array_interface__["data"][0]
    del a
    assert np.empty(1 << 16).__array_interface__["data"][0] == at, "a block that was given back is not used again"
del comm
gc.collect()
assert (x == x[0]).all() and (y == 2 * x[0]).all()
del x, y
print("right")
