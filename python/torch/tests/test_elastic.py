"""Trainings that members leave and join: bit for bit those of groups that had these members in these steps from the start."""

import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import time

import pytest

HERE = pathlib.Path(__file__).parent
JOB = str(HERE / "elastic_job.py")


def elastic(words, folder, **environment):
    log = folder / "changes.jsonl"
    done = subprocess.run([sys.executable, "-m", "weftcomm_torch", "run", "--elastic", *words], capture_output=True, text=True, timeout=300,
                          env={**os.environ, "WEFTCOMM_ELASTIC_LOG": str(log), "OMP_NUM_THREADS": "1", **environment})  # fmt: skip
    changes = [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []
    return done, changes


def digest(text):
    return re.findall(r"digest (\w+)", text)[-1]


def uninterrupted(kind, steps, founders, changes, folder):
    """The digest of groups that have the members of the changes from the start; a group ends where another begins."""
    phases = {0: founders}
    for change in changes:
        phases[change["step"]] = change["members"]
    words = ",".join(f"{step}:{'-'.join(map(str, members))}" for step, members in phases.items())
    said = ""
    for which, members in enumerate(phases.values()):
        ranks = [
            subprocess.Popen([sys.executable, JOB, kind, str(steps), words, str(folder), str(which), str(rank)], stdout=subprocess.PIPE,
                             stderr=subprocess.PIPE, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"})
            for rank in range(len(members))
        ]  # fmt: skip
        for rank in ranks:
            out, err = rank.communicate(timeout=300)
            assert rank.returncode == 0, err[-3000:]
            said += out
    return digest(said)


@pytest.mark.parametrize(
    "kind, kill, founders, at",
    [
        ("ddp", "1@4@bucket 1", 3, "bucket 1"),
        ("ddp", "0@4@begin,2@6@agree", 4, "bucket 0"),
        ("fsdp", "0@3@agree,2@5@begin", 4, "forward or backward"),
    ],
)
def test_the_members_that_are_left_go_on_bit_for_bit_as_a_group_of_them(kind, kill, founders, at, tmp_path):
    done, changes = elastic(["1:8", "-n", str(founders), "--replace", "0", JOB, kind, "8"], tmp_path, KILL=kill)
    assert done.returncode == 0, done.stderr
    assert sorted(m for c in changes for m in c["left"]) == sorted(int(k.split("@")[0]) for k in kill.split(","))
    assert changes[0]["at"] == at and {"agree", "shrink", "exchange", "state"} <= set(changes[0]["seconds"])
    assert kind == "fsdp" or "redo" in changes[0]["seconds"]
    assert digest(done.stdout) == uninterrupted(kind, 8, list(range(founders)), changes, tmp_path)


@pytest.mark.parametrize("kind", ["ddp", "fsdp"])
def test_a_newcomer_gets_the_state_and_takes_the_place_of_a_lost_member_that_the_next_step_waits_for(kind, tmp_path):
    where = "bucket 1" if kind == "ddp" else "backward"
    done, changes = elastic(["3:3", JOB, kind, "8"], tmp_path, KILL=f"0@4@{where}", WAIT="200")
    assert done.returncode == 0, done.stderr
    assert [(c["left"], c["joined"], c["members"]) for c in changes] == [([0], [], [1, 2]), ([], [3], [1, 2, 3])]
    assert [c["step"] for c in changes] == [4, 5]
    assert digest(done.stdout) == uninterrupted(kind, 8, [0, 1, 2], changes, tmp_path)


def test_a_job_below_its_least_number_ends_with_the_reason(tmp_path):
    done, _ = elastic(["3:3", "--replace", "0", JOB, "ddp", "8"], tmp_path, KILL="1@4@begin")
    assert done.returncode == 1 and "fewer than 3 are left, and --replace 0 is used up" in done.stderr


def test_a_program_that_fails_on_every_member_ends_with_what_it_raised(tmp_path):
    program = tmp_path / "fails.py"
    program.write_text(
        "from weftcomm_torch import elastic\nimport torch\nm = elastic.join(timeout=10)\nmodel = m.ddp(torch.nn.Linear(2, 1))\n"
        "m.keep(model=model)\nfor step in m.steps(3): raise RuntimeError('no data')\n"
    )
    done, _ = elastic(["2:2", "--replace", "0", str(program)], tmp_path)
    assert done.returncode == 1 and "RuntimeError: no data" in done.stdout


@pytest.mark.parametrize(
    "words, says",
    [
        (["3", "-n", "2", "x.py"], "-n 2 is not between 3 and 3"),
        (["4:2", "x.py"], "4:2: MIN:MAX is needed"),
        (["2:4"], "which program?"),
        (["2:4", "--join", "here", "x.py"], "--join here: HOST:PORT is needed"),
        (["2:4", "--join", "here:70000", "x.py"], "--join here:70000: HOST:PORT is needed"),
        (["2:4", "--replace", "-1", "x.py"], "--replace -1 is negative"),
        (["2:3", "--listen", "999.1.1.1", "x.py"], "--listen 999.1.1.1 is no address of this host"),
        (["2:3", "no_such.py"], "no_such.py: no such file"),
        (["2:3", "-m", "no_such_module"], "there is no module no_such_module"),
        (["2:3", "no_such_command"], "cannot start no_such_command"),
    ],
)
def test_wrong_words_are_one_line_and_exit_2(words, says, tmp_path):
    done, _ = elastic(words, tmp_path)
    assert done.returncode == 2 and says in done.stderr, done.stderr
    assert "members 0 to" not in done.stderr, done.stderr  # nothing has started


def test_a_module_is_started_with_its_own_arguments(tmp_path):
    (tmp_path / "words.py").write_text("import sys; print(sys.argv[1:])")
    done, _ = elastic(["1:1", "-m", "words", "--replace", "x"], tmp_path, PYTHONPATH=str(tmp_path))
    assert done.returncode == 0 and done.stdout == "0: ['--replace', 'x']\n", done


WAITS = """
import os, pathlib, time
import torch
from weftcomm_torch import elastic

members = elastic.join(timeout=20)
model = members.ddp(torch.nn.Linear(2, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
members.keep(model=model, optimizer=optimizer)
for step in members.steps(1 << 20):
    print(f"pid {os.getpid()} has {members.members} in step {step}", flush=True)
    model(torch.ones(1, 2)).sum().backward()
    members.commit(optimizer)
    time.sleep(0.05)
    end = pathlib.Path(os.environ["END"])
    if end.exists() and step == int(end.read_text()):
        members.step = 1 << 20
"""


class Launched:
    """A launcher that runs; what it has said so far is in a file."""

    def __init__(self, folder, name, *words):
        (folder / "waits.py").write_text(WAITS)
        self.log, self.end = folder / f"{name}.log", folder / "end"
        with open(self.log, "w") as file:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "weftcomm_torch", "run", "--elastic", "2:4", "--replace", "0", *words, str(folder / "waits.py")],
                stdout=file, stderr=subprocess.STDOUT, env={**os.environ, "OMP_NUM_THREADS": "1", "END": str(self.end)},
            )  # fmt: skip

    def said(self, pattern, seconds=120):
        until = time.monotonic() + seconds
        while not (found := re.search(pattern, self.log.read_text(), re.MULTILINE)):
            assert time.monotonic() < until and self.process.poll() is None, (pattern, self.log.read_text())
            time.sleep(0.05)
        return found[1]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait()


