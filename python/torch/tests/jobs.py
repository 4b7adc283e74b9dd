"""Programs of one rank: python jobs.py NAME RANK RANKS FILE BACKEND. Printed lines are what the tests look at."""

import os
import signal
import sys
import threading
import time
from datetime import timedelta

import torch
import torch.distributed as dist


def collectives(rank, ranks):
    for dtype in (torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int8, torch.uint8, torch.int32, torch.int64):
        x = torch.arange(10).to(dtype) + rank
        dist.all_reduce(x)
        assert torch.equal(x, (ranks * torch.arange(10) + sum(range(ranks))).to(dtype)), (dtype, x)
    x = torch.tensor([rank == 0, True, False])
    dist.all_reduce(x)
    assert x.tolist() == [True, True, False]
    x = torch.full((3,), rank + 1, dtype=torch.complex64)
    dist.all_reduce(x)
    assert x[0] == sum(range(1, ranks + 1))
    x = torch.tensor([float(rank + 1)])
    dist.all_reduce(x, dist.ReduceOp.AVG)
    assert x == (ranks + 1) / 2
    x = torch.full((4, 6), float(rank)).t()  # not contiguous
    dist.all_reduce(x)
    assert (x == sum(range(ranks))).all()
    dist.all_reduce(torch.empty(0))
    with torch.inference_mode():
        parts = [torch.empty(2) for _ in range(ranks)]
        dist.all_gather(parts, torch.full((2,), float(rank)))
        assert [p[0].item() for p in parts] == list(range(ranks))
        x = torch.full((4, 6), float(rank)).t()
        work = dist.all_reduce(x, async_op=True)
    work.wait()  # outside of the mode
    assert (x == sum(range(ranks))).all()
    x = torch.full((2, 3), rank, dtype=torch.int16)
    dist.broadcast(x, 1)
    assert (x == 1).all()
    parts = [torch.empty(3) for _ in range(ranks)]
    dist.all_gather(parts, torch.full((3,), float(rank)))
    assert [p[0].item() for p in parts] == list(range(ranks))
    uneven = [torch.empty(r + 1) for r in range(ranks)]
    dist.all_gather(uneven, torch.full((rank + 1,), float(rank)))
    assert [p.tolist() for p in uneven] == [[float(r)] * (r + 1) for r in range(ranks)]
    flat = torch.empty(ranks * 2)
    dist.all_gather_into_tensor(flat, torch.full((2,), float(rank)))
    assert flat.tolist() == [float(r) for r in range(ranks) for _ in range(2)]
    out = torch.empty(2)
    dist.reduce_scatter_tensor(out, torch.arange(2.0 * ranks))
    assert out.tolist() == [ranks * (2.0 * rank), ranks * (2.0 * rank + 1)]
    dist.reduce_scatter(out, [torch.full((2,), float(r)) for r in range(ranks)])
    assert out.tolist() == [float(ranks * rank)] * 2
    x = torch.full((2,), float(rank + 1))
    dist.reduce(x, 0)
    assert rank != 0 or x[0] == sum(range(1, ranks + 1))
    gathered = [torch.empty(1) for _ in range(ranks)] if rank == 0 else None
    dist.gather(torch.tensor([float(rank)]), gathered, 0)
    assert rank != 0 or [g.item() for g in gathered] == list(range(ranks))
    dist.scatter(out, [torch.full((2,), float(r)) for r in range(ranks)] if rank == 0 else None, 0)
    assert (out == rank).all()
    sizes = [[r + c + 1 for c in range(ranks)] for r in range(ranks)]  # from r to c
    send = torch.full((sum(sizes[rank]),), float(rank))
    receive = torch.empty(sum(sizes[r][rank] for r in range(ranks)))
    dist.all_to_all_single(receive, send, [sizes[r][rank] for r in range(ranks)], sizes[rank])
    assert receive.tolist() == [float(r) for r in range(ranks) for _ in range(sizes[r][rank])]
    lists = [torch.empty(1) for _ in range(ranks)]
    dist.all_to_all(lists, [torch.tensor([float(10 * rank + c)]) for c in range(ranks)])
    assert [t.item() for t in lists] == [10 * r + rank for r in range(ranks)]
    sparse = torch.sparse_coo_tensor([[rank, 5]], [1.0, 2.0], (8,))
    dist.all_reduce(sparse)
    assert sparse.to_dense()[5] == 2 * ranks and sparse.to_dense()[rank] == 1
    import torch.distributed._functional_collectives as functional

    assert functional.all_reduce(torch.ones(2), "sum", dist.group.WORLD).tolist() == [ranks] * 2
    dist.barrier()
    print("right")


