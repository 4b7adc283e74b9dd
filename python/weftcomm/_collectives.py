"""Collectives: names, shapes, documentation. Communicators and worlds have them."""

from __future__ import annotations

import itertools
from collections.abc import Sequence, Sized
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypedDict, TypeVar, get_args, overload

from . import _arguments, _errors
from ._arrays import array_of, new_like, shape_of
from ._experts import COMBINE, TABLE, ExpertCollectives
from ._work import Work

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ._schedule import Algorithm, Schedule

A = TypeVar("A")  # an array: NumPy, anything with the buffer protocol, DLPack on the CPU (torch)

Op = Literal["sum", "prod", "min", "max", "avg", "and", "or", "xor", "premul_sum"]


class Options(TypedDict, total=False):
    """Of every collective."""

    reproducible: bool
    algorithm: str | Algorithm | Schedule
    protocol: str
    channels: int


class ReductionOptions(Options, total=False):
    """Of collectives that reduce."""

    scalar: float  # with op "premul_sum"


_OPTIONS = frozenset(("reproducible", "algorithm", "protocol", "channels", "scalar"))

# weft::Collective
_ALL_REDUCE, _BROADCAST, _REDUCE, _ALL_GATHER, _REDUCE_SCATTER, _ALL_TO_ALL, _GATHER, _SCATTER = range(8)
BARRIER, _ALL_GATHER_V, _REDUCE_SCATTER_V, _ALL_TO_ALL_V = range(9, 13)
_NAMES = (
    "all_reduce broadcast reduce all_gather reduce_scatter all_to_all gather scatter send_receive barrier all_gather "
    "reduce_scatter all_to_all dispatch combine"
).split()
_OWN = dict.fromkeys((_ALL_GATHER_V, _REDUCE_SCATTER_V, _ALL_TO_ALL_V), ("counts", "receive_counts")) | TABLE  # what calls add
_REDUCING = (_ALL_REDUCE, _REDUCE, _REDUCE_SCATTER, _REDUCE_SCATTER_V, COMBINE)


class Core(Protocol):
    """Who performs the calls."""

    def call(
        self, kind: int, input: Any, output: Any, op: str | None, root: int, wait: bool, options: dict[str, Any] | None
    ) -> Any: ...


def _no_op(operation: str) -> _errors.InvalidArgument:
    return _errors.InvalidArgument(f"op None: there are {', '.join(get_args(Op))}", operation=operation)


