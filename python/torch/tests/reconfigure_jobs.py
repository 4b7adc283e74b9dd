"""Programs of one rank whose group changes its members, which torch has from 2.14 on: as jobs.py, without a first meeting.

Ranks exchange handles through the store: a list of handles is a key's prefix and the ranks of the job in their new order.
"""

import os
import signal
import subprocess
import sys
import time
from datetime import timedelta

import torch
import torch.distributed as dist
from rank import sentence
from torch._C._distributed_c10d import ErrorType


class Job:
    """This rank of the job: `reconfigure` makes the ranks that are named the group's members."""

    def __init__(self, rank, ranks, file, backend):
        self.rank, self.ranks, self.file = rank, ranks, file
        self.store = dist.FileStore(file, ranks)
        dist.init_process_group(
            backend, store=self.store, rank=rank, world_size=ranks, timeout=timedelta(seconds=30), enable_reconfigure=True
        )
        self.group = dist.distributed_c10d._get_default_group()
        self.backend = self.group._get_backend(torch.device("cpu"))
        self.store.set(f"handle/{rank}", dist._get_reconfigure_handle())

    def handles(self, ranks):
        return [self.store.get(f"handle/{r}").decode() for r in ranks]

    def reconfigure(self, uuid, ranks, timeout=30.0):
        dist._reconfigure(uuid, self.handles(ranks), timeout=timedelta(seconds=timeout)).wait()
        assert dist.get_world_size() == len(ranks) and dist.get_rank() == ranks.index(self.rank)

    def meet(self, name, ranks=None):
        """Waits until these ranks of the job have come here, without the group."""
        self.store.set(f"{name}/{self.rank}", "here")
        for r in range(self.ranks) if ranks is None else ranks:
            self.store.get(f"{name}/{r}")

    def sums_right(self, size=4):
        x = torch.full((size,), dist.get_rank() + 1.0)
        dist.all_reduce(x)
        n = dist.get_world_size()
        return bool((x == n * (n + 1) / 2).all())


def changes(job):
    """Shrinks, grows, turns round, splits and merges; the group object stays the same."""
    assert dist._supports_reconfigure() and job.group.rank() == job.rank and job.group.size() == job.ranks
    said = sentence(lambda: dist.all_reduce(torch.ones(1)))
    assert said == "DistBackendError: weft: the group has no members: call reconfigure() with their handles", said
    everybody = list(range(job.ranks))
    job.reconfigure(1, everybody)
    assert job.sums_right() and job.sums_right(1 << 18)
    job.meet("shrink")
    if job.rank != 1:
        job.reconfigure(2, [0, 2])
        assert job.sums_right()
        x = torch.full((3,), 42.0 if dist.get_rank() == 0 else 0.0)
        dist.broadcast(x, group_src=0)
        assert x.tolist() == [42.0] * 3
    job.meet("grow")
    job.reconfigure(3, everybody[::-1])
    assert job.sums_right()
    right, left = (dist.get_rank() + 1) % job.ranks, (dist.get_rank() - 1) % job.ranks
    for n in range(2):  # messages, of these members and not of the earlier ones
        received = torch.empty(2)
        works = [dist.isend(torch.full((2,), float(dist.get_rank() + n)), right), dist.irecv(received, left)]
        for work in works:
            work.wait()
        assert received.tolist() == [left + n] * 2
    everybody_gives = [None] * job.ranks
    dist.all_gather_object(everybody_gives, job.rank)
    assert everybody_gives == everybody[::-1]
    job.meet("split")
    job.reconfigure(10 + job.rank, [job.rank])
    assert job.sums_right()
    job.meet("merge")
    job.reconfigure(20, everybody)
    assert job.sums_right()
    dist._reconfigure(21, set(job.handles(everybody))).wait()  # of a set, weft chooses the order
    assert job.sums_right() and sorted(everybody) == everybody
    print("right")


