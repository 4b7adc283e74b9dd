"""Simulated machines and proofs: what the command `weft` answers with --json, as dicts."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from . import _core


def _answer(*arguments: str) -> dict[str, Any]:
    answer: dict[str, Any] = json.loads(_core.answer(arguments))
    return answer


def _options(options: dict[str, Any]) -> list[str]:
    """Keyword arguments as options of the command: bytes_min=8 is --bytes-min 8, a list is given several times."""
    arguments: list[str] = []
    for name, value in options.items():
        option = "--" + name.replace("_", "-")
        if value is True:
            arguments.append(option)
        elif isinstance(value, (list, tuple)):
            for one in value:
                arguments += [option, str(one)]
        elif value is not None and value is not False:
            arguments += [option, str(value)]
    return arguments


class Machine:
    """A machine to simulate: a preset with options, or a file. Picklable and hashable; holds its name only."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return f"weftcomm.machine({self.name!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Machine) and other.name == self.name

    def __hash__(self) -> int:
        return hash(self.name)

    def bench(self, collective: str, bytes: int | str | Sequence[int | str] = "1M", **options: Any) -> dict[str, Any]:
        """Simulates a collective; weft.bench/2, one row per size of `bytes`.

        options: those of `weft bench`, e.g. ranks=, dtype=, op=, algo=, proto=, tuner="nccl", fault=["nic:0/3=down"],
        load=[...], beside=[...], compute=, level="packet", check=True. Raises: InvalidArgument.
        """
        sizes = [bytes] if isinstance(bytes, (int, str)) else list(bytes)
        answers = [
            _answer(
                "bench", collective, "--on", self.name, "--min", str(size), "--max", str(size), *_options(options)
            )
            for size in sizes
        ]
        first = answers[0]
        first["rows"] = [row for answer in answers for row in answer["rows"]]
        return first

    def explain(self, collective: str, bytes: int | str = "1M", **options: Any) -> dict[str, Any]:
        """Which algorithm and protocol is chosen, and why each other one lost; weft.explain/1. Raises: InvalidArgument."""
        return _answer("explain", collective, "--bytes", str(bytes), "--on", self.name, *_options(options))


def machine(name: str) -> Machine:
    """The machine of this name, e.g. "dgx-h100:nodes=16,net=ib-ndr". Raises: InvalidArgument if there is none."""
    made = Machine(name)
    made.explain("barrier", 0)  # loads it
    return made


def verify(collective: str, algorithm: str | None = None, **options: Any) -> dict[str, Any]:
    """Proves a schedule correct or finds the counterexample; weft.verify/1, whose "proved" is True or False.

    collective: with algorithm=; or a file of a schedule. options: those of `weft verify`, e.g. ranks=, root=, per_node=,
    in_place=True, slots=. Raises: InvalidArgument.
    """
    return _answer("verify", collective, *_options({"algo": algorithm, **options}))
