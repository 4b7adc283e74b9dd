"""Programs of one rank with windows, which torch has from 2.14 on: python window_jobs.py NAME RANK RANKS FILE BACKEND."""

import os
import signal
import sys
import time
from datetime import timedelta

import torch
import torch.distributed as dist
import weftcomm_torch
from rank import is_shared, main, sentence


def put_in_a_ring(rank, ranks):
    following, before = (rank + 1) % ranks, (rank - 1) % ranks
    for dtype in (torch.float32, torch.bfloat16, torch.int8, torch.bool, torch.complex64):
        for with_tensor in (True, False):
            mine = torch.zeros(ranks, 100).to(dtype)
            if with_tensor:
                window = dist._new_window(mine)
            else:
                window = dist._new_window()
                window.tensor_register(mine)
            for n in range(3):
                sent = torch.full((100,), (rank + n) % 2).to(dtype)
                window.put(sent, following, rank * 100, n == 1).wait()
                window.wait_signal(before, False)
                assert torch.equal(mine[before], torch.full((100,), (before + n) % 2).to(dtype)), (n, mine)
                dist.barrier()
            window.tensor_deregister()
    print("right")


def loads_and_stores(rank, ranks):
    plain = torch.arange(6.0).view(2, 3) + 100 * rank
    row = plain[1]  # a view of the storage that moves
    registered = weftcomm_torch.empty((4,), torch.float64)
    registered.fill_(rank)
    kept_at = registered.data_ptr()
    first, second = dist._new_window(plain), dist._new_window(registered)
    assert is_shared(plain.data_ptr()) and row.data_ptr() == plain[1].data_ptr() and row.tolist() == [100 * rank + n for n in (3, 4, 5)]
    assert registered.data_ptr() == kept_at
    peer = (rank + 1) % ranks
    theirs, doubles = first.map_remote_tensor(peer), second.map_remote_tensor(peer)
    assert theirs.shape == (2, 3) and theirs.dtype == torch.float32 and theirs[0, 0] == 100 * peer
    assert doubles.dtype == torch.float64 and doubles.tolist() == [peer] * 4
    assert torch.equal(first.map_remote_tensor(rank), plain)
    dist.barrier()
    theirs[1, 2] = -7 - rank  # a store into the peer's memory
    doubles.mul_(0).sub_(1)
    first.signal(peer, False)
    first.wait_signal((rank - 1) % ranks, False)
    assert row[2] == -7 - (rank - 1) % ranks
    dist.barrier()
    assert registered.tolist() == [-1] * 4
    from torch._C._distributed_c10d import WindowAccessType

    assert first.get_attr(peer).access_type == WindowAccessType.UNIFIED
    dist.all_reduce(plain)  # still a tensor like others
    first.tensor_deregister()
    second.tensor_deregister()
    print("right")


def signals_are_counted(rank, ranks):
    window = dist._new_window(torch.zeros(1))
    peer = 1 - rank
    for _ in range(5):
        window.signal(peer, True).wait()
    works = [window.wait_signal(peer, True) for _ in range(5)]
    for work in reversed(works):
        work.wait()
    assert all(work.is_completed() for work in works)
    pending = window.wait_signal(peer, True)
    assert not pending.is_completed()
    dist.barrier()
    said = sentence(lambda: pending.wait(timedelta(seconds=0.1)))
    assert said.startswith("DistBackendError: weft: Timed out in wait_signal: rank"), said
    dist.barrier()
    window.signal(peer, False)
    pending.wait()
    options = torch._C._distributed_c10d.WaitSignalOptions()
    options.timeout = timedelta(seconds=0.1)
    assert "Timed out" in sentence(lambda: window.wait_signal(peer, False, options))
    dist.barrier()
    window.signal(peer, False)
    window.wait_signal(peer, False)  # the one that the call before has not got
    dist.barrier()
    if rank == 0:
        time.sleep(0.5)
        window.signal(1, False)
    else:
        window.wait_signal(0, False)  # asleep by then
    window.tensor_deregister()
    print("right")


