# mypy: disable-error-code="attr-defined, import-not-found, misc, no-untyped-call"
"""Collectives and messages for JAX on the CPU, one process per rank: they work under jit, grad, vmap, scan and cond.

    import weftcomm.jax as wj
    y = jax.jit(wj.all_reduce)(x)          # all ranks call it
    gradient = jax.grad(lambda w: loss(wj.all_reduce(w * x)))(w)

All calls of a process run in the order in which the program has them, across compiled functions too. A function is compiled
for one communicator: `comm=`, or what weftcomm.init() gives when the first call is traced. Needs jax 0.6 or later, which
weft-comm does not bring along.

Derivatives: of all_reduce by sum and avg, all_gather, reduce_scatter by sum and avg, all_to_all, send_receive. The gradient is
that of the sum of all ranks' losses, where what all_reduce has made counts as one value that all ranks have: its cotangent, the
same on all ranks, is that of every rank's x (mpi4jax's allreduce does the same). The cotangents of all_gather are summed and
scattered, those of reduce_scatter gathered, and those of messages travel back.

Errors: InvalidArgument when a call is traced. When it runs, JAX raises its own JaxRuntimeError with weft's text; in
`with wj.errors():` it becomes weft's PeerDied, Timeout, Mismatch, ..., with the ranks, and calls outside of jit raise that at once.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any, Literal, get_args

try:
    import jax
    import jax.numpy as jnp
    import numpy as np
    from jax._src import dispatch, effects  # ordered effects have no public name
    from jax._src.core import abstract_token, trace_state_clean
    from jax.extend import core
    from jax.interpreters import ad, batching, mlir
except ImportError as missing:
    raise ImportError(f"weftcomm.jax needs jax 0.6 or later (pip install jax): {missing}") from missing

from . import _arguments, _core, _errors
from . import _collectives as _kinds
from ._communicator import Communicator, init

__all__ = [
    "all_gather",
    "all_reduce",
    "all_to_all",
    "barrier",
    "broadcast",
    "errors",
    "receive",
    "reduce_scatter",
    "send",
    "send_receive",
    "use",
]

Op = Literal["sum", "prod", "min", "max", "avg", "and", "or", "xor"]

_KINDS = {
    "all_reduce": _kinds._ALL_REDUCE,
    "all_gather": _kinds._ALL_GATHER,
    "reduce_scatter": _kinds._REDUCE_SCATTER,
    "all_to_all": _kinds._ALL_TO_ALL,
    "broadcast": _kinds._BROADCAST,
    "barrier": _kinds.BARRIER,
    "send": 100,  # from here on: python/src/xla.cc
    "receive": 101,
    "send_receive": 102,
}
_TYPES = frozenset(
    "bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 float32 float64 bfloat16 float8_e4m3fn float8_e5m2 "
    "complex64 complex128".split()
)
_comm: Communicator | None = None


class _Order(effects.Effect):
    """Of all calls: none is dropped, doubled or run before an earlier one."""

    def __str__(self) -> str:
        return "weft"


_ORDER = _Order()
for _kind in (effects.ordered_effects, effects.lowerable_effects, effects.control_flow_allowed_effects,
              effects.custom_derivatives_allowed_effects, effects.remat_allowed_effects):  # fmt: skip
    _kind.add_type(_Order)
jax.ffi.register_ffi_target("weft", _core.xla_handler(), platform="cpu")


def use(comm: Communicator) -> None:
    """The communicator of calls without `comm=` that are traced from now on."""
    global _comm
    if not isinstance(comm, Communicator):
        raise _errors.InvalidArgument(f"comm {_errors.shown(comm)}: it is a Communicator", operation="use")
    _comm = comm


def _communicator(comm: Communicator | None, operation: str) -> Communicator:
    global _comm
    if comm is not None:
        if not isinstance(comm, Communicator):
            raise _errors.InvalidArgument(f"comm {_errors.shown(comm)}: it is a Communicator", operation=operation)
        return comm
    if _comm is None:
        _comm = init()
    return _comm


@contextlib.contextmanager
def errors() -> Iterator[None]:
    """In this block, and for results that it waits for (`jax.block_until_ready`), failed calls raise weft's exceptions.

    The order of later calls begins anew, so that they can run on another communicator, such as comm.shrink().
    """
    try:
        yield
        jax.effects_barrier()
    except jax.errors.JaxRuntimeError as error:
        if "weft: " not in str(error):
            raise
        dispatch.runtime_tokens.clear()
        try:
            _core.raise_xla_failure()
        except _errors.Error as failure:
            raise failure from error
        raise


# --- primitives ---


def _shape(name: str, shape: tuple[int, ...], size: int) -> tuple[int, ...]:
    if name == "all_gather":
        return (size * shape[0], *shape[1:])
    if name == "reduce_scatter":
        return (shape[0] // size, *shape[1:])
    return shape


def _lower(name: str, ctx: Any, *operands: Any, comm: Communicator, op: str, to: int, source: int, tag: int,
           reproducible: bool) -> Any:  # fmt: skip
    number = comm._core.number()
    words = np.array([number, _KINDS[name], _core.reduce_op(op), to, source, tag, reproducible], np.int64)
    token = ctx.tokens_in.get(_ORDER)
    if name == "receive":
        operands = ()  # what it is like is no input
    inputs = ctx.avals_in if operands else ()
    with_token = ctx.replace(
        avals_in=(*inputs, abstract_token), avals_out=(*ctx.avals_out, abstract_token)
    )
    rule = jax.ffi.ffi_lowering("weft", has_side_effect=True)
    *results, token = rule(with_token, *operands, token, call=words)
    ctx.set_tokens_out(mlir.TokenSet({_ORDER: token}))
    return results


def _batched(primitive: Any, args: Any, axes: Any, **parameters: Any) -> Any:
    (x,), (axis,) = args, axes
    moved = jnp.moveaxis(x, axis, -1)  # calls cut along axis 0 only
    results = primitive.bind(moved, **parameters)
    return results, [moved.ndim - 1] * len(results)


def _primitive(name: str) -> Any:
    primitive = core.Primitive(f"weft_{name}")
    primitive.multiple_results = True

    def evaluate(*avals: Any, comm: Communicator, **_: Any) -> Any:
        if name in ("barrier", "send"):
            return [], {_ORDER}
        (x,) = avals
        return [jax.core.ShapedArray(_shape(name, x.shape, comm.size), x.dtype)], {_ORDER}

    primitive.def_impl(lambda *args, **parameters: dispatch.apply_primitive(primitive, *args, **parameters))
    primitive.def_effectful_abstract_eval(evaluate)
    mlir.register_lowering(primitive, lambda ctx, *a, **p: _lower(name, ctx, *a, **p), platform="cpu")
    if name != "barrier":
        batching.primitive_batchers[primitive] = lambda a, axes, **p: _batched(primitive, a, axes, **p)
    return primitive


_PRIMITIVES = {name: _primitive(name) for name in _KINDS}


def _bind(name: str, x: Any, comm: Communicator, *, op: str = "sum", to: int = 0, source: int = 0, tag: int = -1,
          reproducible: bool = False) -> Any:  # fmt: skip
    args = () if x is None else (x,)
    return _PRIMITIVES[name].bind(
        *args, comm=comm, op=op, to=to, source=source, tag=tag, reproducible=bool(reproducible)
    )


# --- derivatives: each of these calls is linear, so that its tangents take the same way ---


def _back(name: str, ct: Any, p: dict[str, Any]) -> Any:
    comm, op, options = p["comm"], p["op"], {"reproducible": p["reproducible"]}
    if name == "all_reduce":
        return ct / comm.size if op == "avg" else ct
    if name == "all_gather":
        return _bind("reduce_scatter", ct, comm, **options)[0]
    if name == "reduce_scatter":
        gathered = _bind("all_gather", ct, comm)[0]
        return gathered / comm.size if op == "avg" else gathered
    if name == "all_to_all":
        return _bind("all_to_all", ct, comm)[0]
    return _bind("send_receive", ct, comm, to=p["source"], source=p["to"])[0]


def _linear(name: str) -> None:
    primitive = _PRIMITIVES[name]

    def tangents(primals: Any, directions: Any, **p: Any) -> Any:
        if name in ("all_reduce", "reduce_scatter") and p["op"] not in ("sum", "avg"):
            raise NotImplementedError(f"weft has no derivative of {name} by {p['op']}: only by sum and avg")
        out = primitive.bind(*primals, **p)
        (direction,) = directions
        if type(direction) is ad.Zero:  # of integers, or of what the function is not differentiated by
            return out, [ad.Zero(jax.typeof(y).to_tangent_aval()) for y in out]
        return out, primitive.bind(direction, **p)

    def transpose(cts: Any, *_args: Any, **p: Any) -> Any:
        (ct,) = cts
        # A rank whose result is not used still has its part in the others' gradients.
        ct = ad.instantiate_zeros(ct)
        return [_back(name, ct, p)]

    ad.primitive_jvps[primitive] = tangents
    ad.primitive_transposes[primitive] = transpose


for _name in ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "send_receive"):
    _linear(_name)


# --- calls ---


def _array(x: Any, operation: str) -> Any:
    try:
        x = jnp.asarray(x)
    except TypeError as e:
        raise _errors.InvalidArgument(f"{_errors.shown(x)}: {e}", operation=operation) from None
    if x.dtype.name not in _TYPES:
        raise _errors.InvalidArgument(f"element type {x.dtype.name} cannot be communicated", operation=operation)
    return x


def _op(op: Any, x: Any, operation: str) -> str:
    """The operation on weft's elements: of booleans bytes of 0 and 1, of complex numbers pairs."""
    if not isinstance(op, str) or op not in get_args(Op):
        raise _errors.InvalidArgument(f"op {_errors.shown(op)}: there are {', '.join(get_args(Op))}", operation=operation)
    if x.dtype == jnp.bool_:
        op = {"sum": "or", "prod": "and"}.get(op, op)
        if op == "avg":
            raise _errors.InvalidArgument("booleans have no average", operation=operation)
    elif jnp.issubdtype(x.dtype, jnp.complexfloating) and op not in ("sum", "avg"):
        raise _errors.InvalidArgument("complex numbers have sum and avg only", operation=operation)
    elif op in ("and", "or", "xor") and not jnp.issubdtype(x.dtype, jnp.integer):
        raise _errors.InvalidArgument(f"op {op} is of integers and booleans, not of {x.dtype.name}", operation=operation)
    return str(op)


