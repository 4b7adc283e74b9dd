"""The last rank ends inside a compiled loop; the others learn which, and go on without it."""

import os
import time

import jax
import jax.numpy as jnp

import weftcomm as weft
import weftcomm.jax as wj

comm = weft.init(timeout=30)
last = comm.size - 1
both = jax.jit(wj.all_reduce, static_argnames="comm")
assert float(both(jnp.ones(()), comm=comm)) == comm.size
if comm.rank == last:
    os._exit(0)
time.sleep(0.1)
try:
    both(jnp.ones(3), comm=comm).block_until_ready()
    raise AssertionError("no error")
except jax.errors.JaxRuntimeError as error:
    assert "weft: " in str(error) and f"rank {last}" in str(error), str(error)
try:
    with wj.errors():
        jax.block_until_ready(both(jnp.ones(3), comm=comm))
    raise AssertionError("no error")
except (weft.PeerDied, weft.PeerLeft) as error:
    assert error.ranks == (last,), error.ranks
try:
    wj.all_reduce(jnp.ones(3), comm=comm)
    raise AssertionError("no error")
except (weft.PeerDied, weft.PeerLeft):
    pass
rest = comm.shrink()
with wj.errors():
    assert float(both(jnp.ones(()), comm=rest)) == comm.size - 1
print(f"right on rank {comm.rank}", flush=True)
