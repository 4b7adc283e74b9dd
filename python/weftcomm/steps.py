"""The words in which a schedule is written: one rank's steps, in weft's own terms. See weftcomm.algorithm.

A step moves a chunk: the value is the sum of its sources, and every destination receives it. Sources and destinations
are operands: this rank's input, output and scratch memory, messages to and from other ranks, and other ranks' memory.
Messages between two ranks are taken in their order, and a connection holds two of them unless the schedule says more.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

_BUFFERS = ("in", "out", "scratch")


@dataclass(frozen=True)
class Operand:
    """One end of a move; made by the functions of this module."""

    kind: str  # "in", "out", "scratch", "peer" (a message), "group" (a message through a switch)
    number: int = 0  # of a chunk, a slot, or the message's rank
    of: int | tuple[int, int, int] | None = None  # memory: another rank's, or a group's (first, count, stride)
    lane: int | None = None  # messages: another lane's connection
    more: bool = False  # messages: the same message goes on with the next such operand

    def at(self, rank: int) -> Operand:
        """This memory of another rank, by load or store."""
        return replace(self, of=rank)

    def everywhere(self, first: int, count: int, stride: int = 1) -> Operand:
        """This memory of all ranks of a group, through a switch: as a source their sum, as a destination a copy to all."""
        return replace(self, of=(first, count, stride))

    def to_dict(self) -> dict[str, Any]:
        """The operand in the form of weft.schedule/1."""
        if self.kind == "group":
            form: dict[str, Any] = {"group": list(self.of) if isinstance(self.of, tuple) else self.of}
        else:
            form = {self.kind: self.number}
            if self.of is not None:
                form["of"] = list(self.of) if isinstance(self.of, tuple) else self.of
        if self.lane is not None:
            form["lane"] = self.lane
        if self.more:
            form["more"] = True
        return form

    def __repr__(self) -> str:
        where = "" if self.of is None else f" of {self.of}"
        return f"message of {self.number}" if self.kind == "peer" else f"{self.kind}[{self.number}]{where}"


@dataclass(frozen=True)
class Step:
    """What one rank does next: a move, a signal or a wait; made by the functions of this module."""

    kind: str  # "move", "signal", "wait"
    number: int  # the chunk that is moved, or the rank that is signalled or waited for
    sources: tuple[Operand, ...] = ()
    destinations: tuple[Operand, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """The step in the form of weft.schedule/1."""
        if self.kind != "move":
            return {self.kind: self.number}
        return {
            "move": self.number,
            "from": [o.to_dict() for o in self.sources],
            "to": [o.to_dict() for o in self.destinations],
        }

    def __repr__(self) -> str:
        if self.kind != "move":
            return f"{self.kind} {self.number}"
        return f"move chunk {self.number}: {list(self.sources)} -> {list(self.destinations)}"


def input(chunk: int) -> Operand:  # noqa: A001 - the field's word
    """This rank's input. Schedules do not write it."""
    return Operand("in", chunk)


def output(chunk: int) -> Operand:
    """This rank's output; of a call in place, the same memory as the input."""
    return Operand("out", chunk)


def scratch(slot: int) -> Operand:
    """A slot of weft's own memory, as large as a chunk. The schedule says how many there are."""
    return Operand("scratch", slot)


def message(rank: int, lane: int | None = None, more: bool = False) -> Operand:
    """A message: from this rank as a source, to this rank as a destination."""
    return Operand("peer", rank, lane=lane, more=more)


def aggregation(first: int, count: int, stride: int = 1, lane: int | None = None) -> Operand:
    """A message through a switch that sums: each rank of the group sends its part, and each receives the sum."""
    return Operand("group", first, of=(first, count, stride), lane=lane)


def _side(operands: Operand | Sequence[Operand]) -> tuple[Operand, ...]:
    return (operands,) if isinstance(operands, Operand) else tuple(operands)


def _operand(what: int | Operand) -> Operand:
    return what if isinstance(what, Operand) else output(what)


def _chunk(what: int | Operand, chunk: int | None) -> int:
    if chunk is not None:
        return chunk
    if isinstance(what, Operand):
        if what.kind not in ("in", "out"):
            raise ValueError("scratch does not say which chunk it holds: give chunk=")
        return what.number
    return what


def move(chunk: int, sources: Operand | Sequence[Operand], destinations: Operand | Sequence[Operand]) -> Step:
    """Sums the sources, in their order, into every destination."""
    return Step("move", chunk, _side(sources), _side(destinations))


def send(what: int | Operand, to: int, *, chunk: int | None = None) -> Step:
    """Sends a chunk of the output, or this operand, to a rank. chunk: which one it is, where scratch is sent."""
    return Step("move", _chunk(what, chunk), (_operand(what),), (message(to),))


def receive(what: int | Operand, source: int, *, chunk: int | None = None, forward: int | None = None) -> Step:
    """Receives a rank's next message into a chunk of the output, or into this operand. forward: a rank that gets it too."""
    sinks = (_operand(what),) if forward is None else (_operand(what), message(forward))
    return Step("move", _chunk(what, chunk), (message(source),), sinks)


def reduce(
    chunk: int, source: int, *, own: Operand | None = None, store: Operand | None = None, forward: int | None = None
) -> Step:
    """Adds a rank's next message to `own` (the input's chunk unless given).

    The sum goes to `store` (the output's chunk, where neither store nor forward is given) and to the rank `forward`.
    """
    sinks = [store] if store is not None else []
    if forward is not None:
        sinks.append(message(forward))
    return Step("move", chunk, (message(source), own or input(chunk)), tuple(sinks) or (output(chunk),))


def copy(chunk: int, source: Operand | None = None, to: Operand | None = None) -> Step:
    """Copies the input's chunk to the output's, or between these operands. In place, input and output are one memory."""
    return Step("move", chunk, (source or input(chunk),), (to or output(chunk),))


def signal(rank: int) -> Step:
    """Tells a rank that everything this lane did before is done and visible."""
    return Step("signal", rank)


def wait(rank: int) -> Step:
    """Waits for one signal of a rank."""
    return Step("wait", rank)
