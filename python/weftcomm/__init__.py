"""weft from Python: collectives between processes or threads, and the same schedules simulated, explained and proved."""

from ._communicator import Communicator, MeetingPlace, Op, Work, connect, init, run_threads, threads
from ._errors import Aborted, Error, InvalidArgument, Mismatch, NoResources, PeerDied, PeerLeft, Timeout
from ._machine import Machine, machine, verify

__version__ = "0.1.0"
__all__ = [
    "Aborted",
    "Communicator",
    "Error",
    "InvalidArgument",
    "Machine",
    "MeetingPlace",
    "Mismatch",
    "NoResources",
    "Op",
    "PeerDied",
    "PeerLeft",
    "Timeout",
    "Work",
    "connect",
    "init",
    "machine",
    "run_threads",
    "threads",
    "verify",
]