def objects(rank, ranks):
    everything = [None] * ranks
    dist.all_gather_object(everything, {"rank": rank, "text": "x" * (rank * 1000)})
    assert [e["rank"] for e in everything] == list(range(ranks))
    one = [("from", rank)]
    dist.broadcast_object_list(one, 1)
    assert one == [("from", 1)]
    print("right")


def messages(rank, ranks):
    big = torch.full((1 << 20,), float(rank))
    other = torch.empty(1 << 20)
    peer = 1 - rank
    for work in [dist.isend(big, peer), dist.irecv(other, peer)]:  # neither rank receives before it sends
        work.wait()
    assert (other == peer).all()
    small = torch.empty(1)
    if rank == 0:
        dist.send(torch.tensor([3.0]), 1, tag=3)
        dist.send(torch.tensor([4.0]), 1, tag=4)
        assert dist.recv(small) == 1 and small == 5
    else:
        dist.recv(small, 0, tag=4)
        assert small == 4
        dist.recv(small, 0, tag=3)
        assert small == 3
        dist.send(torch.tensor([5.0]), 0)
    print("right")


def dropped(rank, ranks):
    """Groups end while their threads drop tensors that Python knows."""
    for n in range(30):
        group = dist.new_group()
        x, y = torch.full((4,), float(rank)), torch.empty(4)
        works = [dist.isend(x, 1 - rank, group=group), dist.irecv(y, 1 - rank, group=group), dist.all_reduce(torch.ones(4), async_op=True, group=group)]
        del x
        works.pop(1).wait()
        assert y[0] == 1 - rank
        del works
        dist.destroy_process_group(group)
        del group
    print("right")


def asynchronous(rank, ranks):
    xs = [torch.full((1000,), float(i)) for i in range(20)]
    works = [dist.all_reduce(x, async_op=True) for x in xs]
    y = torch.ones(1)
    dist.all_reduce(y)  # behind the queued ones
    assert all(w.is_completed() for w in works)
    assert [x[0].item() for x in xs] == [2.0 * i for i in range(20)]
    future = dist.all_reduce(torch.ones(3), async_op=True).get_future().then(lambda f: f.value()[0] * 10)
    assert future.wait().tolist() == [20.0] * 3

    def chained(f):  # as PowerSGD does: waits for a collective inside a callback
        z = f.value()[0].clone()
        return dist.all_reduce(z, async_op=True).get_future().wait()[0]

    future = dist.all_reduce(torch.ones(1 << 18), async_op=True).get_future().then(chained)
    assert future.wait()[0] == 4
    print("right")


def coalesced(rank, ranks):
    for wait in (True, False):
        xs = [torch.full((i + 1,), float(rank + i)) for i in range(3)]
        with dist._coalescing_manager(device=torch.device("cpu"), async_ops=not wait) as block:
            for x in xs:
                dist.all_reduce(x)
        assert len(block.works) == (0 if wait else 1)
        block.wait()
        assert [x[0].item() for x in xs] == [sum(range(ranks)) + i * ranks for i in range(3)], xs
    x = torch.full((2,), float(rank + 1))
    dist.all_reduce_coalesced([x, x])  # a tensor that is listed twice
    assert x[0] == sum(range(1, ranks + 1)), x
    group = dist.distributed_c10d._get_default_group()
    group._enable_collectives_timing()
    work = dist.all_reduce(torch.ones(1 << 16), async_op=True)
    work.wait()
    assert 0 < work._get_duration() < 10_000  # ms
    outcome = dist.all_reduce(torch.ones(3), async_op=True).get_future_result().wait()
    assert torch._C._distributed_c10d.WorkResult(outcome) == torch._C._distributed_c10d.WorkResult.SUCCESS
    print("right")


def train(rank, ranks):
    from torch.nn.parallel import DistributedDataParallel

    torch.manual_seed(1)
    model = DistributedDataParallel(
        torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.ReLU(), torch.nn.Linear(256, 256), torch.nn.ReLU(), torch.nn.Linear(256, 10))
    )
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    torch.manual_seed(rank)
    for _ in range(20):
        loss = torch.nn.functional.cross_entropy(model(torch.randn(16, 64)), torch.randint(0, 10, (16,)))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    dist.all_reduce(loss := loss.detach())
    total = sum(p.double().sum().item() for p in model.parameters())
    print(f"loss {loss.item() / ranks:.6f} parameters {total:.6f}")