class Collectives(ExpertCollectives):
    """The collectives of a group of ranks."""

    def __init__(self, core: Core, rank: int, size: int) -> None:
        self._core: Any = core
        self._rank = rank
        self._size = size

    @property
    def rank(self) -> int:
        """This rank's number, 0 to size - 1."""
        return self._rank

    @property
    def size(self) -> int:
        """How many ranks there are."""
        return self._size

    @overload
    def all_reduce(
        self, x: A, op: Op = "sum", *, out: A | None = None, wait: Literal[True] = True, **options: Unpack[ReductionOptions]
    ) -> A: ...
    @overload
    def all_reduce(
        self, x: A, op: Op = "sum", *, out: A | None = None, wait: Literal[False], **options: Unpack[ReductionOptions]
    ) -> Work[A]: ...
    def all_reduce(self, x: Any, op: Op = "sum", *, out: Any = None, wait: bool = True, **options: Unpack[ReductionOptions]) -> Any:
        """Every rank gets the reduction of all x, in a new array or in `out` (which may be x).

        x, out: any shape, the same number of elements on all ranks. options: reproducible=True (the same bits whatever
        the algorithm), algorithm= (a name, a file, an Algorithm or a Schedule), protocol=, channels=, scalar= (with op
        "premul_sum"). Of booleans sum is or, prod is and.
        """
        x = array_of(x)
        if out is None:
            out = new_like(x, shape_of(x, "all_reduce"))
        if wait is not True:
            wait = _arguments.flag(wait, "wait", "all_reduce")
        if op is None:
            raise _no_op("all_reduce")
        done = self._core.call(_ALL_REDUCE, x, out, op, 0, wait, self._given(options, 0, "all_reduce") if options else None)
        return done if wait else Work[Any](done)

    @overload
    def broadcast(self, x: A, root: int = 0, *, wait: Literal[True] = True, **options: Unpack[Options]) -> A: ...
    @overload
    def broadcast(self, x: A, root: int = 0, *, wait: Literal[False], **options: Unpack[Options]) -> Work[A]: ...
    def broadcast(self, x: Any, root: int = 0, *, wait: bool = True, **options: Unpack[Options]) -> Any:
        """Every rank's x, of the same shape everywhere, becomes the root's, in place. Returns x.

        A list or a number is left as it is: the result is an array. The root's x is only read.
        """
        x = array_of(x)
        return self._call(_BROADCAST, x, x, None, root, wait, options)

    @overload
    def reduce(
        self, x: A, root: int = 0, op: Op = "sum", *, out: A | None = None, wait: Literal[True] = True, **options: Unpack[ReductionOptions]
    ) -> A | None: ...
    @overload
    def reduce(
        self, x: A, root: int = 0, op: Op = "sum", *, out: A | None = None, wait: Literal[False], **options: Unpack[ReductionOptions]
    ) -> Work[A | None]: ...
    def reduce(
        self, x: Any, root: int = 0, op: Op = "sum", *, out: Any = None, wait: bool = True, **options: Unpack[ReductionOptions]
    ) -> Any:
        """The root gets the reduction of all x, of x's shape; the others get None."""
        x = array_of(x)
        root = _arguments.rank(root, "root", "reduce", self._size)
        if op is None:
            raise _no_op("reduce")
        if self._rank != root:
            out = None
        elif out is None:
            out = new_like(x, shape_of(x, "reduce"))
        return self._call(_REDUCE, x, out, op, root, wait, options)

    @overload
    def all_gather(
        self,
        x: A,
        *,
        out: A | None = None,
        stack: bool = False,
        counts: Sequence[int] | None = None,
        wait: Literal[True] = True,
        **options: Unpack[Options],
    ) -> A: ...
    @overload
    def all_gather(
        self,
        x: A,
        *,
        out: A | None = None,
        stack: bool = False,
        counts: Sequence[int] | None = None,
        wait: Literal[False],
        **options: Unpack[Options],
    ) -> Work[A]: ...
    def all_gather(
        self,
        x: Any,
        *,
        out: Any = None,
        stack: bool = False,
        counts: Sequence[int] | None = None,
        wait: bool = True,
        **options: Unpack[Options],
    ) -> Any:
        """Every rank gets all x, one after the other along axis 0; stack=True: along a new axis 0.

        x of shape (n, ...) gives (size * n, ...), with stack (size, n, ...), with counts (sum(counts), ...).
        counts: every rank's length along axis 0, where the parts differ; the same on all ranks.
        """
        x = array_of(x)
        if out is not None and counts is None:
            return self._call(_ALL_GATHER, x, out, None, 0, wait, options)
        shape = shape_of(x, "all_gather")
        if counts is not None:
            counts = self._counts(counts, "counts", "all_gather")
            rows = self._rows(counts[self._rank], shape, "all_gather")
            if out is None:
                out = new_like(x, (sum(counts), *shape[1:]))
            return self._call(_ALL_GATHER_V, x, out, None, 0, wait, {**options, "counts": [c * rows for c in counts]})
        out = new_like(x, self._times_size(shape, _arguments.flag(stack, "stack", "all_gather")))
        return self._call(_ALL_GATHER, x, out, None, 0, wait, options)

    @overload
    def reduce_scatter(
        self,
        x: A,
        op: Op = "sum",
        *,
        out: A | None = None,
        counts: Sequence[int] | None = None,
        wait: Literal[True] = True,
        **options: Unpack[ReductionOptions],
    ) -> A: ...
    @overload
    def reduce_scatter(
        self,
        x: A,
        op: Op = "sum",
        *,
        out: A | None = None,
        counts: Sequence[int] | None = None,
        wait: Literal[False],
        **options: Unpack[ReductionOptions],
    ) -> Work[A]: ...
    def reduce_scatter(
        self,
        x: Any,
        op: Op = "sum",
        *,
        out: Any = None,
        counts: Sequence[int] | None = None,
        wait: bool = True,
        **options: Unpack[ReductionOptions],
    ) -> Any:
        """Rank r gets part r of the reduction of all x; x is cut along axis 0 into equal parts, or into `counts`.

        x of shape (size * n, ...) gives (n, ...), with counts (counts[rank], ...).
        """
        x = array_of(x)
        if out is not None and counts is None:
            return self._call(_REDUCE_SCATTER, x, out, op, 0, wait, options)
        shape = shape_of(x, "reduce_scatter")
        if counts is not None:
            counts = self._counts(counts, "counts", "reduce_scatter")
            rows = self._rows(sum(counts), shape, "reduce_scatter")
            if out is None:
                out = new_like(x, (counts[self._rank], *shape[1:]))
            return self._call(_REDUCE_SCATTER_V, x, out, op, 0, wait, {**options, "counts": [c * rows for c in counts]})
        out = new_like(x, self._part(shape))
        return self._call(_REDUCE_SCATTER, x, out, op, 0, wait, options)

    @overload
    def all_to_all(
        self,
        x: A,
        *,
        out: A | None = None,
        send_counts: Sequence[int] | None = None,
        receive_counts: Sequence[int] | None = None,
        wait: Literal[True] = True,
        **options: Unpack[Options],
    ) -> A: ...
    @overload
    def all_to_all(
        self,
        x: A,
        *,
        out: A | None = None,
        send_counts: Sequence[int] | None = None,
        receive_counts: Sequence[int] | None = None,
        wait: Literal[False],
        **options: Unpack[Options],
    ) -> Work[A]: ...
    def all_to_all(
        self,
        x: Any,
        *,
        out: Any = None,
        send_counts: Sequence[int] | None = None,
        receive_counts: Sequence[int] | None = None,
        wait: bool = True,
        **options: Unpack[Options],
    ) -> Any:
        """Part r of x goes to rank r; the result is made of the parts that came, in the order of their ranks.

        x is cut along axis 0 into equal parts, or into send_counts; receive_counts: the lengths of what comes.
        """
        x = array_of(x)
        if out is not None and send_counts is None and receive_counts is None:
            return self._call(_ALL_TO_ALL, x, out, None, 0, wait, options)
        shape = shape_of(x, "all_to_all")
        if (send_counts is None) != (receive_counts is None):
            raise _errors.InvalidArgument("send_counts and receive_counts go together", operation="all_to_all")
        if send_counts is not None and receive_counts is not None:
            send_counts = self._counts(send_counts, "send_counts", "all_to_all")
            receive_counts = self._counts(receive_counts, "receive_counts", "all_to_all")
            rows = self._rows(sum(send_counts), shape, "all_to_all")
            if out is None:
                out = new_like(x, (sum(receive_counts), *shape[1:]))
            return self._call(
                _ALL_TO_ALL_V,
                x,
                out,
                None,
                0,
                wait,
                {
                    **options,
                    "counts": [c * rows for c in send_counts],
                    "receive_counts": [c * rows for c in receive_counts],
                },
            )
        self._part(shape)
        out = new_like(x, shape)
        return self._call(_ALL_TO_ALL, x, out, None, 0, wait, options)

    @overload
    def gather(
        self,
        x: A,
        root: int = 0,
        *,
        out: A | None = None,
        stack: bool = False,
        wait: Literal[True] = True,
        **options: Unpack[Options],
    ) -> A | None: ...
    @overload
    def gather(
        self, x: A, root: int = 0, *, out: A | None = None, stack: bool = False, wait: Literal[False], **options: Unpack[Options]
    ) -> Work[A | None]: ...
    def gather(
        self, x: Any, root: int = 0, *, out: Any = None, stack: bool = False, wait: bool = True, **options: Unpack[Options]
    ) -> Any:
        """The root gets all x, in all_gather's shape; the others get None."""
        x = array_of(x)
        root = _arguments.rank(root, "root", "gather", self._size)
        if self._rank != root:
            out = None
        elif out is None:
            out = new_like(x, self._times_size(shape_of(x, "gather"), _arguments.flag(stack, "stack", "gather")))
        return self._call(_GATHER, x, out, None, root, wait, options)

    @overload
    def scatter(self, x: A | None, out: A, root: int = 0, *, wait: Literal[True] = True, **options: Unpack[Options]) -> A: ...
    @overload
    def scatter(self, x: A | None, out: A, root: int = 0, *, wait: Literal[False], **options: Unpack[Options]) -> Work[A]: ...
    def scatter(self, x: Any, out: Any, root: int = 0, *, wait: bool = True, **options: Unpack[Options]) -> Any:
        """Rank r's `out`, of shape (n, ...), becomes part r of the root's x, of (size * n, ...); x is None on the others.

        Returns out.
        """
        root = _arguments.rank(root, "root", "scatter", self._size)
        if out is None:
            raise _arguments.refuse("out None: it is the array that this rank's part comes into", "scatter")
        return self._call(_SCATTER, array_of(x) if self._rank == root else None, out, None, root, wait, options)

    # --- inside ---

    def _call(self, kind: int, x: Any, out: Any, op: str | None, root: int, wait: bool, options: Any) -> Any:
        operation = _NAMES[kind]
        if op is None and kind in _REDUCING:
            raise _no_op(operation)
        root = _arguments.rank(root, "root", operation, self._size)
        wait = _arguments.flag(wait, "wait", operation)
        done = self._core.call(kind, x, out, op, root, wait, self._given(options, root, operation, _OWN.get(kind, ())) if options else None)
        return done if wait else Work[Any](done)

    def _times_size(self, shape: tuple[int, ...], stack: bool) -> tuple[int, ...]:
        if stack or not shape:
            return (self._size, *shape)
        return (self._size * shape[0], *shape[1:])

    def _part(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        if not shape or shape[0] % self._size:
            raise _errors.InvalidArgument(f"axis 0 of shape {shape} cannot be cut into {self._size} equal parts")
        return (shape[0] // self._size, *shape[1:])

    def _counts(self, counts: Sequence[int], name: str, operation: str) -> list[int]:
        """One count per rank."""
        given = list(itertools.islice(_arguments.several(counts, name, operation, "numbers"), self._size + 1))
        if len(given) != self._size:
            has = f"{len(counts)}" if isinstance(counts, Sized) else "fewer" if len(given) < self._size else "more"
            raise _errors.InvalidArgument(f"{name}: {has} counts for {self._size} ranks", operation=operation)
        return [_arguments.integer(n, f"a count of {name}", operation, 0, _arguments.MOST_BYTES) for n in given]

    def _rows(self, mine: int, shape: tuple[int, ...], operation: str) -> int:
        """Elements of one step along axis 0."""
        if not shape or mine != shape[0]:
            text = f"counts say {mine} along axis 0, but the array has shape {shape}"
            raise _errors.InvalidArgument(text, operation=operation)
        rows = 1
        for size in shape[1:]:
            rows *= size
        return rows

    def _given(self, options: Any, root: int, operation: str, own: Sequence[str] = ()) -> dict[str, Any]:
        """Schedules written in Python become the names that weft finds them under."""
        for name in options:
            if name not in _OPTIONS and name not in own:
                raise _arguments.no_keyword(name, operation, getattr(type(self), operation))
        chosen: Any = options.get("algorithm")
        if hasattr(chosen, "file_for"):
            return {**options, "algorithm": chosen.file_for(self._size, root)}
        given: dict[str, Any] = options
        return given
