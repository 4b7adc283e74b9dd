"""What each program ends with."""

import hashlib

import torch
import torch.distributed as dist


def finish(model, loss):
    """On rank 0: the loss, a digest of the weights, and who carried the groups."""
    if dist.get_rank() == 0:
        weights = b"".join(p.detach().contiguous().view(torch.uint8).numpy().tobytes() for p in model.parameters())
        carried_by(f"loss {float(loss):.6f} weights {hashlib.sha256(weights).hexdigest()[:12]}")
    dist.barrier()
    dist.destroy_process_group()


def carried_by(answer):
    import weftcomm_torch

    print(f"ANSWER {answer}")
    print(f"CARRIED {len(weftcomm_torch.active())} groups by weft", flush=True)
