"""Four ranks of torch's gloo: random DTensors, as their mesh and placements spread them, become others; what full_tensor() of the
result says is compared with the whole tensor. Arguments: a file to meet by, rounds."""

import random
import sys

import torch
import torch.distributed as dist
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_tensor, init_device_mesh
from torch.distributed.tensor.placement_types import _StridedShard

from weftcomm import InvalidArgument
from weftcomm.reshard import Layout, Plan, Receiver, Sender
from weftcomm.transfer import Agent

RANKS = 4
TYPES = [torch.float32, torch.bfloat16, torch.int64, torch.float8_e4m3fn, torch.bool]


def spread(whole, mesh, placements):
    """torch distributes no float8: its bytes are distributed instead."""
    narrow = whole.dtype == torch.float8_e4m3fn
    made = distribute_tensor(whole.view(torch.uint8) if narrow else whole, mesh, placements)
    return made if not narrow else of_local(made.to_local().view(whole.dtype), made)


def of_local(local, like):
    return DTensor.from_local(
        local, like.device_mesh, like.placements, run_check=False, shape=like.shape, stride=like.stride()
    )


def full(tensor):
    if tensor.dtype != torch.float8_e4m3fn:
        return tensor.full_tensor()
    return of_local(tensor.to_local().view(torch.uint8), tensor).full_tensor().view(tensor.dtype)


def move(rank, source, target):
    """The tensors of `source` into those of `target`, over agents."""
    plan = Plan(Layout.of_dtensors(source, RANKS), Layout.of_dtensors(target, RANKS))
    agents = Agent(f"from{rank}"), Agent(f"to{rank}")
    sender = Sender(plan, rank, agents[0])
    sender.copy_from(source)
    sender.publish(1)
    addresses = [None] * RANKS
    dist.all_gather_object(addresses, sender.address())
    receiver = Receiver(plan, rank, agents[1], addresses)
    receiver.pull(1)
    receiver.copy_to(target)
    dist.barrier()


def random_placements(rng, mesh, shape):
    return [rng.choice([Replicate()] + [Shard(d) for d in range(len(shape))]) for _ in range(mesh.ndim)]


def strided(rank, meshes):
    """What FSDP over tensor parallelism leaves: dimension 0 is split by tp first, then by dp."""
    whole = torch.arange(8 * 3, dtype=torch.float32).reshape(8, 3)
    rows = whole.reshape(2, 2, 2, 3)  # tp, dp, rows
    dp, tp = divmod(rank, 2)
    local = rows[tp, dp].clone()
    like = distribute_tensor(whole, meshes[1], [Shard(0), Shard(0)])
    source = DTensor.from_local(
        local, meshes[1], [_StridedShard(0, split_factor=2), Shard(0)], run_check=False, shape=like.shape, stride=like.stride()
    )
    target = distribute_tensor(torch.zeros(8, 3), meshes[0], [Shard(1)])
    move(rank, {"w": source}, {"w": target})
    assert torch.equal(target.full_tensor(), whole), "a strided shard"


def refused(meshes):
    for reduce in ("sum", "avg"):
        sums = DTensor.from_local(torch.ones(4), meshes[0], [Partial(reduce)], run_check=False)
        try:
            Plan(Layout.of_dtensors({"sums": sums}), Layout.of_dtensors({"sums": sums}))
        except InvalidArgument as error:
            assert "tensor sums" in str(error) and "Partial" in str(error), error
        else:
            raise AssertionError("sums that are not made yet were accepted")


def main(rank, store, rounds):
    dist.init_process_group("gloo", init_method="file://" + store, rank=rank, world_size=RANKS)
    meshes = [init_device_mesh("cpu", (4,), mesh_dim_names=("x",)), init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))]
    rng = random.Random(7)
    for round in range(rounds):
        whole, source, target = {}, {}, {}
        for i in range(4):
            shape = [rng.randint(1, 11) for _ in range(rng.randint(1, 3))]
            made = torch.randn(shape, generator=torch.Generator().manual_seed(10 * round + i)) * 8
            whole[f"t{i}"] = tensor = made.to(rng.choice(TYPES))
            a, b = rng.choice(meshes), rng.choice(meshes)
            source[f"t{i}"] = spread(tensor, a, random_placements(rng, a, shape))
            target[f"t{i}"] = spread(torch.zeros_like(tensor), b, random_placements(rng, b, shape))
        move(rank, source, target)
        for name, tensor in whole.items():
            same = torch.equal(full(target[name]).view(torch.uint8), tensor.view(torch.uint8))
            assert same, (round, name, tuple(tensor.shape), source[name].placements, target[name].placements)
    strided(rank, meshes)
    refused(meshes)
    dist.destroy_process_group()


if __name__ == "__main__":
    torch.multiprocessing.spawn(main, (sys.argv[1], int(sys.argv[2])), nprocs=RANKS)
    print("equal to full_tensor()")
