import signal

import weftcomm as weft

signal.signal(signal.SIGINT, signal.default_int_handler)  # also where a shell started this in its background
a, b = weft.world_threads(2)
print("waiting", flush=True)
try:
    a.barrier()
except KeyboardInterrupt:
    print("KeyboardInterrupt", end="", flush=True)
try:
    b.barrier()  # may end well: rank 0 had sent its part
    b.barrier()
except weft.Aborted:
    print(", then Aborted", flush=True)
