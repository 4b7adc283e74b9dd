"""One-sided windows as arrays."""

import concurrent.futures
import os
import pathlib
import subprocess
import sys
import sysconfig

import numpy as np
import pytest

import weftcomm as weft

JOBS = pathlib.Path(__file__).parent / "jobs"
WEFT = os.path.join(sysconfig.get_path("scripts"), "weft")


def on_threads(ranks, program):
    worlds = weft.world_threads(ranks)
    with concurrent.futures.ThreadPoolExecutor(ranks) as pool:
        return list(pool.map(program, worlds))


def test_what_is_put_is_in_the_others_array_after_a_barrier():
    def program(world):
        window = world.window((2, 3, 4), "float64")
        assert (window.local == 0).all() and window.shape == (2, 3, 4) and window.dtype == np.float64
        world.barrier()  # now others may write
        other = window[(world.rank + 1) % world.size]
        other[0, 1] = world.rank + 1.0
        other[1, :, ::2] = np.arange(6.0).reshape(3, 2)
        other[0, 2, 3] = 9
        world.barrier()
        got = window[world.rank][...]
        np.testing.assert_array_equal(got, window.local)
        return window.local.copy()

    for rank, array in enumerate(on_threads(3, program)):
        expected = np.zeros((2, 3, 4))
        expected[0, 1] = (rank - 1) % 3 + 1
        expected[1, :, ::2] = np.arange(6.0).reshape(3, 2)
        expected[0, 2, 3] = 9
        np.testing.assert_array_equal(array, expected)


def test_what_is_got_is_a_copy_of_the_others_array():
    def program(world):
        window = world.window(10, "int32")
        window.local[:] = np.arange(10) + 100 * world.rank
        world.barrier()
        part = window[(world.rank + 1) % world.size]
        got = part[2:5].tolist(), part[::-3].tolist(), int(part[7]), part[4:4].tolist()
        world.barrier()
        return got

    for rank, got in enumerate(on_threads(2, program)):
        base = 100 * (1 - rank)
        assert got == ([base + 2, base + 3, base + 4], [base + 9, base + 6, base + 3, base], base + 7, [])


def test_who_sees_the_signal_sees_the_data():
    def program(world):
        data, flags = world.window((64, 8), "float32"), world.window(4, "uint64")
        peer = 1 - world.rank
        for turn in range(1, 20):
            data.put_signal(peer, np.full((64, 4), turn), np.s_[:, ::2], flags, 1, number=turn)
            assert flags.wait(1, ">=", turn) >= turn
            assert (data.local[:, ::2] >= turn).all()
            world.barrier()
        flags.put(peer, 0)
        world.barrier()
        data.put_signal(peer, 1, 0, flags, 2, number=5, add=True)
        return flags.wait(2, "==", 5)

    assert on_threads(2, program) == [5, 5]


@pytest.mark.parametrize("dtype", ["int32", "uint32", "int64", "uint64"])
def test_atomic_operations_give_the_old_value(dtype):
    def program(world):
        counter = world.window((2,), dtype)
        mine = [counter.atomic(0, "add", 1, 1) for _ in range(100)]
        world.barrier()
        assert counter.atomic(0, "fetch", 1) == 100 * world.size
        world.barrier()
        if world.rank == 0:
            assert counter.atomic(1, "swap", 0, 7) == 0
            assert counter.atomic(1, "compare_swap", 0, 3, compare=7) == 7
            assert counter.atomic(1, "or", 0, 8) == 3 and counter.atomic(1, "fetch", 0) == 11
            if dtype.startswith("i"):
                counter.atomic(0, "set", 0, -5)
                assert counter.atomic(0, "add", 0, 1) == -5 and counter.local[0] == -4
        world.barrier()
        return mine

    seen = sorted(old for mine in on_threads(3, program) for old in mine)
    assert seen == list(range(300))


def test_a_world_has_collectives_on_windows():
    def program(world):
        window = world.window(1000, "float32")
        window.local[:] = world.rank + 1
        world.all_reduce(window.local, out=window.local)
        y = world.all_gather(np.array([world.rank]))
        world.fence()
        world.quiet()
        return float(window.local[999]), y.tolist()

    assert on_threads(3, program) == [(6.0, [0, 1, 2])] * 3


def test_a_wait_that_is_not_met_times_out_and_breaks_nothing():
    world = weft.world_threads(1)[0]
    flags = world.window(1, "int64")
    with pytest.raises(weft.Timeout, match="element 0 is 0, not == 1"):
        flags.wait(0, "==", 1, timeout=0.02)
    flags[0][0] = 1
    assert flags.wait(0, "==", 1) == 1


