"""reproducible=True: the same bits for the same inputs and ranks, whatever the size of the message, channels, algorithm, transport,
process or thread, and order of the mask."""

import functools
import pathlib
import subprocess
import sys

import numpy as np
import pytest

import weftcomm

RANKS = 4
TYPES = ["float32", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2"]


def dtype_of(name):
    if name.startswith("float8") or name == "bfloat16":
        return np.dtype(getattr(pytest.importorskip("ml_dtypes"), name))
    return np.dtype(name)


def input_of(name, rank, count):
    """Values of many magnitudes, so that another order of the sum is another result."""
    random = np.random.default_rng(rank)
    values = random.standard_normal(count) * np.exp2(random.integers(-6, 7, count))
    return values.astype(np.float32).astype(dtype_of(name))


def bits(array):
    return np.ascontiguousarray(array).view(np.uint8).tobytes()


def first_of(name, comm, count, **options):
    """The bytes of the first 64 sums of a message of `count` elements."""
    x = input_of(name, comm.rank, 1 << 16)[:count].copy()
    out = comm.all_reduce(x, reproducible=True, **options)
    return bits(np.asarray(out)[:64])


@pytest.mark.parametrize("name", TYPES)
def test_bits_depend_on_neither_size_nor_channels(name):
    def program(comm):
        results = [first_of(name, comm, count) for count in (64, 1000, 1 << 12, 1 << 16)]
        results += [first_of(name, comm, 1 << 16, channels=channels) for channels in (1, 2, 4)]
        return results

    results = weftcomm.run_threads(RANKS, program)
    assert len({r for rank in results for r in rank}) == 1


@pytest.mark.parametrize("name", TYPES)
def test_a_sum_is_that_of_the_ranks_in_their_order(name):
    """One fold in float32 from rank 0 on, rounded once: what decision 0011 says."""
    inputs = [input_of(name, r, 1 << 16)[:64].astype(np.float32) for r in range(RANKS)]
    once = functools.reduce(np.add, inputs).astype(dtype_of(name))
    each = functools.reduce(lambda a, b: (a.astype(np.float32) + b).astype(dtype_of(name)), inputs)
    got = weftcomm.run_threads(RANKS, lambda comm: first_of(name, comm, 64))[0]
    assert got in (bits(once), bits(each))


@pytest.mark.parametrize("name", TYPES)
def test_bits_depend_on_no_algorithm_that_sums_in_order(name):
    def program(comm):
        results = []
        for algorithm in ("one_shot", "two_shot", "spread", "direct", ""):
            try:
                results.append(first_of(name, comm, 4096, **({"algorithm": algorithm} if algorithm else {})))
            except weftcomm.InvalidArgument:
                continue  # does not do all_reduce here
        return results

    results = weftcomm.run_threads(RANKS, program)
    assert len(results[0]) >= 2 and len({r for rank in results for r in rank}) == 1


@pytest.mark.parametrize("name", TYPES)
def test_bits_depend_on_the_members_of_a_mask_and_not_on_their_order(name):
    def program(comm):
        results = []
        for mask in ([0, 1, 3], [3, 0, 1], (1, 3, 0, 0)):
            active = comm.active(mask)
            assert (active is None) == (comm.rank == 2)
            if active is not None:
                x = input_of(name, comm.rank, 4096)
                results.append(bits(active.all_reduce(x, reproducible=True)))
        for wrong, message in (([], "a mask without members"), ([4], "4")):
            with pytest.raises(weftcomm.InvalidArgument, match=message):
                comm.active(wrong)
        return results

    results = weftcomm.run_threads(RANKS, program)
    assert len({r for rank in results for r in rank}) == 1


def test_a_mask_that_not_all_of_its_members_give_is_a_mismatch_and_others_get_theirs():
    def program(comm):
        mask = [0, 1] if comm.rank == 1 else [0, 2]
        try:
            active = comm.active(mask)
        except weftcomm.Mismatch as error:
            assert error.operation == "active"
            return str(error)
        return active.size

    assert weftcomm.run_threads(3, program) == [2, "active: only 1 of the ranks [0, 1] gave this mask", 2]


@pytest.mark.parametrize("transport", ["shm", "tcp"])
def test_processes_and_transports_give_the_bits_of_threads(transport):
    pytest.importorskip("ml_dtypes")
    here = pathlib.Path(__file__)
    if "run" not in subprocess.run([sys.executable, "-m", "weftcomm", "--help"], capture_output=True, text=True).stdout:
        pytest.skip("the package has no command")
    run = subprocess.run(
        [sys.executable, "-m", "weftcomm", "run", "-n", str(RANKS), "--transport", transport, sys.executable, str(here)],
        capture_output=True, text=True, timeout=120,
    )
    assert run.returncode == 0, run.stderr[-2000:]
    of_threads = [weftcomm.run_threads(RANKS, lambda comm, n=n: first_of(n, comm, 1 << 16))[0].hex() for n in TYPES]
    assert run.stdout.split() == of_threads


if __name__ == "__main__":
    with weftcomm.init() as comm:
        lines = [first_of(name, comm, 1 << 16).hex() for name in TYPES]
        if comm.rank == 0:
            print("\n".join(lines))
