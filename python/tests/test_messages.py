"""Messages with tags, from any source, started and awaited; groups that grow."""

import asyncio
import threading

import numpy as np
import pytest

import weftcomm as weft


def test_tags_match_messages_in_any_order_of_calls():
    def program(comm):
        if comm.rank == 0:
            comm.send(np.array([1.0]), to=1, tag=1)
            comm.send(np.array([2.0, 2.5]), to=1, tag=2)
            return None
        two, one = np.zeros(4), np.zeros(1)
        second = comm.receive(two, 0, tag=2)
        first = comm.receive(one, 0, tag=1)
        return two.tolist(), one.tolist(), second, first

    _, got = weft.run_threads(2, program)
    assert got == ([2.0, 2.5, 0.0, 0.0], [1.0], weft.Message(0, 2, 2), weft.Message(0, 1, 1))


def test_any_source_and_any_tag_say_who_sent_what():
    def program(comm):
        if comm.rank > 0:
            comm.send(np.full(comm.rank, comm.rank), to=0, tag=10 + comm.rank)
            return None
        out = np.zeros(8, int)
        taken = [comm.receive(out, weft.ANY_SOURCE, tag=weft.ANY_TAG) for _ in range(comm.size - 1)]
        return sorted((m.source, m.tag, m.count) for m in taken)

    assert weft.run_threads(4, program)[0] == [(1, 11, 1), (2, 12, 2), (3, 13, 3)]


@pytest.mark.parametrize("count", [4, 1_000_000])
def test_started_messages_do_not_wait_for_each_other(count):
    """Both ranks start the receive first: a queue that took one after the other would not end."""

    def program(comm):
        out = np.empty(count)
        coming = comm.receive(out, 1 - comm.rank, tag=3, wait=False)
        going = comm.send(np.full(count, float(comm.rank)), 1 - comm.rank, tag=3, wait=False)
        taken = coming.result()
        assert going.result() is None and going.done() and coming.done()
        return taken, out[0], out[-1]

    assert weft.run_threads(2, program) == [
        (weft.Message(1, 3, count), 1.0, 1.0),
        (weft.Message(0, 3, count), 0.0, 0.0),
    ]


def test_a_started_message_is_awaited():
    async def one(comm):
        out = np.empty(3)
        coming = comm.receive(out, 1 - comm.rank, tag=0, wait=False)
        await comm.send(np.full(3, float(comm.rank)), 1 - comm.rank, tag=0, wait=False)
        return (await coming).count, out.tolist()

    def program(comm):
        return asyncio.run(one(comm))

    assert weft.run_threads(2, program) == [(3, [1.0] * 3), (3, [0.0] * 3)]


def test_what_matches_nothing_times_out_and_breaks_nothing():
    def program(comm):
        with pytest.raises(weft.Timeout) as caught:
            comm.receive(np.empty(1), weft.ANY_SOURCE, tag=5, timeout=0.05)
        assert "\n" not in str(caught.value)
        return float(comm.all_reduce(1.0))

    assert weft.run_threads(2, program) == [2.0, 2.0]


def test_the_timeout_of_a_started_message_counts_from_its_start():
    a, _ = weft.threads(2)
    coming = a.receive(np.empty(1), 1, tag=5, timeout=0.1, wait=False)
    assert coming.wait(0) is False
    assert coming.wait(20) is True
    with pytest.raises(weft.Timeout):
        coming.result()
    never = a.receive(np.empty(1), 1, tag=6, wait=False)
    assert never.wait(0.05) is False
    assert not never.done()


def test_a_timeout_of_zero_looks_once_and_does_not_wait():
    a, b = weft.threads(2)
    with pytest.raises(weft.Timeout):
        a.receive(np.empty(1), 1, tag=5, timeout=0)
    b.send(np.ones(1), 0, tag=5)
    assert a.receive(np.empty(1), 1, tag=5, timeout=0) == weft.Message(1, 5, 1)
    for call in (lambda: a.set_timeout(0), lambda: weft.init(timeout=0), lambda: weft.connect("", 0, 1, timeout=0)):
        with pytest.raises(weft.InvalidArgument, match="a timeout of 0 s"):
            call()


