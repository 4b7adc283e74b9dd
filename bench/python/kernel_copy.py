"""What one copy between two processes takes: by the kernel (process_vm_readv, as MPI's CMA), and by this process from memory
that both have mapped. `build/python/venv/bin/python bench/python/kernel_copy.py`; least of 100, in us and GB/s.
"""

import ctypes
import mmap
import os
import signal
import time

import numpy as np

LARGEST = 8 << 20


class Span(ctypes.Structure):
    _fields_ = [("base", ctypes.c_void_p), ("length", ctypes.c_size_t)]


def least(call):
    best = float("inf")
    for _ in range(100):
        begin = time.perf_counter()
        call()
        best = min(best, time.perf_counter() - begin)
    return best * 1e6


libc = ctypes.CDLL(None, use_errno=True)
shared = np.frombuffer(mmap.mmap(-1, LARGEST), np.uint8)
private, own = np.ones(LARGEST, np.uint8), np.zeros(LARGEST, np.uint8)
ready, go = os.pipe()
child = os.fork()
if child == 0:
    shared[:], private[:] = 3, 2  # the child's own pages from here on
    os.write(go, b"x")
    signal.pause()
os.read(ready, 1)
print("| bytes | kernel's copy (us, GB/s) | copy from shared memory (us, GB/s) |\n|---|---|---|")
size = 16 << 10
while size <= LARGEST:
    here, there = Span(own.ctypes.data, size), Span(private.ctypes.data, size)

    def by_kernel():
        got = libc.process_vm_readv(child, ctypes.byref(here), 1, ctypes.byref(there), 1, 0)
        assert got == size, os.strerror(ctypes.get_errno())

    kernel = least(by_kernel)
    assert own[0] == own[size - 1] == 2
    plain = least(lambda: np.copyto(own[:size], shared[:size]))
    print(f"| {size} | {kernel:.1f}, {size / kernel / 1e3:.1f} | {plain:.1f}, {size / plain / 1e3:.1f} |")
    size *= 4
os.kill(child, signal.SIGKILL)
os.waitpid(child, 0)
