"""Megatron-core: a column- and a row-parallel layer over two ranks, forward and backward."""

import torch
import torch.distributed as dist
from common import carried_by
from megatron.core import parallel_state, tensor_parallel
from megatron.core.model_parallel_config import ModelParallelConfig

dist.init_process_group("gloo")
parallel_state.initialize_model_parallel(tensor_model_parallel_size=2)
torch.manual_seed(0)
config = ModelParallelConfig(tensor_model_parallel_size=2, use_cpu_initialization=True, gradient_accumulation_fusion=False)
start = torch.nn.init.normal_
first = tensor_parallel.ColumnParallelLinear(16, 32, config=config, init_method=start, gather_output=False, bias=False)
second = tensor_parallel.RowParallelLinear(32, 16, config=config, init_method=start, input_is_parallel=True, bias=False,
                                           skip_bias_add=False)  # fmt: skip
y = second(first(torch.randn(4, 2, 16))[0])[0]
y.square().mean().backward()
norm = first.weight.grad.norm().square()
dist.all_reduce(norm)
if dist.get_rank() == 0:
    carried_by(f"output {float(y.sum()):.5f} gradient {float(norm):.5f}")
dist.barrier()
