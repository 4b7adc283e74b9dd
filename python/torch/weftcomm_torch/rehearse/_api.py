"""weftcomm.rehearse(fn, on=…): a function or script as the ranks of a job on a machine that is not there."""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

HERE = os.path.dirname(os.path.abspath(__file__))


@dataclass(frozen=True)
class Place:
    rank: int
    line: str  # "train.py:12"


@dataclass(frozen=True)
class Finding:
    rule: str  # "mismatch", "missing_call", "unmatched_message", "deadlock", "memory", "error"
    text: str
    places: tuple[Place, ...]

    def __str__(self) -> str:
        return f"{self.rule}: {self.text}"


@dataclass(frozen=True)
class Rehearsal:
    """What a job would do. Times in seconds, memory in bytes."""

    findings: tuple[Finding, ...]
    notes: tuple[str, ...]
    hints: tuple[str, ...]  # what works and could be better
    step: float  # of the slowest rehearsed rank, between its last two optimizer steps; 0: fewer than two
    time: float  # of the whole run
    mfu: float
    allocated: int  # peak of the rank that needs most
    reserved: int
    capacity: int  # bytes of a card that tensors can have
    world: int
    rehearsed: tuple[int, ...]  # ranks
    data: dict[str, Any]  # weft.rehearsed/1

    @property
    def fits(self) -> bool:
        """The tensors of every rehearsed rank fit into the card."""
        return self.allocated <= self.capacity


def function_name(function: Callable[..., Any]) -> str:
    """"train.py::main". Errors: ValueError for what another process cannot find by its name."""
    code = getattr(function, "__code__", None)
    name = getattr(function, "__qualname__", repr(function))
    if code is None or "<" in name or not os.path.isfile(code.co_filename):
        raise ValueError(f"weftcomm.rehearse: {name} is no function of a module's file: define it there with def")
    return f"{os.path.abspath(code.co_filename)}::{name}"


def rehearse(
    what: Callable[..., Any] | str | os.PathLike[str],
    *arguments: Any,
    on: str,
    ranks: int = 0,
    ranks_as: str | Sequence[int] = "",
    keep: str | os.PathLike[str] = "",
    memory: str | os.PathLike[str] = "",
) -> Rehearsal:
    """Rehearses a function, called on each rank with `arguments`, or a script, whose arguments are texts.

    on: the machine, "dgx-h100:nodes=2". ranks: of the job; 0: one per GPU. ranks_as: the ranks to rehearse, "all" or
    numbers; none: one of each kind. keep: a folder for the recordings. memory: a folder for
    memory-RANK.pickle, which memory_viz opens. A function is one of a module's file, its
    arguments can be pickled, and it makes its own process group as a script does. Errors: ValueError for bad input.
    """
    chosen = ranks_as if isinstance(ranks_as, str) else ",".join(map(str, ranks_as))
    with tempfile.TemporaryDirectory(prefix="weft-rehearse-") as folder:
        environment = dict(os.environ)
        if callable(what):
            script, words = function_name(what), []
            environment["WEFT_REHEARSAL_ARGUMENTS"] = os.path.join(folder, "arguments")
            with open(environment["WEFT_REHEARSAL_ARGUMENTS"], "wb") as file:
                pickle.dump(arguments, file)
        else:
            script, words = os.fspath(what), [str(a) for a in arguments]
        answer = os.path.join(folder, "answer.json")
        options = ["--on", on, "--json", answer]
        options += ["--ranks", str(ranks)] if ranks else []
        options += ["--as", chosen] if chosen else []
        options += ["--keep", os.fspath(keep)] if keep else []
        options += ["--memory", os.fspath(memory)] if memory else []
        done = subprocess.run(
            [sys.executable, os.path.join(HERE, "_launch.py"), *options, script, *words],
            env=environment, capture_output=True, text=True, check=False,
        )  # fmt: skip
        if done.returncode not in (0, 1):
            raise ValueError((done.stderr.strip() or done.stdout.strip() or "no answer").splitlines()[-1])
        with open(answer, encoding="utf-8") as file:
            return of(json.load(file))


def of(data: dict[str, Any]) -> Rehearsal:
    """From weft.rehearsed/1."""
    findings = tuple(
        Finding(f["rule"], f["text"], tuple(Place(p["rank"], p["line"]) for p in f["places"])) for f in data["findings"]
    )
    memory = data["memory"]
    return Rehearsal(
        findings=findings,
        notes=tuple(f"{n['line']}: {n['text']}" if n["line"] else n["text"] for n in data["notes"]),
        hints=tuple(f"{h['line']}: {h['text']}" for h in data["hints"]),
        step=data["step_s"],
        time=data["time_s"],
        mfu=data["mfu"],
        allocated=memory["allocated"],
        reserved=memory["reserved"],
        capacity=int(memory["capacity"]),
        world=data["world"],
        rehearsed=tuple(r["rank"] for r in data["ranks"]),
        data=data,
    )
