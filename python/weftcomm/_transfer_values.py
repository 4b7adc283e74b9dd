"""Values of weftcomm.transfer: rows, pages, notifications, what requests cost."""

from __future__ import annotations

from typing import NamedTuple

from . import _core


class Rows(NamedTuple):
    """`elements` pieces of `bytes` bytes, `stride` bytes apart, from `offset` in a region; one element has no stride."""

    region: int
    offset: int
    bytes: int
    stride: int = 0
    elements: int = 1


class Page(NamedTuple):
    """A page of a fenced region as its owner has given it out; requests name both numbers."""

    number: int
    generation: int


class Notification(NamedTuple):
    """Bytes that the agent `peer` sent."""

    peer: str
    bytes: bytes


class Estimate(NamedTuple):
    """What a request will take, and how much the measurements behind that differed (relative)."""

    seconds: float
    error: float


class Costs:
    """What requests take over each path of this machine; made by measure_costs()."""

    def __init__(self, core: _core.TransferCosts) -> None:
        self._core = core

    def seconds(self, path: str, elements: int, bytes: int) -> float | None:
        """path: direct, shared memory, process_vm_readv, tcp, ucx, file or object; None where it was not measured."""
        us = self._core.us(path, elements, bytes)
        return None if us is None else us * 1e-6


def measure_costs(folder: str = "") -> Costs:
    """Measures this machine's paths between two agents of this process, in about a second. folder: where a file of 16 MiB
    may be for a moment; "": files are not measured."""
    return Costs(_core.measure_transfer_costs(folder))


class StripeShare(NamedTuple):
    """What a source gave: blocks that arrived first from it, those of them that it read because another source was late, requests
    that failed, and the last failure."""

    name: str
    blocks: int
    hedged: int
    failed: int
    problem: str
