"""One-sided windows: arrays in memory that every rank reads and writes without the owner's help."""

from __future__ import annotations

import operator
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal

from . import _arguments, _core, _errors
from ._arrays import SMALL_FLOATS, layout
from ._collectives import Collectives

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

# weft::pgas::AtomicOp
_ATOMICS = {"fetch": 0, "set": 1, "swap": 2, "compare_swap": 3, "add": 4, "and": 5, "or": 6, "xor": 7}
AtomicOp = Literal["fetch", "set", "swap", "compare_swap", "add", "and", "or", "xor"]

_COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "==": operator.eq,
    "!=": operator.ne,
    ">": operator.gt,
    ">=": operator.ge,
    "<": operator.lt,
    "<=": operator.le,
}
Comparison = Literal["==", "!=", ">", ">=", "<", "<="]


class World(Collectives):
    """A job whose ranks read and write each other's windows; made by weft.world() or weft.world_threads().

    It has the collectives of communicators, without wait=False. A process has a world or a communicator of its job, not
    both. What a rank puts is seen by another after quiet() or barrier(), or with a signal. The end of another rank's
    process ends this one, too, while it waits. Misuse raises InvalidArgument.
    """

    def __init__(self, core: _core.World) -> None:
        super().__init__(core, core.rank, core.size)

    def window(self, shape: int | Sequence[int], dtype: Any = "float32") -> Window:
        """Memory of this shape and type on every rank, zeroed. All ranks call it alike. Raises: NoResources."""
        kind, sizes, count = layout(shape, dtype, "window")
        memory: NDArray[Any] = self._core.allocate(count * kind.itemsize)
        memory[:] = 0
        self.barrier()
        return Window(self, memory.view(kind).reshape(sizes))

    def fence(self) -> None:
        """Orders puts: a rank that sees a later put sees the earlier ones, too. Waits for nothing."""
        self._core.fence()

    def quiet(self) -> None:
        """Returns when what was put before is in the other ranks' memory."""
        self._core.quiet()

    def barrier(self) -> None:
        """quiet(), then returns when all ranks have called it."""
        self._core.barrier()

    def __repr__(self) -> str:
        return f"<weftcomm.World rank {self._rank} of {self._size}>"


