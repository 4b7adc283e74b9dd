#!/usr/bin/env python3
"""Two ranks on one GPU through NCCL's C interface: is the sum right, and how long does it take?

  nccl_ranks.py --library PATH|installed [--bytes N] [--processes]

From one thread, or with --processes from a process each, whose buffers lie in a symmetric window. `installed` is the NCCL that
Python's nvidia-nccl package has. Memory and streams are PyTorch's. The last line is a result or the library's own words of
refusal. Exit: 0 right or refused by NVIDIA's library (which has one rank per GPU), 1 otherwise.
"""

import argparse
import ctypes
import glob
import os
import sys
import time

RANKS, FLOAT, SUM = 2, 7, 0


def installed():
    import nvidia.nccl
    return glob.glob(os.path.join(list(nvidia.nccl.__path__)[0], "lib", "libnccl.so*"))[0]


class Library:
    def __init__(self, path):
        self.calls = ctypes.CDLL(path)
        self.calls.ncclGetLastError.restype = ctypes.c_char_p

    def __call__(self, name, *arguments):
        result = getattr(self.calls, name)(*arguments)
        if result != 0:
            raise RuntimeError(f"{name}: {result}: {self.calls.ncclGetLastError(None).decode()}")


def all_reduce(nccl, comms, tensors, streams):
    nccl("ncclGroupStart")
    for comm, tensor, stream in zip(comms, tensors, streams):
        address = ctypes.c_void_p(tensor.data_ptr())
        nccl("ncclAllReduce", address, address, ctypes.c_size_t(tensor.numel()), FLOAT, SUM, comm,
             ctypes.c_void_p(stream.cuda_stream))
    nccl("ncclGroupEnd")


class UniqueId(ctypes.Structure):
    _fields_ = [("internal", ctypes.c_byte * 128)]


def rank_process(options, rank, receiver, sender):
    import torch
    torch.cuda.set_device(0)
    nccl = Library(installed() if options.library == "installed" else options.library)
    name = UniqueId()
    if rank == 0:
        nccl("ncclGetUniqueId", ctypes.byref(name))
        for _ in range(1, RANKS):
            os.write(sender, bytes(name.internal))
    else:
        name.internal[:] = [b - 256 if b > 127 else b for b in os.read(receiver, 128)]
    comm = ctypes.c_void_p()
    nccl("ncclCommInitRank", ctypes.byref(comm), RANKS, name, rank)
    count = options.bytes // 4
    # Large enough for memory of its own, which begins at a page: the window has the input and then the output.
    memory = torch.zeros(max(2 * count, 8 << 20), device="cuda")
    window = ctypes.c_void_p()
    nccl("ncclCommWindowRegister", comm, ctypes.c_void_p(memory.data_ptr()), ctypes.c_size_t(4 * memory.numel()),
         ctypes.byref(window), 1)
    stream = torch.cuda.Stream()
    memory[:count] = rank + 1
    torch.cuda.synchronize()

    def call():
        nccl("ncclAllReduce", ctypes.c_void_p(memory.data_ptr()), ctypes.c_void_p(memory.data_ptr() + 4 * count),
             ctypes.c_size_t(count), FLOAT, SUM, comm, ctypes.c_void_p(stream.cuda_stream))
    call()
    torch.cuda.synchronize()
    right = bool((memory[count:2 * count] == 3).all())
    begin = time.perf_counter()
    for _ in range(5):
        call()
    torch.cuda.synchronize()
    each = (time.perf_counter() - begin) / 5
    error = ctypes.c_int()
    nccl("ncclCommGetAsyncError", comm, ctypes.byref(error))
    nccl("ncclCommWindowDeregister", comm, window)
    nccl("ncclCommDestroy", comm)
    if rank == 0:
        print(f"all_reduce of {options.bytes} B on {RANKS} processes of one GPU: {'right' if right else 'WRONG'}, "
              f"error {error.value}, {each * 1e6:.1f} us")
    return 0 if right and error.value == 0 else 1


def processes(options):
    receiver, sender = os.pipe()
    children = []
    for rank in range(RANKS):
        child = os.fork()  # before torch is loaded
        if child == 0:
            sys.exit(rank_process(options, rank, receiver, sender))
        children.append(child)
    return max(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--library", required=True)
    parser.add_argument("--bytes", type=int, default=1 << 20)
    parser.add_argument("--processes", action="store_true")
    options = parser.parse_args()
    if options.processes:
        return processes(options)
    import torch
    nccl = Library(installed() if options.library == "installed" else options.library)
    comms = (ctypes.c_void_p * RANKS)()
    try:
        nccl("ncclCommInitAll", comms, RANKS, (ctypes.c_int * RANKS)(0, 0))
    except RuntimeError as error:
        print(f"refused: {error}")
        return 0 if options.library == "installed" else 1
    comms = [ctypes.c_void_p(c) for c in comms]
    streams = [torch.cuda.Stream() for _ in range(RANKS)]
    tensors = [torch.full((options.bytes // 4,), float(r + 1), device="cuda") for r in range(RANKS)]
    torch.cuda.synchronize()
    all_reduce(nccl, comms, tensors, streams)
    torch.cuda.synchronize()
    right = all(bool((t == 3).all()) for t in tensors)
    calls = 20
    begin = time.perf_counter()
    for _ in range(calls):
        all_reduce(nccl, comms, tensors, streams)
    torch.cuda.synchronize()
    each = (time.perf_counter() - begin) / calls
    for comm in comms:
        nccl("ncclCommDestroy", comm)
    print(f"all_reduce of {options.bytes} B on {RANKS} ranks of one GPU: {'right' if right else 'WRONG'}, {each * 1e6:.1f} us")
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())
