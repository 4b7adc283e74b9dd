"""DeepSpeed's ZeRO on CPUs; the stage is the argument."""

import os
import sys

os.environ.setdefault("DS_ACCELERATOR", "cpu")
import deepspeed  # noqa: E402 (the accelerator is chosen on import)
import torch  # noqa: E402
from common import carried_by  # noqa: E402

torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.Tanh(), torch.nn.Linear(32, 1))
deepspeed.init_distributed("gloo")
config = {"train_batch_size": 16, "optimizer": {"type": "SGD", "params": {"lr": 0.01}}, "torch_autocast": {"enabled": False},
          "zero_optimization": {"stage": int(sys.argv[1])}, "zero_allow_untested_optimizer": True}  # fmt: skip
engine, *_ = deepspeed.initialize(model=model, model_parameters=model.parameters(), config=config)
x = torch.randn(10, 8, 16, generator=torch.Generator().manual_seed(torch.distributed.get_rank()))
for batch in x:
    loss = torch.nn.functional.mse_loss(engine(batch), batch.sum(1, keepdim=True))
    engine.backward(loss)
    engine.step()
total = loss.detach().clone()
torch.distributed.all_reduce(total)
if torch.distributed.get_rank() == 0:
    carried_by(f"loss {float(total):.6f}")
torch.distributed.barrier()
