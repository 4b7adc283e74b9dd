#!/usr/bin/env python3
"""Times NIXL (UCX backend) between two processes: reads or writes of a list of blocks. One JSON line on stdout.

  nixl_peer.py OP BLOCK_BYTES BLOCKS

The remote blocks are in random order, as in `weft bench transfer`. Needs the packages nixl and nixl-cu12, installed
without their dependencies, and numpy.
"""
import json
import multiprocessing
import os
import random
import statistics
import sys
import time

os.environ.setdefault("NIXL_LOG_LEVEL", "ERROR")


def make_agent(name):
    from nixl._api import nixl_agent, nixl_agent_config
    return nixl_agent(name, nixl_agent_config(backends=["UCX"]))


def register(agent, data):
    descriptors = agent.get_reg_descs([(data.ctypes.data, data.nbytes, 0, "")], "DRAM")
    agent.register_memory(descriptors)


def serve(pipe, size):
    import numpy
    agent = make_agent("server")
    data = numpy.arange(size, dtype=numpy.uint8)
    register(agent, data)
    pipe.send((agent.get_agent_metadata(), data.ctypes.data))
    pipe.recv()


def main():
    op, block, blocks = sys.argv[1].upper(), int(sys.argv[2]), int(sys.argv[3])
    size = block * blocks
    context = multiprocessing.get_context("spawn")
    pipe, far = context.Pipe()
    server = context.Process(target=serve, args=(far, size), daemon=True)
    server.start()
    import numpy
    agent = make_agent("bench")
    data = numpy.zeros(size, dtype=numpy.uint8)
    register(agent, data)
    metadata, address = pipe.recv()
    peer = agent.add_remote_agent(metadata)
    order = list(range(blocks))
    random.Random(1).shuffle(order)
    local = [(data.ctypes.data + i * block, block, 0) for i in range(blocks)]
    remote = [(address + i * block, block, 0) for i in order]
    request = agent.initialize_xfer(op, agent.get_xfer_descs(local, "DRAM"), agent.get_xfer_descs(remote, "DRAM"), peer)
    if blocks > 1 or size <= 1 << 20:
        repetitions = max(1, min(2000, (4 << 20) // size))
    else:
        repetitions = 1
    times, posts = [], []
    for _ in range(8):
        begin = time.perf_counter()
        post = 0.0
        for _ in range(repetitions):
            at = time.perf_counter()
            state = agent.transfer(request)
            post += time.perf_counter() - at
            while state == "PROC":
                state = agent.check_xfer_state(request)
            if state != "DONE":
                sys.exit(f"nixl: {state}")
        times.append((time.perf_counter() - begin) / repetitions)
        posts.append(post / repetitions)
    if op == "READ":
        expected = numpy.arange(size, dtype=numpy.uint8).reshape(blocks, block)[order].reshape(-1)
        if not numpy.array_equal(data, expected):
            sys.exit("nixl: wrong data")
    print(json.dumps({"time_us": statistics.median(times[1:]) * 1e6, "post_us": statistics.median(posts[1:]) * 1e6}))
    sys.stdout.flush()
    server.kill()
    os._exit(0)  # the wheel 1.5.1 crashes while its agent is destroyed


if __name__ == "__main__":
    main()
