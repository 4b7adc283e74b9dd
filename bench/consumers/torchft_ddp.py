"""torchft: a lighthouse here, a manager per rank; each rank is a replica group of its own, and gradients are averaged
through the manager's process group. WEFT_AS_GLOO makes its ProcessGroupGloo one of weft's."""

import os
from datetime import timedelta

import torch
import torch.distributed as dist
from common import carried_by
from torchft import Manager
from torchft.coordination import LighthouseServer
from torchft.process_group import ProcessGroupGloo

rank = int(os.environ["RANK"])
store = dist.TCPStore(os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]), is_master=False)
if rank == 0:
    lighthouse = LighthouseServer(bind="127.0.0.1:0", min_replicas=2, join_timeout_ms=1000)
    store.set("lighthouse", "http://127.0.0.1:" + lighthouse.address().rsplit(":", 1)[1])  # not by the host's name
os.environ["TORCHFT_LIGHTHOUSE"] = store.get("lighthouse").decode()
own = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
torch.manual_seed(0)
model = torch.nn.Linear(16, 1)
manager = Manager(pg=ProcessGroupGloo(timeout=timedelta(seconds=30)), min_replica_size=2, load_state_dict=lambda _: None,
                  state_dict=dict, init_sync=False, hostname="127.0.0.1", replica_id=f"replica_{rank}", store_addr="127.0.0.1", store_port=own.port, rank=0,
                  world_size=1, use_async_quorum=False, timeout=timedelta(seconds=30))  # fmt: skip
x = torch.randn(8, 16, generator=torch.Generator().manual_seed(rank))
for _ in range(3):
    manager.start_quorum()
    loss = (model(x) - x.sum(1, keepdim=True)).square().mean()
    model.zero_grad()
    loss.backward()
    for p in model.parameters():
        manager.allreduce(p.grad).wait()
    if manager.should_commit():
        with torch.no_grad():
            for p in model.parameters():
                p -= 0.01 * p.grad
if rank == 0:
    carried_by(f"participants {manager.num_participants()} step {manager.current_step()} "
               f"weights {float(sum(p.sum() for p in model.parameters())):.5f}")  # fmt: skip
store.add("done", 1)
while store.add("done", 0) < 2:
    pass
manager.shutdown()
