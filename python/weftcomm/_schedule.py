"""Schedules written in Python: generators of steps, which become weft's own schedules."""

from __future__ import annotations

import hashlib
import inspect
import itertools
import json
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, overload

from . import _arguments, _core
from ._answers import Bench, Proof, ask
from ._errors import InvalidArgument
from .steps import Operand, Step

if TYPE_CHECKING:
    from ._answers import Value
    from ._machine import Machine

_MOST_STEPS = 1 << 20  # of all ranks: what weft reads of a schedule
_GIVEN = ("rank", "ranks", "root", "lane", "per_node")  # what a generator may ask for, by the names of its parameters


class Schedule:
    """The steps of all ranks for one collective, number of ranks and root: weft.schedule/1. A value.

    Equal, hashable, picklable; draws itself in notebooks. Pass it as algorithm= to a communicator's collectives and as
    algo= to a machine's bench() and explain(). A schedule runs only if it is proved.
    """

    def __init__(self, form: dict[str, Any] | str) -> None:
        """form: a dict of weft.schedule/1, or its text. Raises: InvalidArgument."""
        try:
            self._form: dict[str, Any] = json.loads(form) if isinstance(form, str) else form
            self._text = json.dumps(self._form, separators=(",", ":"))
            name = str(self._form["name"])
        except (ValueError, KeyError, TypeError) as e:
            raise InvalidArgument(f"no schedule of the form weft.schedule/1: {e!r}", operation="schedule") from None
        digest = hashlib.sha256(self._text.encode()).hexdigest()[:16]
        self._file = f"{name.replace('/', '_')}#{digest}.json"
        try:
            _core.name_schedule(self._file, self._text)
        except InvalidArgument as e:
            raise InvalidArgument(str(e).replace(self._file, name), operation="schedule") from None
        self._proof: Proof | None = None

    @property
    def name(self) -> str:
        """What it is called: the generator's name."""
        return str(self._form["name"])

    @property
    def collective(self) -> str:
        """What it performs."""
        return str(self._form["collective"])

    @property
    def ranks(self) -> int:
        """For how many ranks it is."""
        return int(self._form["ranks"])

    def verify(self) -> Proof:
        """Proves it, or finds the counterexample, whose text names the rank and the step."""
        if self._proof is None:
            self._proof = ask(Proof, "verify", self._file)
            self._proof["file"] = self.name
        return self._proof

    def simulate(self, machine: Machine, bytes: int | str | Iterable[int | str] = "1M", **options: Value) -> Bench:
        """How long it takes on a machine; as Machine.bench(). Raises: InvalidArgument, also if it is not proved."""
        return machine.bench(self.collective, bytes, algo=self, **options)

    def rows(self) -> list[dict[str, Any]]:
        """One flat dict per step: rank, lane, step, kind, chunk or peer, from, to."""
        lanes = int(self._form["lanes"])
        out = []
        for strand, steps in enumerate(self._form["strands"]):
            for number, step in enumerate(steps):
                kind = next(k for k in ("move", "signal", "wait") if k in step)
                row = {"rank": strand // lanes, "lane": strand % lanes, "step": number, "kind": kind}
                row["chunk" if kind == "move" else "peer"] = step[kind]
                for side in ("from", "to"):
                    row[side] = " ".join(_operand_text(o) for o in step.get(side, ()))
                out.append(row)
        return out

    def to_dict(self) -> dict[str, Any]:
        """A plain dict of weft.schedule/1; a copy."""
        form: dict[str, Any] = json.loads(self._text)
        return form

    def svg(self) -> str:
        """A space-time diagram: ranks from top to bottom, messages as arrows. Raises: InvalidArgument: too large."""
        return _core.picture(["schedule", self._file])

    def _repr_svg_(self) -> str:
        return self.svg()

    def __repr__(self) -> str:
        steps = sum(len(s) for s in self._form["strands"])
        return f"<Schedule: {self.collective} by {self.name} on {self.ranks} ranks, {steps} steps>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Schedule) and other._text == self._text

    def __hash__(self) -> int:
        return hash(self._text)

    def __reduce__(self) -> tuple[type[Schedule], tuple[str]]:
        return Schedule, (self._text,)

    def file_for(self, ranks: int, root: int = 0) -> str:
        """The name under which weft finds it, proved. Raises: InvalidArgument: not proved, or for other ranks."""
        if ranks != self.ranks:
            raise InvalidArgument(
                f"{self.name}: a schedule of {self.ranks} ranks, not of {ranks}", operation="schedule"
            )
        wrong = self.verify().counterexample
        if wrong is not None:
            raise InvalidArgument(f"not proved, so not run: {self.name}: {wrong['text']}", operation="schedule")
        return self._file


def _operand_text(form: dict[str, Any]) -> str:
    return ",".join(f"{k}:{v}" for k, v in form.items())


class Algorithm:
    """A generator of one rank's steps for a collective; made by weft.algorithm. One text for proof, picture, simulation, run."""

    def __init__(self, generator: Callable[..., Iterator[Step]], collective: str, settings: dict[str, Any]) -> None:
        self._generator = generator
        self._settings = settings
        self._made: dict[tuple[int, int, int], Schedule] = {}
        self.collective, _, self._rooted, self._may_be_in_place = _core.collective(collective, 1)
        self.name = generator.__name__
        self.__doc__ = generator.__doc__
        self.__module__ = generator.__module__
        self.__qualname__ = generator.__qualname__
        asked = inspect.signature(generator).parameters
        unknown = [name for name in asked if name not in _GIVEN]
        if unknown:
            raise InvalidArgument(
                f"{self.name}: parameter '{unknown[0]}': a generator of steps has {', '.join(_GIVEN)}",
                operation="algorithm",
            )
        self._asked = tuple(asked)

    def schedule(self, ranks: int, *, root: int = 0, per_node: int | None = None) -> Schedule:
        """The steps of all ranks; draws itself in notebooks.

        per_node: consecutive ranks that share a machine; all of them unless given. Raises: InvalidArgument, which names
        the rank and the step where the generator yields no step, names a rank that there is not, or raises.
        """
        per_node = ranks if per_node is None else per_node
        key = (ranks, root if self._rooted else 0, per_node)
        if key not in self._made:
            self._made[key] = Schedule(self._text(*key))
        return self._made[key]

    @overload
    def verify(self, ranks: int = 8, *, root: int = 0, per_node: int | None = None) -> Proof: ...
    @overload
    def verify(self, ranks: Iterable[int], *, root: int = 0, per_node: int | None = None) -> list[Proof]: ...
    def verify(self, ranks: Any = 8, *, root: int = 0, per_node: int | None = None) -> Any:
        """Proves the schedule for this number of ranks; for several, e.g. range(2, 18): a list, up to the first that fails."""
        if isinstance(ranks, int):
            return self.schedule(ranks, root=root, per_node=per_node).verify()
        proofs = []
        for number in _arguments.several(ranks, "ranks", "verify", "numbers of ranks"):
            proofs.append(self.schedule(number, root=root, per_node=per_node).verify())
            if not proofs[-1]:
                break
        return proofs

    def simulate(self, machine: Machine, bytes: int | str | Iterable[int | str] = "1M", **options: Value) -> Bench:
        """How long it takes on all ranks of a machine, or on ranks=; as Machine.bench()."""
        return machine.bench(self.collective, bytes, algo=self, **options)

    def draw(self, ranks: int = 4, *, root: int = 0) -> str:
        """The space-time diagram of this number of ranks, as SVG. Raises: InvalidArgument."""
        return self.schedule(ranks, root=root).svg()

    def _repr_svg_(self) -> str:
        return self.draw()

    def file_for(self, ranks: int, root: int = 0) -> str:
        """See Schedule.file_for()."""
        return self.schedule(ranks, root=root).file_for(ranks)

    def __call__(self, *arguments: int, **named: int) -> Iterator[Step]:
        """One rank's steps: the generator itself."""
        return self._generator(*arguments, **named)

    def __repr__(self) -> str:
        return f"<Algorithm: {self.collective} by {self.name}>"

    def __reduce__(self) -> str:
        return self.__qualname__  # found in its module again, as functions are

    def _number(self, setting: str, ranks: int, default: int) -> int:
        value = self._settings[setting]
        if callable(value):
            value = value(ranks)
        value = default if value is None else value
        if not isinstance(value, int) or isinstance(value, bool) or value < 0:
            raise InvalidArgument(f"{self.name}: {setting} is {value!r} on {ranks} ranks", operation="algorithm")
        return value

    def _text(self, ranks: int, root: int, per_node: int) -> str:
        if not isinstance(ranks, int) or ranks < 1:
            raise InvalidArgument(f"{self.name}: ranks={ranks!r} is no number of ranks", operation="algorithm")
        _, blocks, _, _ = _core.collective(self.collective, ranks)
        in_place = self._settings["in_place"]
        lanes = self._number("lanes", ranks, 1)
        head = {
            "schema": "weft.schedule/1",
            "name": self.name,
            "collective": self.collective,
            "ranks": ranks,
            "root": root,
            "chunks": self._number("chunks", ranks, blocks),
            "scratch": self._number("scratch", ranks, 0),
            "lanes": lanes,
            "slots": self._number("slots", ranks, 2),
            "in_place": self._may_be_in_place if in_place is None else in_place,
            "out_of_place": self._settings["out_of_place"],
        }
        strands = []
        left = _MOST_STEPS
        for rank, lane in itertools.product(range(ranks), range(lanes)):
            given = {"rank": rank, "ranks": ranks, "root": root, "lane": lane, "per_node": per_node}
            place = f"{self.name}: rank {rank}" + (f" lane {lane}" if lanes > 1 else "")
            steps = self._strand(place, ranks, {name: given[name] for name in self._asked}, left)
            left -= len(steps)
            strands.append(f"[{','.join(steps)}]")
        return f'{json.dumps(head)[:-1]}, "strands": [{",".join(strands)}], "orders": []}}'

    def _strand(self, place: str, ranks: int, given: dict[str, int], most: int) -> list[str]:
        steps: list[str] = []
        try:
            for step in self._generator(**given):
                wrong = _wrong(step, ranks)
                if wrong:
                    raise InvalidArgument(f"{place} step {len(steps)}: {wrong}", operation="algorithm")
                if len(steps) == most:
                    raise InvalidArgument(f"{place}: more than {_MOST_STEPS} steps of all ranks", operation="algorithm")
                steps.append(json.dumps(step.to_dict(), separators=(",", ":")))
        except InvalidArgument:
            raise
        except Exception as e:
            text = f"{place} step {len(steps)}: {type(e).__name__}: {e}".replace("\n", " ")
            raise InvalidArgument(text, operation="algorithm") from e
        return steps


def _wrong(step: Any, ranks: int) -> str:
    """Why this is no step on this number of ranks; empty: it is one. The proof says whether it is right."""
    if not isinstance(step, Step):
        return f"{type(step).__name__} is no step; weftcomm.steps has the words"
    if step.kind != "move":
        return _no_rank(step.number, ranks)
    if not _whole(step.number):
        return f"{step.number!r} is no chunk"
    for side in (step.sources, step.destinations):
        if not side:
            return "a move needs a source and a destination"
        for operand in side:
            if not isinstance(operand, Operand):
                return f"{type(operand).__name__} is no operand; weftcomm.steps has the words"
            if operand.kind == "peer":
                wrong = _no_rank(operand.number, ranks)
            elif not _whole(operand.number):
                wrong = f"{operand.number!r} is no chunk"
            else:
                wrong = _no_rank(operand.of, ranks) if isinstance(operand.of, int) else ""
            if wrong:
                return wrong
    return ""


def _whole(number: Any) -> bool:
    return isinstance(number, int) and not isinstance(number, bool) and number >= 0


def _no_rank(rank: Any, ranks: int) -> str:
    return "" if _whole(rank) and rank < ranks else f"{rank!r} is not one of {ranks} ranks"


def algorithm(
    collective: str,
    *,
    chunks: int | Callable[[int], int] | None = None,
    scratch: int | Callable[[int], int] = 0,
    lanes: int | Callable[[int], int] = 1,
    slots: int | Callable[[int], int] = 2,
    in_place: bool | None = None,
    out_of_place: bool = True,
) -> Callable[[Callable[..., Iterator[Step]]], Algorithm]:
    """Makes an algorithm of a generator of one rank's steps, which are made by weftcomm.steps.

    The generator's parameters are any of rank, ranks, root, lane and per_node, by these names.
    chunks: of the whole message; unless given one per block: one for all_reduce, broadcast and reduce, one per rank for
    all_gather, reduce_scatter, gather and scatter, one per pair of ranks for all_to_all. scratch: slots of a rank.
    lanes: concurrent strands of a rank. slots: messages that a connection holds. A callable is given the number of ranks.
    in_place, out_of_place: how it may be called, which is what is proved; in place wherever the collective may be.

        @weft.algorithm("all_gather")
        def ring(rank, ranks):
            yield steps.copy(rank)
            for step in range(ranks - 1):
                yield steps.send((rank - step) % ranks, to=(rank + 1) % ranks)
                yield steps.receive((rank - step - 1) % ranks, source=(rank - 1) % ranks)

    Raises: InvalidArgument: no such collective, or a parameter of another name.
    """
    settings = {
        "chunks": chunks,
        "scratch": scratch,
        "lanes": lanes,
        "slots": slots,
        "in_place": in_place,
        "out_of_place": out_of_place,
    }
    return lambda generator: Algorithm(generator, collective, settings)
