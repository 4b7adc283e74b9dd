"""Agents of NIXL's own wheel with weft's plugin (make nixl-plugin), and agents of weft under NIXL's names: every pair of both."""

import ctypes
import importlib.util
import json
import os
import pathlib
import subprocess
import sys

import pytest

from weftcomm import nixl
from weftcomm.nixl import _serdes

PROGRAM = pathlib.Path(__file__).parent / "jobs" / "nixl_pair.py"
PLUGIN = pathlib.Path(os.environ.get("WEFT_NIXL_PLUGIN") or pathlib.Path(__file__).parents[2] / "build" / "nixl")


def start(library, role):
    """library: "nixl", the wheel with weft's plugin, or "weft"."""
    path = [nixl.path()] if library == "weft" else []
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([*path, os.environ.get("PYTHONPATH", "")]), "NIXL_PLUGIN_DIR": str(PLUGIN)}
    environment.pop("WEFT_KEY", None)
    return subprocess.Popen([sys.executable, PROGRAM, role], env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def carry(source, destination):
    line = source.stdout.readline()
    assert line, "a side has ended"
    destination.stdin.write(line)
    destination.stdin.flush()


def needs_the_plugin():
    if importlib.util.find_spec("nixl_cu12") is None and importlib.util.find_spec("nixl_cu13") is None:
        pytest.skip("NIXL's wheel is not installed: pip install --no-deps nixl nixl-cu12")
    if not (PLUGIN / "libplugin_WEFT.so").exists():
        pytest.skip("weft's plugin is not built: make nixl-plugin NIXL=FOLDER")


@pytest.mark.parametrize("initiator", ["nixl", "weft"])
@pytest.mark.parametrize("target", ["nixl", "weft"])
def test_agents_of_nixl_and_of_weft_read_and_write_each_other(target, initiator):
    if "nixl" in (target, initiator):
        needs_the_plugin()
    here, there = start(initiator, "initiator"), start(target, "target")
    try:
        carry(there, here)
        carry(here, there)
        said, seen = json.loads(here.stdout.readline() or "null"), json.loads(there.stdout.readline() or "null")
    finally:
        for side in (here, there):
            side.kill()
            side.wait()
    elsewhere = said.pop("elsewhere")
    assert elsewhere.endswith("NotFoundError"), elsewhere
    assert said == {"peer": "target", "read": "DONE", "right": True, "again": "DONE", "write": "DONE", "came": [["target", 4, "seen"]]}
    assert seen["written"]
    assert [n[:2] for n in seen["came"]] == [["initiator", 4], ["initiator", 4], ["initiator", 7], ["initiator", 102400]]


def test_memory_may_be_registered_twice_with_nixls_own_library_and_must_be_there():
    needs_the_plugin()
    program = """
import numpy as np
from nixl._api import nixl_agent, nixl_agent_config
agent = nixl_agent("a", nixl_agent_config(backends=["WEFT"]))
source, target = np.full(8192, 5, np.uint8), np.zeros(8192, np.uint8)
begin = source.ctypes.data
whole, part, _ = [agent.register_memory([(a, n, 0, "")], "DRAM") for a, n in ((begin, 8192), (begin + 1024, 1024), (target.ctypes.data, 8192))]
try:
    agent.register_memory([(0x10000, 4096, 0, "")], "DRAM")
except Exception as error:
    print(type(error).__name__)
local, remote = (agent.get_xfer_descs([(a, 64, 0)], "DRAM") for a in (target.ctypes.data, begin + 1024))
read = agent.initialize_xfer("READ", local, remote, "a")
def moved():
    target[:] = 0
    state = agent.transfer(read)
    while state == "PROC":
        state = agent.check_xfer_state(read)
    return state, int(target.sum())
print(moved())
agent.deregister_memory(part)
print(moved())
agent.release_xfer_handle(read)
agent.deregister_memory(whole)
"""
    environment = {**os.environ, "NIXL_LOG_LEVEL": "FATAL", "NIXL_PLUGIN_DIR": str(PLUGIN)}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, timeout=60)
    assert [line for line in done.stdout.splitlines() if line.startswith(("nixl", "("))] == ["nixlBackendError", "('DONE', 320)", "('DONE', 320)"], done.stderr


def agent_with_memory(name):
    agent = nixl.nixl_agent(name, nixl.nixl_agent_config(backends=["WEFT"]))
    data = bytearray(4096)
    agent.register_memory([(ctypes.addressof(ctypes.c_char.from_buffer(data)), 4096, 0, "")], "DRAM")
    return agent, data


def test_metadata_in_nixls_form_that_is_cut_or_of_others_is_one_error():
    a, _kept = agent_with_memory("a")
    b, _kept_too = agent_with_memory("b")
    whole = a.get_agent_metadata()
    assert whole.startswith(_serdes.MAGIC)
    for at in range(len(_serdes.MAGIC), len(whole), 7):
        with pytest.raises(nixl.nixlMismatchError):
            b.add_remote_agent(whole[:at])
    name, parts = _serdes.read(whole)
    with pytest.raises(nixl.nixlMismatchError, match="memory of agent 'a'"):
        b.add_remote_agent(_serdes.write("c", parts[0], []))
    others = whole.replace(b"WEFT", b"UCX4")
    with pytest.raises(nixl.nixlMismatchError, match="no backend WEFT.*it has UCX4"):
        b.add_remote_agent(others)
    assert b.add_remote_agent(whole) == b"a"
