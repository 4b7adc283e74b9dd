"""Ranks as threads of one process: shapes, types, refusals, asynchronous calls."""

import array
import asyncio
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

import weftcomm as weft

DTYPES = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "float32", "float64"]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("ranks", [1, 2, 3])
def test_all_reduce_sums_every_type_on_every_rank(dtype, ranks):
    def program(comm):
        x = np.arange(10, dtype=dtype) + np.array(comm.rank, dtype)
        y = comm.all_reduce(x)
        assert y is not x and y.dtype == x.dtype and y.shape == x.shape
        return y

    expected = ranks * np.arange(10) + sum(range(ranks))
    for y in weft.run_threads(ranks, program):
        np.testing.assert_array_equal(y, expected.astype(dtype))


@pytest.mark.parametrize("name", ["bfloat16", "float8_e4m3fn", "float8_e5m2"])
def test_all_reduce_takes_the_small_floats_of_ml_dtypes(name):
    ml_dtypes = pytest.importorskip("ml_dtypes")
    x = np.array([1, 2, -3, 0.5], getattr(ml_dtypes, name))
    for y in weft.run_threads(2, lambda comm: comm.all_reduce(x)):
        assert y.dtype == x.dtype
        np.testing.assert_array_equal(y.astype("float32"), [2, 4, -6, 1])


@pytest.mark.parametrize("op, expected", [("sum", 6), ("prod", 6), ("min", 1), ("max", 3), ("avg", 2)])
def test_operations_are_chosen_by_name(op, expected):
    assert weft.run_threads(3, lambda c: float(c.all_reduce(np.float64(c.rank + 1), op))) == [expected] * 3


def test_a_number_is_an_array_without_dimensions():
    y = weft.run_threads(2, lambda c: c.all_reduce(1.5))[0]
    assert y.shape == () and y == 3.0


def test_the_sum_of_booleans_is_their_or_and_the_product_their_and():
    mine = [np.array([False, True, True]), np.array([False, False, True])]
    for y in weft.run_threads(2, lambda c: c.all_reduce(mine[c.rank])):
        assert y.dtype == bool and y.tolist() == [False, True, True]
    assert weft.run_threads(2, lambda c: c.all_reduce(mine[c.rank], "prod").tolist())[0] == [False, False, True]


def test_all_reduce_in_place_uses_the_arrays_own_memory():
    def program(comm):
        x = np.full((3, 4), comm.rank + 1.0)
        assert comm.all_reduce(x, out=x) is x
        return x

    assert all((x == 3).all() for x in weft.run_threads(2, program))


def test_an_input_with_strides_is_copied_and_its_output_is_contiguous():
    def program(comm):
        x = np.arange(12.0).reshape(3, 4).T[::2]
        return comm.all_reduce(x)

    expected = 2 * np.arange(12.0).reshape(3, 4).T[::2]
    np.testing.assert_array_equal(weft.run_threads(2, program)[1], expected)


def test_gathered_parts_lie_along_axis_0_or_a_new_one():
    def program(comm):
        x = np.full((2, 3), comm.rank, "int32")
        return comm.all_gather(x), comm.all_gather(x, stack=True), comm.gather(x, root=1)

    both = weft.run_threads(2, program)
    for rank, (flat, stacked, gathered) in enumerate(both):
        assert flat.shape == (4, 3) and (flat[:2] == 0).all() and (flat[2:] == 1).all()
        assert stacked.shape == (2, 2, 3)
        assert (gathered is None) == (rank == 0)


def test_parts_that_differ_are_given_by_counts():
    def program(comm):
        gathered = comm.all_gather(np.full((comm.rank + 1, 2), comm.rank), counts=[1, 2, 3])
        part = comm.reduce_scatter(np.arange(6.0), counts=[1, 2, 3])
        send = [1, 2, 3]
        receive = [comm.rank + 1] * 3
        sent = comm.all_to_all(np.full(6, comm.rank), send_counts=send, receive_counts=receive)
        return gathered, part, sent

    for rank, (gathered, part, sent) in enumerate(weft.run_threads(3, program)):
        assert gathered.shape == (6, 2) and gathered[:, 0].tolist() == [0, 1, 1, 2, 2, 2]
        assert part.tolist() == [[0.0], [3.0, 6.0], [9.0, 12.0, 15.0]][rank]
        assert sent.tolist() == [r for r in range(3) for _ in range(rank + 1)]


