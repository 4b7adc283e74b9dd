"""weftcomm.nixl where a wrong answer would be served as a cache: files, ends of transfers, lost peers, notifications."""

import os
import pathlib
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

import weftcomm
from weftcomm import nixl
from weftcomm.transfer import Agent

SIZE = 4096
PEER = pathlib.Path(__file__).parent / "jobs" / "nixl_peer.py"


def agent_of_files(name="files"):
    return nixl.nixl_agent(name, nixl.nixl_agent_config(backends=["POSIX"]))


def moved(agent, operation, meta, device=0, size=SIZE, offset=0):
    """The memory after one transfer of a file; raises what it raises."""
    data = np.full(size, 7, dtype=np.uint8)
    memory = agent.register_memory([(data.ctypes.data, size, 0, "")], "DRAM")
    file = agent.get_reg_descs([(offset, size, device, meta)], "FILE")
    try:
        agent.register_memory(file)
        try:
            local = agent.get_xfer_descs([(data.ctypes.data, size, 0)], "DRAM")
            handle = agent.initialize_xfer(operation, local, agent.get_xfer_descs([(offset, size, device)], "FILE"), agent.name)
            while agent.transfer(handle) if handle._request.state == "prepared" else agent.check_xfer_state(handle) == "PROC":
                if handle._request.state == "done":
                    break
            agent.release_xfer_handle(handle)
        finally:
            agent.deregister_memory(file)
    finally:
        agent.deregister_memory(memory)
    return data


@pytest.mark.parametrize("modes", ["ro", "rw", "ro,create", "rw,create", "rw,direct", "rw,sync"])
def test_reading_a_file_that_is_missing_or_short_is_an_error_and_changes_nothing_but_what_create_says(tmp_path, modes):
    agent, path = agent_of_files(), tmp_path / "cache"
    with pytest.raises(nixl.nixlBackendError, match="cache"):
        moved(agent, "READ", f"{modes}:{path}")
    assert path.exists() == ("create" in modes) and (not path.exists() or path.stat().st_size == 0)
    path.write_bytes(b"\5" * 100)
    with pytest.raises(nixl.nixlBackendError, match="the file ends there"):
        moved(agent, "READ", f"{modes}:{path}")
    assert path.read_bytes() == b"\5" * 100


@pytest.mark.parametrize("modes", ["rw", "rw,create", "rw,direct", "rw,sync"])
def test_writing_extends_a_file_and_reading_gives_what_was_written(tmp_path, modes):
    agent, path = agent_of_files(), tmp_path / "cache"
    path.write_bytes(b"\5" * 100)
    moved(agent, "WRITE", f"{modes}:{path}", offset=SIZE)
    assert path.stat().st_size == 2 * SIZE and path.read_bytes()[:101] == b"\5" * 100 + b"\0"
    assert (moved(agent, "READ", f"ro:{path}", offset=SIZE) == 7).all()


def test_what_a_file_does_not_permit_is_nixls_own_error(tmp_path):
    agent, path = agent_of_files(), tmp_path / "cache"
    path.write_bytes(b"\5" * SIZE)
    with pytest.raises(nixl.nixlBackendError, match="writing 4096 B at 0: Bad file descriptor"):
        moved(agent, "WRITE", f"ro:{path}")
    with pytest.raises(nixl.nixlBackendError, match="is not a regular file"):
        moved(agent, "READ", f"ro:{tmp_path}")
    with pytest.raises(nixl.nixlBackendError, match="descriptor"):
        moved(agent, "READ", "", device=999)
    reading = os.open(path, os.O_RDONLY)
    with pytest.raises(nixl.nixlBackendError, match="Bad file descriptor"):
        moved(agent, "WRITE", "", device=reading)
    assert (moved(agent, "READ", "", device=reading) == 5).all() and path.read_bytes() == b"\5" * SIZE
    os.close(reading)


