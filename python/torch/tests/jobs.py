"""Jobs of one rank: NAME RANK RANKS FILE BACKEND."""

import os
from datetime import timedelta

import torch
import torch.distributed as dist
import failure_jobs
import training_jobs
from rank import main, sentence


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


def groups(rank, ranks):
    pair = dist.new_group([0, 1])
    x = torch.ones(1)
    if rank < 2:
        dist.all_reduce(x, group=pair)
        assert x == 2
    dist.barrier()
    assert rank == 2 or dist.get_backend(pair) == "weft"
    print("right")


def reproducible(rank, ranks):
    """The first sums have the same bits whatever follows them, and are those of the ranks in their order."""
    import weftcomm_torch

    group = dist.new_group(backend="weft", pg_options=weftcomm_torch.Options(reproducible=True))
    for dtype in (torch.float32, torch.bfloat16, torch.float16, torch.float8_e4m3fn, torch.float8_e5m2):
        inputs = []
        for r in range(ranks):
            random = torch.Generator().manual_seed(r)
            values = torch.randn(1 << 17, generator=random) * torch.exp2(torch.randint(-6, 7, (1 << 17,), generator=random))
            inputs.append(values.to(dtype))
        found = []
        for count in (64, 1000, 1 << 12, 1 << 17):
            x = inputs[rank][:count].clone()
            dist.all_reduce(x, group=group)
            found.append(x[:64].view(torch.uint8))
        part = torch.empty((1 << 17) // ranks, dtype=dtype)
        dist.reduce_scatter_tensor(part, inputs[rank][: part.numel() * ranks].clone(), group=group)
        if rank == 0:
            found.append(part[:64].view(torch.uint8))
        assert all(torch.equal(found[0], other) for other in found[1:]), dtype
        if dtype == torch.float32:
            total = inputs[0][:64].clone()
            for other in inputs[1:]:
                total += other[:64]
            assert torch.equal(found[0], total.view(torch.uint8))
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


def recorded_by_torchs_hook(rank, ranks):
    import json

    from torch._C._distributed_c10d import FlightRecorderHook, _dump_fr_trace_json

    def recorded():
        try:
            return json.loads(_dump_fr_trace_json(backend="weft"))["entries"]  # torch 2.15: a recorder for every backend
        except TypeError:
            return json.loads(_dump_fr_trace_json())["entries"]

    group = dist.distributed_c10d._get_default_group()
    attached = getattr(dist.distributed_c10d._world, "pg_flight_recorder_hooks", {})  # torch 2.15 attaches one itself
    hook = attached.get(group) or FlightRecorderHook.attach(group)
    dist.all_reduce(torch.ones(3))
    dist.all_gather_into_tensor(torch.empty(2 * ranks), torch.ones(2))
    dist.all_reduce(torch.ones(5), async_op=True).wait()
    entries = recorded()
    assert [e["collective_seq_id"] for e in entries] == [1, 2, 3], entries
    assert [e["input_sizes"] for e in entries] == [[[3]], [[2]], [[5]]], entries
    hook.remove()
    dist.barrier()
    assert len(recorded()) == 3
    print("right")


if __name__ == "__main__":
    main({**vars(training_jobs), **vars(failure_jobs), **globals()})
