"""The annotations: mypy --strict accepts the package and a user's program, and finds a misspelt operation."""

import pathlib
import subprocess
import sys

import pytest

pytest.importorskip("mypy")
GOOD = """
from collections.abc import Iterator

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
message = comm.receive(x, weft.ANY_SOURCE, tag=3)
count: int = message.count
window = weft.world().window((4, 4), "int64")
window[0][1:3] = 7
old: int = window.atomic(0, "add", (0, 0), 1)


@weft.algorithm("all_reduce", chunks=lambda ranks: ranks)
def fan(rank: int, ranks: int) -> Iterator[weft.steps.Step]:
    yield weft.steps.copy(rank)


proof: weft.Proof = fan.verify(4)
proofs: list[weft.Proof] = fan.verify(range(2, 9))
comm.all_reduce(x, algorithm=fan)
table = fan.simulate(weft.machine("dgx-h100"), "1M").rows()
weft.train("llama3-8b", "dgx-h100").to_dict()["rows"]
"""
BAD = 'import numpy as np\nimport weftcomm as weft\nweft.init().all_reduce(np.ones(3), "maximum")\n'
MISSPELT = 'import weftcomm as weft\nweft.world().window(4, "int64").atomic(0, "plus", 0)\n'


def mypy(*arguments, cwd):
    return subprocess.run([sys.executable, "-m", "mypy", "--strict", *arguments], capture_output=True, text=True, cwd=cwd)


def test_the_package_and_a_program_are_typed(tmp_path):
    (tmp_path / "good.py").write_text(GOOD)
    (tmp_path / "bad.py").write_text(BAD)
    (tmp_path / "misspelt.py").write_text(MISSPELT)
    package = mypy("-p", "weftcomm", cwd=tmp_path)
    assert package.returncode == 0, package.stdout
    good = mypy("good.py", cwd=tmp_path)
    assert good.returncode == 0, good.stdout
    bad = mypy("bad.py", cwd=tmp_path)
    assert bad.returncode == 1 and 'overload variant of "all_reduce"' in bad.stdout, bad.stdout
    misspelt = mypy("misspelt.py", cwd=tmp_path)
    assert misspelt.returncode == 1 and "incompatible type" in misspelt.stdout, misspelt.stdout


EXAMPLES = pathlib.Path(__file__).parents[2] / "examples"


def test_the_examples_and_a_program_are_typed_for_mypy_and_pyright(tmp_path):
    for example in EXAMPLES.glob("*.py"):
        (tmp_path / example.name).write_text(example.read_text())
    (tmp_path / "good.py").write_text(GOOD)
    done = mypy(*sorted(file.name for file in tmp_path.glob("*.py")), cwd=tmp_path)
    assert done.returncode == 0, done.stdout
    pytest.importorskip("pyright")
    (tmp_path / "pyrightconfig.json").write_text('{"typeCheckingMode": "strict"}')
    pyright = [sys.executable, "-m", "pyright"]
    if subprocess.run([*pyright, "--version"], capture_output=True).returncode != 0:
        pytest.skip("pyright cannot fetch its own program here")
    done = subprocess.run([*pyright, "--pythonpath", sys.executable, "."], capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_misspelt_option_is_found_before_it_runs(tmp_path):
    (tmp_path / "option.py").write_text("import weftcomm as weft\nweft.init().all_reduce([1.0], algoritm='ring')\n")
    done = mypy("option.py", cwd=tmp_path)
    assert done.returncode == 1 and "algoritm" in done.stdout, done.stdout
