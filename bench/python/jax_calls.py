"""Times all_reduce, all_gather and a chain of all_reduces inside one compiled function of JAX, each rank by one process.

    weftcomm run -n 2 bench/python/jax_calls.py CARRIER [SECONDS]

CARRIER: weft (weftcomm.jax), callback (weftcomm by jax.experimental.io_callback), gloo (JAX's own collectives), mpi4jax (under
mpirun). Rank 0 prints rows of a table of Markdown: medians and 99th percentiles of calls that are waited for, in µs. Each call's
result is checked once. SECONDS: per row, 2 unless given.
"""

import os
import sys
import time

os.environ["JAX_PLATFORMS"] = "cpu"
os.environ["XLA_FLAGS"] = os.environ.get("XLA_FLAGS", "") + " --xla_cpu_multi_thread_eigen=false"
import jax
import jax.numpy as jnp
import numpy as np

CARRIER, SECONDS = sys.argv[1], float(sys.argv[2]) if len(sys.argv) > 2 else 2.0
CHAIN = 20

if CARRIER == "mpi4jax":
    import mpi4jax
    from mpi4py import MPI

    comm = MPI.COMM_WORLD
    rank, size = comm.Get_rank(), comm.Get_size()
else:
    import weftcomm as weft

    comm = weft.init(timeout=120)
    rank, size = comm.rank, comm.size


def barrier():
    comm.Barrier() if CARRIER == "mpi4jax" else comm.barrier()


def agreed(go):
    """Rank 0's word: the others' clocks do not count."""
    return bool(comm.bcast(go)) if CARRIER == "mpi4jax" else bool(comm.broadcast(np.array([go]))[0])


def made(x):
    return x


if CARRIER == "weft":
    import weftcomm.jax as wj

    own = comm.split(0)
    wj.use(own)
    all_reduce, all_gather, compiled = wj.all_reduce, wj.all_gather, jax.jit
elif CARRIER == "callback":
    from jax.experimental import io_callback

    own = comm.split(0)

    def all_reduce(x):
        return io_callback(lambda a: own.all_reduce(np.asarray(a)), jax.ShapeDtypeStruct(x.shape, x.dtype), x, ordered=True)

    def all_gather(x):
        return io_callback(lambda a: own.all_gather(np.asarray(a)), jax.ShapeDtypeStruct((size * x.shape[0],), x.dtype), x, ordered=True)

    compiled = jax.jit
elif CARRIER == "mpi4jax":
    compiled = jax.jit

    def all_reduce(x):
        return mpi4jax.allreduce(x, op=MPI.SUM)

    def all_gather(x):
        return mpi4jax.allgather(x).reshape(-1)
else:
    import socket

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = int(comm.broadcast(np.array([probe.getsockname()[1]]))[0])
    barrier()
    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    jax.distributed.initialize(f"127.0.0.1:{port}", size, rank)
    from jax.sharding import Mesh, NamedSharding, PartitionSpec

    mesh = Mesh(np.array(jax.devices()), "ranks")
    parts = NamedSharding(mesh, PartitionSpec("ranks"))

    def all_reduce(x):
        return jax.lax.psum(x, "ranks")

    def all_gather(x):
        return jax.lax.all_gather(x, "ranks", tiled=True)

    def compiled(f):
        split = PartitionSpec("ranks")
        return jax.jit(jax.shard_map(f, mesh=mesh, in_specs=split, out_specs=split, check_vma=False))

    def made(x):
        return jax.make_array_from_single_device_arrays((size * x.shape[0],), parts, [jax.device_put(x)])


def chain(x):
    return jax.lax.fori_loop(0, CHAIN, lambda _, c: all_reduce(c) * (1.0 / size), x)


def local(y):
    return np.asarray(y.addressable_shards[0].data)


for name, call, per in (("all_reduce", all_reduce, 1), ("all_gather", all_gather, 1), (f"all_reduce, {CHAIN} in one function", chain, CHAIN)):
    for count in (2, 16384, 1048576):
        x = made(jnp.full(count, rank + 1, jnp.float32))
        f = compiled(call)
        y = local(f(x))
        total = size * (size + 1) / 2
        right = {"all_reduce": total, "all_gather": size}.get(name, total / size)
        assert y[-1] == right and np.isfinite(y).all(), (name, y)
        for _ in range(10):
            jax.block_until_ready(f(x))
        barrier()
        took = []
        until = time.perf_counter() + SECONDS
        while agreed(time.perf_counter() < until):
            for _ in range(20 if per == 1 else 2):
                began = time.perf_counter()
                jax.block_until_ready(f(x))
                took.append((time.perf_counter() - began) / per)
        if rank == 0:
            us = 1e6 * np.array(took)
            print(f"| {name} | {4 * count} | {CARRIER} | {np.median(us):.1f} | {np.percentile(us, 99):.1f} | {len(us)} |", flush=True)
barrier()
