"""Messages beyond the plain ones, and tensors whose memory has gaps. Jobs of one rank: NAME RANK RANKS FILE BACKEND."""

import multiprocessing
import os
import re
import signal
import sys
import time
from datetime import timedelta

import torch
import torch.distributed as dist
from rank import main, sentence


def ring(value, group=None, tag=0):
    """What the rank before sent: `value` of each goes to the rank after it."""
    n, r = dist.get_world_size(group), dist.get_rank(group)
    out, into = torch.full((1000,), float(value)), torch.empty(1000)
    sends = dist.P2POp(dist.isend, out, group=group, tag=tag, group_peer=(r + 1) % n)
    receives = dist.P2POp(dist.irecv, into, group=group, tag=tag, group_peer=(r - 1) % n)
    for work in dist.batch_isend_irecv([sends, receives]):
        work.wait()
    assert (into == into[0]).all()
    return into[0].item()


def to_itself(rank, ranks):
    """An all_to_all of messages whose own part is a message, too; receives before their sends, tags out of order."""
    into = [torch.empty(rank + 1) for _ in range(ranks)]
    works = [dist.irecv(into[r], r) for r in range(ranks)]
    works += [dist.isend(torch.full((r + 1,), 10.0 * rank + r), r) for r in range(ranks)]
    for work in works:
        work.wait()
    assert [t.tolist() for t in into] == [[10.0 * r + rank] * (rank + 1) for r in range(ranks)]
    sends = [dist.isend(torch.full((2, 2), float(tag)), rank, tag=tag) for tag in (1, 2, 3)]
    found = torch.zeros(2, 4)[:, ::2]
    for tag in (3, 1, 2):
        dist.irecv(found, rank, tag=tag).wait()
        assert (found == tag).all()
    for work in sends:
        work.wait()
    own = dist.isend(torch.ones(1), rank, tag=9)
    any_rank = torch.zeros(1)
    received = dist.irecv(any_rank, tag=9)  # torch's recv() refuses a message from itself after it has come
    received.wait()
    assert received._source_rank() == rank and any_rank == 1
    own.wait()
    dist.barrier()
    print("right")


def made_again(rank, ranks):
    """Groups on one store, one after the other: a rank may be in the next one before another has left the last one."""
    dist.destroy_process_group()
    store = dist.FileStore(sys.argv[4] + "_again", ranks)
    for life in range(4):
        dist.init_process_group(sys.argv[5], store=store, rank=rank, world_size=ranks, timeout=timedelta(seconds=20))
        if life != 1:  # the second one ends without a call
            assert ring(100 * life + rank) == 100 * life + (rank - 1) % ranks
            x = torch.ones(3)
            dist.all_reduce(x)
            assert x.tolist() == [ranks] * 3
        dist.destroy_process_group()
    print("right")


def messages_after_shrinking(rank, ranks):
    """Messages of a group do not come to those of the group that is made of it, twice."""
    assert ring(rank) == (rank - 1) % ranks
    if rank == ranks - 1:
        return print("right")
    group = dist.shrink_group([ranks - 1])
    assert ring(100 + rank, group) == 100 + (rank - 1) % (ranks - 1)
    if rank == ranks - 2:
        return print("right")
    group = dist.shrink_group([ranks - 2])
    assert ring(200 + rank, group, tag=5) == 200 + (rank - 1) % (ranks - 2)
    print("right")


def gaps(rank, ranks):
    """Elements are moved by their index, whatever lies between them in memory, and nothing between them is written."""

    def strided(value):
        return (torch.arange(6.0) + 100 * value).reshape(3, 2)[:, 1]

    x = strided(rank)
    dist.broadcast(x, 1)
    assert x.tolist() == strided(1).tolist()
    for root in range(ranks):
        around = torch.full((3, 2), -1.0)
        around[:, 1] = strided(rank)
        dist.reduce(around[:, 1], root)
        expected = sum(strided(r) for r in range(ranks)) if rank == root else strided(rank)
        assert around[:, 1].tolist() == expected.tolist() and (around[:, 0] == -1).all(), (rank, root, around)
    around = torch.full((3, 2), -1.0)
    dist.scatter(around[:, 1], [strided(10 + r) for r in range(ranks)] if rank == 0 else None, 0)
    assert around[:, 1].tolist() == strided(10 + rank).tolist() and (around[:, 0] == -1).all()
    square = torch.arange(16).reshape(4, 4)
    if rank == 0:
        dist.send(square.t(), 1)
    elif rank == 1:
        plain = torch.zeros(4, 4, dtype=torch.int64)
        dist.recv(plain, 0)
        assert torch.equal(plain, square.t())
    image = torch.arange(24.0).reshape(1, 2, 3, 4)
    mine = image.to(memory_format=torch.channels_last if rank == 0 else torch.contiguous_format).clone()
    dist.all_reduce(mine)
    assert torch.equal(mine, ranks * image)
    print("right")


