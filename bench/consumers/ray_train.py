"""Ray Train: TorchTrainer of two workers, which choose gloo on CPUs."""

import os
import sys

import ray
import ray.train
import ray.train.torch

HERE = os.path.dirname(os.path.abspath(__file__))


def train(_):
    sys.path.insert(0, HERE)
    import torch
    import torch.distributed as dist
    from common import carried_by

    torch.manual_seed(0)
    model = ray.train.torch.prepare_model(torch.nn.Linear(16, 1))
    x = torch.randn(8, 16, generator=torch.Generator().manual_seed(dist.get_rank()))
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    for _ in range(5):
        optimizer.zero_grad()
        loss = (model(x) - x.sum(1, keepdim=True)).square().mean()
        loss.backward()
        optimizer.step()
    total = loss.detach().clone()
    dist.all_reduce(total)
    if dist.get_rank() == 0:
        carried_by(f"loss {float(total):.6f}")


# Small machines have no room for more processes than the two workers and Ray's own, which need time to start.
os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
os.environ.setdefault("RAY_TRAIN_WORKER_GROUP_START_TIMEOUT_S", "300")
os.environ.setdefault("RAY_raylet_start_wait_time_s", "120")
os.environ.setdefault("RAY_prestart_worker_first_driver", "0")
variables = {k: v for k, v in os.environ.items() if k.startswith(("WEFT_", "RAY_TRAIN_")) or k == "OMP_NUM_THREADS"}
ray.init(num_cpus=2, include_dashboard=False, object_store_memory=100_000_000, log_to_driver=True, runtime_env={"env_vars": variables})
ray.train.torch.TorchTrainer(train, train_loop_config={}, scaling_config=ray.train.ScalingConfig(num_workers=2)).fit()
