"""A forked child that ends as programs do, with what it inherited, leaves its parent's memory and connections alone."""

import os
import sys

import numpy as np

import weftcomm as weft
from weftcomm import kv
from weftcomm.transfer import Agent

KEY = "0123456789abcdef" * 2
comm = weft.init()
x = comm.empty(100000)
x[:] = comm.rank + 1
queued = comm.all_reduce(np.ones(3), wait=False)
queued.wait()
half = comm.split(0)
agent = Agent(f"agent {comm.rank}", key=KEY, listen="127.0.0.1:0")
store = kv.Store(agent, 4, 4096, block_tokens=4)
server = store.serve(key=KEY)
place = weft.MeetingPlace(2)
for _ in range(2):
    child = os.fork()
    if child == 0:
        try:
            comm.all_reduce(x)
        except weft.InvalidArgument as e:
            assert "forked" in str(e)
        del x, half
        comm.abort("a child ends")
        sys.exit(0)  # not os._exit(): objects end
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
assert (x == comm.rank + 1).all(), f"the child has overwritten its parent's memory: {x[0]}"
total = comm.size * (comm.size + 1) / 2
assert (comm.all_reduce(x) == total).all()
assert half.all_reduce(np.float64(1)) == comm.size
client = kv.Client(Agent(f"client {comm.rank}", key=KEY), server.address, KEY)
client.match(list(range(8)))  # raises where the server has ended
print("right")
