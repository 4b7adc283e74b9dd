import signal

import numpy as np

import weftcomm as weft

signal.signal(signal.SIGINT, signal.default_int_handler)  # also where a shell started this in its background
a, b = weft.threads(2)
print("waiting", flush=True)
try:
    a.all_reduce(np.ones(1))
except KeyboardInterrupt:
    print("KeyboardInterrupt", end="", flush=True)
try:
    b.all_reduce(np.ones(1))  # may end well: rank 0 had sent its part
    b.all_reduce(np.ones(1))
except weft.Aborted:
    print(", then Aborted", flush=True)
