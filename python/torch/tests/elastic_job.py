"""A training that members leave and join, and the same training without that: elastic_job.py KIND STEPS [PHASES FOLDER WHICH RANK].

KIND: ddp or fsdp. KILL=MEMBER@STEP@WHERE,… kills members: at "begin", at "bucket N", in "backward", before they "agree".
WAIT=SECONDS for members. Each member has samples of its own. With PHASES, e.g. "0:0-1-2,4:0-2" (from step 4 on, members 0 and
2), this is one rank of a group that is not elastic and does the steps of one phase; phases hand the state over in FOLDER.
"""

import hashlib
import os
import signal
import sys

import torch
import torch.distributed as dist
from torch.distributed.fsdp import fully_shard

KILLS = [kill.split("@") for kill in os.environ.get("KILL", "").split(",") if kill]


def make_net():
    torch.manual_seed(1)
    wide = [torch.nn.Linear(13, 40), torch.nn.Tanh(), torch.nn.Linear(40, 31), torch.nn.Tanh(), torch.nn.Linear(31, 1)]
    return torch.nn.Sequential(*wide)


def make_sharded(mesh):
    net = make_net()
    for layer in net:
        if list(layer.parameters()):
            fully_shard(layer, mesh=mesh)
    return fully_shard(net, mesh=mesh)


def make_optimizer(parameters):
    return torch.optim.AdamW(parameters, lr=0.01)


def loss_of(model, step, member):
    x = torch.randn(6, 13, generator=torch.Generator().manual_seed(1000 * step + member))
    return (model(x) - x.sum(1, keepdim=True)).square().mean()


def digest(parameters):
    full = [p.full_tensor() if hasattr(p, "full_tensor") else p.detach() for p in parameters]
    return hashlib.sha256(b"".join(p.detach().numpy().tobytes() for p in full)).hexdigest()[:16]


def may_die(member, step, where):
    for who, when, place in KILLS:
        if (int(who), int(when), place) == (member, step, where):
            os.kill(os.getpid(), signal.SIGKILL)


def elastic_ddp(steps):
    from weftcomm_torch import elastic

    members = elastic.join(timeout=float(os.environ.get("WAIT", "20")))
    model = members.ddp(make_net(), bucket_cap_mb=0.002)
    optimizer = make_optimizer(model.parameters())
    members.keep(model=model, optimizer=optimizer)
    average, agree = model._average, members.agree

    def dying_average(entry):
        may_die(members.member, members.step, f"bucket {entry.index}")
        average(entry)

    def dying_agree(*given):
        may_die(members.member, members.step, "agree")
        return agree(*given)

    model._average, members.agree = dying_average, dying_agree
    for step in members.steps(steps):
        may_die(members.member, step, "begin")
        optimizer.zero_grad()
        loss_of(model, step, members.member).backward()
        members.commit(optimizer)
    return members, model


def elastic_fsdp(steps):
    from weftcomm_torch import elastic

    members = elastic.join(timeout=float(os.environ.get("WAIT", "20")))
    state = members.sharded(make_sharded, make_optimizer)
    for step in members.steps(steps):
        may_die(members.member, step, "begin")

        def loss(model):
            value = loss_of(model, step, members.member)
            may_die(members.member, step, "backward")
            return value

        state.step(loss, before=lambda _: may_die(members.member, step, "agree"))
    return members, state.model


def reference(kind, steps, phases, folder, which, rank):
    """One rank of one phase; the state comes from a file, and goes into one. torch's caches know a mesh by its ranks only, so
    that each phase has processes of its own."""
    import weftcomm_torch

    begins = [int(p.split(":")[0]) for p in phases] + [steps]
    members = [int(m) for m in phases[which].split(":")[1].split("-")]
    dist.init_process_group("weft", store=dist.FileStore(f"{folder}/store{which}"), rank=rank, world_size=len(members),
                            pg_options=weftcomm_torch.Options(reproducible=True))  # fmt: skip
    before = f"{folder}/state{which - 1}" if which else ""
    model = train(kind, members[rank], range(begins[which], begins[which + 1]), before, f"{folder}/state{which}")
    value = digest(model.parameters())
    if rank == 0:
        print("digest", value)
    dist.destroy_process_group()


def train(kind, member, steps, before, after):
    from torch.distributed.checkpoint import state_dict as parts

    options = parts.StateDictOptions(full_state_dict=True)
    if kind == "ddp":
        model = torch.nn.parallel.DistributedDataParallel(make_net(), bucket_cap_mb=0.002)
    else:
        model = make_sharded(dist.device_mesh.init_device_mesh("cpu", (dist.get_world_size(),)))
    optimizer = make_optimizer(model.parameters())
    if before:
        weights, moments = torch.load(before)
        parts.set_state_dict(model, optimizer, model_state_dict=weights, optim_state_dict=moments, options=options)
    for step in steps:
        optimizer.zero_grad()
        loss_of(model, step, member).backward()
        optimizer.step()
    whole = parts.get_state_dict(model, optimizer, options=options)
    if dist.get_rank() == 0:
        torch.save(whole, after)
    dist.barrier()
    return model


if __name__ == "__main__":
    kind, steps = sys.argv[1], int(sys.argv[2])
    if len(sys.argv) > 3:
        reference(kind, steps, sys.argv[3].split(","), sys.argv[4], *map(int, sys.argv[5:]))
        sys.exit(0)
    members, model = (elastic_ddp if kind == "ddp" else elastic_fsdp)(steps)
    value = digest(model.parameters())
    if members.rank == 0:
        print("digest", value, flush=True)
