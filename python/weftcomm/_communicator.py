"""Communicators: real ranks, real memory."""

from __future__ import annotations

import atexit
import contextlib
import sys
import weakref
import zlib
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeVar, overload

from . import _arguments, _core, _errors
from ._arrays import array_of, layout
from ._collectives import BARRIER, A, Collectives, Op
from ._work import Message, MessageWork, Work

if TYPE_CHECKING:
    from types import TracebackType

    import numpy as np
    from numpy.typing import NDArray

__all__ = ["ANY_SOURCE", "ANY_TAG", "Communicator", "MeetingPlace", "Message", "MessageWork", "Op", "Work", "connect"]

T = TypeVar("T")

# weft::kAnySource, weft::kAnyTag
ANY_SOURCE = -1
ANY_TAG = -1

_open: weakref.WeakSet[Communicator] = weakref.WeakSet()


@atexit.register
def _close_all() -> None:
    """A queue's thread that outlives the interpreter could not report: what still runs then is aborted."""
    for comm in list(_open):
        if not comm._core.idle():
            comm._core.abort()
        comm._core.close()
    _core.end_dropped()


def _say_what_was_raised(kind: type[BaseException], raised: BaseException, trace: TracebackType | None) -> None:
    """The ranks that wait for a script that ends with an exception learn what it raised, before it is printed."""
    text = str(raised)
    why = f"raised {kind.__name__}: {text}" if text else f"raised {kind.__name__}"
    for comm in list(_open):
        comm._core.abort(why)
    _excepthook(kind, raised, trace)


_excepthook = sys.excepthook
sys.excepthook = _say_what_was_raised


