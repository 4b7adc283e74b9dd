"""`weftcomm rehearse`: scripts of ./rehearsed as they are, and with planted mistakes."""

import json
import os
import pathlib
import subprocess
import sys

import pytest

HERE = pathlib.Path(__file__).parent
SCRIPTS = HERE / "rehearsed"


def rehearse(script, *options, mistake="", arguments=()):
    """Exit status and weft.rehearsed/1."""
    done = subprocess.run(
        [sys.executable, "-m", "weftcomm_torch", "rehearse", *options, "--json", "-", str(SCRIPTS / script), *arguments],
        capture_output=True,
        text=True,
        env={**os.environ, "MISTAKE": mistake},
        timeout=300,
    )
    assert done.returncode in (0, 1), done.stderr
    return done.returncode, json.loads(done.stdout)


def line(script, mark):
    """"ddp.py:38": the line of a script that carries the comment `# line: MARK`."""
    for number, text in enumerate((SCRIPTS / script).read_text().splitlines(), 1):
        if text.endswith(f"# line: {mark}"):
            return f"{script}:{number}"
    raise AssertionError(mark)


def only_finding(answer):
    assert [f["rule"] for f in answer["findings"]] != [], answer
    assert len(answer["findings"]) == 1, answer["findings"]
    return answer["findings"][0]


def sites(answer, rank=0):
    ranks = {r["rank"]: r for r in answer["ranks"]}
    return {(c["line"], c["op"]): c for c in ranks[rank]["calls"]}


def test_ddp_reduces_its_gradients_once_per_step_and_has_no_finding():
    status, answer = rehearse("ddp.py", "--on", "dgx-h100:nodes=2")
    assert status == 0 and answer["findings"] == [] and answer["world"] == 16
    reduced = [c for (where, op), c in sites(answer).items() if op == "all_reduce" and c["bytes"] > 1e6]
    assert sum(c["calls"] for c in reduced) == 3  # a bucket of 2 x 1024 x 1024 + 2 x 1024 numbers; no_sync halves
    assert sum(c["bytes"] for c in reduced) == 3 * 4 * (2 * 1024 * 1024 + 2 * 1024)
    assert answer["step_s"] > 0 and 0 < answer["mfu"] < 1
    assert sites(answer)[(line("ddp.py", "barrier"), "barrier")]["calls"] == 1


def test_the_script_knows_its_rank_its_arguments_and_its_machine():
    status, answer = rehearse("ddp.py", "--on", "dgx-h100", "--ranks", "4", "--as", "1,3")
    assert status == 0 and answer["world"] == 4 and [r["rank"] for r in answer["ranks"]] == [1, 3]


def test_fsdp2_gathers_each_block_three_times_with_checkpoints_less_the_last():
    status, answer = rehearse("fsdp.py", "--on", "dgx-h100:nodes=8")
    assert status == 0 and answer["findings"] == [] and answer["world"] == 64
    calls = {}
    for (_, op), site in sites(answer).items():
        calls[op] = calls.get(op, 0) + site["calls"]
    # Per step: 3 blocks and the root forward; 3 blocks backward. Each gradient is scattered once.
    assert calls["all_gather"] == 2 * (4 + 3) and calls["reduce_scatter"] == 2 * 4
    assert any(where == line("fsdp.py", "backward") and op == "reduce_scatter" for where, op in sites(answer))


def test_tensor_parallelism_of_dtensor_reduces_over_its_own_dimension():
    status, answer = rehearse("tensor_parallel.py", "--on", "dgx-h100:nodes=2")
    assert status == 0 and answer["findings"] == []
    assert len(answer["kinds"]) == 1
    assert any(where == line("tensor_parallel.py", "forward") for where, op in sites(answer) if op == "all_reduce")
    assert sites(answer)[(line("tensor_parallel.py", "gradients"), "all_reduce")]["calls"] == 8


def test_messages_between_ranks_rehearse_the_whole_line_and_objects_are_exchanged():
    status, answer = rehearse("messages.py", "--on", "dgx-h100", "--ranks", "4")
    assert status == 0 and answer["findings"] == [] and len(answer["ranks"]) == 4


@pytest.mark.parametrize(
    ("mistake", "rule", "marks"),
    [
        ("shape", "mismatch", ["loss", "loss"]),
        ("skipped", "mismatch", ["loss", None]),
        ("branch", "mismatch", ["branch", "barrier"]),
        ("memory", "memory", ["memory"]),
    ],
)
def test_a_mistake_in_a_ddp_script_is_found_with_its_line(mistake, rule, marks):
    status, answer = rehearse("ddp.py", "--on", "dgx-h100:nodes=2", mistake=mistake)
    finding = only_finding(answer)
    assert status == 1 and finding["rule"] == rule, finding
    for place, mark in zip(finding["places"], marks, strict=True):
        assert mark is None or place["line"] == line("ddp.py", mark), finding


@pytest.mark.parametrize(
    ("mistake", "rule", "marks"),
    [
        ("receive", "unmatched_message", ["lost"]),
        ("ring", "deadlock", ["ring"]),
        ("order", "deadlock", ["even", "even"]),
    ],
)
def test_a_mistake_in_messages_and_groups_is_found_with_its_line(mistake, rule, marks):
    status, answer = rehearse("messages.py", "--on", "dgx-h100", "--ranks", "4", mistake=mistake)
    finding = only_finding(answer)
    assert status == 1 and finding["rule"] == rule, finding
    for place, mark in zip(finding["places"], marks, strict=False):
        assert place["line"] == line("messages.py", mark), finding


def test_recordings_that_are_kept_are_answered_again_for_another_machine(tmp_path):
    keep = tmp_path / "kept"
    status, answer = rehearse("ddp.py", "--on", "dgx-h100:nodes=2", "--keep", str(keep))
    files = sorted(str(f) for f in keep.glob("*.jsonl"))
    done = subprocess.run(
        [os.environ.get("WEFT", "weft"), "rehearse", *files, "--on", "dgx-a100:nodes=2", "--json", "-"],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["step_s"] > answer["step_s"]  # A100s compute slower


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--on", "dgx-h100", "--as", "9", "ddp.py"], "'9' is no rank of 8"),
        (["--on", "dgx-h100", "--ranks", "9", "ddp.py"], "dgx-h100 has 8 GPUs"),
        (["--on", "no-such-machine", "ddp.py"], "no-such-machine"),
        (["--on", "dgx-h100", "missing.py"], "missing.py: no such file"),
    ],
)
def test_bad_input_is_one_line_and_status_2(words, said):
    done = subprocess.run(
        [sys.executable, "-m", "weftcomm_torch", "rehearse", *words[:-1], str(SCRIPTS / words[-1])],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 2 and said in done.stderr and len(done.stderr.strip().splitlines()) == 1, done.stderr


def test_a_shape_that_depends_on_data_is_named_with_its_line(tmp_path):
    script = tmp_path / "train.py"
    script.write_text("import torch\nx = torch.randn(4, device='cuda')\nprint(x[x > 0].sum())\n")
    status, answer = rehearse(script, "--on", "dgx-h100", "--as", "0")
    finding = only_finding(answer)
    assert status == 1 and finding["rule"] == "error" and finding["places"][0]["line"] == "train.py:3"
    assert "depends on data" in finding["text"]
