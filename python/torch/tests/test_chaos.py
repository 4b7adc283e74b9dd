"""A rank of a DDP training is killed or stopped at any step: the others raise the right class with its name, and can go on.

CHAOS=N: N cases at random instead of the chosen ones.
"""

import itertools
import os
import pathlib
import random
import signal
import subprocess
import sys

import pytest

PROGRAM = pathlib.Path(__file__).with_name("chaos_program.py")
MOMENTS = ("forward", "backward", "step")
CHOSEN = [("kill", 0, "forward"), ("kill", 2, "backward"), ("kill", 5, "step"), ("stop", 3, "backward")]
if "CHAOS" in os.environ:
    chance = random.Random(int(os.environ.get("CHAOS_SEED", "1")))
    every = list(itertools.product(("kill", "stop"), range(10), MOMENTS))
    CHOSEN = [chance.choice(every) for _ in range(int(os.environ["CHAOS"]))]


@pytest.mark.parametrize("how, step, moment", CHOSEN)
def test_survivors_name_the_rank_that_failed_and_go_on_without_it(how, step, moment, tmp_path):
    ranks = [
        subprocess.Popen(
            [sys.executable, PROGRAM, str(rank), "3", str(tmp_path / "meet"), how, str(step), moment],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )
        for rank in range(3)
    ]  # fmt: skip
    try:
        survivors = [ranks[0].communicate(timeout=120), ranks[2].communicate(timeout=120)]
    finally:
        for process in ranks:
            process.send_signal(signal.SIGKILL)
            process.wait()
    for out, err in survivors:
        assert out.splitlines() == [
            "DistBackendError names rank 1: True, soon: True",
            "went on as 2 ranks, alike: True",
        ], out + err[-2000:]