def test_wrong_use_is_one_line_and_ends_nothing():
    world = weft.world_threads(1)[0]
    window, flags, freed = world.window((4, 4)), world.window(2, "int64"), world.window(3)
    part = freed[0]
    freed.free()
    for call, words in (
        (lambda: window[1][0], "rank 1 is not one of 1 ranks"),
        (lambda: window.put(-1, 0), "rank -1"),
        (lambda: window[0][9], "index"),
        (lambda: window[0][[0, 2]], "only numbers, slices"),
        (lambda: window.put(0, np.ones(3)), "shape"),
        (lambda: window.put(0, np.array([object()])), "value"),
        (lambda: window.put(0, "text"), "value"),
        (lambda: window.put_signal(0, 1, 0, window, 0), "not one integer of 8 bytes"),
        (lambda: window.atomic(0, "add", (0, 0), 1), "not one integer"),
        (lambda: flags.atomic(0, "plus", 0, 1), "plus"),
        (lambda: flags.wait(0, "~", 1), "~"),
        (lambda: freed.local, "freed"),
        (lambda: part[0], "freed"),
        (lambda: world.window(3, "object"), "object"),
        (lambda: world.window(-1), "-1"),
        (lambda: world.window(3, "float7"), "float7"),
        (lambda: world.all_reduce(np.ones(1), wait=False), "wait"),
    ):
        with pytest.raises(weft.InvalidArgument, match=words) as caught:
            call()
        assert "\n" not in str(caught.value)
    assert repr(freed) == "<weftcomm.Window, freed>" and "(4, 4) of float32" in repr(window)


@pytest.mark.parametrize("transport", ["shm", "tcp"])
def test_windows_between_processes(transport):
    done = subprocess.run(
        [WEFT, "run", "-n", "3", "--transport", transport, "--", sys.executable, str(JOBS / "windows.py")],
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("right on rank") == 3, done.stdout
    assert done.stdout.count("forked after the world had connected") == 1, done.stdout


def test_integers_are_never_altered_silently():
    world = weft.world_threads(1)[0]
    longs, ints, bytes_ = world.window(2, "int64"), world.window(2, "int32"), world.window(2, "uint8")
    words = world.window(2, "uint64")

    def put(window, value, index=0):
        window[0][index] = value

    for call, match in (
        (lambda: ints.atomic(0, "set", 0, 2**40), "value 1099511627776: .* from -2147483648 to 2147483647"),
        (lambda: longs.atomic(0, "set", 0, 2**63), "value 9223372036854775808"),
        (lambda: longs.atomic(0, "add", 0, 1.5), "value 1.5"),
        (lambda: longs.atomic(0, "compare_swap", 0, 1, compare=2**70), "compare"),
        (lambda: longs.atomic(0, "compare_swap", 0, 1), "compare_swap needs compare"),
        (lambda: longs.atomic(0, "add", 0, 1, compare=3), "add takes no compare"),
        (lambda: longs.atomic(0, "fetch", 0, 1), "fetch takes no value"),
        (lambda: put(longs, 2.7), "type float64 does not fit int64"),
        (lambda: put(longs, np.array([1.5, 1e300]), slice(0, 2)), "float64 does not fit int64"),
        (lambda: put(longs, 2**70), "cannot be put into int64"),
        (lambda: put(bytes_, 300), "300 does not fit uint8"),
        (lambda: put(bytes_, -1), "-1 does not fit uint8"),
        (lambda: put(words, -1), "-1 does not fit uint64"),
        (lambda: ints.wait(0, "==", 2**40, timeout=0.1), "value 1099511627776"),
        (lambda: longs.wait(0, "<=", 1.5, timeout=0.1), "value 1.5"),
        (lambda: longs.put_signal(0, 1, 0, words, number=-1), "number -1"),
        (lambda: world.window(2, "S3"), "element type"),
        (lambda: world.window(2, complex), "element type complex128"),
        (lambda: world.window(2, ">f8"), "element type >f8"),
        (lambda: world.window(2**40, 2**40), "element type 1099511627776"),
    ):
        with pytest.raises(weft.InvalidArgument, match=match) as caught:
            call()
        assert "\n" not in str(caught.value)
    put(longs, [5, -6], slice(0, 2))
    put(longs, np.uint8(7))
    assert longs.local.tolist() == [7, -6]
    with pytest.raises(weft.NoResources, match="more than a process can have"):
        world.window((2**40, 2**20))


def test_a_signal_of_another_world_is_named():
    world, other = weft.world_threads(1)[0], weft.world_threads(1)[0]
    with pytest.raises(weft.InvalidArgument, match="the signal's window is of another world"):
        world.window(1).put_signal(0, 1.0, 0, other.window(1, "int64"))
