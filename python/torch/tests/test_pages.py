"""The programs that docs/pytorch.md quotes run as they stand there."""

import os
import pathlib
import re
import subprocess
import sys

import pytest

EXAMPLES = pathlib.Path(__file__).parents[1] / "examples"


@pytest.mark.parametrize(
    "name, launch, says",
    [
        ("elastic_ddp.py", ["-m", "weftcomm_torch", "run", "--elastic", "2:8", "-n", "2"], r"0: 100 steps, members \(0, 1\), weights 0\.\d{4}\n"),
        ("elastic_fsdp.py", ["-m", "weftcomm_torch", "run", "--elastic", "2:8", "-n", "2"], r"100 steps, shard \[2, 8\]\n"),
        ("mixture.py", ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"], r"\[5, 16\]\n"),
    ],
)
def test_a_program_of_the_page_runs(name, launch, says):
    done = subprocess.run([sys.executable, *launch, str(EXAMPLES / name)], capture_output=True, text=True, timeout=300,
                          env={**os.environ, "OMP_NUM_THREADS": "1"})  # fmt: skip
    assert done.returncode == 0 and re.search(says, done.stdout), done.stdout + done.stderr
