"""Exceptions, made of the library's errors."""

from __future__ import annotations

import numbers
import re

from . import _core


class Error(RuntimeError):
    """A call of weft failed.

    code: the kind, as text ("peer_died"). ranks: the ranks at fault, as far as the error names them. operation: the call.
    """

    code = "internal"

    def __init__(self, message: str, code: str = "", ranks: tuple[int, ...] = (), operation: str = "") -> None:
        super().__init__(message)
        if code:
            self.code = code
        self.ranks = ranks
        self.operation = operation


class PeerDied(Error):
    """A rank's process has ended. The communicator is broken: shrink() it."""


class PeerLeft(Error):
    """A rank has left the communicator, but lives. The communicator is broken."""


class Aborted(Error):
    """A rank has called abort(), or was interrupted. The communicator is broken."""


class Timeout(Error, TimeoutError):
    """A rank did not come within the communicator's timeout. The communicator is broken."""


class Mismatch(Error):
    """Ranks called different things. mine, theirs: both calls, where known; field: in what they differ first."""

    mine = ""
    theirs = ""
    field = ""


class LeftOut(Error):
    """The other ranks have agreed to go on without this one, for good: end."""


class NoQuorum(Error):
    """Too few ranks are here to decide who goes on. Nothing is lost: call again."""


class InvalidArgument(Error, ValueError, TypeError):
    """An argument is wrong, in its value or its type; nothing was done."""

    code = "invalid_argument"


class NoResources(Error, MemoryError):
    """Memory or another resource of the process is used up."""


def shown(value: object) -> str:
    """A value in one short line."""
    text = " ".join(ascii(value).split()) if isinstance(value, str) and not value.isprintable() else " ".join(repr(value).split())
    return text if len(text) <= 80 else text[:77] + "..."


_MOST_SECONDS = 100 * 365 * 24 * 3600.0


def seconds(timeout: float, operation: str) -> float:
    """A timeout that a call can wait for. Raises: InvalidArgument: no number, negative, NaN, more than 100 years."""
    if not isinstance(timeout, numbers.Real) or isinstance(timeout, bool) or not 0 <= timeout <= _MOST_SECONDS:
        text = f"a timeout of {shown(timeout)} s: it is 0 to {_MOST_SECONDS:.0f} s (100 years)"
        raise InvalidArgument(text, "invalid_argument", (), operation)
    return float(timeout)


def some_seconds(timeout: float, operation: str) -> float:
    """A timeout of calls that no peer could keep if it were 0. Raises: InvalidArgument."""
    if seconds(timeout, operation) == 0:
        text = "a timeout of 0 s: every call would fail; None waits as long as peers live, or as the environment says"
        raise InvalidArgument(text, "invalid_argument", (), operation)
    return float(timeout)


_CLASSES: dict[str, type[Error]] = {
    "peer_died": PeerDied,
    "peer_left": PeerLeft,
    "aborted": Aborted,
    "timeout": Timeout,
    "mismatch": Mismatch,
    "left_out": LeftOut,
    "no_quorum": NoQuorum,
    "invalid_argument": InvalidArgument,
    "not_found": InvalidArgument,
    "no_resources": NoResources,
}


def _culprits(message: str) -> tuple[int, ...]:
    """The ranks that a message names as being at fault: those after the description of the caller's own call."""
    text = re.sub(r"^rank \d+: [^:]*: ", "", message)
    return tuple(dict.fromkeys(int(n) for n in re.findall(r"\brank (\d+)", text)))


def _make(code: str, message: str, operation: str, ranks: list[int], calls: list[str], field: str) -> Error:
    kind = _CLASSES.get(code, Error)
    error = kind(message, code, tuple(ranks) or _culprits(message), operation)
    if isinstance(error, Mismatch) and len(calls) == 2:
        error.theirs, error.mine = calls
        error.field = field
    return error


_core.make_errors_with(_make)