class Window:
    """An array that every rank of a world has; made by World.window().

    window.local is this rank's own, a NumPy array. window[rank] is another rank's: window[2][3:7] = v puts,
    window[2][3:7] gets a copy. Indices are NumPy's basic ones: numbers, slices with any steps, `...`.
    """

    def __init__(self, world: World, local: NDArray[Any]) -> None:
        self._world = world
        self._core: _core.World = world._core
        self._local: NDArray[Any] | None = local

    @property
    def local(self) -> NDArray[Any]:
        """This rank's array. What others put is to be read after a barrier or a wait. Raises: InvalidArgument: freed."""
        if self._local is None:
            raise _errors.InvalidArgument("the window has been freed", operation="window")
        return self._local

    @property
    def shape(self) -> tuple[int, ...]:
        """Of every rank's array."""
        return tuple(int(n) for n in self.local.shape)

    @property
    def dtype(self) -> np.dtype[Any]:
        """Of its elements."""
        kind: np.dtype[Any] = self.local.dtype
        return kind

    def __getitem__(self, rank: int) -> Part:
        return Part(self, rank)

    def put(self, rank: int, value: Any, index: Any = ...) -> None:
        """Writes value, of the shape of local[index] or broadcast to it, there. On return value may be changed."""
        rank = self._rank(rank, "put")
        view, source = self._value(index, value, "put")
        for to, start, bytes in _runs(view, source):
            self._core.put(to, start, bytes, rank)

    def get(self, rank: int, index: Any = ...) -> NDArray[Any]:
        """A copy of the rank's local[index]."""
        import numpy as np

        rank = self._rank(rank, "get")
        view = self._view(index, "get")
        out = np.empty(view.shape, view.dtype)
        for start, to, bytes in _runs(view, out):
            self._core.get(to, start, bytes, rank)
        return out

    def put_signal(
        self, rank: int, value: Any, index: Any, signal: Window, at: Any = 0, *, number: int = 1, add: bool = False
    ) -> None:
        """Puts as put(), then sets signal[rank][at] to number, or adds it: who sees the signal sees the data.

        signal: a window of int64 or uint64; at: the index of one element. See wait().
        """
        rank = self._rank(rank, "put_signal")
        if _arguments.kind_of(signal, Window, "signal", "put_signal")._world is not self._world:
            raise _errors.InvalidArgument("the signal's window is of another world", operation="put_signal")
        view, source = self._value(index, value, "put_signal")
        word = signal._word(at, "put_signal", (8,))
        number = _of_type(number, "number", word, "put_signal")
        add = _arguments.flag(add, "add", "put_signal")
        runs = _runs(view, source)
        for to, start, bytes in runs[:-1]:
            self._core.put(to, start, bytes, rank)
        if not runs:
            raise _errors.InvalidArgument("nothing is put", operation="put_signal")
        if len(runs) > 1:
            self._core.quiet()  # a signal follows the last put only
        to, start, bytes = runs[-1]
        self._core.put_signal(to, start, bytes, _address(word), number & (1 << 64) - 1, add, rank)

    def atomic(self, rank: int, op: AtomicOp, at: Any, value: int | None = None, compare: int | None = None) -> int:
        """Performs op on one element of 4 or 8 bytes of integers of a rank; the old value.

        at: its index. op: fetch (without a value), set, swap, compare_swap (with compare), add, and, or, xor.
        """
        _arguments.choice(op, "op", "atomic", _ATOMICS)
        rank = self._rank(rank, "atomic")
        word = self._word(at, "atomic", (4, 8))
        for name, given, needed in (("value", value, op != "fetch"), ("compare", compare, op == "compare_swap")):
            if (given is not None) != needed:
                text = f"{op} {'needs' if needed else 'takes no'} {name}"
                raise _errors.InvalidArgument(text, operation="atomic")
        operand = 0 if value is None else _of_type(value, "value", word, "atomic")
        expected = 0 if compare is None else _of_type(compare, "compare", word, "atomic")
        size = word.dtype.itemsize
        bits = (1 << 8 * size) - 1
        old = self._core.atomic(_ATOMICS[op], _address(word), size, operand & bits, expected & bits, rank)
        return old - (1 << 8 * size) if word.dtype.kind == "i" and old >> (8 * size - 1) else old

    def wait(self, at: Any, comparison: Comparison, value: int, timeout: float | None = 30.0) -> int:
        """Waits until this rank's element compares so with value; what it is then.

        at: the index of an element of 4 or 8 bytes of integers. timeout: seconds; None: for ever. Ctrl-C ends the wait.
        Raises: Timeout, which breaks nothing; InvalidArgument.
        """
        _arguments.choice(comparison, "comparison", "wait", _COMPARISONS)
        value = _of_type(value, "value", self._word(at, "wait", (4, 8)), "wait")
        holds, me = _COMPARISONS[comparison], self._world.rank
        end = None if timeout is None else time.monotonic() + _errors.seconds(timeout, "wait")
        pause = 0.0
        while True:
            now = self.atomic(me, "fetch", at)
            if holds(now, value):
                return now
            if end is not None and time.monotonic() > end:
                text = f"element {at} is {now}, not {comparison} {value}, after {timeout} s"
                raise _errors.Timeout(text, "timeout", (), "wait")
            time.sleep(pause)
            pause = min(pause + 1e-6, 2e-4)

    def free(self) -> None:
        """Gives the memory back. All ranks call it alike; arrays made of local must not be used afterwards."""
        self._core.free(_address(self.local))
        self._local = None

    def __repr__(self) -> str:
        return "<weftcomm.Window, freed>" if self._local is None else f"<weftcomm.Window {self.shape} of {self.dtype}>"

    def _rank(self, rank: Any, operation: str) -> int:
        return _arguments.rank(rank, "rank", operation, self._world.size)

    def _view(self, index: Any, operation: str) -> NDArray[Any]:
        local = self.local
        key = index if isinstance(index, tuple) else (index,)
        if not all(_names_memory(k) for k in key):
            raise _errors.InvalidArgument(
                f"index {_arguments.shown(index)}: only numbers, slices and ... name memory", operation=operation
            )
        try:
            view: NDArray[Any] = local[key if Ellipsis in key else (*key, ...)]
        except (IndexError, TypeError, ValueError, OverflowError) as e:
            raise _errors.InvalidArgument(f"index {_arguments.shown(index)}: {e}", operation=operation) from None
        return view

    def _value(self, index: Any, value: Any, operation: str) -> tuple[NDArray[Any], NDArray[Any]]:
        import numpy as np

        view = self._view(index, operation)
        try:
            given = np.asarray(value)
            _keeps_values(given, view.dtype, operation)
            source = np.ascontiguousarray(np.broadcast_to(given.astype(view.dtype), view.shape))
        except _errors.InvalidArgument:
            raise
        except MemoryError as e:
            raise _errors.NoResources(f"a value for shape {view.shape}: {e}", "no_resources", (), operation) from None
        except (TypeError, ValueError, OverflowError) as e:
            text = f"a value for shape {view.shape} of {view.dtype}: {e}".replace("\n", " ")
            raise _errors.InvalidArgument(text, operation=operation) from None
        return view, source

    def _word(self, at: Any, operation: str, sizes: tuple[int, ...]) -> NDArray[Any]:
        word = self._view(at, operation)
        if word.size != 1 or word.dtype.kind not in "iu" or word.dtype.itemsize not in sizes:
            text = f"index {_arguments.shown(at)} of {self!r} is not one integer of {' or '.join(str(s) for s in sizes)} bytes"
            raise _errors.InvalidArgument(text, operation=operation)
        return word