def test_every_other_collective_and_messages():
    def program(comm):
        part = comm.reduce_scatter(np.arange(4.0))
        swapped = comm.all_to_all(np.array([10 * comm.rank, 10 * comm.rank + 1]))
        x = np.full(3, comm.rank)
        comm.broadcast(x, root=1)
        total = comm.reduce(np.float32(2), root=0)
        piece = comm.scatter(np.arange(2) if comm.rank == 0 else None, np.empty(1, int), root=0)
        comm.barrier()
        other = np.empty(2)
        if comm.rank == 0:
            comm.send(np.array([5.0, 6.0]), to=1)
        else:
            comm.receive(other, source=0)
        return part, swapped, x, total, piece, other

    zero, one = weft.run_threads(2, program)
    assert zero[0].tolist() == [0, 2] and one[0].tolist() == [4, 6]
    assert zero[1].tolist() == [0, 10] and one[1].tolist() == [1, 11]
    assert zero[2].tolist() == [1, 1, 1] and one[2].tolist() == [1, 1, 1]
    assert zero[3] == 4 and one[3] is None
    assert zero[4] == [0] and one[4] == [1]
    assert one[5].tolist() == [5.0, 6.0]


def test_registered_memory_is_an_array():
    def program(comm):
        x = comm.empty((8, 4), "float32")
        x[:] = comm.rank + 1
        comm.all_reduce(x, out=x)
        assert comm.empty(3, "bfloat16").dtype.name == "bfloat16"
        return x.copy()

    assert all((x == 3).all() and x.shape == (8, 4) for x in weft.run_threads(2, program))


def test_buffers_without_numpy_are_taken():
    import array

    def program(comm):
        x = array.array("d", [1.0, 2.0])
        comm.all_reduce(x, out=x)
        return x.tolist()

    assert weft.run_threads(2, program) == [[2.0, 4.0]] * 2


@pytest.mark.parametrize(
    "x, out, error, words",
    [
        (np.array([object()]), None, TypeError, "Python objects"),
        (np.arange(3, dtype=">i4"), None, TypeError, "byte order"),
        (np.ma.masked_array([1.0, 2.0], mask=[False, True]), None, TypeError, "masked array"),
        (np.arange(3, dtype="complex256"), None, TypeError, "element type"),
        (np.arange(3.0), np.empty(4), weft.InvalidArgument, "do not fit"),
        (np.arange(3.0), np.empty(3, "f4"), weft.InvalidArgument, "the input is of float64 and the output of float32"),
        (np.arange(3.0), np.empty(6)[::2], ValueError, "not contiguous"),
        (np.arange(3.0), b"012345678901234567890123", ValueError, "read-only"),
        ("text", None, TypeError, "str"),
    ],
)
def test_what_cannot_be_communicated_is_refused_by_one_line(x, out, error, words):
    comm = weft.threads(1)[0]
    with pytest.raises(error, match=words) as caught:
        comm.all_reduce(x, out=out)
    assert "\n" not in str(caught.value)


def test_an_array_that_was_refused_is_its_owners_again():
    comm = weft.threads(1)[0]
    x = array.array("u", "ab")
    with pytest.raises(TypeError, match="element type"):
        comm.all_reduce(x)
    x.append("c")  # a BufferError while somebody holds its memory


def test_wrong_arguments_are_value_errors_that_break_nothing():
    comm = weft.threads(1)[0]
    for call in (
        lambda: comm.all_reduce(np.ones(1), op="median"),
        lambda: comm.all_reduce(np.ones(1), op="and"),
        lambda: comm.broadcast(np.ones(1), root=3),
        lambda: comm.all_reduce(np.ones(1), algorithm="nonsense"),
        lambda: comm.all_reduce(np.ones(1), colour="red"),
        lambda: comm.all_gather(np.ones(2), counts=[1]),
    ):
        with pytest.raises(ValueError):
            call()
    assert comm.all_reduce(np.float32(1)) == 1


def test_started_calls_end_in_their_order_and_can_be_waited_for():
    def program(comm):
        works = [comm.all_reduce(np.full(1000, float(i)), wait=False) for i in range(10)]
        last = comm.all_reduce(np.ones(1))  # behind what was started
        assert all(w.done() for w in works)
        return [w.result()[0] for w in works], last[0]

    for sums, last in weft.run_threads(2, program):
        assert sums == [2.0 * i for i in range(10)] and last == 2


def test_a_work_is_not_done_before_its_peer_has_come():
    a, b = weft.threads(2)
    work = a.all_reduce(np.ones(4), wait=False)
    assert not work.wait(0.05) and not work.done()
    with pytest.raises(weft.Error):
        a.abort()
        work.result()
    del b


def test_a_work_can_be_awaited():
    async def both():
        a, b = weft.threads(2)
        first = a.all_reduce(np.ones(4), wait=False)
        second = b.all_reduce(np.ones(4), wait=False)
        return await asyncio.gather(asyncio.ensure_future(_as_coroutine(first)), asyncio.ensure_future(_as_coroutine(second)))

    for y in asyncio.run(both()):
        assert y.tolist() == [2.0] * 4


