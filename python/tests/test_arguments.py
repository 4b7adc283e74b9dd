"""Every public function of communicators, worlds, windows and stores, with every argument replaced in turn by values
that it may not like: a result, or one line that is a weft.Error. Never another exception, never a wait."""

import ctypes
import inspect
import math

import numpy as np
import pytest

import weftcomm as weft
from weftcomm import kv
from weftcomm.transfer import Agent, Page


def released():
    view = memoryview(bytearray(8))
    view.release()
    return view


VALUES = [
    "\ud800", "é" * 100, released(), (ctypes.c_void_p * 4)(), np.broadcast_to(np.zeros(1), (2**40,)),
    None, True, -1, 0, 1, 2, 3, 2**31, 2**32, 2**63, 2**70, -(2**63), -(2**70), 0.5, math.nan, math.inf, -math.inf, 1e300,
    "", "a", "\0", "a" * 300, b"a", [], [1], [0.5], [2**70], [None], (), (-1,), {}, {"a": 1}, object(), 1j,
    np.ones(3), np.ones((2, 2), "f4"), np.array(["a"]), np.array([None]), np.float64(0.5), np.int64(-1), np.ones(4)[::2],
    np.ones(0), print, int,
]  # fmt: skip
X = np.ones(4)


def comm():
    c = weft.threads(1)[0]
    c.set_timeout(0.2)
    c.send(np.ones(4), 0, tag=1)
    return c


def window():
    return weft.world_threads(1)[0].window(4, "int64")


def store():
    return kv.Store(Agent("store"), 4, 4096, block_tokens=4)


class Served:
    """A store, its server, and a client with memory."""

    def __init__(self):
        self.store = kv.Store(Agent("store", key=KEY, listen="127.0.0.1:0"), 4, 4096, block_tokens=4)
        self.server = self.store.serve(key=KEY)
        self.agent = Agent("client", key=KEY)
        self.client = kv.Client(self.agent, self.server.address, KEY)
        self.memory = self.agent.allocate(4 * 4096)


KEY = "0123456789abcdef" * 2
TOKENS = list(range(8))

# What each function is called with where nothing is replaced; None: it is tried elsewhere.
CALLS = {
    comm: {
        "all_reduce": dict(x=X, op="sum", out=None, wait=True, scalar=None, channels=1, algorithm="", reproducible=True),
        "broadcast": dict(x=X, root=0, wait=True),
        "reduce": dict(x=X, root=0, op="sum", out=None, wait=True),
        "all_gather": dict(x=X, out=None, stack=False, counts=None, wait=True),
        "reduce_scatter": dict(x=X, op="sum", out=None, counts=None, wait=True),
        "all_to_all": dict(x=X, out=None, send_counts=[4], receive_counts=[4], wait=True),
        "dispatch": dict(x=X, experts=np.zeros((1, 4, 1), int), expert_count=1, out=None, wait=True),
        "combine": dict(x=np.ones((1, 4)), experts=np.zeros((1, 4, 1), int), expert_count=1, op="sum", out=None, wait=True),
        "gather": dict(x=X, root=0, out=None, stack=False, wait=True),
        "scatter": dict(x=X, out=np.ones(4), root=0, wait=True),
        "barrier": dict(timeout=1.0),
        "send": dict(x=X, to=0, tag=2, wait=True, timeout=0.01),
        "receive": dict(out=np.ones(4), source=0, tag=1, wait=True, timeout=0.01),
        "split": dict(color=0, key=0),
        "active": dict(ranks=[0]),
        "shrink": {},
        "grow": dict(id="", size=1),
        "agree": dict(flag=True),
        "abort": dict(why=""),
        "status": {},
        "set_timeout": dict(seconds=1.0),
        "finalize": {},
        "register": dict(array=np.ones(4)),
        "empty": dict(shape=(2, 2), dtype="float32"),
        "allocations": {},
    },
    window: {
        "put": dict(rank=0, value=1, index=...),
        "get": dict(rank=0, index=...),
        "atomic": dict(rank=0, op="compare_swap", at=0, value=1, compare=1),
        "wait": dict(at=0, comparison="==", value=0, timeout=0.01),
        "put_signal": None,  # by test_windows.py: its signal is a window of the same world
        "free": {},
    },
    lambda: weft.world_threads(1)[0]: {
        "window": dict(shape=(2, 2), dtype="float32"),
        "fence": {},
        "quiet": {},
        "barrier": {},
    },
    store: {
        "match": dict(tokens=TOKENS, salt=""),
        "begin": dict(tokens=TOKENS, salt=""),
        "array": dict(page=Page(0, 0)),
        "flush": {},
        "counters": {},
        "serve": dict(listen="127.0.0.1:0", key=KEY, most_lease=1.0),
        "close": {},
    },
}


