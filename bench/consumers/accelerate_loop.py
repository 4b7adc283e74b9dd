"""accelerate: a model of three layers, ten steps."""

import torch
from accelerate import Accelerator
from accelerate.utils import InitProcessGroupKwargs
from common import finish

torch.manual_seed(0)
accelerator = Accelerator(cpu=True, kwargs_handlers=[InitProcessGroupKwargs(backend="gloo")])
model = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.Tanh(), torch.nn.Linear(32, 1))
x = torch.randn(64, 16)
data = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x, x.sum(1, keepdim=True)), batch_size=8)
model, optimizer, data = accelerator.prepare(model, torch.optim.SGD(model.parameters(), 0.01), data)
for batch, wanted in data:
    loss = torch.nn.functional.mse_loss(model(batch), wanted)
    accelerator.backward(loss)
    optimizer.step()
    optimizer.zero_grad()
finish(accelerator.unwrap_model(model), accelerator.gather(loss.detach()).sum())