class Communicator(Collectives):
    """A group of ranks that call the same collectives in the same order.

    Arrays may be NumPy arrays, objects with the buffer protocol, or CPU tensors with DLPack. Memory that is contiguous in
    C order is used in place; an input with strides is copied once; an output must be contiguous. One thread at a time
    may be inside a communicator; a second one gets InvalidArgument. The GIL is released while a call waits. Ctrl-C ends a
    wait with KeyboardInterrupt, which breaks the communicator for all ranks as abort() does.

    Every collective raises: InvalidArgument (nothing was done); PeerDied, PeerLeft, Aborted, Timeout, Mismatch (the
    communicator is broken from then on: shrink() it); NoResources.
    """

    def __init__(self, core: _core.Communicator) -> None:
        _arguments.kind_of(core, _core.Communicator, "a communicator of", "Communicator")
        super().__init__(core, core.rank, core.size)
        self._active: dict[frozenset[int], Communicator | None] = {}
        _open.add(self)

    @property
    def last_choice(self) -> tuple[str, str, int]:
        """Algorithm, protocol and channels of the last call."""
        choice: tuple[str, str, int] = self._core.last_choice()
        return choice

    def __repr__(self) -> str:
        return f"<weftcomm.Communicator rank {self._rank} of {self._size}>"

    def __enter__(self) -> Communicator:
        return self

    def __exit__(self, kind: object, value: object, trace: object) -> None:
        if kind is None:
            self.finalize()

    def barrier(self, timeout: float | None = None) -> None:
        """Returns when all ranks have called it. timeout: seconds; then the error names every rank that is missing, and the
        communicator is broken.
        """
        if timeout is not None:
            self._core.monitored_barrier(_errors.seconds(timeout, "barrier"))
        else:
            self._core.call(BARRIER, None, None, None, 0, True, None)

    # --- messages ---

    @overload
    def send(
        self, x: Any, to: int, *, tag: int | None = None, wait: Literal[True] = True, timeout: float | None = None
    ) -> None: ...
    @overload
    def send(self, x: Any, to: int, *, tag: None = None, wait: Literal[False]) -> Work[None]: ...
    @overload
    def send(
        self, x: Any, to: int, *, tag: int, wait: Literal[False], timeout: float | None = None
    ) -> MessageWork: ...
    def send(self, x: Any, to: int, *, tag: int | None = None, wait: bool = True, timeout: float | None = None) -> Any:
        """Sends x, of any shape, to a rank, which receives as many elements of the same type. May return before that.

        tag: 0 or more; messages with tags never meet those without, and need no order of calls. timeout: seconds, with
        a tag. Raises: with a tag, Mismatch and Timeout (nothing matched) break nothing; InvalidArgument.
        """
        wait = _arguments.flag(wait, "wait", "send")
        to = _arguments.rank(to, "to", "send", self._size)
        if tag is None:
            if timeout is not None:
                raise _errors.InvalidArgument("a timeout of one message goes with a tag", operation="send")
            done = self._core.transfer(True, array_of(x), to, wait)
            return done if wait else Work[None](done)
        tag = _arguments.integer(tag, "tag", "send", 0, _arguments.INT32[1])
        seconds = None if timeout is None else _errors.seconds(timeout, "send")
        if not wait:
            return MessageWork(self._core.start_tagged(True, array_of(x), to, tag, seconds), True)
        self._core.tagged(True, array_of(x), to, tag, seconds)
        return None

    @overload
    def receive(self, out: A, source: int, *, tag: None = None, wait: Literal[True] = True) -> A: ...
    @overload
    def receive(self, out: A, source: int, *, tag: None = None, wait: Literal[False]) -> Work[A]: ...
    @overload
    def receive(
        self, out: Any, source: int, *, tag: int, wait: Literal[True] = True, timeout: float | None = None
    ) -> Message: ...
    @overload
    def receive(
        self, out: Any, source: int, *, tag: int, wait: Literal[False], timeout: float | None = None
    ) -> MessageWork: ...
    def receive(
        self, out: Any, source: int, *, tag: int | None = None, wait: bool = True, timeout: float | None = None
    ) -> Any:
        """Receives a rank's next message into `out`, which is contiguous; without a tag, returns out.

        tag: of the message, or ANY_TAG; then source may be ANY_SOURCE, `out` may be larger than the message, and the
        result is a Message with source, tag and count of elements. timeout: seconds, with a tag.
        Raises: with a tag, Mismatch (out is too small or of another type: the message is used up) and Timeout break
        nothing; InvalidArgument.
        """
        wait = _arguments.flag(wait, "wait", "receive")
        any_source = type(source) is int and source == ANY_SOURCE
        if not any_source:
            source = _arguments.rank(source, "source", "receive", self._size)
        if tag is None:
            if timeout is not None or any_source:
                what = "ANY_SOURCE" if any_source else "a timeout of one message"
                raise _errors.InvalidArgument(f"{what} goes with a tag (or ANY_TAG)", operation="receive")
            done = self._core.transfer(False, out, source, wait)
            return done if wait else Work[Any](done)
        tag = _arguments.integer(tag, "tag", "receive", ANY_TAG, _arguments.INT32[1])
        seconds = None if timeout is None else _errors.seconds(timeout, "receive")
        if not wait:
            return MessageWork(self._core.start_tagged(False, out, source, tag, seconds), False)
        return Message(*self._core.tagged(False, out, source, tag, seconds))

    # --- groups and failures ---

    def split(self, color: int | None, key: int = 0) -> Communicator | None:
        """One communicator per color, ranks ordered by key; None: this rank joins none. All ranks call it."""
        if color is not None:
            color = _arguments.integer(color, "color", "split", 0, _arguments.INT32[1])
        key = _arguments.integer(key, "key", "split", *_arguments.INT32)
        made = self._core.split(-1 if color is None else color, key)
        return None if made is None else Communicator(made)

    def active(self, ranks: Sequence[int]) -> Communicator | None:
        """The communicator of these ranks, in their order here, whatever the order of `ranks`; None on all others. All ranks call it
        the first time; afterwards the same mask gives the same communicator without a call. Raises: InvalidArgument for a mask
        without members or with a rank that there is not; Mismatch on the ranks of a mask that not all of its members gave."""
        members = _arguments.several(ranks, "ranks", "active", "ranks")
        mask = frozenset(_arguments.rank(r, "ranks", "active", self.size) for r in members)
        if not mask:
            raise _arguments.refuse("ranks: a mask without members", "active")
        if mask not in self._active:
            # Ranks that give another mask have another color, so they are missing here.
            color = zlib.crc32(",".join(map(str, sorted(mask))).encode()) & _arguments.INT32[1]
            made = self.split(color if self.rank in mask else None)
            if made is not None and made.size != len(mask):
                raise _errors.Mismatch(f"active: only {made.size} of the ranks {sorted(mask)} gave this mask", "mismatch", operation="active")
            self._active[mask] = made
        return self._active[mask]

    def shrink(self, without: Sequence[int] = ()) -> Communicator:
        """After a failure: a communicator of the ranks that live and call this. Drop this one afterwards.

        Ranks of `without`, the same on all that call this, are not waited for although they live. Raises:
        InvalidArgument, a rank that there is not, or this one; LeftOut; NoQuorum.
        """
        left = _arguments.several(without, "without", "shrink", "ranks")
        ranks = [_arguments.rank(r, "without", "shrink", self.size) for r in left]
        return Communicator(self._core.shrink(ranks))

    def grow(self, id: str | None, size: int) -> Communicator:
        """A communicator of these ranks, which keep their numbers, and new ones, which call connect(id, rank, size).

        id: of a MeetingPlace for `size` ranks; only rank 0's counts, the others may pass None. This one stays.
        """
        size = _arguments.integer(size, "size", "grow", 1, _arguments.MOST_RANKS)
        return Communicator(self._core.grow("" if id is None else _arguments.text(id, "id", "grow"), size))

    def agree(self, flag: bool) -> tuple[bool, list[int]]:
        """Do all counted ranks bring True? Also the ranks that were not counted: they have ended, left, or came later
        than the others waited. The same on all counted ranks. Works on broken communicators.
        """
        if type(flag) is not int or flag not in (0, 1):
            flag = _arguments.flag(flag, "flag", "agree")
        bits, ended = self._core.agree(1 if flag else 0)
        return bits == 1, ended

    def abort(self, why: str = "") -> None:
        """Ends what runs, on all ranks, with Aborted. May be called from any thread.

        why: what the other ranks' errors say that this rank did, e.g. "raised RuntimeError: no data"; up to 180 bytes.
        """
        self._core.abort(_arguments.text(why, "why", "abort"))

    def status(self) -> None:
        """Raises what has broken this communicator, if anything has. Does not wait for peers."""
        self._core.status()

    def set_timeout(self, seconds: float | None) -> None:
        """How long calls from here on wait for a peer: more than 0; None: as long as it lives."""
        self._core.set_timeout(0.0 if seconds is None else _errors.some_seconds(seconds, "set_timeout"))

    def finalize(self) -> None:
        """Waits until all ranks call it; the communicator does nothing afterwards."""
        self._core.finalize()

    def empty(self, shape: int | Sequence[int], dtype: Any = "float32") -> NDArray[Any]:
        """An array in registered memory, which peers reach without a copy. Its contents are not initialised."""
        kind, sizes, count = layout(shape, dtype, "empty")
        memory: NDArray[np.uint8] = self._core.allocate(count * kind.itemsize)
        array: NDArray[Any] = memory.view(kind).reshape(sizes)
        return array

    def register(self, array: Any) -> Registration:
        """Makes the memory of an array or CPU tensor registered where it is, so that peers reach it without a copy; it keeps
        what it holds. First waits for calls that were started. Nobody may write the memory during this call and release():
        calls of other communicators that were started with it have to be done. The memory is whole pages, or an allocation
        that is a mapping of its own, from its start: arrays and tensors above 32 MiB, smaller ones where malloc has freed none
        of that size before (MALLOC_MMAP_THRESHOLD_=65536 keeps it so); empty() and allocations() take any size. Of a NumPy
        view the array behind it is registered. Until release() or the end of the `with` block the array cannot be resized,
        and a forked child shares the memory, whose contents it loses then. Raises: InvalidArgument with the reason; NoResources."""
        while getattr(array, "base", None) is not None and type(array.base) is type(array):
            array = array.base
        return Registration(self._core, self._core.register_memory(array))

    @contextlib.contextmanager
    def allocations(self) -> Iterator[None]:
        """`with comm.allocations():` NumPy makes its arrays of 4 KiB and more in registered memory, results of arithmetic
        included, in this thread and context, until the block ends or WEFT_HEAP is used up; then in plain memory. Arrays may
        outlive the block and the communicator. Raises: ImportError without NumPy, InvalidArgument for NumPy before 1.22."""
        before = self._core.place_arrays()
        try:
            yield
        finally:
            _core.set_numpy_handler(before)


