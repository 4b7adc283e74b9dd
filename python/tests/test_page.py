"""The programs of docs/python.md, one after the other, run."""

import pathlib
import re

PAGE = pathlib.Path(__file__).parents[2] / "docs" / "python.md"


def test_the_pages_programs_run(capsys):
    programs = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert len(programs) >= 4
    names = {"__name__": "page"}
    for program in programs:
        exec(compile(program, str(PAGE), "exec"), names)
    assert "0 1 [1. 1. 1. 1.]" in capsys.readouterr().out
    assert names["got"].shape == (8,) and names["y"].shape == (4,)
