"""A program for NIXL's Python interface, unchanged for every library that has it: prints a line of JSON per step.

  nixl_steps.py            two processes: this one reads and writes the memory of the other

Each line is [step, outcome]: what the step returned, or the name of the exception that it raised.
"""

import base64
import inspect
import json
import os
import pickle
import socket
import subprocess
import sys
import tempfile
import time

os.environ.setdefault("NIXL_LOG_LEVEL", "FATAL")

import numpy as np
from nixl._api import nixl_agent, nixl_agent_config
from nixl._bindings import nixlXferTelemetry

PAGE, PAGES = 4096, 64


def step(name, call):
    returned = None
    try:
        returned = outcome = call()
    except Exception as error:
        outcome = "raises " + type(error).__name__
    if isinstance(outcome, bytes):
        outcome = "bytes " + outcome.decode()
    if not isinstance(outcome, (str, int, bool, list, dict, type(None))):
        outcome = type(outcome).__name__
    print(json.dumps([name, outcome]), flush=True)
    return returned


def settle(agent, handle):
    """Posts and polls until the transfer has ended."""
    state = agent.transfer(handle)
    until = time.monotonic() + 20
    while state == "PROC" and time.monotonic() < until:
        state = agent.check_xfer_state(handle)
    return state


def notifications(agent, wanted=1):
    found, until = {}, time.monotonic() + 5
    while sum(map(len, found.values())) < wanted and time.monotonic() < until:
        for name, messages in agent.get_new_notifs().items():
            found.setdefault(name, []).extend(messages)
    return {name: [m.decode() for m in messages] for name, messages in found.items()}


def rows(data, pages):
    return [(data.ctypes.data + PAGE * i, PAGE, 0) for i in pages]


def say(text):
    print(text, flush=True)


def target():
    """The other process: registers memory, then answers one word per line."""
    agent = nixl_agent("target", nixl_agent_config(backends=["UCX"]))
    data = np.repeat(np.arange(PAGES, dtype=np.uint8), PAGE)
    agent.register_memory(agent.get_reg_descs([(data.ctypes.data, data.nbytes, 0, "")], "DRAM"))
    say(base64.b64encode(agent.get_agent_metadata()).decode())
    say(str(data.ctypes.data))
    for line in sys.stdin:
        word = line.split()
        if word[0] == "notifications":
            say(json.dumps(notifications(agent, int(word[1]))))
        elif word[0] == "page":
            say(str(sorted(set(data[PAGE * int(word[1]) :][:PAGE].tolist()))))
        elif word[0] == "more":
            more = np.full(PAGE, 77, dtype=np.uint8)
            agent.register_memory(agent.get_reg_descs([(more.ctypes.data, more.nbytes, 0, "")], "DRAM"))
            say(base64.b64encode(agent.get_agent_metadata()).decode())
            say(str(more.ctypes.data))
        elif word[0] == "greet":
            step_name = agent.add_remote_agent(base64.b64decode(word[1]))
            agent.send_notif(step_name, b"hello back")
            until = time.monotonic() + 1
            while time.monotonic() < until:
                agent.get_new_notifs()
            say("greeted")
    os._exit(0)


