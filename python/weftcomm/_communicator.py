"""Communicators: real ranks, real memory."""

from __future__ import annotations

import atexit
import sys
import weakref
from collections.abc import Callable, Generator, Sequence
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar, overload

from . import _core, _errors

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

A = TypeVar("A")  # an array: NumPy, anything with the buffer protocol, DLPack on the CPU (torch)
T = TypeVar("T")

Op = Literal["sum", "prod", "min", "max", "avg", "and", "or", "xor", "premul_sum"]

# weft::Collective
_ALL_REDUCE, _BROADCAST, _REDUCE, _ALL_GATHER, _REDUCE_SCATTER, _ALL_TO_ALL, _GATHER, _SCATTER = range(8)
_BARRIER, _ALL_GATHER_V, _REDUCE_SCATTER_V, _ALL_TO_ALL_V = range(9, 13)

_open: weakref.WeakSet[Communicator] = weakref.WeakSet()


@atexit.register
def _close_all() -> None:
    """A queue's thread that outlives the interpreter could not report: what still runs then is aborted."""
    for comm in list(_open):
        if not comm._core.idle():
            comm._core.abort()
        comm._core.close()


class Work(Generic[T]):
    """A call that was started with wait=False. May be dropped; the call still runs. Awaitable: `y = await work`."""

    def __init__(self, core: _core.Work) -> None:
        self._core = core

    def done(self) -> bool:
        """True once the call has ended, well or not."""
        return self._core.done()

    def wait(self, timeout: float | None = None) -> bool:
        """Waits until the call has ended, at most `timeout` seconds; False: it has not. Does not raise its error."""
        return self._core.wait(-1.0 if timeout is None else max(timeout, 0.0))

    def result(self) -> T:
        """Waits for the call and returns what the call returns without wait=False. Raises: as the call."""
        value: T = self._core.result()
        return value

    def __await__(self) -> Generator[Any, None, T]:
        if not self._core.done():
            import asyncio

            loop = asyncio.get_running_loop()
            ended: asyncio.Future[None] = loop.create_future()

            def settle() -> None:
                if not ended.done():
                    ended.set_result(None)

            self._core.when_done(lambda: loop.call_soon_threadsafe(settle))
            yield from ended.__await__()
        return self.result()


def _shape(x: Any) -> tuple[int, ...]:
    if _is_scalar(x):
        return ()
    shape: Any = x.shape if hasattr(x, "shape") else memoryview(x).shape
    return tuple(int(n) for n in shape)


def _is_scalar(x: Any) -> bool:
    return isinstance(x, (int, float))


def _new(x: Any, shape: tuple[int, ...]) -> Any:
    """An array of x's kind and element type with this shape, not filled in."""
    if hasattr(x, "new_empty"):  # torch
        return x.new_empty(shape)
    import numpy as np

    if isinstance(x, (np.ndarray, np.generic)):
        return np.empty(shape, x.dtype)
    return np.empty(shape, np.asarray(x).dtype)


def _array(x: Any) -> Any:
    """Numbers become arrays without dimensions."""
    if _is_scalar(x) or type(x).__module__ == "numpy" and not hasattr(x, "__array_finalize__"):
        import numpy as np

        return np.asarray(x)
    return x