def is_shared(address):
    """Does a mapping of shared memory hold this address?"""
    for line in open("/proc/self/maps"):
        span, access = line.split()[:2]
        low, high = (int(x, 16) for x in span.split("-"))
        if low <= address < high:
            return access[3] == "s"
    return False


def buckets(rank, ranks):
    from torch.nn.parallel import DistributedDataParallel

    def hook(_, bucket):
        seen.append(is_shared(bucket.buffer().data_ptr()))
        return dist.all_reduce(bucket.buffer(), async_op=True).get_future().then(lambda f: f.value()[0] / ranks)

    seen = []
    model = DistributedDataParallel(torch.nn.Sequential(*(torch.nn.Linear(512, 512) for _ in range(8))), bucket_cap_mb=2)
    model.register_comm_hook(None, hook)
    for _ in range(3):  # torch makes its buckets anew after the first step
        model(torch.full((4, 512), rank + 1.0)).sum().backward()
    everywhere = torch.zeros(1)
    for p in model.parameters():
        everywhere += p.grad.sum()
    mine = everywhere.clone()
    dist.broadcast(everywhere, 0)
    assert everywhere == mine
    print(f"{len(seen)} buckets, registered: {all(seen)}, none: {not any(seen)}")
    dist.destroy_process_group()  # before the model and its buckets
    os._exit(0) if rank == 1 else None


def bf16_hook(rank, ranks):
    import weftcomm_torch
    from torch.nn.parallel import DistributedDataParallel

    torch.manual_seed(1)
    layers = torch.nn.Sequential(*(torch.nn.Linear(101, 101) for _ in range(4)))
    model = DistributedDataParallel(layers, bucket_cap_mb=0.05)
    model.register_comm_hook(None, weftcomm_torch.bf16_sum_hook)
    inputs = [torch.randn(3, 101) for _ in range(ranks)]
    for _ in range(2):
        layers.zero_grad()
        model(inputs[rank]).square().sum().backward()
    averaged = [p.grad.clone() for p in layers.parameters()]
    of_rank = []
    for x in inputs:
        layers.zero_grad()
        layers(x).square().sum().backward()
        of_rank.append([p.grad.bfloat16() for p in layers.parameters()])
    for got, *all_ranks in zip(averaged, *of_rank):
        total = torch.zeros_like(got)
        for part in all_ranks:
            total += part
        assert torch.equal(got, (total / ranks).bfloat16().float())
    print("right")


def _trained(rank, ranks, state, hook, steps=1):
    """The averaged gradients of a small model with a hook, and the exact ones."""
    from torch.nn.parallel import DistributedDataParallel

    torch.manual_seed(1)
    layers = torch.nn.Sequential(*(torch.nn.Linear(101, 101) for _ in range(4)))
    model = DistributedDataParallel(layers, bucket_cap_mb=0.05)
    model.register_comm_hook(state, hook)
    inputs = [torch.randn(3, 101) for _ in range(ranks)]
    sums = None
    for _ in range(steps):
        layers.zero_grad()
        model(inputs[rank]).square().sum().backward()
        got = torch.cat([p.grad.flatten() for p in layers.parameters()])
        sums = got if sums is None else sums + got
    exact = torch.zeros_like(sums)
    for x in inputs:
        layers.zero_grad()
        layers(x).square().sum().backward()
        exact += torch.cat([p.grad.flatten() for p in layers.parameters()]) / ranks
    return sums / steps, exact


def fp8_hook(rank, ranks):
    import weftcomm_torch

    got, exact = _trained(rank, ranks, None, weftcomm_torch.fp8_sum_hook, steps=2)
    # Two roundings of a sixteenth each, of the largest of a part.
    assert (got - exact).abs().max() <= exact.abs().max() / 8, (got - exact).abs().max()
    assert (got - exact).norm() < 0.05 * exact.norm()
    everywhere = got.clone()
    dist.broadcast(everywhere, 0)
    assert torch.equal(everywhere, got)
    print("right")


