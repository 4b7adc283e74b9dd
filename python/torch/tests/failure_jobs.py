"""Jobs of one rank: what fails, and what the ranks learn."""

import os
import signal
import sys
import threading
import time
from datetime import timedelta

import torch
import torch.distributed as dist
from rank import sentence


def killed(rank, ranks):
    dist.all_reduce(torch.ones(1))
    if rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    begin = time.monotonic()
    try:
        for _ in range(1000):
            work = dist.all_reduce(torch.ones(1000), async_op=rank == 2)  # in the caller, and on the queue
            if work is not None:
                work.wait()
            time.sleep(0.001)
    except dist.DistBackendError as e:
        print(f"DistBackendError names rank 1: {'rank 1' in str(e)}, within a second: {time.monotonic() - begin < 1}")
    os._exit(0)


def late(rank, ranks):
    # The short timeout is the group's own: the first meeting waits for both interpreters to have imported torch.
    group = dist.new_group(timeout=timedelta(seconds=1))
    dist.all_reduce(torch.ones(1), group=group)
    if rank == 1:
        time.sleep(3)
        os._exit(0)
    try:
        dist.all_reduce(torch.ones(1), group=group)
    except dist.DistBackendError as e:
        print(f"timeout names rank 1: {'rank 1' in str(e)}", flush=True)
    os._exit(0)


def differs(rank, ranks):
    try:
        dist.all_reduce(torch.ones(4 if rank == 0 else 8))
    except RuntimeError as e:
        print("mismatch:", "4" in str(e) and "8" in str(e))
    os._exit(0)


def differs_after_some(rank, ranks):
    for _ in range(3):
        dist.all_reduce(torch.ones(2))
    differs(rank, ranks)


def forked(rank, ranks):
    dist.all_reduce(torch.ones(1))
    child = os.fork()
    if child == 0:
        print(sentence(lambda: dist.all_reduce(torch.ones(1))), flush=True)
        os._exit(0)
    os.waitpid(child, 0)
    x = torch.ones(1)
    dist.all_reduce(x)
    assert x == ranks
    os._exit(0)


def orphaned(rank, ranks):
    """A group whose store ends before it is made; the groups that exist go on."""
    store = dist.TCPStore("127.0.0.1", int(os.environ["STORE_PORT"]), is_master=rank == 0, timeout=timedelta(seconds=5))
    made = dist.PrefixStore("first", store)
    dist.barrier()
    if rank == 0:
        del made, store  # its server ends
        dist.barrier()
        os._exit(0)
    dist.barrier()
    time.sleep(0.2)
    from weftcomm_torch import _compiled

    adapter = _compiled()
    print(sentence(lambda: adapter.join(made, rank, ranks, adapter.Options(timeout=3.0))), flush=True)
    os._exit(0)


def restarted(rank, ranks):
    """As after torchrun's restart: the store still has the id of a meeting place that is no more."""
    from weftcomm_torch import _compiled

    adapter = _compiled()
    store = dist.FileStore(sys.argv[4] + ".restarts", ranks)
    for restarts in ("0", "1", "2"):
        os.environ["TORCHELASTIC_RESTART_COUNT"] = restarts
        if rank == 0:
            time.sleep(0.3)  # rank 1 looks into the store first
        group = adapter.join(store, rank, ranks, adapter.Options(timeout=20.0))
        x = torch.ones(1)
        group.allreduce([x]).wait()
        assert x == ranks
        del group
        dist.barrier()
    print("right")


def refused(rank, ranks):
    for call in (
        lambda: dist.all_reduce(torch.ones(1), dist.ReduceOp.BAND),
        lambda: dist.all_gather_into_tensor(torch.empty(3), torch.ones(1)),
        lambda: dist.group.WORLD.allreduce([torch.ones(1), torch.ones(1)]),  # gloo adds both
    ):
        try:
            call()
        except ValueError as e:
            assert str(e).startswith("weft: "), e
            continue
        raise AssertionError("not refused")
    x = torch.ones(1)
    dist.all_reduce(x)
    assert x == ranks
    print("right")


