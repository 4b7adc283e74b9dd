"""One rank of a job that torchrun's variables describe: python job.py weftcomm | torch."""

import sys

if sys.argv[1] == "weftcomm":
    import numpy as np

    import weftcomm

    try:
        comm = weftcomm.init(transport="tcp")
    except weftcomm.Error as problem:
        sys.exit(f"{type(problem).__name__}: {problem}")
    total = comm.all_reduce(np.full(1000, comm.rank + 1.0, dtype="float32"))
    assert (total == sum(range(1, comm.size + 1))).all()
    comm.finalize()
else:
    import torch
    import torch.distributed as dist

    import weftcomm_torch  # noqa: F401

    try:
        dist.init_process_group("weft")
        x = torch.full((1000,), dist.get_rank() + 1.0)
        dist.all_reduce(x)
    except Exception as problem:  # noqa: BLE001
        sys.exit(f"{type(problem).__name__}: {problem}")
    assert (x == sum(range(1, dist.get_world_size() + 1))).all()
    dist.destroy_process_group()
