import torch
from torch.distributed.fsdp import fully_shard
from weftcomm_torch import elastic

members = elastic.join()
state = members.sharded(
    lambda mesh: fully_shard(torch.nn.Linear(8, 4), mesh=mesh),
    lambda parameters: torch.optim.AdamW(parameters, lr=0.01),
)
for step in members.steps(100):
    x = torch.randn(4, 8, generator=torch.Generator().manual_seed(1000 * step + members.rank))
    state.step(lambda model: model(x).square().mean())

print(f"{members.step} steps, shard {list(state.model.weight.to_local().shape)}")
