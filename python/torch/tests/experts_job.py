"""Expert parallelism, one rank: experts_job.py JOB RANK RANKS FILE BACKEND."""

import os
import signal
import sys

import torch
import torch.distributed as dist

WIDTH, EXPERTS, PLACES = 6, 12, 3


def expert_layers(numbers):
    layers = []
    for e in numbers:
        torch.manual_seed(100 + e)
        layers.append(torch.nn.Sequential(torch.nn.Linear(WIDTH, 8), torch.nn.Tanh(), torch.nn.Linear(8, WIDTH)).double())
    return layers


def tokens_of(rank, step=0):
    """Uneven: rank 1 has none."""
    seeded = torch.Generator().manual_seed(10 * step + rank)
    count = 0 if rank == 1 else 5 + 4 * rank
    x = torch.randn(count, WIDTH, generator=seeded, dtype=torch.float64)
    scores = torch.randn(count, EXPERTS, generator=seeded, dtype=torch.float64)
    return x, scores


def route(scores):
    weights, chosen = scores.softmax(dim=1).topk(PLACES)
    return weights, chosen


def sparse(x, chosen, weights, layers, owners, group=None):
    from weftcomm_torch import experts

    rows, routing = experts.dispatch(x, chosen, owners, group)
    outputs = [layers[e](part) for e, part in zip(routing.experts, rows.split(routing.counts))]
    return experts.combine(torch.cat(outputs) if outputs else rows, routing, weights)


def dense(x, chosen, weights, layers, owners):
    """Every token goes to every rank, in slots of equal size, and every rank answers for its experts."""
    n, me = dist.get_world_size(), dist.get_rank()
    most = torch.tensor([len(x)])
    dist.all_reduce(most, dist.ReduceOp.MAX)
    padded = torch.zeros(int(most), WIDTH + PLACES, dtype=x.dtype)
    padded[: len(x), :WIDTH], padded[: len(x), WIDTH:] = x, chosen.double()
    padded[len(x) :, WIDTH:] = -1
    everything = torch.empty(n * int(most), WIDTH + PLACES, dtype=x.dtype)
    dist.all_to_all_single(everything, padded.repeat(n, 1))
    answer = torch.zeros(n * int(most), PLACES, WIDTH, dtype=x.dtype)
    with torch.no_grad():
        for row, line in enumerate(everything):
            for place, e in enumerate(line[WIDTH:].long().tolist()):
                if e >= 0 and owners[e] == me:
                    answer[row, place] = layers[e](line[None, :WIDTH])[0]
    came = torch.empty_like(answer)
    dist.all_to_all_single(came.view(-1), answer.view(-1))
    by_rank = came.view(n, int(most), PLACES, WIDTH)[:, : len(x)]
    result = torch.zeros_like(x)
    for place in range(PLACES):
        picked = torch.zeros_like(x)
        for token in range(len(x)):
            if owners[chosen[token, place]] >= 0:
                picked[token] = by_rank[owners[chosen[token, place]], token, place]
        result = result + picked * weights[:, place, None]
    return result


def here(x, chosen, weights, layers):
    """The same without other ranks."""
    out = torch.zeros_like(x)
    for place in range(PLACES):
        out = out + torch.stack([layers[e](line[None])[0] for e, line in zip(chosen[:, place].tolist(), x)]) * weights[:, place, None]
    return out


def equals_dense():
    from weftcomm_torch import experts

    x, scores = tokens_of(dist.get_rank())
    weights, chosen = route(scores)
    owners = experts.owners(EXPERTS)
    layers = expert_layers(range(EXPERTS))
    mine = sparse(x, chosen, weights, layers, owners)
    torch.testing.assert_close(mine.detach(), dense(x, chosen, weights, layers, owners), rtol=1e-13, atol=1e-14)