async def _as_coroutine(work):
    return await work


def test_split_gives_communicators_by_color():
    def program(comm):
        sub = comm.split(comm.rank % 2, key=-comm.rank)
        none = comm.split(None)
        return sub.rank, sub.size, float(sub.all_reduce(np.float64(comm.rank))), none

    assert weft.run_threads(3, program) == [(1, 2, 2.0, None), (0, 1, 1.0, None), (0, 2, 2.0, None)]


def test_agree_is_true_only_if_all_agree():
    assert weft.run_threads(2, lambda c: c.agree(True)) == [(True, [])] * 2
    assert weft.run_threads(2, lambda c: c.agree(c.rank == 0)) == [(False, [])] * 2


def test_a_mismatch_names_both_calls():
    def program(comm):
        try:
            comm.all_reduce(np.ones(4 if comm.rank == 0 else 8))
        except weft.Mismatch as e:
            return comm.rank, e

    errors = [found for found in weft.run_threads(2, program) if found is not None]
    assert errors
    for rank, error in errors:
        assert error.code == "mismatch" and error.operation == "all_reduce" and error.field == "count"
        calls = ["all_reduce of 4 ", "all_reduce of 8 "]
        assert error.mine.startswith(calls[rank]) and error.theirs.startswith(calls[1 - rank])


def test_abort_ends_what_other_ranks_wait_for():
    a, b = weft.threads(2)
    threading.Timer(0.1, a.abort).start()
    with pytest.raises(weft.Aborted) as caught:
        b.all_reduce(np.ones(1))
    assert caught.value.ranks == (0,)


def test_a_second_thread_inside_a_communicator_gets_an_exception():
    a, b = weft.threads(2)
    thread = threading.Thread(target=lambda: a.all_reduce(np.ones(1)))
    thread.start()
    import time

    time.sleep(0.1)
    with pytest.raises(weft.InvalidArgument, match="another thread"):
        a.all_reduce(np.ones(1))
    b.all_reduce(np.ones(1))
    thread.join()


@pytest.mark.parametrize("timeout", [-1, -1e-9, float("nan"), float("inf"), -float("inf"), 1e30, True, "1"])
def test_a_timeout_that_is_none_is_refused_by_every_call_that_takes_one(timeout):
    def program(comm):
        x = np.zeros(4, np.float32)
        calls = [
            lambda: comm.set_timeout(timeout),
            lambda: comm.barrier(timeout=timeout),
            lambda: comm.send(x, 0, tag=1, timeout=timeout),
            lambda: comm.receive(x, 0, tag=1, timeout=timeout),
            lambda: comm.all_reduce(x, wait=False).wait(timeout),
        ]
        for call in calls:
            with pytest.raises(weft.InvalidArgument, match="timeout"):
                call()
        assert comm.all_reduce(x) is not None

    weft.run_threads(1, program)


@pytest.mark.parametrize("channels", [-1, 0x40000000, 0x20000000, 10**9, 2**31 - 1])
def test_channels_that_no_transport_has_are_refused(channels):
    def program(comm):
        x = np.ones(4, np.float32)
        with pytest.raises(weft.Error, match=str(channels)):
            comm.all_reduce(x, channels=channels)

    weft.run_threads(2, program)


def test_dropping_a_communicator_leaves_a_started_call_to_its_work():
    a, b = weft.threads(2)
    work = a.all_reduce(np.ones(4), wait=False)
    began = time.monotonic()
    del a
    assert time.monotonic() - began < 10, "the communicator's timeout is 30 s"
    assert b.all_reduce(np.ones(4)).tolist() == [2.0] * 4
    assert work.result().tolist() == [2.0] * 4


def test_a_call_that_nobody_ends_is_aborted_when_python_ends():
    text = "import weftcomm, numpy; a, b = weftcomm.threads(2); w = a.all_reduce(numpy.ones(1), wait=False); del a; print('end')"
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, timeout=25)
    assert (done.returncode, done.stdout, done.stderr) == (0, "end\n", "")


def test_a_communicator_that_is_finalized_neither_shrinks_nor_agrees():
    comm = weft.threads(1)[0]
    comm.finalize()
    for call in (comm.shrink, lambda: comm.agree(True)):
        with pytest.raises(weft.InvalidArgument, match="the communicator is finalized"):
            call()


@pytest.mark.parametrize("code, kind", [("left_out", weft.LeftOut), ("no_quorum", weft.NoQuorum), ("timeout", weft.Timeout)])
def test_every_outcome_of_an_agreement_has_a_class(code, kind):
    error = weft._errors._make(code, "rank 0: so", "agree", [1], [], "")
    assert type(error) is kind and error.code == code and error.ranks == (1,)