class Registration:
    """Of Communicator.register(). It keeps the array, whose memory becomes private again in the communicator's next call if
    this object is dropped without release()."""

    def __init__(self, communicator: Any, core: Any) -> None:
        self._communicator, self._core = communicator, core

    @property
    def shared(self) -> bool:
        """Are its pages those of the job's shared memory? False: peers need none or could not use them, or it was released."""
        return bool(self._core.shared)

    def release(self) -> None:
        """Gives the pages back as private memory, with what they hold, when all calls that were started have ended. Raises:
        InvalidArgument where another thread is inside a call of the communicator."""
        self._communicator.release(self._core)

    def __enter__(self) -> Registration:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()


class MeetingPlace:
    """Where ranks that no launcher started meet: one process opens it and passes `id` on. Keep it until they have met."""

    def __init__(self, ranks: int) -> None:
        self._core = _core.MeetingPlace(
            _arguments.integer(ranks, "ranks", "MeetingPlace", 1, _arguments.MOST_RANKS)
        )

    @property
    def id(self) -> str:
        """For connect(); any process that has it can join, so keep it secret."""
        return self._core.id


def init(timeout: float | None = None) -> Communicator:
    """Joins the job that the launcher describes: weft run, torchrun, Open MPI, MPICH, Slurm. Alone: one rank.

    timeout: seconds that later calls wait for a peer; None: as WEFT_TIMEOUT_MS says, 30 s unless set.
    """
    if timeout is not None:
        timeout = _errors.some_seconds(timeout, "init")
    comm = Communicator(_core.from_environment())
    if timeout is not None:
        comm.set_timeout(timeout)
    return comm


def connect(
    id: str, rank: int, size: int, *, transport: str = "", timeout: float | None = None
) -> Communicator:
    """Joins the ranks that meet by the id of a MeetingPlace. timeout: seconds, also of later calls; None: as the
    environment says.
    """
    size = _arguments.integer(size, "size", "connect", 1, _arguments.MOST_RANKS)
    rank = _arguments.rank(rank, "rank", "connect", size)
    seconds = 0.0 if timeout is None else _errors.some_seconds(timeout, "connect")
    id, transport = _arguments.text(id, "id", "connect"), _arguments.text(transport, "transport", "connect")
    return Communicator(_core.connect(id, rank, size, transport, seconds))


def threads(ranks: int) -> list[Communicator]:
    """All ranks of a communicator inside this process: one per thread, for notebooks and tests; up to 1,024."""
    ranks = _arguments.integer(ranks, "ranks", "threads", 1, _arguments.MOST_RANKS)
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
