"""weftcomm.transfer: agents from Python."""

import multiprocessing
import os
import signal

import numpy as np
import pytest

import weftcomm
from weftcomm import transfer
from weftcomm.transfer import Agent, Rows, measure_costs

PAGE = 4096


def test_a_list_is_read_by_block_table_and_notifies():
    near, far = Agent("near"), Agent("far")
    source = np.arange(8, dtype=np.uint8).repeat(PAGE)
    there = far.add_memory(source)
    here = near.allocate(4 * PAGE)
    assert near.load(far.metadata()) == "far"
    local = near.prepare("", [Rows(here.number, 0, PAGE, PAGE, 4)])
    remote = near.prepare("far", [Rows(there.number, 0, PAGE, PAGE, 8)])
    assert (len(local), len(remote)) == (4, 8)
    request = near.read(local, remote, local_blocks=[0, 1], remote_blocks=np.array([6, 3]), notify=b"there")
    assert request.state == "prepared" and request.error is None
    request.run()
    assert request.state == "done" and request.moved_bytes == 2 * PAGE
    assert here.array()[::PAGE].tolist() == [6, 3, 0, 0]
    assert far.notifications() == [("near", b"there")]
    assert near.explain("far").startswith("region 0: direct")


class Keys(dict):
    """A store whose get() raises KeyError."""

    def set(self, key, value):
        self[key] = value

    get = dict.__getitem__


@pytest.mark.parametrize("store", ["folder", "keys"])
def test_metadata_is_published_in_a_store_and_fetched(store, tmp_path):
    kept = transfer.Folder(tmp_path / "agents") if store == "folder" else Keys()
    near, far = Agent("near", key="0123456789abcdef"), Agent("far/1", key="0123456789abcdef")
    with pytest.raises(weftcomm.Timeout, match="agent 'far/1' has published nothing for 0.02 s"):
        near.fetch(kept, "far/1", timeout=0.02)
    there = far.add_memory(np.full(PAGE, 7, dtype=np.uint8))
    far.publish(kept)
    assert near.fetch(kept, "far/1") == "far/1"
    here = near.allocate(PAGE)
    near.read(near.prepare("", [Rows(here.number, 0, PAGE)]), near.prepare("far/1", [Rows(there.number, 0, PAGE)])).run()
    assert here.array().tolist() == [7] * PAGE
    kept.set("weft/agent/other", far.metadata())
    with pytest.raises(weftcomm.InvalidArgument, match="metadata of agent 'far/1' under the name 'other'"):
        near.fetch(kept, "other")


def test_addresses_at_equal_distances_are_one_row():
    near, far = Agent("near"), Agent("far")
    source = np.arange(100, dtype=np.uint8).repeat(64)
    far.add_memory(source)
    target = np.zeros(6400, dtype=np.uint8)
    near.add_memory(target)
    near.load(far.metadata())
    rows = [(source.ctypes.data + 64 * i, 64) for i in range(0, 100, 2)]
    local = near.prepare_addresses("", [(target.ctypes.data, 64, 64, 50)])
    near.read(local, near.prepare_addresses("far", rows)).run()
    assert target[: 50 * 64].tolist() == source.reshape(100, 64)[::2].reshape(-1).tolist()
    with pytest.raises(weftcomm.InvalidArgument, match="peer 'far': the memory at 0x10 is not registered"):
        near.prepare_addresses("far", [(16, 64)])


def test_a_stale_page_fails_and_names_itself():
    owner, writer = Agent("owner"), Agent("writer")
    pages = owner.allocate(4 * PAGE, PAGE)
    page = owner.acquire(pages, 7)
    assert page.generation >> 48 == 7 and owner.free_pages(pages) == 3
    mine = writer.add_memory(np.ones(PAGE, dtype=np.uint8))
    writer.load(owner.metadata())
    request = writer.write(
        writer.prepare("", [(mine.number, 0, PAGE)]),
        writer.prepare("owner", [(pages.number, page.number * PAGE, PAGE)]),
        generations=[page.generation],
        verify=True,
    )
    request.run()
    assert pages.array()[page.number * PAGE] == 1
    owner.release(pages, page)
    with pytest.raises(weftcomm.Mismatch, match="peer 'owner': page 0 of region 0 has been released, or given to another owner"):
        request.run()
    assert request.state == "failed"