def topk_hook(rank, ranks):
    import weftcomm_torch

    all_of_it, exact = _trained(rank, ranks, weftcomm_torch.TopK(1.0), weftcomm_torch.topk_hook)
    assert torch.allclose(all_of_it, exact, rtol=1e-4, atol=1e-4)
    few, _ = _trained(rank, ranks, weftcomm_torch.TopK(0.1), weftcomm_torch.topk_hook)
    assert (few != 0).sum() <= 0.11 * ranks * few.numel()
    # What did not travel is kept: over many steps the average approaches the gradient.
    many, _ = _trained(rank, ranks, weftcomm_torch.TopK(0.1), weftcomm_torch.topk_hook, steps=60)
    assert (many - exact).norm() < 0.5 * (few - exact).norm(), ((many - exact).norm(), (few - exact).norm())
    try:
        weftcomm_torch.TopK(0)
    except ValueError as e:
        assert "above 0" in str(e)
    else:
        raise AssertionError("TopK(0) was taken")
    print("right")


def memory(rank, ranks):
    import weftcomm_torch

    x = weftcomm_torch.empty((1000, 500), torch.float64)
    assert is_shared(x.data_ptr()) and x.shape == (1000, 500) and x.dtype == torch.float64
    x.fill_(rank + 1)
    dist.all_reduce(x)
    assert (x == sum(range(1, ranks + 1))).all()
    assert weftcomm_torch.empty(7).dtype == torch.float32
    huge = weftcomm_torch.empty(1 << 28, torch.float64)  # 2 GiB: more than WEFT_HEAP
    assert not is_shared(huge.data_ptr())
    gloo = dist.new_group(backend="gloo")
    try:
        weftcomm_torch.empty(3, group=gloo)
    except ValueError as e:
        assert "gloo" in str(e)
        dist.barrier()  # gloo's ranks connect one after the other: none may leave before
        print("right")


def recorded(rank, ranks):
    import weftcomm_torch

    x = torch.ones(4, 2)
    for _ in range(3):
        dist.all_reduce(x)
    dist.all_reduce(x, async_op=True).wait()
    dist.broadcast(x, 1)
    dist.all_gather([torch.empty(3) for _ in range(ranks)], torch.ones(3))
    dist.all_gather_into_tensor(torch.empty(3 * ranks), torch.ones(3))
    dist.reduce_scatter_tensor(torch.empty(3), torch.ones(3 * ranks))
    dist.all_to_all_single(torch.empty(2 * ranks), torch.ones(2 * ranks))
    dist.barrier()
    pair = dist.new_group([0, 1], group_desc="pair")
    dist.all_reduce(x, group=pair)
    if rank == 0:
        dist.send(x, 1)
    else:
        dist.recv(x, 0)
    entries = weftcomm_torch.flight_record()["entries"]
    own = [e for e in entries if not e["is_p2p"] and e["process_group"][1] == "default_pg"]
    assert [e["collective_seq_id"] for e in own] == list(range(1, len(own) + 1)), own
    assert all(e["state"] == "completed" and e["duration_ms"] >= 0 for e in entries), entries
    assert entries[-1]["profiling_name"] == ("gloo:send 0->1" if rank == 0 else "gloo:recv 1<-0")
    assert weftcomm_torch.flight_record(only_active=True)["entries"] == []
    dist.barrier()
    weftcomm_torch.write_flight_record(os.environ["RECORDS"] + "/record_")
    print("right")


def powersgd(rank, ranks):
    from torch.distributed.algorithms.ddp_comm_hooks.powerSGD_hook import PowerSGDState, powerSGD_hook
    from torch.nn.parallel import DistributedDataParallel

    torch.manual_seed(1)
    model = DistributedDataParallel(torch.nn.Sequential(torch.nn.Linear(128, 128), torch.nn.Linear(128, 4)))
    model.register_comm_hook(PowerSGDState(None, start_powerSGD_iter=2), powerSGD_hook)
    for _ in range(5):
        model(torch.ones(4, 128) * (rank + 1)).sum().backward()
    print("right")


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


def groups(rank, ranks):
    pair = dist.new_group([0, 1])
    x = torch.ones(1)
    if rank < 2:
        dist.all_reduce(x, group=pair)
        assert x == 2
    dist.barrier()
    assert rank == 2 or dist.get_backend(pair) == "weft"
    print("right")


def sentence(call):
    """The class of what a call raises and its first line; torch appends where its own were raised."""
    try:
        call()
    except Exception as e:
        return f"{type(e).__name__}: {str(e).splitlines()[0]}"
    return "nothing"


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