def own_lists(rank, ranks):
    """Ranks that call new_group() with the list of their own group only: torch gives all of those groups one name."""
    mine = [0, 3] if rank in (0, 3) else [1, 2]
    group = dist.new_group(mine)
    x = torch.ones(1) * rank
    dist.all_reduce(x, group=group)
    assert x.item() == 3, x
    print("right")


def other_list(rank, ranks):
    """Two lists of one group that have rank 1 in common."""
    print(sentence(lambda: dist.new_group([0, 1] if rank == 0 else [0, 1, 2], timeout=timedelta(seconds=5))))
    sys.stdout.flush()
    os._exit(0)


def set_timeout(rank, ranks):
    """torch's function for a group that exists."""
    from torch.distributed import distributed_c10d as c10d

    group = dist.new_group(timeout=timedelta(seconds=100))
    dist.barrier(group=group)
    c10d._set_pg_timeout(timedelta(seconds=1), group)
    if rank == 1:
        time.sleep(4)
        os._exit(0)
    began = time.monotonic()
    said = sentence(lambda: dist.all_reduce(torch.ones(1), group=group))
    print("right" if "waited 1000 ms for rank 1" in said and time.monotonic() - began < 4 else said)
    sys.stdout.flush()
    os._exit(0)


def whoever_moves_them(rank, ranks):
    """Messages that their waiter moves, a thread of the group, or a callback: in any order of waits, or without any."""
    import threading

    peer = 1 - rank
    big = 1 << 20  # elements: more than the other end takes before it is asked for

    def values(tag, size):
        return torch.arange(size, dtype=torch.float32) + 1000.0 * rank + tag

    def check(into, tag):
        assert torch.equal(into, values(tag, len(into)) + 1000.0 * (peer - rank)), (tag, into[:4])

    for turn in range(30):
        # The second is waited for first; big and small ones are mixed; both ranks send before they receive.
        sizes = [1, big if turn % 10 == 0 else 3, 0, 500, 20000]
        sends = [dist.isend(values(tag, size), peer, tag=tag) for tag, size in enumerate(sizes)]
        into = [torch.empty(size) for size in sizes]
        works = [dist.irecv(t, peer, tag=tag) for tag, t in enumerate(into)]
        for tag in (1, 0, 4, 3, 2):
            works[tag].wait()
            check(into[tag], tag)
        for work in sends:
            work.wait()
    # Nobody waits: they are looked at, or have a callback.
    sends = [dist.isend(values(tag, 100), peer, tag=tag) for tag in range(3)]
    looked_at, called, forgotten = torch.empty(100), torch.empty(100), torch.empty(100)
    work, called_back = dist.irecv(looked_at, peer, tag=1), threading.Event()
    dist.irecv(called, peer, tag=2).get_future().then(lambda _: called_back.set())
    kept = dist.irecv(forgotten, peer, tag=0)
    until = time.monotonic() + 20
    while not work.is_completed() and time.monotonic() < until:
        time.sleep(0.001)
    check(looked_at, 1)
    assert called_back.wait(20)
    check(called, 2)
    time.sleep(0.1)
    check(forgotten, 0)  # moved although nobody has asked since
    assert kept.is_completed()
    for work in sends:
        work.wait()
    # A wait that gives up leaves the message to a later one.
    if rank == 0:
        late = torch.empty(3)
        work = dist.irecv(late, peer, tag=7)
        assert sentence(lambda: work.wait(timedelta(milliseconds=50))) != "nothing"
        dist.barrier()
        work.wait()
        check(late, 7)
    else:
        dist.barrier()
        dist.send(values(7, 3), peer, tag=7)
    # Threads that wait for messages of one channel at the same time.
    into = [torch.empty(10) for _ in range(40)]
    works = [dist.irecv(t, peer, tag=tag) for tag, t in enumerate(into)]

    def wait_for(those):
        for tag in those:
            works[tag].wait()
            check(into[tag], tag)

    threads = [threading.Thread(target=wait_for, args=(range(first, 40, 3),)) for first in (2, 0, 1)]
    for thread in threads:
        thread.start()
    for tag in range(40):
        dist.isend(values(tag, 10), peer, tag=tag)
    for thread in threads:
        thread.join(20)
        assert not thread.is_alive()
    dist.barrier()
    print("right")


