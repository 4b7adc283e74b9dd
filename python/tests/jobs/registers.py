"""Arrays that are registered where they are: shared then, private afterwards, with their contents, and sums are right."""

import sys

import numpy as np

import weftcomm as weft
from allocations_shared import is_shared


def sums(comm, x):
    np.testing.assert_array_equal(comm.all_reduce(x), np.full_like(x, comm.size * (comm.size + 1) / 2))


comm = weft.init()
over_shared_memory = sys.argv[1] == "shm"
big = np.full(8 << 20, comm.rank + 1.0, "float32")  # an allocation of its own
for _ in range(3):
    with comm.register(big[100:]) as registered:  # the array behind a view
        assert registered.shared == is_shared(big) == over_shared_memory
        for _ in range(3):
            sums(comm, big)
        total = np.zeros_like(big)
        with comm.register(total):
            for _ in range(3):
                comm.all_reduce(big, out=total)
                assert (total == comm.size * (comm.size + 1) / 2).all()
    assert not is_shared(big) and not is_shared(total)
    sums(comm, big)
if over_shared_memory:
    try:
        comm.register(np.ones(100))
        raise SystemExit("a small array was taken")
    except weft.InvalidArgument as e:
        assert "share pages" in str(e), e
kept = comm.register(np.ones(8 << 20))
big = kept  # the array lives as long as its registration
kept.release()
print("right")