class Target:
    def __init__(self):
        self.process = subprocess.Popen(
            [sys.executable, __file__, "target"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.metadata = base64.b64decode(self.process.stdout.readline())
        self.address = int(self.process.stdout.readline())

    def ask(self, text):
        self.process.stdin.write(text + "\n")
        self.process.stdin.flush()
        return self.process.stdout.readline().strip()

    def rows(self, pages):
        return [(self.address + PAGE * i, PAGE, 0) for i in pages]


def calls(kind):
    """The public methods with their parameters and defaults."""
    methods = inspect.getmembers(kind, inspect.isfunction)
    shown = lambda p: p.name if p.default is p.empty else f"{p.name}={p.default!r}"
    return {
        name: [shown(p) for p in inspect.signature(method).parameters.values()]
        for name, method in methods
        if name == "__init__" or not name.startswith("_")
    }


def descriptors(agent, data):
    whole = (data.ctypes.data, data.nbytes, 0)
    step("registration list", lambda: agent.get_reg_descs([whole + ("",)], "DRAM"))
    step("registration list without a type", lambda: agent.get_reg_descs([whole + ("",)]))
    step("registration list of three", lambda: agent.get_reg_descs([whole], "DRAM"))
    step("registration list of an array", lambda: agent.get_reg_descs(np.array([whole], dtype=np.uint64), "DRAM").descCount())
    step("registration list of another kind", lambda: agent.get_reg_descs(agent.get_xfer_descs([whole], "DRAM")))
    step("list", lambda: agent.get_xfer_descs([whole], "DRAM"))
    step("list of none", lambda: agent.get_xfer_descs([], "DRAM"))
    step("list without a type", lambda: agent.get_xfer_descs([whole]))
    step("list of an unknown type", lambda: agent.get_xfer_descs([whole], "TAPE"))
    step("list of an array", lambda: agent.get_xfer_descs(np.array([whole, whole], dtype=np.uint64), "DRAM").descCount())
    step("list of signed numbers", lambda: agent.get_xfer_descs(np.array([whole], dtype=np.int64), "DRAM").descCount())
    step("list of an array of four", lambda: agent.get_xfer_descs(np.zeros((2, 4), dtype=np.uint64), "DRAM"))
    listed = agent.get_xfer_descs(rows(data, [0, 2]), "DRAM")
    step("a list is passed on", lambda: agent.get_xfer_descs(listed) is listed)
    step("count", lambda: listed.descCount())
    step("element", lambda: listed[1][1:] == (PAGE, 0))
    step("type", lambda: str(listed.getType()).split(".")[-1])
    step("empty", lambda: listed.isEmpty())
    step("index", lambda: listed.index(listed[1]))
    step("equal", lambda: listed == agent.get_xfer_descs(rows(data, [0, 2]), "DRAM"))
    step("pickled", lambda: agent.deserialize_descs(agent.get_serialized_descs(listed)) == listed)
    step("pickled by pickle", lambda: pickle.loads(pickle.dumps(listed)).descCount())


    def changed():
        one = agent.get_xfer_descs(rows(data, [0]), "DRAM")
        one.append(listed[1])
        before = one.descCount()
        one.remDesc(0)
        after = one.descCount()
        one.clear()
        return [before, after, one.descCount()]

    step("changed", changed)


def registration(agent, data):
    whole = (data.ctypes.data, data.nbytes, 0, "")
    registered = agent.get_reg_descs([whole], "DRAM")
    step("register", lambda: agent.register_memory(registered) == registered)
    step("metadata", lambda: len(agent.get_agent_metadata()) > 0)
    other = np.zeros(PAGE, dtype=np.uint8)
    piece = agent.get_reg_descs([(other.ctypes.data, other.nbytes, 0, "")], "DRAM")
    step("deregister what is not registered", lambda: agent.deregister_memory(piece))
    step("register by tuples", lambda: agent.register_memory([(other.ctypes.data, other.nbytes, 0, "")], "DRAM").descCount())
    step("deregister", lambda: agent.deregister_memory(piece))
    step("register none", lambda: agent.register_memory(None))
    step("register with an unknown backend", lambda: agent.register_memory(piece, backends=["NONE"]))
    step("backends' types", lambda: "DRAM" in str(agent.get_backend_mem_types("UCX")))
    step("types of no backend", lambda: agent.get_backend_mem_types("NONE"))
    step("parameters of no backend", lambda: agent.get_backend_params("NONE"))
    step("types of no plugin", lambda: agent.get_plugin_mem_types("NONE"))
    step("create an unknown backend", lambda: agent.create_backend("NONE"))
    step("query an unknown backend", lambda: agent.query_memory(registered, "NONE"))


def transfers(agent, data, peer, far):
    everything = range(PAGES)
    local = agent.prep_xfer_dlist("NIXL_INIT_AGENT", rows(data, everything), "DRAM")
    remote = agent.prep_xfer_dlist(peer, far.rows(everything), "DRAM")
    step("prepared", lambda: [type(local).__name__, type(remote).__name__])
    step("prepare for a stranger", lambda: agent.prep_xfer_dlist("nobody", far.rows([0]), "DRAM"))
    step("prepare unregistered memory", lambda: agent.prep_xfer_dlist("", [(4096, 16, 0)], "DRAM"))
    step("prepare past the end", lambda: agent.prep_xfer_dlist(peer, [(far.address + PAGE * (PAGES - 1), 2 * PAGE, 0)], "DRAM"))

    pages = [5, 9, 3]
    handle = agent.make_prepped_xfer("READ", local, [0, 1, 2], remote, pages, b"read three")
    step("handle", lambda: type(handle).__name__)
    step("state before it is posted", lambda: agent.check_xfer_state(handle))
    step("telemetry before it is posted", lambda: agent.get_xfer_telemetry(handle))
    step("read", lambda: settle(agent, handle))
    step("what was read", lambda: [int(data[PAGE * i]) for i in range(4)])
    step("its notification", lambda: json.loads(far.ask("notifications 1")))
    step("state after the end", lambda: agent.check_xfer_state(handle))
    step("backend", lambda: type(agent.query_xfer_backend(handle)).__name__)

    def telemetry():
        t = agent.get_xfer_telemetry(handle)
        return [isinstance(t, nixlXferTelemetry), t.totalBytes, t.descCount > 0, t.xferDuration >= 0, t.postDuration >= 0]

    step("telemetry", telemetry)
    data[: PAGE * 3] = 0
    step("posted again", lambda: settle(agent, handle))
    step("what was read again", lambda: [int(data[PAGE * i]) for i in range(3)])
    step("the notification of making it is not kept", lambda: json.loads(far.ask("notifications 1")))
    step("posted with another notification", lambda: agent.transfer(handle, b"other") in ("DONE", "PROC"))
    until = time.monotonic() + 0.2
    while agent.check_xfer_state(handle) == "PROC" or time.monotonic() < until:
        pass
    step("the other notification", lambda: json.loads(far.ask("notifications 1")))
    step("release", lambda: agent.release_xfer_handle(handle))
    step("release again", lambda: handle.release())

    written = agent.make_prepped_xfer("WRITE", local, np.array([0, 1], dtype=np.int32), remote, np.array([20, 30], dtype=np.int32))
    data[:PAGE], data[PAGE : 2 * PAGE] = 200, 201
    step("write", lambda: settle(agent, written))
    step("what was written", lambda: [far.ask("page 20"), far.ask("page 21"), far.ask("page 30")])
    step("unequal numbers of indices", lambda: agent.make_prepped_xfer("READ", local, [0, 1], remote, [0]))
    step("an index past the end", lambda: agent.make_prepped_xfer("READ", local, [0], remote, [PAGES]))
    step("no indices", lambda: agent.make_prepped_xfer("READ", local, [], remote, []))
    step("an unknown operation", lambda: agent.make_prepped_xfer("MOVE", local, [0], remote, [0]))
    small = agent.prep_xfer_dlist("NIXL_INIT_AGENT", [(data.ctypes.data, 16, 0)], "DRAM")
    step("elements of two sizes", lambda: agent.make_prepped_xfer("READ", small, [0], remote, [0]))
    step("sides exchanged", lambda: agent.make_prepped_xfer("READ", remote, [0], local, [0]))
    step("release a list", lambda: agent.release_dlist_handle(small))

    strided = np.array([[far.address, PAGE, 0, 2 * PAGE, PAGES // 2]], dtype=np.uint64)
    even = agent.prep_xfer_dlist(peer, strided, "DRAM")
    both = agent.make_prepped_xfer("READ", local, [0, 1], even, [1, 4])
    step("read by strides", lambda: [settle(agent, both), int(data[0]), int(data[PAGE])])
    step("strides without a type", lambda: agent.prep_xfer_dlist(peer, strided))


def whole_lists(agent, data, peer, far):
    local = agent.get_xfer_descs(rows(data, [0, 1]), "DRAM")
    remote = agent.get_xfer_descs(far.rows([11, 12]), "DRAM")
    handle = agent.initialize_xfer("READ", local, remote, peer, "as text")
    step("initialized", lambda: settle(agent, handle))
    step("what it read", lambda: [int(data[0]), int(data[PAGE])])
    step("its notification, given as text", lambda: json.loads(far.ask("notifications 1")))
    step("initialized for a stranger", lambda: agent.initialize_xfer("READ", local, remote, "nobody"))
    step("lists of different numbers", lambda: agent.initialize_xfer("READ", local, agent.get_xfer_descs(far.rows([1]), "DRAM"), peer))
    step("an unknown operation for lists", lambda: agent.initialize_xfer("COPY", local, remote, peer))
    inside = agent.initialize_xfer("WRITE", local, agent.get_xfer_descs(rows(data, [8, 9]), "DRAM"), agent.name, b"to myself")
    data[: 2 * PAGE] = 150
    step("within this agent", lambda: [settle(agent, inside), int(data[8 * PAGE])])
    step("notification to itself", lambda: notifications(agent))
    step("cost", lambda: [type(x).__name__ for x in agent.estimate_xfer_cost(handle)])


def messages(agent, peer, far):
    step("notification", lambda: agent.send_notif(peer, b"by itself"))
    step("is there", lambda: json.loads(far.ask("notifications 1")))
    step("notification to a stranger", lambda: agent.send_notif("nobody", b"x"))
    step("no notifications", lambda: agent.get_new_notifs())
    step("answer", lambda: far.ask("greet " + base64.b64encode(agent.get_agent_metadata()).decode()))

    def arrives():
        until = time.monotonic() + 5
        while time.monotonic() < until:
            if agent.check_remote_xfer_done("target", b"hello", tag_is_prefix=True):
                return True
        return False

    step("tag is there", arrives)
    step("tag is taken", lambda: agent.check_remote_xfer_done("target", b"hello", tag_is_prefix=True))
    step("kept notifications", lambda: agent.update_notifs())


def peers(agent, data, peer, far):
    step("connected", lambda: agent.make_connection(peer))
    step("connect to a stranger", lambda: agent.make_connection("nobody"))
    step("metadata is there", lambda: agent.check_remote_metadata(peer))
    step("metadata of a stranger", lambda: agent.check_remote_metadata("nobody"))
    step("senseless metadata", lambda: agent.add_remote_agent(b"nonsense"))
    step("own metadata", lambda: agent.add_remote_agent(agent.get_agent_metadata()))
    metadata, address = base64.b64decode(far.ask("more")), int(far.process.stdout.readline())
    step("memory that was registered later", lambda: agent.prep_xfer_dlist(peer, [(address, PAGE, 0)], "DRAM"))
    step("metadata again", lambda: agent.add_remote_agent(metadata))
    local = agent.prep_xfer_dlist("NIXL_INIT_AGENT", rows(data, [0]), "DRAM")
    remote = agent.prep_xfer_dlist(peer, [(address, PAGE, 0)], "DRAM")
    handle = agent.make_prepped_xfer("READ", local, [0], remote, [0])
    step("read from it", lambda: [settle(agent, handle), int(data[0])])
    step("removed", lambda: agent.remove_remote_agent(peer))
    step("removed again", lambda: agent.remove_remote_agent(peer))
    step("post to one that was removed", lambda: settle(agent, handle))
    step("prepare for one that was removed", lambda: agent.prep_xfer_dlist(peer, [(address, PAGE, 0)], "DRAM"))
    step("added again", lambda: agent.add_remote_agent(metadata))


def partial(agent, data):
    """Some of an agent's memory, and its metadata by socket."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    config = nixl_agent_config(enable_listen_thread=True, listen_port=port, backends=["UCX"])
    other = nixl_agent("other", config)
    first, second = np.full(PAGE, 41, dtype=np.uint8), np.full(PAGE, 42, dtype=np.uint8)
    descs = [other.get_reg_descs([(a.ctypes.data, PAGE, 0, "")], "DRAM") for a in (first, second)]
    for d in descs:
        other.register_memory(d)
    local = agent.get_xfer_descs(rows(data, [0]), "DRAM")
    wanted = [agent.get_xfer_descs([(a.ctypes.data, PAGE, 0)], "DRAM") for a in (first, second)]
    step("half of the metadata", lambda: agent.add_remote_agent(other.get_partial_agent_metadata(descs[0], True)))
    step("the half is there", lambda: agent.check_remote_metadata("other", wanted[0]))
    step("the other half is not", lambda: agent.check_remote_metadata("other", wanted[1]))
    step("read the half", lambda: [settle(agent, agent.initialize_xfer("READ", local, wanted[0], "other")), int(data[0])])
    step("the other half of the metadata", lambda: agent.add_remote_agent(other.get_partial_agent_metadata(descs[1])))
    step("both are there", lambda: [agent.check_remote_metadata("other", w) for w in wanted])
    step("read the other half", lambda: [settle(agent, agent.initialize_xfer("READ", local, wanted[1], "other")), int(data[0])])
    step("metadata of what is not registered", lambda: other.get_partial_agent_metadata(agent.get_reg_descs([(4096, 1, 0, "")], "DRAM"), True))

    third = nixl_agent("third", config_of_a_stranger())
    step("asked for by socket", lambda: third.fetch_remote_metadata("other", "127.0.0.1", port))

    def arrives(which, name):
        until = time.monotonic() + 5
        while time.monotonic() < until and not which.check_remote_metadata(name):
            time.sleep(0.01)
        return which.check_remote_metadata(name)

    step("it came", lambda: arrives(third, "other"))
    step("sent by socket", lambda: third.send_local_metadata("127.0.0.1", port))
    step("it arrived", lambda: arrives(other, "third"))
    step("without an address", lambda: third.send_local_metadata())
    step("asked without an address", lambda: third.fetch_remote_metadata("other"))


def config_of_a_stranger():
    # NIXL talks to sockets from its listener thread.
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return nixl_agent_config(enable_listen_thread=True, listen_port=free.getsockname()[1], backends=["UCX"])


def repeated(agent):
    """Memory that is registered more than once."""
    data = np.zeros(4 * PAGE, dtype=np.uint8)
    whole = agent.get_reg_descs([(data.ctypes.data, 4 * PAGE, 0, "")], "DRAM")
    inside = agent.get_reg_descs([(data.ctypes.data + PAGE, PAGE, 0, "")], "DRAM")
    everything, part = ([(data.ctypes.data + a, n, 0)] for a, n in ((0, 4 * PAGE), (PAGE, PAGE)))
    ready = lambda rows: type(agent.prep_xfer_dlist("", rows, "DRAM")).__name__
    step("register", lambda: agent.register_memory(whole) is whole)
    step("register again", lambda: agent.register_memory(whole) is whole)
    step("register what lies within", lambda: agent.register_memory(inside) is inside)
    step("prepare all", lambda: ready(everything))
    step("deregister once", lambda: agent.deregister_memory(whole))
    step("still there", lambda: ready(everything))
    step("deregister twice", lambda: agent.deregister_memory(whole))
    step("the part is still there", lambda: ready(part))
    step("deregister thrice", lambda: agent.deregister_memory(whole))
    step("deregister the part", lambda: agent.deregister_memory(inside))
    step("gone", lambda: ready(part))
    step("a list of two kinds of neighbours", lambda: agent.register_memory(whole) is whole)
    overlapping = [(data.ctypes.data, 64, 0), (data.ctypes.data + 32, 64, 0)]
    step("elements that overlap", lambda: ready(overlapping))
    step("no bytes", lambda: agent.register_memory([(data.ctypes.data, 0, 0, "")], "DRAM").descCount())
    step("address 0", lambda: type(agent.register_memory([(0, 64, 0, "")], "DRAM")).__name__)
    step("memory that no backend has", lambda: agent.register_memory([(data.ctypes.data, 64, 0, "")], "OBJ"))
    step("end", lambda: agent.deregister_memory(whole))


def files():
    agent = nixl_agent("files", nixl_agent_config(backends=[]))
    step("without backends", lambda: sorted(agent.backends))
    step("backend for files", lambda: agent.create_backend("POSIX"))
    data = np.arange(256, dtype=np.uint8).repeat(16)
    with tempfile.NamedTemporaryFile() as file:
        file.write(bytes(8192))
        file.flush()
        step("register memory", lambda: agent.register_memory([(data.ctypes.data, data.nbytes, 0, "")], "DRAM").descCount())
        step("register a file", lambda: agent.register_memory([(0, 8192, file.fileno(), "")], "FILE").descCount())
        local = agent.get_xfer_descs([(data.ctypes.data, 4096, 0)], "DRAM")
        remote = agent.get_xfer_descs([(4096, 4096, file.fileno())], "FILE")
        written = agent.initialize_xfer("WRITE", local, remote, "files")
        step("write to a file", lambda: settle(agent, written))
        step("what the file holds", lambda: open(file.name, "rb").read() == bytes(4096) + data.tobytes())
        expected = data.copy()
        data[:] = 0
        read = agent.initialize_xfer("READ", local, remote, "files")
        step("read from a file", lambda: [settle(agent, read), bool((data == expected).all())])


def ended(agent, data, far):
    """The other process is killed."""
    local = agent.prep_xfer_dlist("NIXL_INIT_AGENT", rows(data, [0]), "DRAM")
    remote = agent.prep_xfer_dlist("target", far.rows([0]), "DRAM")
    handle = agent.make_prepped_xfer("READ", local, [0], remote, [0])
    step("before its end", lambda: settle(agent, handle))
    far.process.kill()
    far.process.wait()
    time.sleep(0.2)

    def fails():
        try:
            return settle(agent, handle) != "DONE"
        except Exception as error:
            return type(error).__name__.startswith("nixl")

    step("after its end", fails)


def main():
    step("calls of an agent", lambda: calls(nixl_agent))
    step("configuration", lambda: calls(nixl_agent_config))
    far = Target()
    agent = nixl_agent("initiator", nixl_agent_config(backends=["UCX"], capture_telemetry=True))
    step("name", lambda: agent.name)
    step("instantiated", lambda: sorted(agent.backends))
    data = np.zeros(PAGE * PAGES, dtype=np.uint8)
    descriptors(agent, data)
    registration(agent, data)
    peer = step("added", lambda: agent.add_remote_agent(far.metadata))
    transfers(agent, data, peer, far)
    whole_lists(agent, data, peer, far)
    messages(agent, peer, far)
    peers(agent, data, peer, far)
    partial(agent, data)
    repeated(agent)
    files()
    ended(agent, data, far)
    os._exit(0)  # the wheel 1.5.1 crashes while its agent is destroyed


if __name__ == "__main__":
    target() if sys.argv[1:] == ["target"] else main()
