"""The programs of docs/python.md, one after the other, and the commands of tests/evidence/every-line-python.md run."""

import importlib.util
import pathlib
import re
import subprocess
import sys
import sysconfig

PAGE = pathlib.Path(__file__).parents[2] / "docs" / "python.md"


def test_the_pages_programs_run(capsys):
    programs = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert len(programs) >= 4
    names = {"__name__": "page"}
    for program in programs:
        if "weftcomm.jax" in program and importlib.util.find_spec("jax") is None:
            continue
        exec(compile(program, str(PAGE), "exec"), names)
    assert "0 1 [1. 1. 1. 1.]" in capsys.readouterr().out
    assert names["got"].shape == (8,) and names["y"].shape == (4,)


def test_every_line_has_a_command_that_does_what_the_page_says():
    root = PAGE.parents[1]
    walk = [sys.executable, root / "tests/walk", root / "tests/evidence/every-line-python.md", "--path", sysconfig.get_path("scripts")]
    done = subprocess.run(walk, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