def test_files_grow_to_what_is_asked_for(tmp_path):
    path = tmp_path / "blocks"
    path.touch()
    agent = Agent("filer")
    file = agent.add_file(str(path), bytes=2 * PAGE)
    data = np.arange(PAGE, dtype=np.uint16).view(np.uint8)[:PAGE].copy()
    mine = agent.add_memory(data)
    agent.write(agent.prepare("", [(mine.number, 0, PAGE)]), agent.prepare("", [(file.number, PAGE, PAGE)])).run()
    assert path.read_bytes() == bytes(PAGE) + data.tobytes()
    with pytest.raises(ValueError):
        file.array()


def test_wrong_arguments_are_one_line():
    agent = Agent("a")
    with pytest.raises(weftcomm.InvalidArgument, match="an agent's name has 1 to 64 bytes, not 0"):
        Agent("")
    with pytest.raises(weftcomm.InvalidArgument, match="needs a key"):
        Agent("b", listen="127.0.0.1:0")
    with pytest.raises(ValueError, match="table of 2 to 5 columns"):
        agent.prepare("", [1, 2, 3])
    with pytest.raises(weftcomm.InvalidArgument, match="no peer is called 'b'"):
        agent.prepare("b", [(0, 0, 1)])
    with pytest.raises(weftcomm.InvalidArgument, match="these 3 bytes are no metadata"):
        agent.load(b"abc")
    region = agent.add_memory(np.zeros(64, dtype=np.uint8))
    rows = agent.prepare("", [(region.number, 0, 8, 8, 8)])
    with pytest.raises(ValueError, match="block -1 is negative"):
        agent.read(rows, rows, local_blocks=[-1], remote_blocks=[0])
    with pytest.raises(ValueError, match="contiguous and writable"):
        agent.add_memory(np.zeros((4, 4), dtype=np.uint8)[:, ::2])


def test_a_request_is_estimated_and_explained():
    near, far = Agent("near"), Agent("far")
    there, here = far.allocate(1 << 20), near.allocate(1 << 20)
    near.load(far.metadata())
    request = near.read(near.prepare("", [(here.number, 0, 4096)]), near.prepare("far", [(there.number, 0, 4096)]))
    with pytest.raises(weftcomm.Error, match="the cost of path direct is not known"):
        request.estimate()
    costs = measure_costs()
    near.set_costs(costs)
    assert request.estimate().seconds == pytest.approx(costs.seconds("direct", 1, 4096))
    assert "not shared memory: the peer is in this process" in request.explain()
    assert costs.seconds("file", 1, 4096) is None
    with pytest.raises(weftcomm.InvalidArgument, match="there is no path 'pigeon'"):
        costs.seconds("pigeon", 1, 1)


def test_memory_of_a_gpu_is_registered_where_there_is_one():
    agent = Agent("alone")
    if transfer.gpus() == 0:
        with pytest.raises(weftcomm.Error, match="no CUDA device"):
            agent.allocate_gpu(PAGE)
        with pytest.raises(weftcomm.Error, match="no CUDA device"):
            agent.add_memory((PAGE, PAGE, 0))
        pytest.skip("no GPU here")
    there, here = agent.allocate_gpu(PAGE), agent.allocate(PAGE)
    here.array()[:] = 7
    for write in (True, False):
        lists = agent.prepare("", [(here.number, 0, PAGE)]), agent.prepare("", [(there.number, 0, PAGE)])
        (agent.write if write else agent.read)(*lists).run()
        assert (here.array() == 7).all()
        here.array()[:] = 0
    with pytest.raises(ValueError, match="memory of GPU 0 is not for the host"):
        there.array()


class OnGpu:
    """What torch's and CuPy's arrays of a GPU say of themselves."""

    def __init__(self, strides=None, read_only=False, **device):
        self.__cuda_array_interface__ = {
            "data": (PAGE, read_only),
            "shape": (2, 3),
            "typestr": "<f4",
            "strides": strides,
            "version": 3,
        }
        if device:
            self.device = type("Device", (), device)()


