#!/usr/bin/env python3
"""Two ranks on one GPU through NCCL's C interface, from one thread: is the sum right, and how long does it take?

  nccl_ranks.py --library PATH|installed [--bytes N]

`installed` is the NCCL that Python's nvidia-nccl package has. Memory and streams are PyTorch's. The last line is a result or
the library's own words of refusal. Exit: 0 right or refused by NVIDIA's library (which has one rank per GPU), 1 otherwise.
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


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--library", required=True)
    parser.add_argument("--bytes", type=int, default=1 << 20)
    options = parser.parse_args()
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
