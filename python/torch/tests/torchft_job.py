"""One replica of a training by torchft's manager, on weft or, with GLOO=1, on gloo.

torchft_job.py REPLICA LIGHTHOUSE LOG [KILLED_AT | joins]: a line of JSON in LOG for each step that was committed. The job ends
five steps after a replica has come back.
"""

import json
import os
import pathlib
import signal
import sys
import time
from datetime import timedelta

import torch
import torch.distributed as dist
from torchft import Manager

replica, lighthouse, log = int(sys.argv[1]), sys.argv[2], sys.argv[3]
last = sys.argv[4] if len(sys.argv) > 4 else ""
os.environ["TORCHFT_LIGHTHOUSE"] = lighthouse
own = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
torch.manual_seed(0)
model = torch.nn.Linear(8, 1, dtype=torch.float64)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)


def state():
    return {"model": model.state_dict(), "optimizer": optimizer.state_dict()}


def load(given):
    model.load_state_dict(given["model"])
    optimizer.load_state_dict(given["optimizer"])


timeout = timedelta(seconds=20)
if os.environ.get("GLOO") == "1":
    from torchft import ProcessGroupGloo

    group = ProcessGroupGloo(timeout=timeout)
else:
    from weftcomm_torch import torchft as weft_torchft

    group = weft_torchft.ProcessGroupWeft(timeout=timeout, reproducible=True)
configure, took = group.configure, []


def timed(*args):
    began = time.monotonic()
    configure(*args)
    took.append(time.monotonic() - began)


group.configure = timed
manager = Manager(pg=group, min_replica_size=2, load_state_dict=load, state_dict=state, hostname="127.0.0.1",
                  replica_id=f"replica_{replica}", store_addr="127.0.0.1", store_port=own.port, rank=0, world_size=1,
                  use_async_quorum=False, timeout=timeout, quorum_timeout=timedelta(seconds=60))  # fmt: skip
fewer = last == "joins"  # has a replica been missing?
since = 0  # steps since it came back
folder = pathlib.Path(log).parent
(folder / f"ready{replica}").touch()
while len(list(folder.glob("ready*"))) < 3:  # the first quorum is of all three
    time.sleep(0.05)
with open(log, "a") as file:
    while since < 5:
        manager.start_quorum()
        step = manager.current_step()
        if last == str(step):
            os.kill(os.getpid(), signal.SIGKILL)
        x = torch.randn(4, 8, generator=torch.Generator().manual_seed(1000 * step + replica), dtype=torch.float64)
        optimizer.zero_grad()
        (model(x) - x.sum(1, keepdim=True)).square().mean().backward()
        for p in model.parameters():
            manager.allreduce(p.grad).wait()
        if manager.should_commit():
            optimizer.step()
            members = [r for r in group._global_ranks]
            fewer = fewer or len(members) == 2
            since += fewer and len(members) == 3
            print(json.dumps({"step": step, "members": members, "weights": [w.hex() for w in model.weight[0].tolist()]}), file=file, flush=True)
        time.sleep(0.02)
    changes = [{"how": c.how, "size": c.size, "ms": {k: round(1e3 * v, 2) for k, v in c.seconds.items()}} for c in getattr(group, "log", [])]
    print(json.dumps({"changes": changes, "configure_ms": [round(1e3 * t, 2) for t in took]}), file=file, flush=True)
manager.shutdown(wait=False)
group.shutdown()
