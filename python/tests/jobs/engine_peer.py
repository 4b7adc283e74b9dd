"""The other side of test_engine_calls.py: an engine's worker with a cache of pages, which prints its agent's metadata and the
cache's address, and then obeys lines: "page N", "notified N", "again", "add METADATA"."""

import json
import sys
import time

import numpy as np

from weftcomm.nixl import nixl_agent, nixl_agent_config

PAGE, PAGES = 4096, 64
cache = np.arange(PAGES, dtype=np.uint8).repeat(PAGE)
agent = nixl_agent("worker", nixl_agent_config(num_threads=4, capture_telemetry=True))
descs = agent.get_reg_descs([(cache.ctypes.data, cache.nbytes, 0, "")], "DRAM")
agent.register_memory(descs, backends=["UCX"])


def metadata():
    print(agent.get_agent_metadata().hex(), flush=True)


def notified(count):
    """The messages of all peers, as an engine reads them."""
    came = []
    until = time.monotonic() + 5
    while len(came) < count and time.monotonic() < until:
        for messages in agent.get_new_notifs().values():
            came += [message.decode() for message in messages]
    return came


metadata()
print(cache.ctypes.data, flush=True)
for line in sys.stdin:
    verb, _, rest = line.strip().partition(" ")
    if verb == "page":
        page = cache[int(rest) * PAGE : (int(rest) + 1) * PAGE]
        print(json.dumps([int(page.min()), int(page.max())]), flush=True)
    elif verb == "notified":
        print(json.dumps(notified(int(rest))), flush=True)
    elif verb == "add":
        print(agent.add_remote_agent(bytes.fromhex(rest)).decode(), flush=True)
    elif verb == "again":  # the cache is registered anew, as after a sleep
        agent.deregister_memory(descs)
        agent.register_memory(descs, backends=["UCX"])
        metadata()
