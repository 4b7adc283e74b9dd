"""A rank of a DDP training in which rank 1 fails: chaos_program.py RANK RANKS FILE HOW STEP MOMENT.

HOW: kill (SIGKILL), stop (SIGSTOP), cut (the interface eth0 goes down; ranks are over TCP) or nobody; MOMENT: forward,
backward (inside a gradient's hook) or step (before the optimizer). Survivors print the exception's class, whether it names
rank 1, and whether it came soon; then the losses of the steps before; then they shrink the group and go on for two steps.
Every rank has the same data, so the losses do not depend on who is left.
"""

import os
import signal
import subprocess
import sys
import time
from datetime import timedelta

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

rank, ranks, file, how, failing_step, moment = int(sys.argv[1]), int(sys.argv[2]), *sys.argv[3:5], int(sys.argv[5]), sys.argv[6]
TIMEOUT = timedelta(seconds=30 if how == "kill" else 1)
torch.set_num_threads(1)
options = None
if how == "cut":
    import weftcomm_torch

    options = weftcomm_torch.Options(timeout=timedelta(seconds=30), transport="tcp")
dist.init_process_group(
    "weft", init_method=f"file://{file}", rank=rank, world_size=ranks, timeout=timedelta(seconds=30), pg_options=options
)
torch.manual_seed(1)
inner = torch.nn.Sequential(torch.nn.Linear(32, 64), torch.nn.ReLU(), torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 8))
model = DistributedDataParallel(inner, bucket_cap_mb=0.01)  # several buckets, so that some are under way
optimizer = torch.optim.SGD(inner.parameters(), 0.1)
data = torch.randn(16, 32, generator=torch.Generator().manual_seed(7))
now = -1


def fail_if(where):
    if rank == 1 and now == failing_step and moment == where:
        with open(file + ".failed", "w") as f:
            f.write(repr(time.time()))
        if how == "cut":
            subprocess.run(["ip", "link", "set", "eth0", "down"], check=True)
        else:
            os.kill(os.getpid(), signal.SIGKILL if how == "kill" else signal.SIGSTOP)


inner[2].weight.register_hook(lambda gradient: fail_if("backward"))


def step(used):
    fail_if("forward")
    loss = used(data).square().mean()
    optimizer.zero_grad()
    loss.backward()
    fail_if("step")
    optimizer.step()
    return loss.item()


dist.barrier()
dist.distributed_c10d._get_default_group()._get_backend(torch.device("cpu"))._set_default_timeout(TIMEOUT)
losses = []
try:
    for now in range(11):  # a failure after the backward pass of step 9 ends step 10
        losses.append(step(model))
    if how == "nobody":
        print("losses", *map(repr, losses))
        os._exit(sys.stdout.flush() or 0)
    print("nobody noticed", flush=True)
except dist.DistBackendError as error:
    after = time.time() - float(open(file + ".failed").read())
    soon = after < TIMEOUT.total_seconds() + 1 if how != "kill" else after < 1
    print(f"DistBackendError names rank 1: {'rank 1' in str(error)}, soon: {soon}", flush=True)
    if not soon or "rank 1" not in str(error):
        print(after, error, flush=True)
except Exception as error:  # of another class than users are promised
    print(f"{type(error).__name__}: {error}", flush=True)
print("losses", *map(repr, losses), flush=True)
group = dist.shrink_group([1])
smaller = DistributedDataParallel(inner, process_group=group)
after_it = [step(smaller) for now in (20, 21)]
same = torch.tensor(after_it)
dist.all_reduce(same, group=group)
print(f"went on as {dist.get_world_size(group)} ranks, alike: {bool(torch.allclose(same / dist.get_world_size(group), torch.tensor(after_it)))}", flush=True)
os._exit(0)  # the group that broke is not destroyed
