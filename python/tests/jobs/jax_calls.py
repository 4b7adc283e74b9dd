"""Every call of weftcomm.jax on the ranks of one job, with its derivatives, against NumPy."""

import jax
import jax.numpy as jnp
import numpy as np

import weftcomm as weft
import weftcomm.jax as wj

comm = weft.init(timeout=60)
wj.use(comm)
rank, size = comm.rank, comm.size
peer, source = (rank + 1) % size, (rank - 1) % size
everyone = np.arange(size)


def same(got, wanted):
    np.testing.assert_array_equal(np.asarray(got, np.float64), np.asarray(wanted, np.float64))


for run in (lambda f: f, jax.jit):
    for dtype in ("int32", "float32", "bfloat16", "float16", "uint8"):
        x = jnp.arange(6, dtype=dtype).reshape(3, 2) + jnp.asarray(rank, dtype)
        same(run(wj.all_reduce)(x), size * np.arange(6).reshape(3, 2) + everyone.sum())
        same(run(lambda a: wj.all_reduce(a, "max"))(x), np.arange(6).reshape(3, 2) + size - 1)
        gathered = run(wj.all_gather)(x)
        assert gathered.shape == (3 * size, 2) and gathered.dtype == x.dtype
        same(gathered[3 * peer], peer + np.arange(2))
        assert run(lambda a: wj.all_gather(a, stack=True))(x).shape == (size, 3, 2)
        parts = jnp.arange(2 * size, dtype=dtype)
        same(run(wj.reduce_scatter)(parts), size * (2 * rank + np.arange(2)))
        same(run(wj.all_to_all)(parts + jnp.asarray(10 * rank, dtype)), np.add.outer(10 * everyone, 2 * rank + np.arange(2)).ravel())
        same(run(lambda a: wj.broadcast(a, size - 1))(x), np.arange(6).reshape(3, 2) + size - 1)
        same(run(lambda a: wj.send_receive(a, peer, source))(x), np.arange(6).reshape(3, 2) + source)
    same(run(wj.all_reduce)(jnp.array([rank == 0, False])), [True, False])
    same(run(wj.all_gather)(jnp.float32(rank)), everyone)
    assert run(wj.all_reduce)(jnp.array([1 + 2j])).item() == size * (1 + 2j)
    assert run(wj.all_reduce)(jnp.zeros((0, 3))).shape == (0, 3)


@jax.jit
def ring(x):
    """Messages around the ranks, in an order that only the program gives."""
    if rank == 0:
        wj.send(x, peer)
        y = wj.receive(x, source)
        wj.send(y, peer, tag=3)
        return wj.receive(jax.ShapeDtypeStruct(x.shape, x.dtype), source, tag=3)
    y = wj.receive(x, source)
    wj.send(y + 1, peer)
    z = wj.receive(x, source, tag=3)
    wj.send(z + 1, peer, tag=3)
    wj.barrier()
    return z


if size > 1:
    out = ring(jnp.zeros(4))
    if rank == 0:
        wj.barrier()
    same(out, np.full(4, 2 * size - 2 if rank == 0 else size - 1 + rank - 1))


@jax.jit
def loop(x):
    """Calls in scan, cond and while: the same number on all ranks."""

    def step(carry, i):
        carry = jax.lax.cond(i % 2 == 0, lambda c: wj.all_reduce(c) / size, lambda c: c + 1, carry)
        return carry, wj.all_gather(carry)[::4]

    carry, history = jax.lax.scan(step, x, jnp.arange(6))
    return jax.lax.fori_loop(0, 3, lambda _, c: wj.all_reduce(c, "avg"), carry), history


last, history = loop(jnp.full(4, float(rank)))
assert history.shape == (6, size) and np.allclose(last, everyone.mean() + 3)

# Derivatives: of the sum of all ranks' losses.
weights = jnp.arange(1.0, 1 + 2 * size)  # the same on all ranks
x = jnp.arange(2.0 * size) + rank
same(jax.grad(lambda a: (wj.all_reduce(a) * weights).sum())(x), weights)  # one value for all
np.testing.assert_allclose(jax.jit(jax.grad(lambda a: (wj.all_reduce(a, "avg") * weights).sum()))(x), weights / size, rtol=1e-6)
part = jnp.ones(2) * rank
# Rank q's loss weighs the gathered parts by q + 1.
same(jax.grad(lambda a: (wj.all_gather(a) * weights * (rank + 1)).sum())(part), weights[2 * rank : 2 * rank + 2] * (1 + everyone).sum())
same(jax.grad(lambda a: (wj.reduce_scatter(a) * (rank + 1)).sum())(x), np.repeat(everyone + 1.0, 2))
same(jax.grad(lambda a: (wj.all_to_all(a) * (rank + 1)).sum())(x), np.repeat(everyone + 1.0, 2))
same(jax.grad(lambda a: (wj.send_receive(a, peer, source) * (rank + 1)).sum())(part), np.full(2, peer + 1.0))
value, tangent = jax.jvp(wj.all_reduce, (x,), (jnp.ones_like(x) * rank,))
same(tangent, np.full(2 * size, everyone.sum()))
same(jax.vmap(wj.all_gather, in_axes=1, out_axes=1)(jnp.ones((2, 3)) * rank), np.repeat(everyone, 2)[:, None] * np.ones(3))
same(jax.hessian(lambda a: (wj.all_reduce(a) ** 2).sum())(jnp.ones(2)), 2 * size * np.eye(2))
try:
    jax.grad(lambda a: wj.all_reduce(a, "max").sum())(x)
    raise AssertionError("max has a derivative")
except NotImplementedError as error:
    assert "sum and avg" in str(error)

# A step of training: data are divided, weights are the same on all ranks.
data = np.random.default_rng(0).normal(size=(4 * size, 3)).astype(np.float32)


def loss(w, rows):
    return ((rows @ w - rows.sum(1)) ** 2).sum()


@jax.jit
def step(w, rows):
    return w - 0.01 * wj.all_reduce(jax.grad(loss)(w, rows), reproducible=True)


w = jnp.zeros(3)
alone = np.zeros(3)
for _ in range(5):
    w = step(w, data[4 * rank : 4 * rank + 4])
    alone = alone - 0.01 * np.asarray(jax.grad(loss)(jnp.asarray(alone, jnp.float32), data))
np.testing.assert_allclose(w, alone, rtol=1e-4)

# Refusals, when a call is traced.
for call, text in (
    (lambda: wj.all_reduce(jnp.ones(2), "median"), "op 'median'"),
    (lambda: wj.all_reduce(jnp.ones(2), "and"), "op and is of integers"),
    (lambda: wj.reduce_scatter(jnp.ones(size + 1) if size > 1 else jnp.float32(1)), "cannot be cut"),
    (lambda: wj.broadcast(jnp.ones(2), size), "root"),
    (lambda: wj.all_reduce("x"), "'x'"),
    (lambda: wj.all_reduce(jnp.ones(2), comm=3), "Communicator"),
):
    try:
        call()
        raise AssertionError(text)
    except weft.InvalidArgument as error:
        assert text in str(error), str(error)
print(f"right on rank {rank}", flush=True)