def _parts(x: Any, size: int, operation: str) -> None:
    if x.ndim == 0 or x.shape[0] % size != 0:
        text = f"shape {x.shape} cannot be cut along axis 0 into {size} equal parts"
        raise _errors.InvalidArgument(text, operation=operation)


def _run(name: str, x: Any, comm: Communicator, **parameters: Any) -> Any:
    """Binds the primitive; outside of traced functions, waits, so that an error is raised here."""
    if isinstance(x, jax.core.Tracer):
        results = _bind(name, x, comm, **parameters)
    else:
        with errors():
            results = jax.block_until_ready(_bind(name, x, comm, **parameters))
    return results[0] if results else None


def all_reduce(x: Any, op: Op = "sum", *, comm: Communicator | None = None, reproducible: bool = False) -> Any:
    """Every rank gets the reduction of all x, of one shape and type. Of booleans sum is or, prod is and.

    reproducible: the same bits whatever the size and algorithm.
    """
    comm, x = _communicator(comm, "all_reduce"), _array(x, "all_reduce")
    return _run("all_reduce", x, comm, op=_op(op, x, "all_reduce"), reproducible=reproducible)


def all_gather(x: Any, *, stack: bool = False, comm: Communicator | None = None) -> Any:
    """Every rank gets all x, one after the other along axis 0; stack=True: along a new axis 0."""
    comm, x = _communicator(comm, "all_gather"), _array(x, "all_gather")
    return _run("all_gather", x[None] if stack or x.ndim == 0 else x, comm)


