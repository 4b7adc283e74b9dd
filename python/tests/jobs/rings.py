"""Schedules of the tests, and a program that runs them on real ranks."""

import numpy as np

import weftcomm as weft
from weftcomm import steps


@weft.algorithm("all_gather")
def gather_ring(rank, ranks):
    yield steps.copy(rank)
    for step in range(ranks - 1):
        yield steps.send((rank - step) % ranks, to=(rank + 1) % ranks)
        yield steps.receive((rank - step - 1) % ranks, source=(rank - 1) % ranks)


@weft.algorithm("all_reduce", chunks=lambda ranks: ranks)
def ring(rank, ranks):
    """Sums travel once around, then results do."""
    right, left = (rank + 1) % ranks, (rank - 1) % ranks
    if ranks == 1:
        yield steps.copy(0)
        return
    yield steps.send(steps.input(rank), to=right)
    for step in range(ranks - 1):
        chunk, last = (rank - step - 1) % ranks, step == ranks - 2
        yield steps.reduce(chunk, left, store=steps.output(chunk) if last else None, forward=right)
    for step in range(ranks - 1):
        chunk, last = (rank - step) % ranks, step == ranks - 2
        yield steps.receive(chunk, left, forward=None if last else right)


@weft.algorithm("broadcast")
def fan(rank, ranks, root):
    if rank != root:
        yield steps.receive(0, root)
        return
    for peer in range(ranks):
        if peer != root:
            yield steps.send(steps.input(0), to=peer)
    yield steps.copy(0)


def main():
    comm = weft.init()
    for count in (comm.size, 1000, 300_000):
        x = np.arange(count, dtype="float32") + comm.rank
        expected = comm.size * np.arange(count, dtype="float32") + sum(range(comm.size))
        np.testing.assert_array_equal(comm.all_reduce(x, algorithm=ring), expected)
        assert comm.last_choice[0] == "ring", comm.last_choice
        comm.all_reduce(x, out=x, algorithm=ring)
        np.testing.assert_array_equal(x, expected)
        y = comm.all_gather(np.full(count, comm.rank, "int64"), algorithm=gather_ring.schedule(comm.size))
        assert (y.reshape(comm.size, -1) == np.arange(comm.size)[:, None]).all()
    z = np.full(5, comm.rank)
    comm.broadcast(z, root=1, algorithm=fan)
    assert (z == 1).all()
    print(f"right on rank {comm.rank}", flush=True)
    comm.finalize()


if __name__ == "__main__":
    main()
