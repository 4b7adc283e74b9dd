"""Simulated machines, proofs, training steps and diagnoses: what the command `weft` answers with --json."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, overload

from ._answers import (
    Accuracy,
    Advice,
    Answer,
    Bench,
    Choice,
    Comparison,
    Diagnosis,
    Fit,
    Proof,
    Serving,
    ServingComparison,
    ServingMachines,
    Topology,
    Training,
    ask,
    options,
)
from ._schedule import Algorithm, Schedule

if TYPE_CHECKING:
    from ._answers import Value


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

    @property
    def ranks(self) -> int:
        """How many GPUs it has."""
        return int(self.explain("barrier", 0)["ranks"])

    @property
    def topology(self) -> Topology:
        """Its devices and links; draws itself in notebooks."""
        found = ask(Topology, "topo", "--on", self.name)
        found.machine = self.name
        return found

    def _repr_svg_(self) -> str:
        return self.topology.svg()

    def bench(self, collective: str, bytes: int | str | Iterable[int | str] = "1M", **given: Value) -> Bench:
        """Simulates a collective; weft.bench/3, one row per size of `bytes`.

        given: the options of `weft bench`, e.g. ranks=, dtype=, op=, algo= (a name, a file, an Algorithm or a Schedule),
        proto=, tuner="nccl", fault=["nic:0/3=down"], load=[...], beside=[...], compute=, level="packet", check=True.
        Raises: InvalidArgument.
        """
        sizes = [bytes] if isinstance(bytes, (int, str)) else list(bytes)
        extra = options(self._with_files(given))
        answers = [
            ask(Bench, "bench", collective, "--on", self.name, "--min", str(size), "--max", str(size), *extra)
            for size in sizes
        ]
        first = answers[0]
        first["rows"] = [row for answer in answers for row in answer["rows"]]
        return first

    def explain(self, collective: str, bytes: int | str = "1M", **given: Value) -> Choice:
        """Which algorithm and protocol is chosen, and why each other one lost; weft.explain/1. Raises: InvalidArgument."""
        extra = options(self._with_files(given))
        return ask(Choice, "explain", collective, "--bytes", str(bytes), "--on", self.name, *extra)

    def _with_files(self, given: Mapping[str, Any]) -> Mapping[str, Any]:
        """Schedules written in Python are named by the files that weft finds them under."""
        algo = given.get("algo")
        if not isinstance(algo, (Algorithm, Schedule)):
            return given
        ranks = given.get("ranks")
        ranks = (
            algo.ranks if ranks is None and isinstance(algo, Schedule) else self.ranks if ranks is None else int(ranks)
        )
        return {**given, "ranks": ranks, "algo": algo.file_for(ranks, int(given.get("root", 0)))}


def machine(name: str) -> Machine:
    """The machine of this name, e.g. "dgx-h100:nodes=16,net=ib-ndr". Raises: InvalidArgument if there is none."""
    made = Machine(name)
    made.explain("barrier", 0)  # loads it
    return made


def verify(collective: str, algorithm: str | None = None, **given: Value) -> Proof:
    """Proves a schedule correct or finds the counterexample; weft.verify/1. True if it is proved.

    collective: with algorithm=; or a file of a schedule. given: the options of `weft verify`, e.g. ranks=, root=,
    per_node=, in_place=True, slots=. Raises: InvalidArgument.
    """
    return ask(Proof, "verify", collective, *options({"algo": algorithm, **given}))


def schedule(collective: str, algorithm: str | None = None, **given: Value) -> Schedule:
    """The steps of one of weft's algorithms, or of a file (MSCCL XML or weft.schedule/1), as a value that draws itself.

    given: the options of `weft schedule`, e.g. ranks=, root=, per_node=, staged=True. Raises: InvalidArgument.
    """
    return Schedule(ask(Answer, "schedule", collective, *options({"algo": algorithm, **given})).to_dict())


@overload
def train(model: str | None = None, on: Machine | str | None = None, *, compare: str, **given: Value) -> Comparison: ...
@overload
def train(
    model: str | None = None, on: Machine | str | None = None, *, compare: None = None, **given: Value
) -> Training: ...
def train(
    model: str | None = None, on: Machine | str | None = None, *, compare: str | None = None, **given: Value
) -> Any:
    """How long a training step takes on a machine, whether it fits, and what limits it; weft.train/1.

    model: a config.json of Hugging Face, or a name of the catalogue, e.g. "llama3-70b". given: the options of
    `weft train`, e.g. tp=, pp=, zero=, micro_batch=, global_batch=, seq=, fault=[...], sensitivity=True, best=True (all
    plans, ranked), config= (a run's own file). With compare= (a CSV of measured steps): weft.train-compare/1 instead.
    Raises: InvalidArgument.
    """
    name = on.name if isinstance(on, Machine) else on
    kind = Comparison if compare is not None else Training
    words = options({"on": name, "compare": compare, **given})
    return ask(kind, "train", *([model] if model is not None else []), *words)


def _names(on: Machine | str | Iterable[Machine | str] | None) -> list[str]:
    """Machines as the command's --on names them."""
    if on is None:
        return []
    several = [on] if isinstance(on, (Machine, str)) else list(on)
    return [one.name if isinstance(one, Machine) else one for one in several]


@overload
def serve(
    model: str | None = None, on: Machine | str | None = None, *, compare: str, **given: Value
) -> ServingComparison: ...
@overload
def serve(
    model: str | None = None, on: Machine | str | None = None, *, compare: None = None, **given: Value
) -> Serving: ...
@overload
def serve(model: str, on: list[Machine | str], *, compare: None = None, **given: Value) -> ServingMachines: ...
def serve(model: str | None = None, on: Any = None, *, compare: str | None = None, **given: Value) -> Any:
    """What users of a served model see on a machine: TTFT, TPOT, throughput; weft.serve/1.

    model: a config.json of Hugging Face, or a name of the catalogue, e.g. "llama-3.1-70b". on: a machine, or a list of
    them (weft.serve-machines/1). given: the options of `weft serve`, e.g. engine="vllm", tp=, ep=, dp_attention=,
    precision=, isl=, osl=, concurrency= or rate= or trace=, router="kv-aware", tier=["dram:1T"], best=True, tpot=,
    price=. With compare= (a CSV of measured rows): weft.serve-compare/1 instead. Raises: InvalidArgument.
    """
    names = _names(on)
    kind = ServingComparison if compare is not None else ServingMachines if len(names) > 1 else Serving
    words = options({"on": names, "compare": compare, **given})
    return ask(kind, "serve", *([model] if model is not None else []), *words)


def fit(model: str, gpu: str, **given: Value) -> Fit:
    """Does a model fit on GPUs of a kind, and what does one get? weft.fit/1; true if it fits.

    given: the options of `weft fit`: gpus=, engine=, precision=, kv_dtype=, context=; train=True with lora=.
    Raises: InvalidArgument.
    """
    return ask(Fit, "fit", model, gpu, *options(given))


def advise(model: str, on: Machine | str | Iterable[Machine | str] | None = None, **given: Value) -> Advice:
    """Which machine, how many GPUs, which plan and engine for a piece of work, priced; weft.advise/1; true if one does it.

    on: machines to choose from; unless given, those of the table of prices. given: the options of `weft advise`: rate=
    with isl=, osl=, ttft=, tpot=, or tokens= with deadline= or budget=; have=, price=, precision=.
    Raises: InvalidArgument.
    """
    return ask(Advice, "advise", model, *options({"on": _names(on), **given}))


def doctor(*paths: str, on: Machine | str | None = None, **given: Value) -> Diagnosis:
    """What is wrong with a job, from its logs, or without paths with this machine; weft.doctor/1.

    paths: logs, dumps, tables, or folders of them. on: the machine of the job, to say what a fault costs. given: the
    options of `weft doctor`: workload=, price=, bytes=. Raises: InvalidArgument.
    """
    name = on.name if isinstance(on, Machine) else on
    return ask(Diagnosis, "doctor", *(str(path) for path in paths), *options({"on": name, **given}))


def accuracy(folder: str | None = None, **given: Value) -> Accuracy:
    """How far the model is from published measurements; weft.accuracy/1.

    folder: of tables; unless given, those that weft ships, which takes some ten seconds. given: the options of `weft accuracy`: table= and on=,
    collective=, ranks=, calibration=. Raises: InvalidArgument.
    """
    return ask(Accuracy, "accuracy", *([folder] if folder is not None else []), *options(given))


def sizes(smallest: int, largest: int, factor: int = 2) -> list[int]:
    """Message sizes in bytes from smallest to largest, each `factor` times the one before. Raises: InvalidArgument."""
    if smallest < 1 or factor < 2:
        from ._errors import InvalidArgument

        raise InvalidArgument(f"sizes from {smallest} by {factor}: at least from 1 by 2", operation="sizes")
    found = []
    while smallest <= largest:
        found.append(smallest)
        smallest *= factor
    return found
