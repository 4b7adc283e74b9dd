"""rehearse(fn, on=…): functions and scripts from Python, and the example of docs/rehearse.md."""

import os
import pathlib
import re
import subprocess
import sys

import pytest

from weftcomm_torch.rehearse import rehearse

HERE = pathlib.Path(__file__).parent
PAGE = HERE.parents[2] / "docs" / "rehearse.md"


def unequal(width):
    """A job of which the last rank reduces another shape."""
    import torch
    import torch.distributed as dist

    dist.init_process_group("nccl")
    last = dist.get_rank() == dist.get_world_size() - 1
    dist.all_reduce(torch.ones(width + last, device="cuda"))  # line: unequal


def too_large():
    import torch

    torch.distributed.init_process_group("nccl")
    return torch.empty(100 << 30, dtype=torch.uint8, device="cuda")


def line_of(mark):
    lines = pathlib.Path(__file__).read_text().splitlines()
    return f"{pathlib.Path(__file__).name}:{next(i for i, t in enumerate(lines, 1) if t.endswith('# line: ' + mark))}"


def test_the_pages_test_passes_under_pytest(tmp_path):
    script, example = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.S)[:2]
    imports, program = script.split("dist.init", 1)
    body = "".join(f"    {line}\n" for line in ("dist.init" + program).splitlines())
    (tmp_path / "train.py").write_text(f"{imports}\ndef main():\n{body}")
    (tmp_path / "test_train.py").write_text(example)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "test_train.py"],
        cwd=tmp_path, env=os.environ, capture_output=True, text=True, timeout=500,
    )  # fmt: skip
    assert "1 passed" in done.stdout, done.stdout + done.stderr


def test_a_function_gets_its_arguments_and_its_findings_name_its_line():
    answer = rehearse(unequal, 16, on="dgx-h100", ranks=4)
    assert [f.rule for f in answer.findings] == ["mismatch"] and not answer.notes
    assert [(p.rank, p.line) for p in answer.findings[0].places] == [(0, line_of("unequal")), (3, line_of("unequal"))]
    assert "16 float" in answer.findings[0].text and "17 float" in answer.findings[0].text
    assert answer.world == 4 and answer.rehearsed == (0, 3) and answer.fits


def test_what_does_not_fit_is_said_by_fits():
    answer = rehearse(too_large, on="dgx-h100", ranks=2, ranks_as=[1])
    assert not answer.fits and answer.allocated == 100 << 30 and answer.rehearsed == (1,)
    assert [f.rule for f in answer.findings] == ["memory"]


def test_a_script_is_rehearsed_with_its_arguments(tmp_path):
    script = tmp_path / "train.py"
    script.write_text("import sys, torch.distributed as dist\ndist.init_process_group()\nassert sys.argv[1:] == ['--batch', '8']\n")
    assert rehearse(script, "--batch", 8, on="dgx-h100", ranks=2).findings == ()


def test_bad_input_raises_with_one_line():
    with pytest.raises(ValueError, match="no function of a module's file"):
        rehearse(lambda: None, on="dgx-h100")
    with pytest.raises(ValueError, match="'9' is no rank of 8"):
        rehearse(unequal, 1, on="dgx-h100", ranks_as="9")
    with pytest.raises(ValueError, match="missing.py: no such file"):
        rehearse("missing.py", on="dgx-h100")