def _names_memory(key: Any) -> bool:
    """NumPy's basic indices, which make views."""
    if key is None or key is Ellipsis or isinstance(key, slice):
        return True
    return not isinstance(key, bool) and hasattr(key, "__index__") and getattr(key, "ndim", None) in (None, 0) and not hasattr(key, "__array_finalize__")


class Part:
    """Another rank's array of a window: part[3:7] = v puts, part[3:7] gets a copy."""

    def __init__(self, window: Window, rank: int) -> None:
        self._window = window
        self._rank = rank

    def __getitem__(self, index: Any) -> NDArray[Any]:
        return self._window.get(self._rank, index)

    def __setitem__(self, index: Any, value: Any) -> None:
        self._window.put(self._rank, value, index)


def _of_type(value: Any, name: str, word: NDArray[Any], operation: str) -> int:
    """A whole number that the element of an integer type can hold."""
    import numpy as np

    limits = np.iinfo(word.dtype)
    return _arguments.integer(value, name, operation, int(limits.min), int(limits.max))


def _keeps_values(given: NDArray[Any], kind: np.dtype[Any], operation: str) -> None:
    """Raises: InvalidArgument: values that the type would alter: fractions, or what exceeds it, in integers."""
    import numpy as np

    if given.dtype.kind not in "biuf" and given.dtype.name not in SMALL_FLOATS:
        text = f"a value of type {given.dtype} cannot be put into {kind}"
        raise _errors.InvalidArgument(text, operation=operation)
    if kind.kind not in "biu" or given.size == 0 or given.dtype == kind:
        return
    if given.dtype.kind not in "biu":
        text = f"a value of type {given.dtype} does not fit {kind}: convert it first"
        raise _errors.InvalidArgument(text, operation=operation)
    low, high = (0, 1) if kind.kind == "b" else (int(np.iinfo(kind).min), int(np.iinfo(kind).max))
    for number in (int(given.min()), int(given.max())):
        if not low <= number <= high:
            text = f"{number} does not fit {kind}: it is a whole number from {low} to {high}"
            raise _errors.InvalidArgument(text, operation=operation)


def _address(array: NDArray[Any]) -> int:
    return int(array.__array_interface__["data"][0])


def _runs(view: NDArray[Any], dense: NDArray[Any]) -> list[tuple[int, int, int]]:
    """Where the pieces of view that are contiguous lie, where they lie in `dense`, an array of its shape, and their bytes."""
    if view.size == 0:
        return []
    if view.flags.c_contiguous:
        return [(_address(view), _address(dense), view.nbytes)]
    return [run for i in range(view.shape[0]) for run in _runs(view[i, ...], dense[i, ...])]


def world() -> World:
    """Joins the job that the launcher describes, as init(), for one-sided windows. Alone: one rank."""
    return World(_core.world())


def world_threads(ranks: int) -> list[World]:
    """All ranks of a world inside this process, for threads that the caller starts."""
    ranks = _arguments.integer(ranks, "ranks", "world_threads", 1, _arguments.MOST_RANKS)
    return [World(core) for core in _core.world_threads(ranks)]