def test_two_files_under_one_device_number_are_refused_and_never_mixed_up(tmp_path):
    agent = agent_of_files()
    for name in ("a", "b"):
        (tmp_path / name).write_bytes(name.encode() * SIZE)
    agent.register_memory([(0, SIZE, 5, f"ro:{tmp_path}/a")], "FILE")
    with pytest.raises(nixl.nixlBackendError, match="each file needs a device id of its own"):
        agent.register_memory([(0, SIZE, 5, f"ro:{tmp_path}/b")], "FILE")
    agent.register_memory([(0, SIZE, 6, f"ro:{tmp_path}/b")], "FILE")


def test_memory_that_is_registered_no_more_is_not_written_to():
    a, b = Agent("a"), Agent("b")
    a.load(b.metadata())
    gone, there = a.allocate(1 << 20), b.allocate(1 << 20)
    there.array()[:] = 7
    a.load(b.metadata())
    request = a.read(a.prepare("", [(gone.number, 0, 1 << 20)]), a.prepare("b", [(there.number, 0, 1 << 20)]))
    view = gone.array()
    a.deregister(gone)
    with pytest.raises(weftcomm.Error, match="region 0 is registered no more"):
        request.run()
    assert (view == 0).all(), "a view keeps its memory"
    with pytest.raises(weftcomm.Error):
        gone.array()
    view = there.array()
    del b
    assert (view == 7).all(), "also beyond the agent's end"
    with pytest.raises(weftcomm.NoResources, match="are more than the"):
        a.allocate(1 << 60)


def test_what_an_agent_cannot_take_is_one_line():
    agent = Agent("careful")
    mine = agent.add_memory(bytearray(256))
    rows = agent.prepare("", [(mine.number, 0, 8, 8, 8)])
    with pytest.raises(ValueError, match="blocks of type float64: they are whole numbers"):
        agent.read(rows, rows, local_blocks=[0.7], remote_blocks=[1.2])
    with pytest.raises(weftcomm.InvalidArgument, match="the request has not been posted"):
        agent.read(rows, rows).wait()
    with pytest.raises(weftcomm.InvalidArgument, match="a timeout of '1' s"):
        agent.read(rows, rows, deadline="1")
    for array in (b"abc", [1, 2], "abc"):
        with pytest.raises(ValueError, match="an array or a writable buffer, not"):
            agent.add_memory(array)
    with pytest.raises(weftcomm.InvalidArgument, match="no control characters: byte 1 is one"):
        Agent("a\nb")
    with pytest.raises(weftcomm.InvalidArgument, match="uses the network only needs a key"):
        Agent("far", only_network=True)