def sizes_differ(rank, ranks):
    mine = torch.zeros(3 + rank, dtype=torch.int64 if rank == 0 else torch.float32)
    window = dist._new_window(mine)
    peer = (rank + 1) % ranks
    theirs = window.map_remote_tensor(peer)
    assert theirs.shape == (3 + peer,) and theirs.dtype == (torch.int64 if peer == 0 else torch.float32)
    window.put(torch.ones(1, dtype=theirs.dtype), peer, 2 + peer, False)
    window.wait_signal((rank - 1) % ranks, False)
    assert mine[2 + rank] == 1
    window.tensor_deregister()
    print("right")


def refusals(rank, ranks):
    peer = (rank + 1) % ranks
    window = dist._new_window()
    for call in (lambda: window.put(torch.ones(1), peer, 0, False), lambda: window.signal(peer, False), lambda: window.map_remote_tensor(peer)):
        assert "not registered" in sentence(call), sentence(call)
    window.tensor_register(mine := torch.zeros(4))
    for call, says in (
        (lambda: window.tensor_register(mine), "double registration"),
        (lambda: window.put(torch.ones(2), peer, 3, False), f"put of 2 elements at 3 exceeds the window size of rank {peer}, 4 elements"),
        (lambda: window.put(torch.ones(1), peer, -1, False), "must be nonnegative"),
        (lambda: window.put(torch.ones(1), peer, sys.maxsize, False), "exceeds"),
        (lambda: window.put(torch.ones(1, dtype=torch.int32), peer, 0, False), "does not match"),
        (lambda: window.put(torch.ones(1), ranks, 0, False), f"rank {ranks} is not one of {ranks}"),
        (lambda: window.map_remote_tensor(-1), "rank -1 is not one of"),
    ):
        said = sentence(call)
        assert said.startswith("RuntimeError: weft: window: ") and says in said, said
    window.tensor_deregister()
    # What only one rank cannot register, no rank registers.
    import numpy

    other = torch.from_numpy(numpy.zeros(4)) if rank == 0 else torch.zeros(4)
    said = sentence(lambda: dist._new_window(other))
    assert ("NumPy" in said) if rank == 0 else ("rank 0 could not register" in said), said
    said = sentence(lambda: dist._new_window(torch.zeros(4, 4).t()))
    assert "must be contiguous" in said, said
    window = dist._new_window(mine)  # all is well afterwards
    window.put(torch.full((1,), 5.0), peer, 0, False)
    window.wait_signal((rank - 1) % ranks, False)
    assert mine[0] == 5
    window.tensor_deregister()
    print("right")


def without_shared_memory(rank, ranks):
    assert not dist._supports_window()
    said = sentence(lambda: dist._new_window(torch.ones(3)))
    assert said == "RuntimeError: weft: window: ranks of this group share no memory, as over TCP and UCX", said
    x = torch.ones(1)
    dist.all_reduce(x)
    assert x == ranks
    print("right")


def of_some_ranks(rank, ranks):
    pair = dist.new_group([0, 2])
    if rank != 1:
        mine = torch.zeros(2)
        window = dist._new_window(mine, group=pair)
        peer = 1 - dist.get_rank(pair)
        window.put(torch.full((2,), rank + 1.0), peer, 0, False)
        window.wait_signal(peer, False)
        assert mine.tolist() == [3.0 - rank] * 2
        window.tensor_deregister()
    dist.barrier()
    alone = dist.new_group([rank], use_local_synchronization=True)
    mine = torch.zeros(2)
    window = dist._new_window(mine, group=alone)
    window.put(torch.ones(1), 0, 1, False)
    window.wait_signal(0, False)
    assert mine.tolist() == [0, 1] and window.map_remote_tensor(0).data_ptr() == mine.data_ptr()
    print("right")


def killed_while_a_peer_waits(rank, ranks):
    window = dist._new_window(torch.zeros(1))
    dist.barrier()
    if rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    begin = time.monotonic()
    said = sentence(lambda: window.wait_signal(1, False))
    print(f"{said.split(':')[0]} names rank 1: {'rank 1' in said}, within a second: {time.monotonic() - begin < 1}", flush=True)
    os._exit(0)


if __name__ == "__main__":
    main(globals())
