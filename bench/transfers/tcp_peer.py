#!/usr/bin/env python3
"""One side of a read over TCP, by weft's agent, NIXL or Mooncake; bench/transfers/namespaces starts both.

  tcp_peer.py LIBRARY serve ADDRESS BYTES           prints a line that the other side needs, then waits for its stdin's end
  tcp_peer.py LIBRARY read ADDRESS BYTES LINE       prints the median time in microseconds
"""
import base64
import json
import os
import statistics
import sys
import time

os.environ.setdefault("NIXL_LOG_LEVEL", "FATAL")
os.environ.setdefault("MC_LOG_LEVEL", "ERROR")
os.environ["UCX_TLS"] = "tcp"
os.environ["UCX_WARN_UNUSED_ENV_VARS"] = "n"
import numpy

KEY = "a key for this benchmark"


class Weft:
    NETWORK = "tcp"

    def __init__(self, role, address, size):
        from weftcomm.transfer import Agent

        listen = f"{address}:0" if role == "serve" else ""
        self.agent = Agent(role, key=KEY, listen=listen, network=self.NETWORK, only_network=True)
        self.region = self.agent.allocate(size)
        self.data = self.region.array()

    def line(self):
        return base64.b64encode(self.agent.metadata()).decode()

    def connect(self, line):
        self.agent.load(base64.b64decode(line))
        rows = [(0, 0, len(self.data))]
        self.request = self.agent.read(self.agent.prepare("", rows), self.agent.prepare("serve", rows))

    def read(self):
        self.request.post()
        if self.request.wait() != "done":
            raise self.request.error


class WeftByUcx(Weft):
    NETWORK = "ucx"


class Nixl:
    def __init__(self, role, address, size):
        from nixl._api import nixl_agent, nixl_agent_config

        self.agent = nixl_agent(role, nixl_agent_config(backends=["UCX"]))
        self.data = numpy.zeros(size, dtype=numpy.uint8)
        self.agent.register_memory([(self.data.ctypes.data, size, 0, "")], "DRAM")

    def line(self):
        return base64.b64encode(self.agent.get_agent_metadata()).decode() + ":" + str(self.data.ctypes.data)

    def connect(self, line):
        metadata, address = line.split(":")
        peer = self.agent.add_remote_agent(base64.b64decode(metadata))
        local = self.agent.get_xfer_descs([(self.data.ctypes.data, self.data.nbytes, 0)], "DRAM")
        remote = self.agent.get_xfer_descs([(int(address), self.data.nbytes, 0)], "DRAM")
        self.request = self.agent.initialize_xfer("READ", local, remote, peer)

    def read(self):
        state = self.agent.transfer(self.request)
        while state == "PROC":
            state = self.agent.check_xfer_state(self.request)
        if state != "DONE":
            sys.exit(f"nixl: {state}")


class Mooncake:
    def __init__(self, role, address, size):
        from mooncake.engine import TransferEngine

        self.engine = TransferEngine()
        if self.engine.initialize(address, "P2PHANDSHAKE", "tcp", "") != 0:
            sys.exit("mooncake: initialize")
        self.data = numpy.zeros(size, dtype=numpy.uint8)
        self.engine.register_memory(self.data.ctypes.data, size)
        self.address = address

    def line(self):
        return f"{self.address}:{self.engine.get_rpc_port()}/{self.data.ctypes.data}"

    def connect(self, line):
        self.peer, address = line.split("/")
        self.there = int(address)

    def read(self):
        if self.engine.transfer_sync_read(self.peer, self.data.ctypes.data, self.there, self.data.nbytes) != 0:
            sys.exit("mooncake: read")


def main():
    library, role, address, size = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])
    side = {"weft": Weft, "weft-ucx": WeftByUcx, "nixl": Nixl, "mooncake": Mooncake}[library](role, address, size)
    if role == "serve":
        side.data[:] = numpy.arange(size, dtype=numpy.uint8)
        print(json.dumps(side.line()), flush=True)
        sys.stdin.read()
        os._exit(0)
    side.connect(json.loads(sys.argv[5]))
    repetitions = max(1, min(200, (16 << 20) // size))
    times = []
    for _ in range(8):
        begin = time.perf_counter()
        for _ in range(repetitions):
            side.read()
        times.append((time.perf_counter() - begin) / repetitions)
    if not numpy.array_equal(side.data, numpy.arange(size, dtype=numpy.uint8)):
        sys.exit(f"{library}: wrong data")
    print(json.dumps(statistics.median(times[1:]) * 1e6), flush=True)
    os._exit(0)  # the wheel 1.5.1 of NIXL crashes while its agent is destroyed


if __name__ == "__main__":
    main()
