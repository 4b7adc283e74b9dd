"""weft from Python: collectives between processes or threads, and the same schedules written, proved, simulated and drawn."""

from typing import TYPE_CHECKING, Any

from ._collectives import Op
from ._communicator import (
    ANY_SOURCE,
    ANY_TAG,
    Communicator,
    MeetingPlace,
    Registration,
    connect,
    init,
    run_threads,
    threads,
)
from ._errors import (
    Aborted,
    Error,
    InvalidArgument,
    LeftOut,
    Mismatch,
    NoQuorum,
    NoResources,
    PeerDied,
    PeerLeft,
    Timeout,
)
from ._work import Message, MessageWork, Work

if TYPE_CHECKING:
    from . import steps
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
    )
    from ._machine import Machine, accuracy, advise, doctor, fit, machine, schedule, serve, sizes, train, verify
    from ._schedule import Algorithm, Schedule, algorithm
    from ._window import Window, World, world, world_threads

# What a program that only communicates does not need is imported when it is first used.
_LATER = {
    "_answers": (
        "Accuracy",
        "Advice",
        "Answer",
        "Bench",
        "Choice",
        "Comparison",
        "Diagnosis",
        "Fit",
        "Proof",
        "Serving",
        "ServingComparison",
        "ServingMachines",
        "Topology",
        "Training",
    ),
    "_machine": (
        "Machine",
        "accuracy",
        "advise",
        "doctor",
        "fit",
        "machine",
        "schedule",
        "serve",
        "sizes",
        "train",
        "verify",
    ),
    "_schedule": ("Algorithm", "Schedule", "algorithm"),
    "_window": ("Window", "World", "world", "world_threads"),
}
# What is in the package weftcomm_torch.
_OF_TORCH = {"rehearse": "weftcomm_torch.rehearse"}
_HOMES = {name: module for module, names in _LATER.items() for name in names}


def __getattr__(name: str) -> Any:
    from importlib import import_module

    if name == "steps" or name in _LATER:
        return import_module(f".{name}", __name__)
    if name in _OF_TORCH:
        return getattr(import_module(_OF_TORCH[name]), name)
    if name not in _HOMES:
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
    value = getattr(import_module(f".{_HOMES[name]}", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


__version__ = "0.1.0"
__all__ = [
    "ANY_SOURCE",
    "ANY_TAG",
    "Aborted",
    "Accuracy",
    "Advice",
    "Algorithm",
    "Answer",
    "Bench",
    "Choice",
    "Communicator",
    "Comparison",
    "Diagnosis",
    "Error",
    "Fit",
    "InvalidArgument",
    "LeftOut",
    "Machine",
    "MeetingPlace",
    "Message",
    "MessageWork",
    "Mismatch",
    "NoQuorum",
    "NoResources",
    "Op",
    "PeerDied",
    "PeerLeft",
    "Proof",
    "Registration",
    "Schedule",
    "Serving",
    "ServingComparison",
    "ServingMachines",
    "Timeout",
    "Topology",
    "Training",
    "Window",
    "Work",
    "World",
    "accuracy",
    "advise",
    "algorithm",
    "connect",
    "doctor",
    "fit",
    "init",
    "machine",
    "run_threads",
    "schedule",
    "serve",
    "sizes",
    "steps",
    "threads",
    "train",
    "verify",
    "world",
    "world_threads",
]
