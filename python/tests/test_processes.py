"""Ranks as processes that `weft run` starts."""

import os
import pathlib
import signal
import subprocess
import sys
import sysconfig
import time

import pytest

JOBS = pathlib.Path(__file__).parent / "jobs"
WEFT = os.path.join(sysconfig.get_path("scripts"), "weft")


def start(job, *arguments, ranks=2, options=(), **environment):
    return subprocess.Popen(
        [WEFT, "run", "-n", str(ranks), *options, "--", sys.executable, str(JOBS / job), *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, **environment},
    )


def output_of(process, timeout=60):
    try:
        text, _ = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        process.kill()
        raise
    return text


def test_numpy_allocates_in_registered_memory_inside_of_allocations():
    process = start("allocations.py", ranks=3, options=["--transport", "shm"], WEFT_HEAP="32M")
    text = output_of(process)
    assert process.returncode == 0, text
    assert text.count("right") == 3


@pytest.mark.parametrize("transport", ["shm", "tcp"])
def test_arrays_are_registered_where_they_are(transport):
    process = start("registers.py", transport, ranks=3, options=["--transport", transport])
    text = output_of(process)
    assert process.returncode == 0, text
    assert text.count("right") == 3, text


@pytest.mark.parametrize("transport", ["shm", "tcp", "shm+tcp"])
def test_a_forked_child_that_ends_leaves_what_it_inherited_to_its_parent(transport):
    process = start("fork_ends.py", ranks=2, options=["--transport", transport])
    text = output_of(process)
    assert process.returncode == 0, text
    assert text.count("right") == 2, text


@pytest.mark.parametrize("transport", ["shm", "tcp"])
def test_processes_communicate_over_every_transport(transport):
    process = start("sums.py", ranks=3, options=["--transport", transport])
    text = output_of(process)
    assert process.returncode == 0, text
    assert text.count("right on rank") == 3


def test_survivors_get_peer_died_with_its_rank_and_go_on_after_shrink():
    process = start("survive.py", ranks=3)
    text = output_of(process)
    assert text.count("PeerDied ranks=(1,) operation=all_reduce") == 2, text
    assert text.count("2 survivors, sum 2.0") == 2, text


@pytest.mark.parametrize("transport", ["shm", "tcp"])
def test_what_a_script_raised_is_read_by_the_ranks_that_wait_for_it(transport):
    text = output_of(start("raises.py", ranks=3, options=["--transport", transport]))
    assert text.count("rank 1 raised RuntimeError: no data; soon: True; ranks (1,)") == 2, text


def test_ctrl_c_ends_a_meeting_to_which_nobody_comes():
    process = subprocess.Popen([sys.executable, str(JOBS / "interrupt_meeting.py")], stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "waiting\n"
    time.sleep(0.3)
    process.send_signal(signal.SIGINT)
    assert output_of(process, timeout=20) == "KeyboardInterrupt\n", "the timeout is 30 s"


@pytest.mark.parametrize("job", ["interrupt.py", "interrupt_world.py"])
def test_ctrl_c_ends_a_wait_within_a_tenth_of_a_second(job):
    process = subprocess.Popen([sys.executable, str(JOBS / job)], stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "waiting\n"
    time.sleep(0.3)
    begin = time.monotonic()
    process.send_signal(signal.SIGINT)
    rest = process.stdout.read()
    took = time.monotonic() - begin
    assert rest == "KeyboardInterrupt, then Aborted\n"
    assert took < 1.0  # with the interpreter's own end; the wait itself is asked every 20 ms
    process.wait()


def test_a_timeout_is_a_timeout_error():
    process = start("late.py")
    text = output_of(process)
    assert "Timeout: True" in text, text


def test_a_forked_child_is_refused():
    process = start("fork.py", ranks=1)
    text = output_of(process)
    assert "forked after the communicator had connected" in text, text


def test_the_import_takes_less_than_a_tenth_of_a_second_of_a_core():
    times = []
    for _ in range(5):
        code = "import time; b = time.process_time(); import weftcomm; print(time.process_time() - b)"
        times.append(float(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout))
    assert min(times) < 0.1


def test_the_command_is_installed_beside_python():
    out = subprocess.run([sys.executable, "-m", "weftcomm", "--version"], capture_output=True, text=True)
    assert out.returncode == 0 and out.stdout.startswith("weft 0.1")
