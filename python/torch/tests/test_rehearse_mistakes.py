"""Mistakes planted in the scripts of ./rehearsed are found with their lines, and none where there is none.

Each of them hangs or fails for real, on four CPU ranks with gloo: real_run.py, bench/results/*rehearsal-mistakes*.csv.
"""

import functools

import pytest

from test_rehearse import SCRIPTS, line, rehearse

# script, mistake, rule, marks of the lines of which the finding names one at least
MISTAKES = [
    ("ddp.py", "shape", "mismatch", ["loss"]),
    ("ddp.py", "skipped", "mismatch", ["loss"]),
    ("ddp.py", "branch", "mismatch", ["branch"]),
    ("messages.py", "receive", "unmatched_message", ["lost"]),
    ("messages.py", "ring", "deadlock", ["ring"]),
    ("messages.py", "order", "deadlock", ["even"]),
    ("loop.py", "uneven", "mismatch", ["forward", "backward", "metrics"]),
    ("loop.py", "nan", "mismatch", ["backward", "forward"]),
    ("loop.py", "type", "mismatch", ["average"]),
    ("loop.py", "root", "mismatch", ["root"]),
    ("loop.py", "early", "mismatch", ["forward", "metrics"]),
    ("loop.py", "validate", "mismatch", ["validate"]),
    ("loop.py", "barrier", "mismatch", ["saved"]),
    ("loop.py", "seed", "mismatch", ["seed"]),
    ("loop.py", "metrics", "mismatch", ["metrics"]),
    ("objects.py", "members", "mismatch", ["members"]),
    ("objects.py", "broadcast", "mismatch", ["settings"]),
    ("objects.py", "gather", "mismatch", ["gather"]),
    ("objects.py", "names", "mismatch", ["names"]),
    ("objects.py", "splits", "mismatch", ["exchange"]),
    ("sharded.py", "mesh", "error", ["mesh"]),
    ("sharded.py", "width", "mismatch", ["forward"]),
    ("sharded.py", "clip", "mismatch", ["norm", "clip"]),
    ("sharded.py", "save", "mismatch", ["save"]),
    ("stages.py", "chunks", "deadlock", ["first", "middle", "last"]),
    ("checkpoint.py", "norm", "deadlock", ["norm"]),
    ("checkpoint.py", "checkpoint", "mismatch", ["gather", "end"]),
    ("checkpoint.py", "root", "mismatch", ["gather"]),
    ("checkpoint.py", "scatter", "mismatch", ["scatter", "instead"]),
    ("checkpoint.py", "shard", "deadlock", ["shard", "end"]),
]
CORRECT = sorted(path.name for path in SCRIPTS.glob("*.py"))


@functools.cache
def answered(script, mistake):
    """Four ranks of one node, all of them rehearsed."""
    return rehearse(script, "--on", "dgx-h100", "--ranks", "4", "--as", "all", mistake=mistake)


@pytest.mark.parametrize(("script", "mistake", "rule", "marks"), MISTAKES)
def test_a_planted_mistake_is_found_with_its_line(script, mistake, rule, marks):
    status, answer = answered(script, mistake)
    assert status == 1 and rule in [f["rule"] for f in answer["findings"]], answer["findings"]
    finding = next(f for f in answer["findings"] if f["rule"] == rule)
    assert {p["line"] for p in finding["places"]} & {line(script, mark) for mark in marks}, finding


@pytest.mark.parametrize("script", CORRECT)
def test_nothing_is_found_in_a_correct_script(script):
    status, answer = answered(script, "")
    assert status == 0 and answer["findings"] == [] and answer["missing"] == [], answer["findings"]
