"""Lightning: DDP on CPUs. The name of the backend is the program's word: its strategy takes any."""

import os

import lightning
import torch
from common import finish
from lightning.pytorch.strategies import DDPStrategy


class Model(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(16, 1)

    def training_step(self, batch, _):
        self.loss = torch.nn.functional.mse_loss(self.layer(batch[0]), batch[1])
        return self.loss

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), 0.01)


torch.manual_seed(0)
x = torch.randn(64, 16)
data = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x, x.sum(1, keepdim=True)), batch_size=8)
model = Model()
trainer = lightning.Trainer(accelerator="cpu", devices=2, max_epochs=1, logger=False, enable_checkpointing=False,
                            enable_progress_bar=False, enable_model_summary=False,
                            strategy=DDPStrategy(process_group_backend=os.environ.get("BACKEND", "gloo")))  # fmt: skip
trainer.fit(model, data)
loss = model.loss.detach().clone()
torch.distributed.all_reduce(loss)
finish(model, loss)