@pytest.fixture
def peer():
    process = subprocess.Popen([sys.executable, PEER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    yield process
    process.kill()
    process.wait()


def connected(peer, **config):
    agent = nixl.nixl_agent("here", nixl.nixl_agent_config(**config))
    agent.add_remote_agent(bytes.fromhex(peer.stdout.readline()))
    print(agent.get_agent_metadata().hex(), file=peer.stdin, flush=True)
    return agent, int(peer.stdout.readline())


def test_a_notification_of_8_mib_and_ten_thousand_that_nobody_has_taken_arrive(peer):
    agent, _ = connected(peer)
    message = bytes(range(256)) * (8 << 12)
    agent.send_notif("there", message)
    for i in range(10_000):
        agent.send_notif("there", b"%d" % i)
    print("count", file=peer.stdin, flush=True)
    assert peer.stdout.readline() == f"{len(message)} {sum(message) % 65521} 10000 in order\n"


def test_metadata_of_a_peer_that_has_died_is_not_there(peer):
    agent, _ = connected(peer)
    assert agent.check_remote_metadata("there")
    peer.kill()
    peer.wait()
    assert not agent.check_remote_metadata("there")


def test_a_transfer_moves_between_polls_where_a_progress_thread_is_asked_for():
    data = np.zeros(256 << 20, dtype=np.uint8)
    half = data.nbytes // 2
    seconds = {}
    for thread in (True, False):
        agent = nixl.nixl_agent("large", nixl.nixl_agent_config(enable_prog_thread=thread))
        agent.register_memory([(data.ctypes.data, data.nbytes, 0, "")], "DRAM")
        lists = [agent.get_xfer_descs([(data.ctypes.data + at, half, 0)], "DRAM") for at in (0, half)]
        handle = agent.initialize_xfer("WRITE", *lists, "large")
        polls = 0
        state = agent.transfer(handle)
        while state == "PROC":
            time.sleep(0.03)
            polls += 1
            state = agent.check_xfer_state(handle)
        seconds[thread] = polls
        agent.release_xfer_handle(handle)
    assert seconds[True] * 3 < seconds[False]


def test_a_release_that_the_peer_has_not_confirmed_leaves_the_request_under_way(peer, monkeypatch):
    monkeypatch.setenv("WEFT_KEY", "0123456789abcdef0123456789abcdef")
    process = subprocess.Popen([sys.executable, PEER, "far"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        far = Agent("here", key=os.environ["WEFT_KEY"], network="tcp", only_network=True)
        far.load(bytes.fromhex(process.stdout.readline()))
        print(far.metadata().hex(), file=process.stdin, flush=True)
        address = int(process.stdout.readline())
        mine = far.allocate(1 << 24)
        os.kill(process.pid, signal.SIGSTOP)
        request = far.write(far.prepare("", [(mine.number, 0, 1 << 24)]), far.prepare_addresses("there", np.array([[address, 1 << 24]])))
        request.post()
        request.poll()
        with pytest.raises(weftcomm.Timeout, match="has not confirmed"):
            request.cancel()
        assert request.wait(5.0) == "cancelled"
    finally:
        process.kill()
        process.wait()


def test_nixls_binding_is_there_under_its_names():
    agent = nixl.nixlAgent("bound", nixl.nixlAgentConfig(True))
    assert "POSIX" in agent.getAvailPlugins()
    backend = agent.createBackend("UCX", {})
    data = np.arange(128, dtype=np.uint8)
    begin = data.ctypes.data
    assert agent.registerMem(nixl.nixlRegDList(nixl.DRAM_SEG, [(begin, 128, 0, "")]), [backend]) is nixl.NIXL_SUCCESS
    first, second = (nixl.nixlXferDList(nixl.DRAM_SEG, [(begin + at, 64, 0)]) for at in (0, 64))
    request = agent.createXferReq(nixl.NIXL_WRITE, first, second, "bound", "done")
    assert agent.postXferReq(request) is nixl.NIXL_SUCCESS
    assert data[64:].tolist() == list(range(64)) and agent.getNotifs({}) == {"bound": [b"done"]}
    lists = agent.prepXferDlist("", first), agent.prepXferDlist("bound", second)
    request = agent.makeXferReq(nixl.NIXL_READ, lists[0], [0], lists[1], [0])
    assert agent.postXferReq(request) is nixl.NIXL_SUCCESS and agent.getXferStatus(request) is nixl.NIXL_SUCCESS
    assert agent.releaseXferReq(request) is nixl.NIXL_SUCCESS
    with pytest.raises(nixl.nixlInvalidParamError, match="no request has the handle"):
        agent.getXferStatus(request)
    assert agent.checkRemoteMD("nobody", nixl.nixlXferDList(nixl.DRAM_SEG)) is nixl.NIXL_ERR_NOT_FOUND
    with pytest.raises(nixl.nixlInvalidParamError, match="WEFT_TRANSFER_TIMEOUT is 'soon'"):
        os.environ["WEFT_TRANSFER_TIMEOUT"] = "soon"
        try:
            nixl.nixl_agent("late")
        finally:
            del os.environ["WEFT_TRANSFER_TIMEOUT"]