def tried(call, arguments, name, value):
    try:
        got = call(**{**arguments, name: value})
        if isinstance(got, (weft.Work, weft.MessageWork)):
            got.result()
    except weft.Error as e:
        assert "\n" not in str(e) and str(e), f"{name}={value!r}: {e}"
        assert not str(e).startswith("Traceback"), f"{name}={value!r}: {e}"
    except Exception as e:  # whatever is no weft.Error
        pytest.fail(f"{name}={value!r}: {type(e).__name__}: {e}")


CASES = [(make, function, arguments) for make, of in CALLS.items() for function, arguments in of.items() if arguments]


@pytest.mark.parametrize("make, function, arguments", CASES, ids=[case[1] for case in CASES])
def test_every_argument_is_checked(make, function, arguments):
    for name in arguments:
        for value in VALUES:
            tried(getattr(make(), function), arguments, name, value)


@pytest.mark.parametrize(
    "function, arguments",
    [
        (weft.threads, dict(ranks=1)),
        (weft.world_threads, dict(ranks=1)),
        (weft.MeetingPlace, dict(ranks=1)),
        (weft.connect, dict(id="", rank=0, size=1, transport="tcp", timeout=0.05)),
        (kv.block_bytes, dict(config="/no/such/config.json", block_tokens=16, tp=1, type="")),
        (kv.Store, dict(agent=None, pages=4, page_bytes=4096, block_tokens=4, policy="lru", write_back=False)),
        (kv.Client, dict(agent=None, address="127.0.0.1:1", key=KEY, timeout=0.05, lease=0.05)),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_every_argument_of_what_makes_objects_is_checked(function, arguments):
    if "agent" in arguments:
        arguments = {**arguments, "agent": Agent("agent")}
    for name in arguments:
        for value in VALUES:
            if name == "page_bytes" and type(value) is int and value in (2**31, 2**32):
                continue  # memory that there may be
            tried(function, arguments, name, value)


def test_every_argument_of_a_client_is_checked():
    served = Served()
    for function, arguments in {
        "match": dict(tokens=TOKENS, salt=""),
        "begin": dict(tokens=TOKENS, salt=""),
        "get": dict(tokens=TOKENS, memory=served.memory, offset=0, salt=""),
        "put": dict(tokens=TOKENS, memory=served.memory, offset=0, salt=""),
        "extend": dict(held=None),
        "read": dict(lease=None, memory=served.memory, offset=0),
        "write": dict(writing=None, memory=served.memory, offset=0),
    }.items():
        for name in arguments:
            for value in VALUES:
                tried(getattr(served.client, function), arguments, name, value)


def test_every_public_function_is_tried():
    classes = {comm: weft.Communicator, window: weft.Window, store: kv.Store}
    for make, of in CALLS.items():
        kind = classes.get(make, weft.World)
        own = weft.World if kind is weft.World else kind
        public = {n for n, f in inspect.getmembers(own, inspect.isfunction) if not n.startswith("_")}
        if kind is weft.World:  # the collectives are those of communicators
            public = {n for n in public if n in vars(weft.World)}
        assert public <= set(of), f"{kind.__name__}: {public - set(of)}"
