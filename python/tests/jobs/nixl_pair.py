"""Two agents under NIXL's Python interface, with the backend WEFT, in two processes; the library is what `import nixl` finds.

  nixl_pair.py target       prints its metadata, reads the peer's on stdin, serves until the peer's notification
  nixl_pair.py initiator    reads metadata on stdin, prints its own; reads, writes and notifies; prints a line of JSON
"""

import json
import os
import sys
import time

os.environ.setdefault("NIXL_LOG_LEVEL", "FATAL")
import numpy as np
from nixl._api import nixl_agent, nixl_agent_config

PAGE, PAGES = 4096, 256
LARGE = bytes(range(256)) * 400  # a notification of 100 KB


def rows(data, pages):
    return [(data.ctypes.data + PAGE * i, PAGE, 0) for i in pages]


def settle(agent, handle):
    state, until = agent.transfer(handle), time.monotonic() + 20
    while state == "PROC" and time.monotonic() < until:
        state = agent.check_xfer_state(handle)
    return state


def notifications(agent, wanted):
    found, until = [], time.monotonic() + 20
    while len(found) < wanted and time.monotonic() < until:
        for name, messages in agent.get_new_notifs().items():
            found += [[name, len(m), m[:8].decode()] for m in messages]
    return found


def target(agent, data):
    data[:] = np.arange(len(data), dtype=np.uint64).view(np.uint8)[: len(data)]
    print(json.dumps([agent.get_agent_metadata().hex(), data.ctypes.data]), flush=True)
    agent.add_remote_agent(bytes.fromhex(json.loads(sys.stdin.readline())))
    came = notifications(agent, 4)
    written = bool((data[: PAGE * 8] == 9).all() and (data[PAGE * 8 :] != 9).any())
    agent.send_notif("initiator", b"seen")
    print(json.dumps({"came": came, "written": written}), flush=True)
    sys.stdin.readline()


def initiator(agent, data):
    metadata, there = json.loads(sys.stdin.readline())
    name = agent.add_remote_agent(bytes.fromhex(metadata))
    print(json.dumps(agent.get_agent_metadata().hex()), flush=True)
    pages = list(range(PAGES))
    remote = [(there + PAGE * i, PAGE, 0) for i in pages]
    said = {"peer": name if isinstance(name, str) else name.decode()}
    turned = pages[::-1]
    read = agent.initialize_xfer("READ", agent.get_xfer_descs(rows(data, turned), "DRAM"), agent.get_xfer_descs(remote, "DRAM"), "target", b"read")
    said["read"] = settle(agent, read)
    whole = np.arange(PAGE * PAGES, dtype=np.uint64).view(np.uint8)[: PAGE * PAGES].reshape(PAGES, PAGE)[::-1]
    said["right"] = bool((data.reshape(PAGES, PAGE) == whole).all())
    said["again"] = settle(agent, read)
    data[: PAGE * 8] = 9
    local, far = agent.prep_xfer_dlist("", rows(data, pages), "DRAM"), agent.prep_xfer_dlist("target", remote, "DRAM")
    write = agent.make_prepped_xfer("WRITE", local, list(range(8)), far, list(range(8)), b"written")
    said["write"] = settle(agent, write)
    agent.send_notif("target", LARGE)
    said["came"] = notifications(agent, 1)
    for handle in (read, write):
        agent.release_xfer_handle(handle)
    try:
        agent.initialize_xfer("READ", agent.get_xfer_descs(rows(data, [0]), "DRAM"), agent.get_xfer_descs([(64, PAGE, 0)], "DRAM"), "target")
        said["elsewhere"] = "made"
    except Exception as error:
        said["elsewhere"] = type(error).__name__
    agent.remove_remote_agent("target")
    print(json.dumps(said), flush=True)


def main():
    role = sys.argv[1]
    agent = nixl_agent(role, nixl_agent_config(backends=["WEFT"]))
    data = np.zeros(PAGE * PAGES, dtype=np.uint8)
    agent.register_memory([(data.ctypes.data, data.nbytes, 0, "")], "DRAM")
    {"target": target, "initiator": initiator}[role](agent, data)


if __name__ == "__main__":
    main()