def numbers_begin_anew(job):
    import weftcomm_torch

    everybody = list(range(job.ranks))
    job.reconfigure(1, everybody[:-1]) if job.rank < job.ranks - 1 else None
    for _ in range(job.rank * 0 + 3):
        if job.rank < job.ranks - 1:
            dist.all_reduce(torch.ones(1))
    job.meet("grow")
    job.reconfigure(2, everybody)
    assert job.group._get_sequence_number_for_group() == 0
    dist.all_reduce(torch.ones(1))
    assert job.group._get_sequence_number_for_group() == 1
    last = weftcomm_torch.flight_record()["entries"][-1]
    assert last["collective_seq_id"] == 1 and last["process_group"][0].endswith("/2"), last
    config = weftcomm_torch.flight_record()["pg_config"]
    assert sorted(config[last["process_group"][0]]["ranks"].strip("[]").replace(" ", "").split(",")) == [str(r) for r in everybody], config
    print("right")


def a_rank_dies_and_another_takes_its_place(job):
    """The survivors' group stays the same object, and so do their tensors; the newcomer gets them by broadcast."""
    everybody = list(range(job.ranks))
    newcomer = "NEWCOMER" in os.environ
    weights = torch.zeros(1000)
    if not newcomer:
        job.reconfigure(1, everybody)
        for _ in range(3):
            step = torch.ones(1000)
            dist.all_reduce(step)
            weights += step
        job.meet("before")
        if job.rank == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        begin = time.monotonic()
        said = ""
        while not said and time.monotonic() - begin < 10:
            said = sentence(lambda: dist.all_reduce(torch.ones(1000)))
            said = "" if said == "nothing" else said
        assert said.startswith("DistBackendError: ") and "rank 1" in said, said
        assert job.backend.get_error() == ErrorType.COMM_ERROR
        job.reconfigure(2, [0, 2])
        assert job.backend.get_error() == ErrorType.SUCCESS
        step = torch.ones(1000)
        dist.all_reduce(step)
        weights += step
        if job.rank == 0:
            replacement = subprocess.Popen([sys.executable, *sys.argv[:2], "1", *sys.argv[3:]], env={**os.environ, "NEWCOMER": "1"})
    else:
        job.store.set("newcomer", dist._get_reconfigure_handle())
    handles = job.handles([0, 2]) + [job.store.get("newcomer").decode()]
    dist._reconfigure(3, handles).wait()
    dist.broadcast(weights, group_src=0)
    step = torch.ones(1000)
    dist.all_reduce(step)
    weights += step
    assert weights.tolist() == [3.0 * 3 + 2 + 3] * 1000 and dist.get_rank() == {0: 0, 2: 1, 1: 2}[job.rank]
    if job.rank == 0:
        assert replacement.wait(60) == 0
    print("newcomer" if newcomer else "right", flush=True)


def training_goes_on(job):
    """DDP is not made anew when a member leaves: it asks the group for its size at every step."""
    from torch.nn.parallel import DistributedDataParallel

    everybody = list(range(job.ranks))
    job.reconfigure(1, everybody)
    torch.manual_seed(1)
    layers = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.Linear(64, 4))
    model = DistributedDataParallel(layers)

    def gradient():
        layers.zero_grad()
        model(torch.full((2, 64), dist.get_rank() + 1.0)).sum().backward()
        return layers[1].bias.grad.clone(), layers[0].weight.grad.sum().item()

    first = [gradient() for _ in range(2)][-1]
    assert first[0].tolist() == [2.0] * 4
    job.meet("shrink")
    if job.rank == 1:
        print("right", flush=True)
        os._exit(0)
    job.reconfigure(2, [0, 2])
    second = gradient()
    assert second[0].tolist() == [2.0] * 4  # an average of two now
    assert abs(second[1] / first[1] - 1.5 / 2) < 1e-5, (first[1], second[1])  # inputs 1, 2 instead of 1, 2, 3
    print("right")