def test_arrays_of_gpus_are_taken_as_they_say():
    assert transfer._of_gpu(OnGpu()) == (PAGE, 24, 0)
    assert transfer._of_gpu(OnGpu(strides=(12, 4), index=3)) == (PAGE, 24, 3)
    assert transfer._of_gpu(OnGpu(id=1)) == (PAGE, 24, 1)
    for wrong in (OnGpu(strides=(4, 8)), OnGpu(read_only=True)):
        with pytest.raises(ValueError, match="contiguous and writable"):
            transfer._of_gpu(wrong)


def serve(pipe, network):
    agent = Agent("server", key="a key for this test", listen="127.0.0.1:0", network=network)
    region = agent.allocate(1 << 20)
    region.array()[:] = 9
    pipe.send_bytes(agent.metadata())
    pipe.recv()


@pytest.mark.parametrize("network", ["", "tcp", "ucx"])
def test_another_process_is_read_and_its_end_is_named(network):
    try:
        agent = Agent("reader", key="a key for this test", network=network, only_network=network != "")
    except weftcomm.InvalidArgument as missing:
        pytest.skip(str(missing))
    context = multiprocessing.get_context("spawn")
    pipe, far = context.Pipe()
    server = context.Process(target=serve, args=(far, network), daemon=True)
    server.start()
    agent.load(pipe.recv_bytes())
    assert agent.explain("server").startswith("region 0: " + (network or "shared memory"))
    here = agent.allocate(1 << 20)
    request = agent.read(agent.prepare("", [(here.number, 0, 1 << 20)]), agent.prepare("server", [(0, 0, 1 << 20)]))
    request.post()
    assert request.wait(20) == "done"
    assert (here.array() == 9).all()
    os.kill(server.pid, signal.SIGKILL)
    server.join()
    request.post()
    assert request.wait(20) == "failed"
    assert isinstance(request.error, weftcomm.PeerDied) and "peer 'server'" in str(request.error)


def test_an_agent_names_a_network_that_is_none():
    with pytest.raises(weftcomm.InvalidArgument, match="network is tcp, ucx or empty, not 'pigeon'"):
        Agent("reader", network="pigeon")


def test_ctrl_c_ends_a_wait():
    """A wait that cannot end: the peer's queue of notifications is full."""
    near, far = Agent("near"), Agent("far")
    there, here = far.allocate(PAGE), near.allocate(PAGE)
    near.load(far.metadata())
    request = near.read(
        near.prepare("", [(here.number, 0, 8)]), near.prepare("far", [(there.number, 0, 8)]), notify=bytes(4096)
    )
    while request.state != "running":
        request.post()
    signal.setitimer(signal.ITIMER_REAL, 0.2)
    previous = signal.signal(signal.SIGALRM, lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
    try:
        with pytest.raises(KeyboardInterrupt):
            request.wait()
    finally:
        signal.signal(signal.SIGALRM, previous)
    assert request.state == "running"
    request.cancel()
    assert request.state == "cancelled"


def test_blocks_are_read_from_memory_and_a_file_at_once(tmp_path):
    near, far = Agent("near"), Agent("far")
    blocks = 64
    whole = np.random.default_rng(3).integers(0, 255, blocks * PAGE, dtype=np.uint8)
    (tmp_path / "kept").write_bytes(whole.tobytes())
    near.load(far.metadata([far.add_memory(whole)]))
    here, file = near.allocate(blocks * PAGE), near.add_file(str(tmp_path / "kept"))
    local = near.prepare("", [Rows(here.number, 0, PAGE, PAGE, blocks)])
    memory = transfer.StripeSource("memory", near.prepare("far", [Rows(0, 0, PAGE, PAGE, blocks)]))
    disk = transfer.StripeSource("disk", near.prepare("", [Rows(file.number, 0, PAGE, PAGE, blocks)]))
    shares = near.read_striped(local, PAGE, [memory, disk], timeout=30)
    assert (here.array() == whole).all()
    assert [s.name for s in shares] == ["memory", "disk"] and sum(s.blocks for s in shares) == blocks
    # Block 5 is in the file only; a block that nobody has is an error that names both.
    here.array()[:] = 0
    some = transfer.StripeSource("memory", memory.list, elements=[-1 if b == 5 else b for b in range(blocks)])
    near.read_striped(local, PAGE, [some, disk])
    assert (here.array() == whole).all()
    with pytest.raises(weftcomm.Error, match="block 5 comes from no source: memory: does not have it"):
        near.read_striped(local, PAGE, [some])
