"""A recommendation model cut as torchrec cuts it: rank r has tables r, r+2, ...; embeddings go by all_to_all; the rest is DDP."""

import torch
import torch.distributed as dist
from common import finish
from torch.distributed.nn.functional import all_to_all_single

TABLES, ROWS, WIDTH, BATCH = 4, 100, 8, 16


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        mine = TABLES // dist.get_world_size()
        self.tables = torch.nn.ModuleList(torch.nn.Embedding(ROWS, WIDTH) for _ in range(mine))
        self.top = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(TABLES * WIDTH, 1))

    def forward(self, rows):
        """rows: (tables of this rank, batch of all ranks)."""
        ranks = dist.get_world_size()
        found = torch.stack([table(r) for table, r in zip(self.tables, rows)])  # (mine, ranks * batch, width)
        parts = found.view(len(self.tables), ranks, BATCH, WIDTH).transpose(0, 1).contiguous()
        mine = all_to_all_single(torch.empty_like(parts), parts)  # (from rank, its tables, batch, width)
        return self.top(mine.reshape(TABLES, BATCH, WIDTH).transpose(0, 1).reshape(BATCH, -1))


dist.init_process_group("gloo")
torch.manual_seed(dist.get_rank())
model = Model()
optimizer = torch.optim.SGD(model.parameters(), 0.1)
for _ in range(5):
    rows = torch.randint(0, ROWS, (len(model.tables), BATCH * dist.get_world_size()))
    loss = model(rows).square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
total = loss.detach().clone()
dist.all_reduce(total)
finish(model, total)
