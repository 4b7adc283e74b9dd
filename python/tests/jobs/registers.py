"""Arrays that are registered where they are: shared then, private afterwards, with their contents, and sums are right."""

import os
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
group = comm.split(0)
for i in range(12):  # calls that were started end with what they had, however their memory's registration ends
    x, out = np.full(10 << 20, 1.0, "float32"), np.zeros(10 << 20, "float32")
    held = [comm.register(x), comm.register(out)]
    work = (comm if i % 4 else group).all_reduce(x, out=out, wait=False)
    if i % 3 == 0:
        held[i % 2].release()
    elif i % 3 == 1:
        del held
    assert (work.result() == comm.size).all(), i
    x[:] = 2
    assert (comm.all_reduce(x) == 2 * comm.size).all(), i
held = None
x, out = np.full(10 << 20, 1.0, "float32"), np.zeros(10 << 20, "float32")
work = comm.all_reduce(x, out=out, wait=False)
with comm.register(out):
    assert (work.result() == comm.size).all()
text = bytearray(64 << 20)
held = comm.register(text)
try:
    text.extend(b"more")
    raise SystemExit("registered memory has moved")
except BufferError:
    held.release()
text.extend(b"more")
if (child := os.fork()) == 0:
    refused = 0
    for call in (lambda: comm.empty(1000), lambda: comm.register(x)):
        try:
            call()
        except weft.InvalidArgument as e:
            refused += "forked" in str(e)
    os._exit(0 if refused == 2 else 1)
assert os.waitpid(child, 0)[1] == 0, "a child has memory of its parent's heap"
kept = comm.register(np.ones(8 << 20))
assert kept.shared == over_shared_memory
kept.release()
assert not kept.shared
kept.release()
print("right")