def calls_under_way_end(job):
    """reconfigure() does not wait for calls that a member has not joined, and abort() can be followed by it."""
    everybody = list(range(job.ranks))
    job.reconfigure(1, everybody)
    if job.rank != 0:
        work = dist.all_reduce(torch.ones(4), async_op=True)  # rank 0 never comes
        message = dist.irecv(torch.ones(1), 0)
        anybody = dist.irecv(torch.ones(1))
    job.meet("under way")
    begin = time.monotonic()
    job.reconfigure(2, everybody)
    assert time.monotonic() - begin < 10  # the timeout of the calls is 30 s
    if job.rank != 0:
        assert sentence(work.wait).startswith("DistBackendError: "), sentence(work.wait)
        assert "aborted" in sentence(anybody.wait), sentence(anybody.wait)
        del message  # of a channel that nobody has opened: it ends when its time is up
    assert job.sums_right()
    job.meet("abort")
    job.backend.abort()
    assert job.backend.get_error() == ErrorType.COMM_ERROR
    job.meet("aborted")
    job.reconfigure(3, everybody)
    assert job.backend.get_error() == ErrorType.SUCCESS and job.sums_right()
    print("right", flush=True)
    os._exit(0)


def after_a_timeout(job):
    everybody = list(range(job.ranks))
    job.reconfigure(1, everybody)
    assert job.sums_right()
    calls = []
    job.backend.register_abort_hook(0, lambda: calls.append("called"))
    job.backend.set_timeout(timedelta(seconds=1))
    if job.rank != 0:
        work = dist.all_reduce(torch.ones(4), async_op=True)
        assert "timed out" in sentence(work.wait).lower() and calls == ["called"]
        assert job.backend.get_error() in (ErrorType.TIMEOUT, ErrorType.COMM_ERROR)
        said = sentence(lambda: dist.all_reduce(torch.ones(4), async_op=True))  # refused at once
        assert said.startswith("DistBackendError: weft: an earlier call timed out, and reconfigure() has not been"), said
    job.backend.set_timeout(timedelta(seconds=30))
    job.meet("observed")
    job.reconfigure(2, everybody)
    assert job.sums_right() and calls == ([] if job.rank == 0 else ["called"])
    print("right")


def refusals(job):
    own = dist._get_reconfigure_handle()
    assert own == dist._get_reconfigure_handle() and own.startswith("weft:")
    other = job.handles([1 - job.rank])[0]
    for handles, says in (
        ([other], "this rank's own handle is not among the 1 handles"),
        ([own, other, own], "a handle is there more than once"),
        ([own, "gloo:0:1:2:"], "'gloo:0:1:2:' is not a handle that weft's get_reconfigure_handle() has given"),
        ([], "not among the 0 handles"),
    ):
        said = sentence(lambda: dist._reconfigure(1, handles))
        assert said.startswith("RuntimeError: weft: ") and says in said, said
    job.reconfigure(100 + job.rank, [job.rank])
    said = sentence(lambda: dist._reconfigure(100 + job.rank, [own]))
    assert said == f"RuntimeError: weft: uuid {100 + job.rank} was already used; every reconfigure() needs a new one", said
    assert job.sums_right()  # it still has its members
    job.meet("used")
    said = sentence(lambda: dist._reconfigure(101 - job.rank, [own]))  # by another group with this store
    assert "was already used" in said, said
    # The order differs: rank 1 of the job is rank 1 by its list, and finds another list by this uuid.
    job.meet("order")
    mine = [own, other] if job.rank == 0 else [other, own, "weft:7:7"]
    said = sentence(lambda: dist._reconfigure(5, mine, timeout=timedelta(seconds=1)))
    assert ("stand for other handles" in said or "stands for other handles" in said) if job.rank == 1 else "Timed out" in said, said
    said = sentence(lambda: dist.all_reduce(torch.ones(1)))
    assert "the group has no members" in said, said
    job.meet("late")
    if job.rank == 1:
        begin = time.monotonic()
        said = sentence(lambda: dist._reconfigure(6, [other, own], timeout=timedelta(seconds=1)))  # rank 0 does not come
        assert said.startswith("DistBackendError: weft: Timed out: reconfigure(): rank 0 of 2 did not come"), said
        assert time.monotonic() - begin < 5
    job.meet("again")
    job.reconfigure(7, [1, 0])
    assert job.sums_right()
    print("right")


if __name__ == "__main__":
    torch.set_num_threads(1)
    job = Job(int(sys.argv[2]), int(sys.argv[3]), *sys.argv[4:6])
    globals()[sys.argv[1]](job)
    sys.stdout.flush()
    dist.destroy_process_group()