class Communicator:
    """A group of ranks that call the same collectives in the same order.

    Arrays may be NumPy arrays, objects with the buffer protocol, or CPU tensors with DLPack. Memory that is contiguous in
    C order is used in place; an input with strides is copied once; an output must be contiguous. One thread at a time
    may be inside a communicator; a second one gets InvalidArgument. The GIL is released while a call waits. Ctrl-C ends a
    wait with KeyboardInterrupt, which breaks the communicator for all ranks as abort() does.

    Every collective raises: InvalidArgument (nothing was done); PeerDied, PeerLeft, Aborted, Timeout, Mismatch (the
    communicator is broken from then on: shrink() it); NoResources.
    """

    def __init__(self, core: _core.Communicator) -> None:
        self._core = core
        self._rank = core.rank
        self._size = core.size
        _open.add(self)

    @property
    def rank(self) -> int:
        """This rank's number, 0 to size - 1."""
        return self._rank

    @property
    def size(self) -> int:
        """How many ranks there are."""
        return self._size

    @property
    def last_choice(self) -> tuple[str, str, int]:
        """Algorithm, protocol and channels of the last call."""
        return self._core.last_choice()

    def __repr__(self) -> str:
        return f"<weftcomm.Communicator rank {self._rank} of {self._size}>"

    def __enter__(self) -> Communicator:
        return self

    def __exit__(self, kind: object, value: object, trace: object) -> None:
        if kind is None:
            self.finalize()

    # --- collectives ---

    @overload
    def all_reduce(
        self, x: A, op: Op = "sum", *, out: A | None = None, wait: Literal[True] = True, **options: Any
    ) -> A: ...
    @overload
    def all_reduce(
        self, x: A, op: Op = "sum", *, out: A | None = None, wait: Literal[False], **options: Any
    ) -> Work[A]: ...
    def all_reduce(self, x: Any, op: Op = "sum", *, out: Any = None, wait: bool = True, **options: Any) -> Any:
        """Every rank gets the reduction of all x, in a new array or in `out` (which may be x).

        options: reproducible=True (the same bits whatever the algorithm), algorithm=, protocol=, channels=, scalar=
        (with op "premul_sum"). Of booleans sum is or, prod is and.
        """
        if out is None:
            x = _array(x)
            out = _new(x, _shape(x))
        if wait:
            return self._core.call(_ALL_REDUCE, x, out, op, 0, True, options or None)
        return Work[Any](self._core.call(_ALL_REDUCE, x, out, op, 0, False, options or None))

    @overload
    def broadcast(self, x: A, root: int = 0, *, wait: Literal[True] = True, **options: Any) -> A: ...
    @overload
    def broadcast(self, x: A, root: int = 0, *, wait: Literal[False], **options: Any) -> Work[A]: ...
    def broadcast(self, x: Any, root: int = 0, *, wait: bool = True, **options: Any) -> Any:
        """Every rank's x becomes the root's, in place. Returns x."""
        return self._call(_BROADCAST, x, x, None, root, wait, options)

    @overload
    def reduce(
        self, x: A, root: int = 0, op: Op = "sum", *, out: A | None = None, wait: Literal[True] = True, **options: Any
    ) -> A | None: ...
    @overload
    def reduce(
        self, x: A, root: int = 0, op: Op = "sum", *, out: A | None = None, wait: Literal[False], **options: Any
    ) -> Work[A | None]: ...
    def reduce(
        self, x: Any, root: int = 0, op: Op = "sum", *, out: Any = None, wait: bool = True, **options: Any
    ) -> Any:
        """The root gets the reduction of all x; the others get None."""
        x = _array(x)
        if self._rank != root:
            out = None
        elif out is None:
            out = _new(x, _shape(x))
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
        **options: Any,
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
        **options: Any,
    ) -> Work[A]: ...
    def all_gather(
        self,
        x: Any,
        *,
        out: Any = None,
        stack: bool = False,
        counts: Sequence[int] | None = None,
        wait: bool = True,
        **options: Any,
    ) -> Any:
        """Every rank gets all x, one after the other along axis 0; stack=True: along a new axis 0.

        counts: every rank's length along axis 0, where the parts differ; the same on all ranks.
        """
        x = _array(x)
        shape = _shape(x)
        if counts is not None:
            rows = self._check_counts(counts, shape, counts[self._rank] if len(counts) == self._size else -1)
            if out is None:
                out = _new(x, (sum(counts), *shape[1:]))
            return self._call(_ALL_GATHER_V, x, out, None, 0, wait, {**options, "counts": [c * rows for c in counts]})
        if out is None:
            out = _new(x, self._times_size(shape, stack))
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
        **options: Any,
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
        **options: Any,
    ) -> Work[A]: ...
    def reduce_scatter(
        self,
        x: Any,
        op: Op = "sum",
        *,
        out: Any = None,
        counts: Sequence[int] | None = None,
        wait: bool = True,
        **options: Any,
    ) -> Any:
        """Rank r gets part r of the reduction of all x; x is cut along axis 0 into equal parts, or into `counts`."""
        shape = _shape(x)
        if counts is not None:
            rows = self._check_counts(counts, shape, sum(counts))
            if out is None:
                out = _new(x, (counts[self._rank], *shape[1:]))
            return self._call(_REDUCE_SCATTER_V, x, out, op, 0, wait, {**options, "counts": [c * rows for c in counts]})
        if out is None:
            out = _new(x, self._part(shape))
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
        **options: Any,
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
        **options: Any,
    ) -> Work[A]: ...
    def all_to_all(
        self,
        x: Any,
        *,
        out: Any = None,
        send_counts: Sequence[int] | None = None,
        receive_counts: Sequence[int] | None = None,
        wait: bool = True,
        **options: Any,
    ) -> Any:
        """Part r of x goes to rank r; the result is made of the parts that came, in the order of their ranks.

        x is cut along axis 0 into equal parts, or into send_counts; receive_counts: the lengths of what comes.
        """
        shape = _shape(x)
        if (send_counts is None) != (receive_counts is None):
            raise _errors.InvalidArgument("send_counts and receive_counts go together", operation="all_to_all")
        if send_counts is not None and receive_counts is not None:
            rows = self._check_counts(send_counts, shape, sum(send_counts))
            if out is None:
                out = _new(x, (sum(receive_counts), *shape[1:]))
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
        if out is None:
            self._part(shape)
            out = _new(x, shape)
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
        **options: Any,
    ) -> A | None: ...
    @overload
    def gather(
        self, x: A, root: int = 0, *, out: A | None = None, stack: bool = False, wait: Literal[False], **options: Any
    ) -> Work[A | None]: ...
    def gather(
        self, x: Any, root: int = 0, *, out: Any = None, stack: bool = False, wait: bool = True, **options: Any
    ) -> Any:
        """The root gets all x as all_gather; the others get None."""
        x = _array(x)
        if self._rank != root:
            out = None
        elif out is None:
            out = _new(x, self._times_size(_shape(x), stack))
        return self._call(_GATHER, x, out, None, root, wait, options)

    @overload
    def scatter(self, x: A | None, out: A, root: int = 0, *, wait: Literal[True] = True, **options: Any) -> A: ...
    @overload
    def scatter(self, x: A | None, out: A, root: int = 0, *, wait: Literal[False], **options: Any) -> Work[A]: ...
    def scatter(self, x: Any, out: Any, root: int = 0, *, wait: bool = True, **options: Any) -> Any:
        """Rank r's `out` becomes part r of the root's x; x is None on the others. Returns out."""
        return self._call(_SCATTER, x if self._rank == root else None, out, None, root, wait, options)

    def barrier(self, timeout: float | None = None) -> None:
        """Returns when all ranks have called it. timeout: seconds; then the error names every rank that is missing."""
        if timeout is not None:
            self._core.monitored_barrier(timeout)
        else:
            self._core.call(_BARRIER, None, None, None, 0, True, None)

    # --- messages ---

    @overload
    def send(self, x: Any, to: int, *, wait: Literal[True] = True) -> None: ...
    @overload
    def send(self, x: Any, to: int, *, wait: Literal[False]) -> Work[None]: ...
    def send(self, x: Any, to: int, *, wait: bool = True) -> Any:
        """Sends x to a rank, which receives as many elements of the same type. May return before that."""
        done = self._core.transfer(True, _array(x), to, wait)
        return done if wait else Work[None](done)

    @overload
    def receive(self, out: A, source: int, *, wait: Literal[True] = True) -> A: ...
    @overload
    def receive(self, out: A, source: int, *, wait: Literal[False]) -> Work[A]: ...
    def receive(self, out: Any, source: int, *, wait: bool = True) -> Any:
        """Receives the next message of a rank into `out`, and returns out."""
        done = self._core.transfer(False, out, source, wait)
        return done if wait else Work[Any](done)

    # --- groups and failures ---

    def split(self, color: int | None, key: int = 0) -> Communicator | None:
        """One communicator per color, ranks ordered by key; None: this rank joins none. All ranks call it."""
        made = self._core.split(-1 if color is None else color, key)
        return None if made is None else Communicator(made)

    def shrink(self) -> Communicator:
        """After a failure: a communicator of the ranks that live and call this. Drop this one afterwards."""
        return Communicator(self._core.shrink())

    def agree(self, flag: bool) -> tuple[bool, list[int]]:
        """Do all ranks that live bring True? Also the ranks that have ended. Works on broken communicators."""
        bits, ended = self._core.agree(1 if flag else 0)
        return bits == 1, ended

    def abort(self) -> None:
        """Ends what runs, on all ranks, with Aborted. May be called from any thread."""
        self._core.abort()

    def status(self) -> None:
        """Raises what has broken this communicator, if anything has. Does not wait for peers."""
        self._core.status()

    def set_timeout(self, seconds: float | None) -> None:
        """How long calls from here on wait for a peer; None: as long as it lives."""
        self._core.set_timeout(0.0 if seconds is None else seconds)

    def finalize(self) -> None:
        """Waits until all ranks call it; the communicator does nothing afterwards."""
        self._core.finalize()

    def empty(self, shape: int | Sequence[int], dtype: Any = "float32") -> NDArray[Any]:
        """An array in registered memory, which peers reach without a copy. Its contents are not initialised."""
        import numpy as np

        try:
            kind = np.dtype(dtype)
        except TypeError:
            import ml_dtypes

            kind = np.dtype(getattr(ml_dtypes, str(dtype)))
        sizes = (shape,) if isinstance(shape, int) else tuple(shape)
        count = 1
        for size in sizes:
            count *= size
        memory: NDArray[np.uint8] = self._core.allocate(count * kind.itemsize)
        array: NDArray[Any] = memory.view(kind).reshape(sizes)
        return array

    # --- inside ---

    def _call(self, kind: int, x: Any, out: Any, op: str | None, root: int, wait: bool, options: dict[str, Any]) -> Any:
        if not 0 <= root < self._size:
            raise _errors.InvalidArgument(f"root {root} is not one of {self._size} ranks")
        done = self._core.call(kind, x, out, op, root, wait, options or None)
        return done if wait else Work[Any](done)

    def _times_size(self, shape: tuple[int, ...], stack: bool) -> tuple[int, ...]:
        if stack or not shape:
            return (self._size, *shape)
        return (self._size * shape[0], *shape[1:])

    def _part(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        if not shape or shape[0] % self._size:
            raise _errors.InvalidArgument(f"axis 0 of shape {shape} cannot be cut into {self._size} equal parts")
        return (shape[0] // self._size, *shape[1:])

    def _check_counts(self, counts: Sequence[int], shape: tuple[int, ...], mine: int) -> int:
        """Elements of one step along axis 0."""
        if len(counts) != self._size:
            raise _errors.InvalidArgument(f"{len(counts)} counts for {self._size} ranks")
        if not shape or mine != shape[0]:
            raise _errors.InvalidArgument(f"counts say {mine} along axis 0, but the array has shape {shape}")
        rows = 1
        for size in shape[1:]:
            rows *= size
        return rows


class MeetingPlace:
    """Where ranks that no launcher started meet: one process opens it and passes `id` on. Keep it until they have met."""

    def __init__(self, ranks: int) -> None:
        self._core = _core.MeetingPlace(ranks)

    @property
    def id(self) -> str:
        """For connect(); any process that has it can join, so keep it secret."""
        return self._core.id


def init(timeout: float | None = None) -> Communicator:
    """Joins the job that the launcher describes: weft run, torchrun, Open MPI, MPICH, Slurm. Alone: one rank.

    timeout: seconds that later calls wait for a peer; None: as WEFT_TIMEOUT_MS says, 30 s unless set.
    """
    comm = Communicator(_core.from_environment())
    if timeout is not None:
        comm.set_timeout(timeout)
    return comm


def connect(id: str, rank: int, size: int, *, transport: str = "", timeout: float = 0.0) -> Communicator:
    """Joins the ranks that meet by the id of a MeetingPlace. timeout: seconds; 0: as the environment says."""
    return Communicator(_core.connect(id, rank, size, transport, timeout))


def threads(ranks: int) -> list[Communicator]:
    """All ranks of a communicator inside this process: one per thread, for notebooks and tests."""
    return [Communicator(core) for core in _core.threads(ranks)]


def run_threads(ranks: int, program: Callable[[Communicator], T]) -> list[T]:
    """Calls program(comm) for every rank on a thread of its own; returns the results in the order of the ranks.

    The first exception is raised after all have ended; the other ranks are aborted.
    """
    from concurrent.futures import ThreadPoolExecutor

    comms = threads(ranks)

    def one(comm: Communicator) -> T:
        try:
            return program(comm)
        except BaseException:
            comm.abort()
            raise

    with ThreadPoolExecutor(ranks) as pool:
        futures = [pool.submit(one, comm) for comm in comms]
    failures = [e for e in (f.exception() for f in futures) if e is not None]
    for failure in sorted(failures, key=lambda e: isinstance(e, _errors.Aborted)):
        raise failure
    return [f.result() for f in futures]


if sys.version_info < (3, 10):
    raise ImportError("weftcomm needs Python 3.10 or later")