def gather_single(rank, ranks):
    for root in range(ranks):
        for dtype in (torch.float32, torch.bool, torch.float8_e4m3fn):
            x = torch.tensor([rank % 2, 1, 0]).to(dtype)
            all_of_them = torch.empty(ranks, 3, dtype=dtype) if rank == root else None
            dist.gather_single(x, all_of_them, dst=root)
            if rank == root:
                assert all_of_them.float().tolist() == [[r % 2, 1, 0] for r in range(ranks)]
    across = torch.empty(2, 2 * ranks).t() if rank == 0 else None  # not contiguous
    work = dist.gather_single(torch.full((2, 2), rank + 1.0), across, async_op=True)
    work.wait()
    if rank == 0:
        assert across.flatten().tolist() == [r + 1.0 for r in range(ranks) for _ in range(4)], across
    said = sentence(lambda: dist.gather_single(torch.ones(2), torch.empty(2), dst=rank))  # every rank is its own root here
    assert said.startswith("ValueError: weft: the root's output must have"), said
    print("right")


def numbered(rank, ranks):
    group = dist.distributed_c10d._get_default_group()
    first = group._get_sequence_number_for_group()
    for n in range(1, 4):
        work = dist.all_reduce(torch.ones(1), async_op=True)
        work.wait()
        assert group._get_sequence_number_for_group() == first + n
        if hasattr(work, "_get_sequence_number"):
            assert work._get_sequence_number() == first + n
    if hasattr(work, "timeout"):
        assert work.timeout == timedelta(seconds=30), work.timeout
    print("right")


def pre_and_post_hooks(rank, ranks):
    from torch._C._distributed_c10d import HookOpName

    group = dist.distributed_c10d._get_default_group()
    before, after = [], []
    group.register_pre_hook(7, lambda a: before.append((a.op_id, a.name, a.async_op, [t.numel() for t in a.input_tensors], a.root)))
    group.register_post_hook(7, lambda a: after.append((a.op_id, a.name, a.work)))
    dist.all_reduce(torch.ones(3))
    dist.broadcast(torch.ones(2), 1)
    dist.all_reduce(torch.ones(5), async_op=True).wait()
    dist.barrier()
    if rank == 0:
        dist.send(torch.ones(4), 1)
    else:
        dist.recv(torch.ones(4), 0)
    message = HookOpName.SEND if rank == 0 else HookOpName.RECV
    names = [HookOpName.ALLREDUCE, HookOpName.BROADCAST, HookOpName.ALLREDUCE, HookOpName.BARRIER, message]
    assert [b[1] for b in before] == names and [a[1] for a in after] == names, (before, after)
    assert [b[0] for b in before] == [a[0] for a in after] and len({b[0] for b in before}) == 5
    assert before[0][3] == [3] and before[1][4] == 1 and before[2][2] is True and before[0][2] is False, before
    assert all(a[2] is None or a[2].is_completed() for a in after)
    group.unregister_pre_hook(7)
    group.unregister_post_hook(7)
    dist.barrier()
    assert len(before) == len(after) == 5
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


def recorded_by_torchs_hook(rank, ranks):
    import json

    from torch._C._distributed_c10d import FlightRecorderHook, _dump_fr_trace_json

    hook = FlightRecorderHook.attach(dist.distributed_c10d._get_default_group())
    dist.all_reduce(torch.ones(3))
    dist.all_gather_into_tensor(torch.empty(2 * ranks), torch.ones(2))
    dist.all_reduce(torch.ones(5), async_op=True).wait()
    entries = json.loads(_dump_fr_trace_json())["entries"]
    assert [e["collective_seq_id"] for e in entries] == [1, 2, 3], entries
    assert [e["input_sizes"] for e in entries] == [[[3]], [[2]], [[5]]], entries
    hook.remove()
    dist.barrier()
    assert len(json.loads(_dump_fr_trace_json())["entries"]) == 3
    print("right")


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


def main(jobs):
    name, rank, ranks, file, backend = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4], sys.argv[5]
    torch.set_num_threads(1)
    timeout = timedelta(seconds=30)
    if name == "other_size":  # rank 1 has another number of ranks
        size, timeout = ranks + rank, timedelta(seconds=20)
        print(sentence(lambda: dist.init_process_group(backend, init_method=f"file://{file}", rank=rank, world_size=size, timeout=timeout)))
        os._exit(sys.stdout.flush() or 0)
    options = {}
    if "TRANSPORT" in os.environ:
        import weftcomm_torch

        options["pg_options"] = weftcomm_torch.Options(timeout, transport=os.environ["TRANSPORT"])
    dist.init_process_group(backend, init_method=f"file://{file}", rank=rank, world_size=ranks, timeout=timeout, **options)
    jobs[name](rank, ranks)
    sys.stdout.flush()
    if dist.is_initialized():
        dist.destroy_process_group()


if __name__ == "__main__":
    main(globals())