def gradients():
    """Those of tokens, weights and experts are those of one process that has all tokens and experts."""
    from weftcomm_torch import experts

    rank, ranks = dist.get_rank(), dist.get_world_size()
    layers, alone = expert_layers(range(EXPERTS)), expert_layers(range(EXPERTS))
    everything = [tokens_of(r) for r in range(ranks)]
    x, scores = (t.clone().requires_grad_() for t in everything[rank])
    weights, chosen = route(scores)
    owners = experts.owners(EXPERTS)
    sparse(x, chosen, weights, layers, owners).square().sum().backward()
    full_x, full_scores = (torch.cat(ts).requires_grad_() for ts in zip(*everything))
    full_weights, full_chosen = route(full_scores)
    here(full_x, full_chosen, full_weights, alone).square().sum().backward()
    begin = sum(len(t[0]) for t in everything[:rank])
    torch.testing.assert_close(x.grad, full_x.grad[begin : begin + len(x)], rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(scores.grad, full_scores.grad[begin : begin + len(x)], rtol=1e-12, atol=1e-12)
    for e in range(EXPERTS):
        if owners[e] == rank:
            for p, q in zip(layers[e].parameters(), alone[e].parameters()):
                torch.testing.assert_close(p.grad, q.grad if q.grad is not None else torch.zeros_like(p), rtol=1e-12, atol=1e-12)


def trains():
    """Ten steps of a mixture of experts leave the weights of ten steps in one process."""
    from weftcomm_torch import experts

    rank, ranks = dist.get_rank(), dist.get_world_size()
    owners = experts.owners(EXPERTS)
    layers, alone = expert_layers(range(EXPERTS)), expert_layers(range(EXPERTS))
    both = [torch.optim.SGD([p for layer in kind for p in layer.parameters()], lr=0.05) for kind in (layers, alone)]
    for step in range(10):
        everything = [tokens_of(r, step) for r in range(ranks)]
        x, scores = everything[rank]
        weights, chosen = route(scores)
        for optimizer in both:
            optimizer.zero_grad()
        (sparse(x, chosen, weights, layers, owners) - x).square().sum().backward()
        full_x, full_scores = (torch.cat(ts) for ts in zip(*everything))
        full_weights, full_chosen = route(full_scores)
        (here(full_x, full_chosen, full_weights, alone) - full_x).square().sum().backward()
        for optimizer in both:
            optimizer.step()
    for e in range(EXPERTS):
        if owners[e] == rank:
            for p, q in zip(layers[e].parameters(), alone[e].parameters()):
                torch.testing.assert_close(p, q, rtol=1e-11, atol=1e-12)


def none_chosen():
    """-1 is no expert: a token without any gets zeros, also its gradient; a group without any token has nothing to do."""
    from weftcomm_torch import experts

    owners = experts.owners(EXPERTS)
    layers = expert_layers(range(EXPERTS))
    x = torch.ones(3, WIDTH, dtype=torch.float64, requires_grad=True)
    chosen = torch.full((3, PLACES), -1)
    chosen[1, 2] = 7
    result = sparse(x, chosen, torch.ones(3, PLACES, dtype=torch.float64), layers, owners)
    result.sum().backward()
    assert torch.equal(result[0], torch.zeros(WIDTH)) and torch.equal(x.grad[2], torch.zeros(WIDTH))
    torch.testing.assert_close(result[1], layers[7](x[1:2])[0])
    empty = torch.empty(0, WIDTH, dtype=torch.float64)
    out = sparse(empty, torch.empty(0, PLACES, dtype=torch.int64), torch.empty(0, PLACES, dtype=torch.float64), layers, owners)
    assert out.shape == (0, WIDTH)


def lost_rank():
    """The last rank dies: its experts are masked, and the others' outputs are those of dense all_to_all without it."""
    from weftcomm_torch import experts

    rank, ranks = dist.get_rank(), dist.get_world_size()
    if rank == ranks - 1:
        os.kill(os.getpid(), signal.SIGKILL)
    x, scores = tokens_of(rank)
    weights, chosen = route(scores)
    layers = expert_layers(range(EXPERTS))
    try:
        sparse(x, chosen, weights, layers, experts.owners(EXPERTS))
        raise AssertionError("nobody was lost")
    except dist.DistBackendError:
        dist.shrink_group([ranks - 1])
    owners = experts.owners(EXPERTS, lost=(ranks - 1,), size=ranks)
    assert owners.tolist()[-EXPERTS // ranks :] == [-1] * (EXPERTS // ranks)
    mine = sparse(x, chosen, weights, layers, owners).detach()
    torch.testing.assert_close(mine, dense(x, chosen, weights, layers, owners), rtol=1e-13, atol=1e-14)


def refusals():
    from weftcomm_torch import experts

    owners = experts.owners(EXPERTS)
    x, chosen = torch.ones(2, WIDTH), torch.zeros(2, 1, dtype=torch.int64)
    for wrong, says in [
        (lambda: experts.owners(7), "7 experts cannot be shared out evenly"),
        (lambda: experts.dispatch(x, chosen + EXPERTS, owners), f"expert {EXPERTS} is not one of {EXPERTS}"),
        (lambda: experts.dispatch(x, chosen[:1], owners), "chosen is [2, K] of int64"),
        (lambda: experts.dispatch(x, chosen, owners + 5), "owners has a rank of the group"),
        (lambda: experts.dispatch(x, chosen, "01"), "weft: owners is a tensor or a list of ranks, not str"),
        (lambda: experts.dispatch(x, [[0], [0]], owners), "weft: chosen is a tensor, not list"),
        (lambda: experts.dispatch(x[0], chosen, owners), "tokens are a matrix"),
        (lambda: experts.owners(EXPERTS, lost=(9,)), "rank 9, said to be lost"),
    ]:
        try:
            wrong()
            raise AssertionError(says)
        except ValueError as problem:
            assert says in str(problem), problem
    of_list, of_tensor = (experts.dispatch(x, chosen, given)[0] for given in (owners.tolist(), owners))
    assert torch.equal(of_list, of_tensor)


if __name__ == "__main__":
    job, rank, ranks, file, backend = sys.argv[1:]
    dist.init_process_group(backend, init_method=f"file://{file}", rank=int(rank), world_size=int(ranks))
    globals()[job]()
    print("right")
    dist.destroy_process_group()
