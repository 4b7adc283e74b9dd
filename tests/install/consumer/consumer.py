"""A Python program outside of weft's source tree: every rank adds its number."""

import numpy
import weftcomm

world = weftcomm.init()
total = world.all_reduce(numpy.full(1000, world.rank + 1.0, dtype="float32"))
assert (total == world.size * (world.size + 1) / 2).all()
if world.rank == 0:
    print(f"sum {total[0]:g} on {world.size} ranks")
world.finalize()