def longer_for_one_call(rank, ranks):
    """Timeouts that are longer until the first call has ended: of calls and of messages."""
    group = dist.new_group(timeout=timedelta(seconds=1))
    peer = 1 - rank
    dist.all_reduce(torch.ones(1), group=group)
    for kind in ("call", "message"):
        group._add_ephemeral_timeout(timedelta(seconds=9))
        if rank == 1:
            time.sleep(2)
        x = torch.ones(2)
        if kind == "call":
            work = dist.all_reduce(x, group=group, async_op=True)
        else:
            work = dist.isend(x, peer, group=group) if rank == 1 else dist.irecv(x, peer, group=group)
        assert work.timeout == timedelta(seconds=10), work.timeout
        second = dist.barrier(group=group, async_op=True) if kind == "message" else work
        assert second.timeout == timedelta(seconds=10) or rank == 1  # whose send may have ended before
        work.wait()
        second.wait()
        dist.barrier()
        third = dist.barrier(group=group, async_op=True)
        assert third.timeout == timedelta(seconds=1), (kind, third.timeout)
        third.wait()
    print("right")


def peer_dies_first(rank, ranks):
    """Rank 1 dies before it has had any message with the others."""
    dist.barrier()
    if rank == 1:
        time.sleep(0.5)
        os.kill(os.getpid(), signal.SIGKILL)
    began = time.monotonic()
    calls = {
        "recv from rank 1 with tag 7": lambda: dist.recv(torch.ones(1), 1, tag=7),
        "send to rank 1 with tag 0": lambda: dist.send(torch.ones(1), 1),
        "send to rank 1 with tag 2": lambda: dist.send(torch.ones(1 << 20), 1, tag=2),
    }
    for words, call in calls.items():
        said = sentence(call)
        if not re.fullmatch(rf"DistBackendError: rank {rank}: {words}: .*rank 1 .*has ended", said):
            print(said)
    took = time.monotonic() - began
    print("right" if took < 15 else f"late: {took:.1f} s")  # torch 2.15 writes its flight record first, for some seconds
    sys.stdout.flush()
    os._exit(0)


def peer_dies_later(rank, ranks):
    """Rank 1 has exchanged messages with both others; what it raised is read by those who wait for a message."""
    for other in (0, 2):
        if rank == 1:
            dist.send(torch.ones(1), other)
        elif rank == other:
            dist.recv(torch.ones(1), 1)
    dist.barrier()
    if rank == 1:
        raise RuntimeError("my own trouble")
    said = sentence(lambda: dist.recv(torch.ones(1), 1))
    right = f"DistBackendError: rank {rank}: recv from rank 1 with tag 0: "
    print("right" if said.startswith(right) and said.endswith("rank 1 raised RuntimeError: my own trouble") else said)
    sys.stdout.flush()
    os._exit(0)


def serve_store(port):
    store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    port.send(store.port)
    time.sleep(100)


def store_dies_first(rank, ranks):
    """The store's process has died before two ranks meet for their first message."""
    file = dist.FileStore(sys.argv[4] + "_ports", ranks)
    if rank == 0:
        here, there = multiprocessing.Pipe()
        server = multiprocessing.get_context("spawn").Process(target=serve_store, args=(there,), daemon=True)
        server.start()
        file.set("port", str(here.recv()))
    store = dist.TCPStore("127.0.0.1", int(file.get("port")), is_master=False)
    dist.destroy_process_group()
    dist.init_process_group("weft", store=store, rank=rank, world_size=ranks, timeout=timedelta(seconds=20))
    dist.barrier()
    if rank == 0:
        server.kill()
        server.join()
        file.set("killed", "")
    file.get("killed")
    began = time.monotonic()
    said = sentence(lambda: dist.send(torch.ones(1), 1) if rank == 0 else dist.recv(torch.ones(1), 0))
    named = "the store that the ranks meet by does not answer" in said or "has ended" in said
    print("right" if named and time.monotonic() - began < 10 else said)
    sys.stdout.flush()
    os._exit(0)


def sizes_differ(rank, ranks):
    """A message of another size: the error has the ranks and the tag, and later messages are right."""
    if rank == 0:
        dist.send(torch.ones(6), 1, tag=3)
        dist.send(torch.full((2,), 5.0), 1, tag=4)
    else:
        said = sentence(lambda: dist.recv(torch.ones(4), 0, tag=3))
        wanted = "DistBackendError: rank 1: recv from rank 0 with tag 3: the message has 24 bytes, and the tensor 16"
        got = torch.zeros(2)
        dist.recv(got, 0, tag=4)
        print("right" if said == wanted and got.tolist() == [5, 5] else said)
    late = dist.irecv(torch.ones(1), 1 - rank, tag=9)
    said = sentence(lambda: late.wait(timedelta(milliseconds=300)))
    if "weft: Operation timed out! weft:recv" not in said or "has not ended within 300 ms" not in said:
        print(said)
    if rank == 0:
        print("right")
    sys.stdout.flush()
    dist.barrier()
    os._exit(0)


def long_list(rank, ranks):
    parts = [torch.empty(1)] * (ranks + 1)
    print(sentence(lambda: dist.all_gather(parts, torch.ones(1))), flush=True)


if __name__ == "__main__":
    main(globals())
