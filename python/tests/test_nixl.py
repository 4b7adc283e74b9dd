"""weftcomm.nixl: the same program, step by step, as NIXL's own wheel."""

import importlib.util
import os
import pathlib
import pickle
import subprocess
import sys

import numpy as np
import pytest

import weftcomm
from weftcomm import nixl
from weftcomm.transfer import Agent

PROGRAM = pathlib.Path(__file__).parent / "jobs" / "nixl_steps.py"


def steps(path):
    """The lines that the program prints, with `path` before everything else where `import nixl` looks."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([*path, os.environ.get("PYTHONPATH", "")])}
    environment.pop("WEFT_KEY", None)
    done = subprocess.run([sys.executable, PROGRAM], capture_output=True, text=True, env=environment, timeout=120)
    return [line for line in done.stdout.splitlines() if line.startswith('["')], done.stderr


def test_an_unchanged_program_takes_the_steps_that_were_recorded_with_nixl_1_5_1():
    recorded = PROGRAM.with_suffix(".txt").read_text().splitlines()
    taken, errors = steps([nixl.path()])
    assert taken == recorded, errors


def test_an_unchanged_program_takes_the_same_steps_as_with_the_wheel():
    if importlib.util.find_spec("nixl_cu12") is None and importlib.util.find_spec("nixl_cu13") is None:
        pytest.skip("NIXL's wheel is not installed: pip install --no-deps nixl nixl-cu12")
    wheel, _ = steps([])
    taken, errors = steps([nixl.path()])
    assert taken == wheel, errors


def test_the_names_that_vllm_sglang_and_lmcache_import_are_there():
    program = (
        "import weftcomm.nixl; weftcomm.nixl.install()\n"
        "from nixl._api import nixl_agent, nixl_agent_config, nixl_prepped_dlist_handle, nixl_xfer_handle\n"
        "from nixl._bindings import nixlXferTelemetry, nixlRemoteDisconnectError, nixlBackendError\n"
        "from nixl._utils import malloc_passthru, free_passthru, ba_buf, verify_transfer\n"
        "from nixl.logging import get_logger\n"
        "import nixl; print(nixl.nixl_agent is nixl_agent)"
    )
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, text=True).stdout == "True\n"


def test_what_weft_does_not_move_is_one_clear_error():
    agent = nixl.nixl_agent("plain", nixl.nixl_agent_config())
    with pytest.raises(nixl.nixlNotSupportedError, match="memory of GPUs"):
        agent.register_memory([(4096, 64, 0, "")], "VRAM")
    data = np.zeros(8192, dtype=np.uint8)
    begin = data.ctypes.data
    agent.register_memory([(begin, 4096, 0, "")], "DRAM")
    with pytest.raises(nixl.nixlInvalidParamError, match="overlap region 0"):
        agent.register_memory([(begin + 2048, 4096, 0, "")], "DRAM")
    with pytest.raises(IndexError):
        agent.get_xfer_descs([(begin, 64, 0)], "DRAM")[7]
    with pytest.raises(nixl.nixlNotFoundError, match="end past region 0 of 4096 bytes"):
        agent.prep_xfer_dlist("", [(begin + 4000, 200, 0)], "DRAM")


def test_a_request_that_runs_is_not_posted_again_and_its_release_cancels_it():
    agent = nixl.nixl_agent("large", nixl.nixl_agent_config())
    data = np.zeros(64 << 20, dtype=np.uint8)
    half = data.nbytes // 2
    agent.register_memory([(data.ctypes.data, data.nbytes, 0, "")], "DRAM")
    lists = [agent.get_xfer_descs([(data.ctypes.data + at, half, 0)], "DRAM") for at in (0, half)]
    handle = agent.initialize_xfer("WRITE", *lists, "large")
    assert agent.transfer(handle) == "PROC"
    with pytest.raises(nixl.nixlRepostActiveError):
        agent.transfer(handle)
    agent.release_xfer_handle(handle)
    assert handle._request.state == "cancelled"
    with pytest.raises(nixl.nixlInvalidParamError, match="released"):
        agent.transfer(handle)


def test_with_a_key_peers_of_other_machines_find_an_address_in_the_metadata(monkeypatch):
    monkeypatch.setenv("WEFT_KEY", "a key for this test")
    agent = nixl.nixl_agent("listens")
    data = np.full(64, 5, dtype=np.uint8)
    agent.register_memory([(data.ctypes.data, 64, 0, "")], "DRAM")
    far = Agent("far", key="a key for this test", network="tcp", only_network=True)
    far.load(agent.get_agent_metadata())
    assert "tcp to " in far.explain("listens") and "0.0.0.0" not in far.explain("listens")
    here = far.allocate(64)
    far.read(far.prepare("", [(here.number, 0, 64)]), far.prepare("listens", [(0, 0, 64)])).run()
    assert here.array()[63] == 5
    stranger = Agent("stranger", key="another key, as long", network="tcp", only_network=True)
    with pytest.raises(weftcomm.InvalidArgument, match="another key"):
        stranger.load(agent.get_agent_metadata())


class Evil:
    def __reduce__(self):
        return (os.system, ("true",))


def test_serialized_lists_of_a_peer_run_nothing():
    agent = nixl.nixl_agent("careful", nixl.nixl_agent_config())
    with pytest.raises(nixl.nixlInvalidParamError, match="system is no part of a descriptor list"):
        agent.deserialize_descs(pickle.dumps(Evil()))


def test_agents_meet_by_torchs_store_where_the_environment_names_one(monkeypatch):
    distributed = pytest.importorskip("torch.distributed")
    store = distributed.TCPStore("127.0.0.1", 0, None, True)
    monkeypatch.setenv("NIXL_TCPSTORE_ENDPOINT", f"127.0.0.1:{store.port}")
    monkeypatch.setenv("NIXL_TCPSTORE_OP_TIMEOUT_MS", "200")
    a, b = nixl.nixl_agent("store-a"), nixl.nixl_agent("store-b")
    b.fetch_remote_metadata("store-a")  # nothing is there yet
    assert not b.check_remote_metadata("store-a")
    a.send_local_metadata()
    b.fetch_remote_metadata("store-a")
    assert b.check_remote_metadata("store-a")
    a.invalidate_local_metadata()
    c = nixl.nixl_agent("store-c")
    c.fetch_remote_metadata("store-a")
    assert not c.check_remote_metadata("store-a")
    for wrong in ("127.0.0.1", ":80", "127.0.0.1:70000", "127.0.0.1:x"):
        monkeypatch.setenv("NIXL_TCPSTORE_ENDPOINT", wrong)
        with pytest.raises(nixl.nixlInvalidParamError, match="must be host:port"):
            nixl.nixl_agent("store-d").send_local_metadata()
