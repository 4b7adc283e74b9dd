"""Schedules written in Python: proved, simulated, drawn, and run on real ranks by weft's own interpreter."""

import os
import pathlib
import pickle
import subprocess
import sys
import sysconfig
import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest

import weftcomm as weft
from weftcomm import steps

JOBS = pathlib.Path(__file__).parent / "jobs"
sys.path.insert(0, str(JOBS))
import rings  # noqa: E402

WEFT = os.path.join(sysconfig.get_path("scripts"), "weft")


def test_a_ring_written_in_python_is_proved_for_many_ranks():
    for algorithm in (rings.gather_ring, rings.ring, rings.fan):
        proofs = algorithm.verify(range(1, 9))
        assert len(proofs) == 8 and all(proofs), proofs[-1]
    assert rings.fan.verify(5, root=3)["proved"]


def test_it_is_the_schedule_that_wefts_own_ring_is():
    """All steps of both algorithms do the same work: 2 (n - 1) messages per rank."""
    ours, own = rings.ring.verify(6), weft.verify("all_reduce", "ring", ranks=6)
    assert ours["messages"] == own["messages"] == 6 * 2 * 5


@pytest.mark.parametrize("ranks", [1, 2, 3, 4])
def test_it_runs_on_threads(ranks):
    def program(comm):
        x = np.arange(1000.0) * (comm.rank + 1)
        y = comm.all_reduce(x, algorithm=rings.ring)
        assert comm.size == 1 or comm.last_choice[0] == "ring"
        started = comm.all_gather(np.full(3, comm.rank), algorithm=rings.gather_ring, wait=False)
        return y, started.result()

    for y, gathered in weft.run_threads(ranks, program):
        np.testing.assert_array_equal(y, np.arange(1000.0) * ranks * (ranks + 1) / 2)
        assert gathered.tolist() == [r for r in range(ranks) for _ in range(3)]