def test_members_that_have_joined_count_and_the_first_launcher_lives_as_long_as_they_do(tmp_path):
    with (
        Launched(tmp_path, "first", "-n", "2") as first,
        Launched(tmp_path, "other", "-n", "2", "--join", first.said(r"--join (\S+)")) as other,
    ):
        pids = [int(first.said(rf"^{member}: pid (\d+) has \(0, 1, 2, 3\)")) for member in (0, 1)]
        for pid, left, members in ((pids[1], 3, r"0, 2, 3"), (pids[0], 2, r"2, 3")):
            os.kill(pid, signal.SIGKILL)
            first.said(rf"SIGKILL\); ({left} go on)")
            other.said(rf"^2: pid (\d+) has \({members}\)")
        last = re.findall(r"in step (\d+)", other.log.read_text())[-1]
        (tmp_path / "written").write_text(str(int(last) + 40))
        (tmp_path / "written").rename(first.end)  # all read it before they come to that step
        assert (other.process.wait(60), first.process.wait(60)) == (0, 0), first.log.read_text()


def test_a_launcher_that_has_joined_says_in_one_line_that_the_job_has_ended(tmp_path):
    with Launched(tmp_path, "first", "-n", "2") as first, Launched(tmp_path, "other", "--join", first.said(r"--join (\S+)")) as other:
        address = first.said(r"--join (\S+)")
        other.said(r"^2: pid \d+ has \((0, 1, 2)\)")
        first.process.terminate()
        assert other.process.wait(60) == 1
    others = [line for line in other.log.read_text().splitlines() if " has (" not in line and "weft elastic" not in line]
    assert others == [f"weftcomm run: the job at {address} has ended"]
    done, _ = elastic(["2:4", "--join", address, JOB], tmp_path)
    assert (done.returncode, done.stderr, done.stdout) == (1, f"weftcomm run: no job answers at {address}\n", "")


def test_a_program_that_nothing_has_started_learns_how():
    done = subprocess.run([sys.executable, "-c", "from weftcomm_torch import elastic; elastic.join()"], capture_output=True, text=True)
    assert "start this program by `weftcomm run --elastic MIN:MAX`" in done.stderr