def abort_hooks(rank, ranks):
    backend = dist.distributed_c10d._get_default_group()._get_backend(torch.device("cpu"))
    dist.all_reduce(torch.ones(1))
    calls = []
    backend.register_abort_hook(1, lambda: calls.append("first"))
    backend.register_abort_hook(2, lambda: calls.append("unregistered"))
    backend.register_abort_hook(3, lambda: 1 / 0)  # a hook that fails is a warning
    backend.unregister_abort_hook(2)
    if rank == 1:
        time.sleep(0.2)
        backend.abort()
        assert calls == ["first"], calls
    said = sentence(lambda: dist.all_reduce(torch.ones(1)))
    assert said.startswith("DistBackendError: ") and "abort" in said and calls == ["first"], (said, calls)
    sentence(lambda: dist.all_reduce(torch.ones(1)))
    assert calls == ["first"], calls  # once
    assert backend.get_error() == torch._C._distributed_c10d.ErrorType.COMM_ERROR
    print("right")
    os._exit(sys.stdout.flush() or 0)


def abort_hooks_after_a_timeout(rank, ranks):
    backend = dist.distributed_c10d._get_default_group()._get_backend(torch.device("cpu"))
    dist.all_reduce(torch.ones(1))
    calls = []
    backend.register_abort_hook(1, lambda: calls.append("called"))
    backend.set_timeout(timedelta(seconds=0.5))
    if rank == 0:
        work = dist.all_reduce(torch.ones(1), async_op=True)  # on the queue's thread
        said = sentence(work.wait)
        assert "Timed out" in said and "rank 1" in said and calls == ["called"], (said, calls)
        assert backend.get_error() == torch._C._distributed_c10d.ErrorType.TIMEOUT
    else:
        time.sleep(1.5)
    print("right")
    os._exit(sys.stdout.flush() or 0)


def interrupted(rank, ranks):
    """Ctrl-C of a rank that waits in a call, or for a Work, comes at once, and the others learn of it."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    other = dist.new_group()
    dist.barrier()
    if rank == 1:
        time.sleep(3)
        print(sentence(lambda: [dist.all_reduce(torch.ones(1)) for _ in range(3)]))
        os._exit(sys.stdout.flush() or 0)
    for wait in (lambda: dist.all_reduce(torch.ones(1), group=other, async_op=True).wait(), lambda: dist.all_reduce(torch.ones(1))):
        sent = []
        threading.Timer(0.5, lambda: (sent.append(time.monotonic()), os.kill(os.getpid(), signal.SIGINT))).start()
        try:
            wait()
        except KeyboardInterrupt:
            print(f"KeyboardInterrupt soon: {time.monotonic() - sent[0] < 5}")
    os._exit(sys.stdout.flush() or 0)


def raises(rank, ranks):
    dist.barrier()
    if rank == 1:
        raise RuntimeError("no data")
    print(sentence(lambda: [dist.all_reduce(torch.ones(1)) for _ in range(3)]))
    os._exit(sys.stdout.flush() or 0)


def loses_the_store(rank, ranks):
    """A new group whose store's host has died is an error, not a wait for the timeout."""
    import socket
    import subprocess

    import weftcomm_torch

    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    text = f"import torch.distributed as d, time; s = d.TCPStore('127.0.0.1', {port}, is_master=True, wait_for_workers=False); print('on', flush=True); time.sleep(99)"
    host = subprocess.Popen([sys.executable, "-c", text], stdout=subprocess.PIPE)
    host.stdout.readline()
    store = dist.TCPStore("127.0.0.1", port, is_master=False, wait_for_workers=False)
    threading.Timer(1, host.kill).start()
    began = time.monotonic()
    options = weftcomm_torch.Options(timedelta(seconds=60))
    print(sentence(lambda: weftcomm_torch._compiled().join(store, 0, 2, options)), time.monotonic() - began < 30)
