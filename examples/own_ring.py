"""An all_reduce schedule of one's own: proved, simulated, drawn, and run on real ranks.

python examples/own_ring.py [own_ring.svg]   proves, simulates, and draws the ring of four ranks
weft run -n 4 python examples/own_ring.py    the same schedule on four processes
"""

import sys
from collections.abc import Iterator

import numpy as np

import weftcomm as weft
from weftcomm import steps


@weft.algorithm("all_reduce", chunks=lambda ranks: ranks)
def ring(rank: int, ranks: int) -> Iterator[steps.Step]:
    """Every chunk's sum travels once around the ring, then its result does."""
    right, left = (rank + 1) % ranks, (rank - 1) % ranks
    yield steps.send(steps.input(rank), to=right)
    for step in range(ranks - 1):
        chunk, last = (rank - step - 1) % ranks, step == ranks - 2
        yield steps.reduce(chunk, left, store=steps.output(chunk) if last else None, forward=right)
    for step in range(ranks - 1):
        chunk, last = (rank - step) % ranks, step == ranks - 2
        yield steps.receive(chunk, left, forward=None if last else right)


def main() -> None:
    comm = weft.init()
    if comm.size > 1:
        x = comm.all_reduce(np.full(1000, comm.rank + 1.0), algorithm=ring)
        assert (x == comm.size * (comm.size + 1) / 2).all()
        print(f"rank {comm.rank}: {comm.last_choice[0]} summed right", flush=True)
        comm.finalize()
        return
    for proof in ring.verify(range(2, 9)):
        print(proof)
    machine = weft.machine("dgx-h100")
    for own, best in zip(
        ring.simulate(machine, ["1M", "64M"])["rows"], machine.bench("all_reduce", ["1M", "64M"])["rows"]
    ):
        print(
            f"{own['bytes']} B: {own['time_us']:.1f} us; weft's choice, {best['algorithm']}: {best['time_us']:.1f} us"
        )
    if len(sys.argv) > 1:
        with open(sys.argv[1], "w") as file:
            file.write(ring.schedule(4).svg())


if __name__ == "__main__":
    main()