def reduce_scatter(x: Any, op: Op = "sum", *, comm: Communicator | None = None, reproducible: bool = False) -> Any:
    """Rank r gets part r of the reduction of all x, which are cut along axis 0 into equal parts."""
    comm, x = _communicator(comm, "reduce_scatter"), _array(x, "reduce_scatter")
    _parts(x, comm.size, "reduce_scatter")
    return _run("reduce_scatter", x, comm, op=_op(op, x, "reduce_scatter"), reproducible=reproducible)


def all_to_all(x: Any, *, comm: Communicator | None = None) -> Any:
    """Part r of x, cut along axis 0, goes to rank r; the result has the parts that came, in the order of their ranks."""
    comm, x = _communicator(comm, "all_to_all"), _array(x, "all_to_all")
    _parts(x, comm.size, "all_to_all")
    return _run("all_to_all", x, comm)


def broadcast(x: Any, root: int = 0, *, comm: Communicator | None = None) -> Any:
    """Every rank gets the root's x; those of the others say shape and type."""
    comm, x = _communicator(comm, "broadcast"), _array(x, "broadcast")
    return _run("broadcast", x, comm, to=_arguments.rank(root, "root", "broadcast", comm.size))


def _tag(tag: int | None, operation: str) -> int:
    return -1 if tag is None else _arguments.integer(tag, "tag", operation, 0, _arguments.INT32[1])


def send(x: Any, to: int, *, tag: int | None = None, comm: Communicator | None = None) -> None:
    """Sends x to a rank. Two ranks that send to each other before they receive may wait for each other: send_receive."""
    comm, x = _communicator(comm, "send"), _array(x, "send")
    _run("send", x, comm, to=_arguments.rank(to, "to", "send", comm.size), tag=_tag(tag, "send"))


def receive(like: Any, source: int, *, tag: int | None = None, comm: Communicator | None = None) -> Any:
    """A rank's next message, of the shape and type of `like`, an array or a jax.ShapeDtypeStruct.

    With a tag, the next one with that tag; messages with tags never meet those without.
    """
    comm = _communicator(comm, "receive")
    like = _array(jnp.empty(like.shape, like.dtype) if isinstance(like, jax.ShapeDtypeStruct) else like, "receive")
    return _run("receive", like, comm, source=_arguments.rank(source, "source", "receive", comm.size), tag=_tag(tag, "receive"))


def send_receive(x: Any, to: int, source: int, *, comm: Communicator | None = None) -> Any:
    """Sends x to a rank and receives one of its shape and type from a rank, at the same time."""
    comm, x = _communicator(comm, "send_receive"), _array(x, "send_receive")
    to = _arguments.rank(to, "to", "send_receive", comm.size)
    return _run("send_receive", x, comm, to=to, source=_arguments.rank(source, "source", "send_receive", comm.size))


def barrier(*, comm: Communicator | None = None) -> None:
    """Returns when all ranks have called it; in a traced function, calls after it run when all ranks have come to it."""
    comm = _communicator(comm, "barrier")
    if trace_state_clean():
        with errors():
            _bind("barrier", None, comm)
    else:
        _bind("barrier", None, comm)
