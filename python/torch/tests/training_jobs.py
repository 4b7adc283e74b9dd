"""Jobs of one rank: trainings, hooks for gradients, and the memory of tensors."""

import os

import torch
import torch.distributed as dist
from rank import is_shared


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


def allocations(rank, ranks):
    import weftcomm_torch

    plain = torch.ones(1 << 16)
    with weftcomm_torch.allocations():
        x = torch.full((1 << 16,), rank + 1.0)
        weights = torch.nn.Linear(128, 256)
        weights(torch.ones(64, 128)).square().sum().backward()
        with weftcomm_torch.allocations():
            small, inner = torch.ones(8), torch.ones(1 << 12)
        assert is_shared(torch.zeros(1 << 12).data_ptr()), "the inner block ended the outer one"
        child = os.fork()
        if child == 0:
            mine = torch.full((1 << 16,), 7.0)
            os._exit(int(is_shared(mine.data_ptr())))
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0, "a forked child has its parent's memory"
        x.resize_(1 << 18)[1 << 16 :] = rank + 1.0
        parts = [torch.empty_like(x) for _ in range(ranks)]
    shared = [x, weights.weight, weights.weight.grad, inner, parts[0]]
    assert all(is_shared(t.data_ptr()) for t in shared)
    assert not any(is_shared(t.data_ptr()) for t in (plain, small, torch.ones(1 << 16)))
    dist.all_gather(parts, x)
    assert all((part == r + 1).all() for r, part in enumerate(parts))
    dist.all_reduce(weights.weight.grad)
    at = x.data_ptr()
    del x, shared
    with weftcomm_torch.allocations():
        assert torch.empty(1 << 18).data_ptr() == at, "a block that was given back is not used again"


def memory(rank, ranks):
    import weftcomm_torch

    x = weftcomm_torch.empty((1000, 500), torch.float64)
    assert is_shared(x.data_ptr()) and x.shape == (1000, 500) and x.dtype == torch.float64
    x.fill_(rank + 1)
    dist.all_reduce(x)
    assert (x == sum(range(1, ranks + 1))).all()
    assert weftcomm_torch.empty(7).dtype == torch.float32
    allocations(rank, ranks)
    huge = weftcomm_torch.empty(1 << 28, torch.float64)  # 2 GiB: more than WEFT_HEAP
    assert not is_shared(huge.data_ptr())
    gloo = dist.new_group(backend="gloo")
    try:
        weftcomm_torch.empty(3, group=gloo)
    except ValueError as e:
        assert "gloo" in str(e)
        dist.barrier()  # gloo's ranks connect one after the other: none may leave before
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
