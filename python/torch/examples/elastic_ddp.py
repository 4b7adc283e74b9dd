import torch
from weftcomm_torch import elastic

members = elastic.join()                             # reproducible sums, unless reproducible=False
model = members.ddp(torch.nn.Linear(8, 1))           # DistributedDataParallel over the members
optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
members.keep(model=model, optimizer=optimizer)       # what a newcomer gets

for step in members.steps(100):
    x = torch.randn(4, 8, generator=torch.Generator().manual_seed(1000 * step + members.rank))
    optimizer.zero_grad()
    (model(x) - x.sum(1, keepdim=True)).square().mean().backward()
    members.commit(optimizer)                        # optimizer.step(), once all members have all averages

if members.rank == 0:
    print(f"{members.step} steps, members {members.members}, weights {model.module.weight.tolist()[0][0]:.4f}")
