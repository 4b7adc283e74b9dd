"""The annotations: mypy --strict accepts the package and a user's program, and finds a misspelt operation."""

import pathlib
import subprocess
import sys

import pytest

pytest.importorskip("mypy")
GOOD = """
import numpy as np
import weftcomm as weft

comm = weft.init()
x = np.ones(3)
y = comm.all_reduce(x, "max")
y.sum()
work = comm.all_reduce(x, wait=False)
z: float = float(work.result()[0])
part = comm.split(0)
if part is not None:
    part.barrier()
"""
BAD = 'import numpy as np\nimport weftcomm as weft\nweft.init().all_reduce(np.ones(3), "maximum")\n'


def mypy(*arguments, cwd):
    return subprocess.run([sys.executable, "-m", "mypy", "--strict", *arguments], capture_output=True, text=True, cwd=cwd)


def test_the_package_and_a_program_are_typed(tmp_path):
    (tmp_path / "good.py").write_text(GOOD)
    (tmp_path / "bad.py").write_text(BAD)
    package = mypy("-p", "weftcomm", cwd=tmp_path)
    assert package.returncode == 0, package.stdout
    good = mypy("good.py", cwd=tmp_path)
    assert good.returncode == 0, good.stdout
    bad = mypy("bad.py", cwd=tmp_path)
    assert bad.returncode == 1 and 'overload variant of "all_reduce"' in bad.stdout, bad.stdout
