"""The calls that LMCache 0.5.6 and vLLM 0.33.0 make of NIXL, in their order and with their arguments, without the engines. What
the engines themselves do over weft was tried with their own classes; tests/evidence/every-line-transfers.md has the dates."""

import asyncio
import json
import os
import pathlib
import subprocess
import sys
import time
import uuid

import numpy as np
import pytest

from weftcomm import nixl
from weftcomm.nixl import nixl_agent, nixl_agent_config, nixlBind, nixl_thread_sync_t

from engine_pages import PAGE, PAGES, pages_of, value

PEER = pathlib.Path(__file__).parent / "jobs" / "engine_peer.py"


class Worker:
    """The other process, and what it has said of itself."""

    def __init__(self):
        self.process = subprocess.Popen([sys.executable, PEER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.metadata = bytes.fromhex(self.process.stdout.readline())
        self.address = int(self.process.stdout.readline())

    def ask(self, line):
        print(line, file=self.process.stdin, flush=True)
        return self.process.stdout.readline().strip()

    def pages(self):
        return [(self.address + i * PAGE, PAGE, 0) for i in range(PAGES)]

    def strided(self):
        """The cache as two rows of every second page: pages 0, 2, …, then 1, 3, …"""
        return np.array([[self.address + i * PAGE, PAGE, 0, 2 * PAGE, PAGES // 2] for i in range(2)], dtype=np.uint64)

    def kill(self):
        self.process.kill()
        self.process.wait()


@pytest.fixture
def worker():
    started = Worker()
    yield started
    started.kill()


def aligned(size):
    raw = np.zeros(size + PAGE, dtype=np.uint8)
    begin = -raw.ctypes.data % PAGE
    return raw[begin : begin + size]


def until_done(agent, handle):
    """As LMCache waits: post, then ask."""
    state = agent.transfer(handle)
    while state not in ("DONE", "ERR"):
        state = agent.check_xfer_state(handle)
    if state == "ERR":
        raise RuntimeError("the transfer has failed")


# LMCache: transfer_channel/nixl_channel.py, distributed/transfer_channel/impl/nixl_impl.py


def test_lmcaches_channel_moves_chunks_by_number_and_its_handles_are_never_released(worker):
    agent = nixl_agent(str(uuid.uuid4()), nixl_agent_config(backends=["UCX"]))
    buffer = np.zeros(PAGE * PAGES, dtype=np.uint8)
    agent.register_memory(agent.get_reg_descs([(buffer.ctypes.data, buffer.nbytes, 0, "")], mem_type="cpu"))
    descs = agent.get_xfer_descs(pages_of(buffer), mem_type="cpu")
    local = agent.prep_xfer_dlist("", descs, mem_type="cpu")
    name = agent.add_remote_agent(worker.metadata)
    sent = agent.get_serialized_descs(agent.get_xfer_descs(worker.pages(), mem_type="cpu"))
    remote = agent.prep_xfer_dlist(name, agent.deserialize_descs(sent))
    until_done(agent, agent.make_prepped_xfer("READ", local, [1, 2], remote, [40, 63]))
    assert [value(buffer, i) for i in range(4)] == [0, 40, 63, 0]
    buffer[5 * PAGE : 6 * PAGE] = 200
    until_done(agent, agent.make_prepped_xfer("WRITE", local, [5], remote, [9]))
    assert [json.loads(worker.ask(f"page {i}"))[0] for i in (8, 9, 10)] == [8, 200, 10]

    async def many():
        async def one(page):
            handle = agent.make_prepped_xfer("READ", local, [page], remote, [page])
            agent.transfer(handle)
            while (state := agent.check_xfer_state(handle)) == "PROC":
                await asyncio.sleep(0.001)
            return state

        return await asyncio.gather(*(one(page) for page in range(16, 32)))

    assert set(asyncio.run(many())) == {"DONE"} and [value(buffer, i) for i in range(16, 32)] == list(range(16, 32))
    worker.kill()
    before = buffer.copy()
    with pytest.raises(nixl.nixlRemoteDisconnectError, match="has ended"):
        until_done(agent, agent.make_prepped_xfer("READ", local, [1], remote, [2]))
    assert (buffer == before).all()
    agent.release_dlist_handle(remote)
    agent.release_dlist_handle(local)


# LMCache: storage_backend/nixl_storage_backend.py, distributed/l2_adapters/nixl_store_l2_adapter.py


def agent_of_storage(backend, params, **config):
    name = "NixlAgent_" + str(uuid.uuid4())
    agent = nixl_agent(name, nixl_agent_config(backends=[], **config))
    agent.create_backend(backend, params)
    return agent, name


@pytest.mark.parametrize("direct", [False, True])
def test_lmcaches_pool_of_files_is_written_and_read_by_number(tmp_path, direct):
    sync = getattr(nixl_thread_sync_t, "NIXL_THREAD_SYNC_RW")
    agent, name = agent_of_storage("POSIX", {"file_path": str(tmp_path), "use_direct_io": str(direct)}, enable_prog_thread=True, sync_mode=sync)
    memory = aligned(PAGE * PAGES)
    registered = agent.register_memory([(*page, "") for page in pages_of(memory)], mem_type="DRAM")  # a page each
    local = agent.prep_xfer_dlist("", agent.get_xfer_descs(pages_of(memory), mem_type="DRAM"), mem_type="DRAM")
    flags = os.O_CREAT | os.O_RDWR | (os.O_DIRECT if direct else 0)
    fds = [os.open(tmp_path / f"obj_{i}.bin", flags) for i in range(8)]
    rows = [(offset, PAGE, fd) for fd in fds for offset in (0, PAGE)]
    files = agent.register_memory([(0, 2 * PAGE, fd, "") for fd in fds], mem_type="FILE")
    storage = agent.prep_xfer_dlist(name, rows, mem_type="FILE")
    memory[:] = np.arange(PAGES, dtype=np.uint8).repeat(PAGE)
    written = agent.make_prepped_xfer("WRITE", local, [20, 21, 22], storage, [15, 0, 3])
    until_done(agent, written)
    agent.release_xfer_handle(written)
    assert (tmp_path / "obj_1.bin").read_bytes() == bytes(PAGE) + b"\x16" * PAGE
    memory[:] = 0
    read = agent.make_prepped_xfer("READ", local, [1, 2], storage, [0, 15])
    until_done(agent, read)
    agent.release_xfer_handle(read)
    assert [value(memory, i) for i in range(4)] == [0, 21, 20, 0]
    agent.release_dlist_handle(storage)
    agent.release_dlist_handle(local)
    agent.deregister_memory(files)
    agent.deregister_memory(registered)
    for fd in fds:
        os.close(fd)


# LMCache: distributed/l2_adapters/nixl_store_agents: a file is registered for one transfer.


class Files:
    def __init__(self, folder):
        self.folder = folder
        self.agent, self.name = agent_of_storage("POSIX", {"file_path": str(folder), "use_direct_io": "false"})
        self.memory = aligned(PAGE * 8)
        self.agent.register_memory([(self.memory.ctypes.data, self.memory.nbytes, 0, "")], mem_type="DRAM")
        self.local = self.agent.prep_xfer_dlist("", self.agent.get_xfer_descs(pages_of(self.memory), mem_type="DRAM"), mem_type="DRAM")

    def move(self, operation, fd, pages):
        agent = self.agent
        file = agent.register_memory([(0, len(pages) * PAGE, fd, "")], mem_type="FILE")
        rows = agent.get_xfer_descs([(i * PAGE, PAGE, fd) for i in range(len(pages))], mem_type="FILE")
        storage = agent.prep_xfer_dlist(self.name, rows, mem_type="FILE")
        try:
            handle = agent.make_prepped_xfer(operation, self.local, pages, storage, list(range(len(pages))))
            try:
                until_done(agent, handle)
            finally:
                agent.release_xfer_handle(handle)
        finally:
            agent.release_dlist_handle(storage)
            agent.deregister_memory(file)

    def store(self, name, pages):
        fd = os.open(self.folder / f"{name}.tmp", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        try:
            self.move("WRITE", fd, pages)
        finally:
            os.close(fd)
        os.rename(self.folder / f"{name}.tmp", self.folder / name)

    def load(self, name, pages):
        fd = os.open(self.folder / name, os.O_RDONLY)
        try:
            self.move("READ", fd, pages)
        finally:
            os.close(fd)


def test_lmcaches_file_per_chunk_is_written_read_and_a_miss_where_it_is_not_whole(tmp_path):
    files = Files(tmp_path)
    for i in range(50):  # the descriptors have the same numbers again and again
        files.memory[: 2 * PAGE] = i
        files.store(f"chunk{i}", [0, 1])
    files.memory[:] = 255
    files.load("chunk7", [2, 3])
    files.load("chunk49", [5, 4])
    assert [value(files.memory, i) for i in range(8)] == [255, 255, 7, 7, 49, 49, 255, 255]
    os.truncate(tmp_path / "chunk3", PAGE)
    with pytest.raises(nixlBind.nixlBackendError, match="the file ends there"):
        files.load("chunk3", [6, 7])
    with pytest.raises(nixlBind.nixlBackendError):  # O_RDONLY
        fd = os.open(tmp_path / "chunk4", os.O_RDONLY)
        files.move("WRITE", fd, [0])
    os.close(fd)
    assert (tmp_path / "chunk4").read_bytes() == b"\4" * 2 * PAGE


def test_a_descriptor_that_is_another_file_by_now_is_never_taken_for_the_one_that_was_registered(tmp_path):
    files = Files(tmp_path)
    first = os.open(tmp_path / "first", os.O_CREAT | os.O_RDWR)
    registered = files.agent.register_memory([(0, PAGE, first, "")], mem_type="FILE")
    os.close(first)
    second = os.open(tmp_path / "second", os.O_CREAT | os.O_RDWR)
    assert second == first
    with pytest.raises(nixlBind.nixlBackendError, match="is another file than when it was registered"):
        files.move("WRITE", second, [0])
    files.agent.deregister_memory(registered)
    files.memory[:] = 9
    files.move("WRITE", second, [0])
    os.close(second)
    assert (tmp_path / "second").read_bytes() == b"\t" * PAGE and (tmp_path / "first").read_bytes() == b""


def test_pools_of_thousands_of_pages_and_objects_are_registered_in_a_moment():
    agent, name = agent_of_storage("OBJ", {"bucket": "bucket", "endpoint_override": "http://127.0.0.1:1", "access_key": "i", "secret_key": "s"})
    memory = aligned(PAGE * 8000)
    begin = time.monotonic()
    pages = agent.register_memory([(*page, "") for page in pages_of(memory)], mem_type="DRAM")
    objects = agent.register_memory([(0, PAGE, i, f"obj_{i}") for i in range(4000)], mem_type="OBJ")
    agent.prep_xfer_dlist(name, [(0, PAGE, i) for i in range(4000)], mem_type="OBJ")
    agent.deregister_memory(objects)
    agent.deregister_memory(pages)
    assert time.monotonic() - begin < 5, "about 30 s where each looks at all others"


# vLLM: distributed/kv_transfer/kv_connector/v1/nixl


def worker_agent(cache, **config):
    agent = nixl_agent(str(uuid.uuid4()), nixl_agent_config(capture_telemetry=True, **config))
    if config.get("backends") == []:  # with sleep mode, and for tiers in the host's memory
        agent.create_backend("UCX", {"num_threads": "4", "engine_config": "RCACHE_ENABLE=n,TLS=^cuda_ipc"})
    descs = agent.get_reg_descs([(cache.ctypes.data, cache.nbytes, 0, "")], "DRAM")
    agent.register_memory(descs, backends=["UCX"])
    rows = np.array([[cache.ctypes.data, PAGE, 0, PAGE, PAGES]], dtype=np.uint64)
    return agent, agent.prep_xfer_dlist("NIXL_INIT_AGENT", rows, mem_type="DRAM")


def vllm_reads(agent, local, mine, remote, theirs, request):
    """One request's blocks; the telemetry of its read."""
    handle = agent.make_prepped_xfer("READ", local, np.array(mine), remote, np.array(theirs), notif_msg=f"{request}:1".encode())
    agent.transfer(handle)
    try:
        while (state := agent.check_xfer_state(handle)) == "PROC":
            pass
        assert state == "DONE"
        return agent.get_xfer_telemetry(handle)
    finally:
        agent.release_xfer_handle(handle)


@pytest.mark.parametrize("config", [{"num_threads": 4}, {"backends": []}, {"backends": ["UCX", "POSIX"]}])
def test_vllms_worker_reads_blocks_of_strided_lists_and_tells_the_producer(worker, config):
    cache = np.full(PAGE * PAGES, 255, dtype=np.uint8)
    agent, local = worker_agent(cache, **config)
    name = agent.add_remote_agent(worker.metadata)
    remote = agent.prep_xfer_dlist(name, worker.strided(), mem_type="DRAM")
    seen = vllm_reads(agent, local, [1, 2, 3], remote, [15, 32 + 3, 0], "req-a")
    assert [value(cache, i) for i in range(5)] == [255, 30, 7, 0, 255]
    assert (seen.totalBytes, seen.descCount) == (3 * PAGE, 3) and seen.xferDuration > 0 and seen.postDuration > 0
    agent.send_notif(name, notif_msg=b"HB:req-a,req-b")
    assert json.loads(worker.ask("notified 2")) == ["req-a:1", "HB:req-a,req-b"]
    with pytest.raises(nixl.nixlInvalidParamError, match="past the end"):
        vllm_reads(agent, local, [1], remote, [PAGES], "req-b")


def test_vllms_worker_reads_again_after_the_producer_slept_and_fails_after_its_end(worker):
    cache = np.full(PAGE * PAGES, 255, dtype=np.uint8)
    agent, local = worker_agent(cache, num_threads=4)
    name = agent.add_remote_agent(worker.metadata)
    remote = agent.prep_xfer_dlist(name, worker.strided(), mem_type="DRAM")
    metadata = bytes.fromhex(worker.ask("again"))
    with pytest.raises(nixl.nixlRemoteDisconnectError, match="registered no more"):
        vllm_reads(agent, local, [0], remote, [1], "stale")
    assert agent.check_remote_metadata(name) and value(cache, 0) == 255
    agent.release_dlist_handle(remote)
    agent.remove_remote_agent(name)
    assert agent.add_remote_agent(metadata) == name
    remote = agent.prep_xfer_dlist(name, worker.strided(), mem_type="DRAM")
    vllm_reads(agent, local, [0], remote, [1], "fresh")
    assert value(cache, 0) == 2 and json.loads(worker.ask("notified 1")) == ["fresh:1"]
    worker.kill()
    with pytest.raises(nixl.nixlRemoteDisconnectError, match="has ended"):
        vllm_reads(agent, local, [0], remote, [3], "late")
    assert value(cache, 0) == 2 and not agent.check_remote_metadata(name)
    agent.release_dlist_handle(remote)
    agent.remove_remote_agent(name)


# vLLM: v1/kv_offload/tiering/p2p/data/nixl.py


def test_vllms_tier_writes_blocks_to_a_peer_and_cancels(worker):
    view = np.arange(PAGES, dtype=np.uint8).repeat(PAGE)
    agent, _ = worker_agent(view, backends=[])
    local = agent.prep_xfer_dlist("NIXL_INIT_AGENT", agent.get_xfer_descs(pages_of(view), mem_type="DRAM"))
    name = agent.add_remote_agent(worker.metadata)
    remote = agent.prep_xfer_dlist(name, agent.get_xfer_descs(worker.pages(), mem_type="DRAM"))
    handles = [agent.make_prepped_xfer("WRITE", local, np.array([i], dtype=np.int32), remote, np.array([63 - i], dtype=np.int32)) for i in range(8)]
    assert {agent.transfer(handle) for handle in handles} <= {"DONE", "PROC"}
    while any(agent.check_xfer_state(handle) == "PROC" for handle in handles):
        pass
    for handle in handles:
        agent.release_xfer_handle(handle)
    assert [json.loads(worker.ask(f"page {63 - i}")) for i in range(8)] == [[i, i] for i in range(8)]
    everything = np.arange(PAGES, dtype=np.int32)
    running = agent.make_prepped_xfer("WRITE", local, everything, remote, everything)
    agent.transfer(running)
    agent.release_xfer_handle(running)
    worker.kill()
    lost = agent.make_prepped_xfer("WRITE", local, everything, remote, everything)
    with pytest.raises(Exception) as error:
        agent.transfer(lost)
        while agent.check_xfer_state(lost) == "PROC":
            pass
    assert type(error.value).__name__ == "nixlRemoteDisconnectError"  # by its name, as vLLM looks for it
