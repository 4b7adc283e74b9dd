"""Three members configure one quorum after the other, without torchft's manager. Each prints what every quorum was made of."""

import time
from datetime import timedelta

import torch
import torch.distributed as dist
import torch.multiprocessing as mp

QUORUM = timedelta(seconds=4)


def member(number, port):
    from weftcomm_torch import torchft as weft_torchft

    group = weft_torchft.ProcessGroupWeft(timeout=QUORUM)

    def configure(quorum, rank, size):
        group.configure(f"127.0.0.1:{port}/quorum{quorum}/0", f"replica_{number}", rank, size, quorum, 0, 1, list(range(size)))
        x = torch.tensor([number + 1.0])
        group.allreduce([x], dist.AllreduceOptions()).wait()
        assert x.item() == (6 if size == 3 else 3), x

    configure(1, number, 3)
    if number < 2:
        configure(2, number, 2)  # member 2 lives, and is waited for as long as a meeting may take
    else:
        time.sleep(1.5 * QUORUM.total_seconds())
    group.set_timeout(timedelta(seconds=30))
    configure(3, number, 3)
    configure(4, number, 3)
    if number == 1:
        group.abort()
    configure(5, number, 3)
    configure(6, 2 - number, 3)
    out = torch.empty(1)
    group.reduce_scatter([out], [[torch.tensor([r + 1.0]) for r in range(3)]], dist.ReduceScatterOptions()).wait()
    assert out.item() == 3 * (3 - number), out
    assert group.errored() is None
    print("quorums of", number, [c.how for c in group.log], flush=True)


if __name__ == "__main__":
    store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    mp.spawn(member, args=(store.port,), nprocs=3)
