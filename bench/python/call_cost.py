"""What a call from Python costs over one from C++: an in-place all_reduce of 8 bytes on one rank, which moves nothing.

call_cost.py WEFT    the command, whose `bench --ranks 1` makes the same call from C++
"""

import json
import subprocess
import sys
import time

import numpy as np

import weftcomm

comm = weftcomm.threads(1)[0]
x = np.ones(2, "float32")


def least(call, blocks=50, calls=2000):
    times = []
    for _ in range(blocks):
        begin = time.perf_counter()
        for _ in range(calls):
            call()
        times.append((time.perf_counter() - begin) / calls)
    return min(times) * 1e6


def nothing():
    pass


command = [
    sys.argv[1],
    "bench",
    "all_reduce",
    "--ranks",
    "1",
    "--min",
    "8",
    "--max",
    "8",
    "--in-place",
    "--transport",
    "threads",
    "--unregistered",
    "--json",
    "-",
]
cxx = min(
    json.loads(subprocess.run(command, capture_output=True, check=True).stdout)["rows"][0]["time_us"] for _ in range(5)
)
python, empty = least(lambda: comm.all_reduce(x, out=x)), least(nothing)
print(
    f"all_reduce of 8 B in place, one rank: C++ {cxx:.3f} us, Python {python:.3f} us, difference {python - cxx:.3f} us "
    f"(an empty function: {empty:.3f} us)"
)
