"""Arrays as callers give them: shapes, element types, new ones like them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from . import _arguments, _errors

if TYPE_CHECKING:
    import numpy as np


def shape_of(x: Any, operation: str) -> tuple[int, ...]:
    if is_scalar(x):
        return ()
    try:
        shape: Any = x.shape if hasattr(x, "shape") else memoryview(x).shape
    except TypeError:
        raise _errors.InvalidArgument(
            f"{type(x).__name__} is no array: neither the buffer protocol nor DLPack", operation=operation
        ) from None
    except ValueError as e:  # a memoryview that was released
        raise _errors.InvalidArgument(f"{type(x).__name__} cannot be read: {e}", operation=operation) from None
    return shape if type(shape) is tuple else tuple(int(n) for n in shape)


def is_scalar(x: Any) -> bool:
    return isinstance(x, (int, float, complex))


def new_like(x: Any, shape: tuple[int, ...]) -> Any:
    """An array of x's kind and element type with this shape, not filled in."""
    import numpy as np

    like = None if hasattr(x, "new_empty") else _dtype_of(x)  # None: torch
    try:
        return x.new_empty(shape) if like is None else np.empty(shape, like)
    except (MemoryError, ValueError, OverflowError) as e:
        text = f"no memory for a result of shape {shape}: {e}".replace("\n", " ")
        raise _errors.NoResources(text, "no_resources") from None


def _dtype_of(x: Any) -> np.dtype[Any]:
    import numpy as np

    if isinstance(x, (np.ndarray, np.generic)):
        return x.dtype
    try:
        return np.asarray(x).dtype
    except (TypeError, ValueError) as e:
        raise _errors.InvalidArgument(f"{_arguments.shown(x)}: no element type of NumPy: {e}") from None


def array_of(x: Any) -> Any:
    """Numbers, and lists and tuples of numbers, become NumPy's arrays, as NumPy's own functions take them."""
    if hasattr(x, "__array_finalize__"):  # NumPy's arrays, the most frequent: looked at first
        return x
    if isinstance(x, (list, tuple)):
        return _array_of_list(x)
    if is_scalar(x) or type(x).__module__ == "numpy":
        import numpy as np

        array = np.asarray(x)
        if array.dtype.kind == "O":
            raise _errors.InvalidArgument(f"{_arguments.shown(x)}: {_TOO_LARGE}")
        return array
    if type(x) is bytes:  # NumPy would make a text of it
        import numpy as np

        return np.frombuffer(x, np.uint8)
    return x


_TOO_LARGE = "no type of NumPy holds it, which has integers of up to 64 bits"


def _array_of_list(x: Any) -> Any:
    import numpy as np

    try:
        array = np.asarray(x)
    except (TypeError, ValueError, OverflowError):
        array = np.asarray(None)
    if array.dtype.kind == "O" and array.size > 0 and all(isinstance(n, int) for n in array.flat):
        raise _errors.InvalidArgument(f"{_arguments.shown(x)}: {_TOO_LARGE}")
    if array.dtype.kind not in "biufc":
        raise _errors.InvalidArgument(f"{_arguments.shown(x)}: of lists, only those of numbers, of one length at each depth")
    return array


def layout(shape: int | Sequence[int], dtype: Any, operation: str) -> tuple[np.dtype[Any], tuple[int, ...], int]:
    """The element type, also one of ml_dtypes by its name, the shape, and how many elements that are.

    Raises: InvalidArgument: a type that cannot be communicated, a size that is none; NoResources: too much.
    """
    import numpy as np

    try:
        kind = np.dtype(dtype)
    except (TypeError, ValueError):
        kind = _small_float(dtype, operation)
    plain = kind.kind in "biuf" and kind.itemsize <= 8 and kind.isnative
    if not plain and kind.name not in SMALL_FLOATS:
        raise _errors.InvalidArgument(
            f"element type {kind}: memory has booleans, integers and floats of up to 8 bytes in this machine's order",
            operation=operation,
        )
    given = shape if isinstance(shape, (tuple, list)) else (shape,)
    sizes = tuple(_arguments.integer(n, "a size of shape", operation, 0, _arguments.MOST_BYTES) for n in given)
    count = math.prod(sizes)
    if count * kind.itemsize > _arguments.MOST_BYTES:
        text = f"shape {sizes} of {kind}: {count * kind.itemsize} bytes are more than a process can have"
        raise _errors.NoResources(text, "no_resources", (), operation)
    return kind, sizes, count


SMALL_FLOATS = ("bfloat16", "float8_e4m3fn", "float8_e5m2")


def _small_float(dtype: Any, operation: str) -> np.dtype[Any]:
    import numpy as np

    try:
        import ml_dtypes

        kind: np.dtype[Any] = np.dtype(getattr(ml_dtypes, dtype))
        return kind
    except (ImportError, AttributeError, TypeError):
        text = f"element type {_arguments.shown(dtype)}: it is one of NumPy or ml_dtypes, or its name"
        raise _errors.InvalidArgument(text, operation=operation) from None