def test_a_meeting_place_that_nobody_kept_is_named():
    comm = weft.threads(1)[0]
    with pytest.raises(weft.InvalidArgument, match="the MeetingPlace of this id has been dropped"):
        comm.grow(weft.MeetingPlace(2).id, 2)


def test_a_message_that_is_too_long_is_a_mismatch_that_breaks_nothing():
    def program(comm):
        if comm.rank == 0:
            comm.send(np.ones(9), to=1, tag=0)
        else:
            with pytest.raises(weft.Mismatch):
                comm.receive(np.empty(4), 0, tag=0)
        return float(comm.all_reduce(1.0))

    assert weft.run_threads(2, program) == [2.0, 2.0]


def test_wrong_arguments_of_messages_are_one_line():
    comm = weft.threads(2)[0]
    for call, words in (
        (lambda: comm.receive(np.empty(1), weft.ANY_SOURCE), "ANY_SOURCE goes with a tag"),
        (lambda: comm.send(np.empty(1), 1, timeout=1), "goes with a tag"),
        (lambda: comm.send(np.empty(1), 1, tag=-7), "tag"),
        (lambda: comm.send(np.empty(1), 9, tag=0), "9"),
        (lambda: comm.receive(np.empty(1), 9, tag=0, wait=False), "9"),
    ):
        with pytest.raises(weft.InvalidArgument, match=words) as caught:
            call()
        assert "\n" not in str(caught.value)


def test_a_communicator_grows_by_ranks_that_connect():
    """Two ranks meet over TCP, then a third joins them."""
    first, all_three = weft.MeetingPlace(2), weft.MeetingPlace(3)

    def founder(rank, results):
        comm = weft.connect(first.id, rank, 2, transport="tcp")
        grown = comm.grow(all_three.id if rank == 0 else None, 3)
        results[rank] = (grown.rank, grown.size, float(grown.all_reduce(float(rank))), float(comm.all_reduce(1.0)))

    def newcomer(results):
        grown = weft.connect(all_three.id, 2, 3, transport="tcp")
        results[2] = (grown.rank, grown.size, float(grown.all_reduce(2.0)))

    results = {}
    members = [threading.Thread(target=founder, args=(rank, results)) for rank in range(2)]
    members.append(threading.Thread(target=newcomer, args=(results,)))
    for member in members:
        member.start()
    for member in members:
        member.join(120)
    assert results == {0: (0, 3, 3.0, 2.0), 1: (1, 3, 3.0, 2.0), 2: (2, 3, 3.0)}


def test_a_started_message_that_is_dropped_keeps_its_array_until_it_is_done():
    def program(comm):
        other = 1 - comm.rank
        for turn in range(20):
            comm.receive(np.empty(50_000), other, tag=turn, wait=False)
            comm.send(np.full(50_000, float(turn)), other, tag=turn, wait=False)
            np.full(50_000, -1.0)  # takes memory that was freed too early
        return float(comm.all_reduce(1.0))

    assert weft.run_threads(2, program) == [2.0, 2.0]


@pytest.mark.parametrize("wait", [True, False])
def test_arrays_that_cannot_be_communicated_are_refused_by_one_line(wait):
    comm = weft.threads(2)[0]
    for array, words in (
        (np.array([object()]), "Python objects"),
        (np.arange(3, dtype=">i4"), "byte order"),
        (np.arange(3, dtype="longdouble"), "element type"),
    ):
        for call in (
            lambda: comm.send(array, 1, tag=0, wait=wait),
            lambda: comm.receive(array, 1, tag=0, wait=wait),
            lambda: comm.send(array, 1, wait=wait),
            lambda: comm.broadcast(array, wait=wait),
        ):
            with pytest.raises(TypeError, match=words) as caught:
                call()
            assert "\n" not in str(caught.value)
    with pytest.raises(ValueError, match="not contiguous"):
        comm.receive(np.empty(6)[::2], 1, tag=0, wait=wait)
    with pytest.raises(ValueError, match="cannot be cut into 2 equal parts"):
        comm.reduce_scatter(np.empty((3, 2)), wait=wait)
    with pytest.raises(ValueError, match="do not fit"):
        comm.all_gather(np.empty(3), out=np.empty(5), wait=wait)