@pytest.mark.parametrize("transport", ["shm", "tcp"])
def test_it_runs_on_processes(transport):
    done = subprocess.run(
        [WEFT, "run", "-n", "3", "--transport", transport, "--", sys.executable, str(JOBS / "rings.py")],
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("right on rank") == 3, done.stdout


def test_it_is_simulated_on_a_machine():
    m = weft.machine("dgx-h100")
    report = rings.ring.simulate(m, bytes=["1M", "64M"], proto="Simple")
    assert [row["algorithm"] for row in report["rows"]] == ["ring"] * 2 and report["ranks"] == 8
    small, large = (row["time_us"] for row in report["rows"])
    assert 0 < small < large
    chosen = m.explain("all_reduce", algo=rings.ring)["candidates"][0]
    assert chosen["algorithm"] == "ring"


def test_it_draws_itself_and_lists_its_steps():
    made = rings.ring.schedule(4)
    picture = ElementTree.fromstring(made._repr_svg_())
    assert picture.tag.endswith("svg")
    assert rings.ring.draw(4) == rings.ring._repr_svg_() == made.svg()
    rows = made.rows()
    # One send, n - 1 sums and n - 1 receives on each of 4 ranks.
    assert len(rows) == 4 * (1 + 3 + 3)
    assert rows[0] == {"rank": 0, "lane": 0, "step": 0, "kind": "move", "chunk": 0, "from": "in:0", "to": "peer:1"}
    assert repr(made) == "<Schedule: all_reduce by ring on 4 ranks, 28 steps>"
    form = made.to_dict()
    assert form["schema"] == "weft.schedule/1" and form["ranks"] == 4 and form["in_place"]


def test_schedules_are_values():
    made = rings.ring.schedule(4)
    again = pickle.loads(pickle.dumps(made))
    assert again == made and hash(again) == hash(made) and again.verify()
    assert made != rings.ring.schedule(5)
    assert pickle.loads(pickle.dumps(rings.ring)) is rings.ring
    assert weft.Schedule(made.to_dict()) == made


def test_one_of_wefts_own_schedules_is_taken_apart_and_used_again():
    own = weft.schedule("all_reduce", "ring", ranks=3)
    assert own.verify() and own.collective == "all_reduce" and own.ranks == 3
    for y in weft.run_threads(3, lambda comm: comm.all_reduce(np.ones(30), algorithm=own)):
        assert (y == 3).all()


def broken(collective="all_gather", **settings):
    """An algorithm of this generator, by weft.algorithm()."""
    return weft.algorithm(collective, **settings)


def test_a_wrong_schedule_is_refuted_by_rank_and_step_and_does_not_run():
    @weft.algorithm("all_gather")
    def lossy(rank, ranks):
        yield steps.copy(rank)
        if rank != 2:
            yield steps.send(rank, to=(rank + 1) % ranks)
        yield steps.receive((rank - 1) % ranks, source=(rank - 1) % ranks)

    proof = lossy.verify(4)
    assert not proof and proof.counterexample["rank"] == 3 and proof.counterexample["step"] == 2
    assert "rank 3" in proof.counterexample["text"] and "step 2" in proof.counterexample["text"]
    assert len(lossy.verify(range(4, 8))) == 1

    def program(comm):
        with pytest.raises(weft.InvalidArgument, match="not proved.*lossy.*rank 3.*step 2") as caught:
            comm.all_gather(np.ones(3), algorithm=lossy)
        assert "\n" not in str(caught.value)
        return float(comm.all_reduce(1.0))

    assert weft.run_threads(4, program) == [4.0] * 4
    with pytest.raises(weft.InvalidArgument, match="not proved"):
        lossy.simulate(weft.machine("dgx-h100"), ranks=4)


def _yield_number(rank, ranks):
    yield steps.copy(rank)
    if rank == 1:
        yield 7


def _send_nowhere(rank, ranks):
    yield steps.copy(rank)
    yield steps.send(rank, to=rank + 1)


def _raise(rank, ranks):
    yield steps.copy(rank)
    if rank == 2:
        raise KeyError("table\nof ranks")


def _half_chunk(rank, ranks):
    yield steps.copy(rank / 2)


def _no_source(rank, ranks):
    yield steps.move(rank, [], [steps.output(rank)])


def _endless(rank, ranks):
    while True:
        yield steps.copy(rank)


@pytest.mark.parametrize(
    "generator, words",
    [
        (_yield_number, "_yield_number: rank 1 step 1: int is no step"),
        (_send_nowhere, "_send_nowhere: rank 3 step 1: 4 is not one of 4 ranks"),
        (_raise, "_raise: rank 2 step 1: KeyError"),
        (_half_chunk, "_half_chunk: rank 0 step 0: 0.0 is no chunk"),
        (_no_source, "_no_source: rank 0 step 0: a move needs a source and a destination"),
        (_endless, "_endless: rank 0: more than 1000 steps"),
    ],
)
def test_a_generator_that_yields_no_step_is_named_with_rank_and_step(generator, words, monkeypatch):
    monkeypatch.setattr(weft._schedule, "_MOST_STEPS", 1000)
    with pytest.raises(weft.InvalidArgument) as caught:
        broken()(generator).schedule(4)
    assert words in str(caught.value) and "\n" not in str(caught.value)


def test_other_bad_input_is_one_line():
    def wants_time(rank, time):
        yield steps.copy(rank)

    for call, words in (
        (lambda: broken()(wants_time), "parameter 'time'"),
        (lambda: broken("all_to_none")(_half_chunk), "all_to_none"),
        (lambda: broken(chunks=3)(_raise).schedule(2), "chunks"),
        (lambda: broken(chunks="many")(_no_source).schedule(2), "chunks is 'many'"),
        (lambda: rings.ring.schedule(0), "ranks=0"),
        (lambda: rings.ring.schedule(4).file_for(5), "a schedule of 4 ranks, not of 5"),
        (lambda: weft.Schedule("{"), "weft.schedule/1"),
        (lambda: weft.Schedule({"name": "x", "schema": "other"}), "schema"),
        (lambda: weft.threads(1)[0].all_gather(np.ones(1), algorithm=rings.ring), "a schedule of all_reduce"),
    ):
        with pytest.raises(weft.InvalidArgument) as caught:
            call()
        assert words in str(caught.value) and "\n" not in str(caught.value)
