"""Every rank writes into every other's window and counts by signals; then a child is refused."""

import os

import numpy as np

import weftcomm as weft

world = weft.world()
table = world.window((world.size, 1000), "int64")
arrived = world.window(1, "uint64")
for peer in range(world.size):
    table.put_signal(peer, np.arange(1000) + world.rank, world.rank, arrived, 0, number=1, add=True)
arrived.wait(0, "==", world.size, timeout=120)
assert (table.local == np.arange(1000) + np.arange(world.size)[:, None]).all()
world.barrier()  # every rank has everything
got = table[(world.rank + 1) % world.size][:, 999]
assert got.tolist() == [999 + r for r in range(world.size)]
world.barrier()
if world.rank == 0:
    child = os.fork()
    if child == 0:
        try:
            table[1][0, 0] = 1
        except weft.InvalidArgument as e:
            print(e, flush=True)
        os._exit(0)
    os.waitpid(child, 0)
print(f"right on rank {world.rank}", flush=True)
world.barrier()
