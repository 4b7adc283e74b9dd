"""What public calls do with their arguments before anything else: one line that names the argument and the value."""

from __future__ import annotations

import operator
from typing import Any

from . import _errors
from ._errors import shown as shown


def refuse(text: str, operation: str) -> _errors.InvalidArgument:
    return _errors.InvalidArgument(text, "invalid_argument", (), operation)


def integer(value: Any, name: str, operation: str, low: int, high: int) -> int:
    """A whole number from low to high; NumPy's count, fractions, texts and booleans do not."""
    try:
        number = None if isinstance(value, bool) else operator.index(value)
    except TypeError:
        number = None
    if number is None or not low <= number <= high:
        raise refuse(f"{name} {shown(value)}: it is a whole number from {low} to {high}", operation)
    return number


INT32 = (-(1 << 31), (1 << 31) - 1)
INT64 = (-(1 << 63), (1 << 63) - 1)
MOST_RANKS = 1 << 20
MOST_BYTES = 1 << 47  # of address space


def rank(value: Any, name: str, operation: str, size: int) -> int:
    if type(value) is int and 0 <= value < size:  # the usual case
        return value
    try:
        return integer(value, name, operation, 0, size - 1)
    except _errors.InvalidArgument:
        raise refuse(f"{name} {shown(value)} is not one of {size} ranks", operation) from None


def several(value: Any, name: str, operation: str, what: str) -> Any:
    """What can be gone through; a text is none."""
    try:
        if not isinstance(value, (str, bytes)):
            if isinstance(value, memoryview):
                value = value.tolist()
            return iter(value)
    except (TypeError, ValueError):  # ValueError: a memoryview that was released
        pass
    raise refuse(f"{name} {shown(value)}: they are several {what}", operation)


def flag(value: Any, name: str, operation: str) -> bool:
    """True or False, NumPy's included."""
    if value is True or value is False:
        return bool(value)
    if type(value).__module__ == "numpy" and type(value).__name__ in ("bool", "bool_"):
        return bool(value)
    raise refuse(f"{name} {shown(value)}: it is True or False", operation)


def text(value: Any, name: str, operation: str) -> str:
    if not isinstance(value, str):
        raise refuse(f"{name} {shown(value)}: it is a text", operation)
    if not _is_unicode(value):
        raise refuse(f"{name} {shown(value)}: half of a surrogate pair is no character of Unicode", operation)
    return value


def _is_unicode(value: str) -> bool:
    """Halves of a surrogate pair, as of file names that are no UTF-8, are characters of Python's and of nobody else."""
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def choice(value: Any, name: str, operation: str, known: Any) -> str:
    if not isinstance(value, str) or value not in known:
        raise refuse(f"{name} {shown(value)}: there are {', '.join(known)}", operation)
    return value


def kind_of(value: Any, kind: type, name: str, operation: str) -> Any:
    """An object of one of weft's own classes."""
    if not isinstance(value, kind):
        raise refuse(f"{name} {shown(value)}: it is a {kind.__name__}", operation)
    return value


def no_keyword(given: str, operation: str, function: Any) -> _errors.InvalidArgument:
    """Of a keyword that a function of weft does not have: the one that was probably meant."""
    import difflib
    import inspect

    known = [name for name in inspect.signature(function).parameters if name not in ("self", "options")]
    known += ["reproducible", "algorithm", "protocol", "channels"] + (["scalar"] if "op" in known else [])
    near = difflib.get_close_matches(given, known, 1, 0.7)
    meant = f"did you mean {near[0]}?" if near else f"there are {', '.join(known)}"
    if given == "timeout" and not near:
        meant += "; set_timeout() is for all calls"
    return refuse(f"{operation} has no keyword {shown(given)[1:-1]}: {meant}", operation)
