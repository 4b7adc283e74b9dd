"""A peer for test_nixl_trust.py: prints its metadata, loads the other's, prints the address of its memory, obeys."""

import os
import sys

import numpy as np

from weftcomm import nixl
from weftcomm.transfer import Agent

data = np.zeros(1 << 24, dtype=np.uint8)
if sys.argv[1:] == ["far"]:
    agent = Agent("there", key=os.environ["WEFT_KEY"], listen="127.0.0.1:0")
    agent.add_memory(data)
    print(agent.metadata().hex(), flush=True)
    sys.stdin.readline()
else:
    agent = nixl.nixl_agent("there")
    agent.register_memory([(data.ctypes.data, data.nbytes, 0, "")], "DRAM")
    print(agent.get_agent_metadata().hex(), flush=True)
    agent.add_remote_agent(bytes.fromhex(sys.stdin.readline()))
print(data.ctypes.data, flush=True)
for line in sys.stdin:
    if line == "count\n":
        came = []
        while len(came) < 10_001:
            came += agent.get_new_notifs().get("here", [])
        order = "in order" if came[1:] == [b"%d" % i for i in range(10_000)] else "out of order"
        print(len(came[0]), sum(came[0]) % 65521, len(came) - 1, order, flush=True)
