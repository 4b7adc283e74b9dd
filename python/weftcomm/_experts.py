"""Tokens of mixtures of experts: dispatch and combine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, TypeVar, overload

from . import _arguments, _errors
from ._arrays import array_of, new_like, shape_of
from ._work import Work

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ._collectives import Op, Options

A = TypeVar("A")

# weft::Collective, and what these calls add to the caller's options
DISPATCH, COMBINE = 13, 14
TABLE = dict.fromkeys((DISPATCH, COMBINE), ("experts", "per_token", "expert_count"))


def _zeros_like(x: Any, shape: tuple[int, ...]) -> Any:
    made = new_like(x, shape)
    made[...] = 0
    return made


class ExpertCollectives:
    """Those of a group of ranks on which experts lie."""

    _size: int

    def _call(self, kind: int, x: Any, out: Any, op: str | None, root: int, wait: bool, options: Any) -> Any:
        raise NotImplementedError

    @overload
    def dispatch(
        self, x: A, experts: Any, expert_count: int, *, out: A | None = None, wait: Literal[True] = True, **options: Unpack[Options]
    ) -> A: ...
    @overload
    def dispatch(
        self, x: A, experts: Any, expert_count: int, *, out: A | None = None, wait: Literal[False], **options: Unpack[Options]
    ) -> Work[A]: ...
    def dispatch(
        self, x: Any, experts: Any, expert_count: int, *, out: Any = None, wait: bool = True, **options: Unpack[Options]
    ) -> Any:
        """Every token goes to the ranks that have its experts, once to each.

        x: this rank's tokens, of shape (tokens, ...), as many on every rank. experts: the numbers of the experts of all
        ranks' tokens, of shape (size, tokens, k), e.g. an all_gather(stack=True) of each rank's own; -1: none; the same on
        all ranks. Expert e lies on rank e // (expert_count // size). The result has shape (size, tokens, ...): each token at
        its own place; a new one has zeros for the tokens that have no expert here, of `out` these rows keep their bytes.
        """
        x = array_of(x)
        shape = shape_of(x, "dispatch")
        table = self._table(experts, expert_count, shape, "dispatch")
        if out is None:
            out = _zeros_like(x, (self._size, *shape))
        return self._call(DISPATCH, x, out, None, 0, wait, {**options, **table})

    @overload
    def combine(
        self,
        x: A,
        experts: Any,
        expert_count: int,
        op: Op = "sum",
        *,
        out: A | None = None,
        wait: Literal[True] = True,
        **options: Unpack[Options],
    ) -> A: ...
    @overload
    def combine(
        self,
        x: A,
        experts: Any,
        expert_count: int,
        op: Op = "sum",
        *,
        out: A | None = None,
        wait: Literal[False],
        **options: Unpack[Options],
    ) -> Work[A]: ...
    def combine(
        self,
        x: Any,
        experts: Any,
        expert_count: int,
        op: Op = "sum",
        *,
        out: Any = None,
        wait: bool = True,
        **options: Unpack[Options],
    ) -> Any:
        """The way back: every token's rank gets the reduction of what the ranks of its experts made of it.

        x: of the shape of dispatch's result, with what the experts here made of the tokens that came; other rows are not
        read. experts, expert_count: as for dispatch. The result has shape (tokens, ...); a new one has zeros for tokens
        without experts, of `out` these rows keep their bytes. Sums are in the order of the ranks.
        """
        x = array_of(x)
        shape = shape_of(x, "combine")
        if len(shape) < 2 or shape[0] != self._size:
            raise _errors.InvalidArgument(f"shape {shape}: it is (size, tokens, ...), as dispatch returns", operation="combine")
        table = self._table(experts, expert_count, shape[1:], "combine")
        if out is None:
            out = _zeros_like(x, shape[1:])
        return self._call(COMBINE, x, out, op, 0, wait, {**options, **table})

    def _table(self, experts: Any, expert_count: int, shape: tuple[int, ...], operation: str) -> dict[str, Any]:
        """The table as the core takes it, for tokens of this shape, (tokens, ...)."""
        import numpy as np

        count = _arguments.integer(expert_count, "expert_count", operation, 1, _arguments.INT32[1])
        if not shape:
            raise _errors.InvalidArgument("a number has no tokens: x has shape (tokens, ...)", operation=operation)
        try:
            table = np.asarray(experts)
        except (TypeError, ValueError, RuntimeError) as e:
            text = f"experts {_arguments.shown(experts)}: no array of whole numbers: {e}".replace("\n", " ")
            raise _errors.InvalidArgument(text, operation=operation) from None
        wanted = (self._size, shape[0])
        if table.dtype.kind not in "iu" or table.ndim != 3 or table.shape[:2] != wanted:
            text = f"experts of {table.dtype} and shape {table.shape}: they are whole numbers of shape {(*wanted, 'k')}"
            raise _errors.InvalidArgument(text.replace("'", ""), operation=operation)
        if table.size and (int(table.min()) < -1 or int(table.max()) >= count):
            text = f"experts from {table.min()} to {table.max()}: they are 0 to {count - 1}, or -1 for none"
            raise _errors.InvalidArgument(text, operation=operation)
        return {
            "experts": np.ascontiguousarray(table, np.int32).tobytes(),
            "per_token": table.shape[2],
            "expert_count": count,
        }
