"""The programs on docs/pytorch.md run as they stand there."""

import os
import pathlib
import re
import subprocess
import sys

import pytest

PAGE = pathlib.Path(__file__).parents[3] / "docs" / "pytorch.md"


@pytest.mark.parametrize(
    "name, launch, says",
    [
        ("train.py", ["-m", "weftcomm_torch", "run", "--elastic", "2:8", "-n", "2"], r"0: 100 steps, members \(0, 1\), weights 0\.\d{4}\n"),
        ("train_sharded.py", ["-m", "weftcomm_torch", "run", "--elastic", "2:8", "-n", "2"], r"100 steps, shard \[2, 8\]\n"),
        ("experts.py", ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"], r"\[5, 16\]\n"),
    ],
)
def test_a_program_of_the_page_runs(name, launch, says, tmp_path):
    (text,) = [block for block in re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.S) if block.startswith(f"# {name}\n")]
    program = tmp_path / ("program_" + name)  # experts.py would hide a module of the package's own users
    program.write_text(text)
    done = subprocess.run([sys.executable, *launch, str(program)], capture_output=True, text=True, timeout=150,
                          env={**os.environ, "OMP_NUM_THREADS": "1"})  # fmt: skip
    assert done.returncode == 0 and re.search(says, done.stdout), done.stdout + done.stderr
