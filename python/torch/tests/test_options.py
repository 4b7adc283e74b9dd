"""What weftcomm_torch itself takes and refuses; in one process."""

import datetime
import subprocess
import sys

import pytest
import weftcomm_torch

MAKES_GROUPS = """
import sys
import torch
import torch.distributed as dist
import weftcomm_torch


def make(options):
    dist.init_process_group("weft", store=dist.HashStore(), rank=0, world_size=1, pg_options=options)
    x = torch.ones(3)
    dist.all_reduce(x)
    dist.destroy_process_group()
    return x.tolist()


def said(call):
    try:
        return call()
    except Exception as problem:
        return f"{type(problem).__name__}: {problem}"


print(said(lambda: weftcomm_torch.write_flight_record(sys.argv[1])))
for wrong in ({"algorithm": "ring"}, "ring"):
    print(said(lambda: make(wrong)))
for right in (None, weftcomm_torch.Options(algorithm="ring"), dist.ProcessGroupGloo._Options()):
    print(said(lambda: make(right)))
print(weftcomm_torch.write_flight_record(sys.argv[1]))
"""


def test_options_of_a_group_are_weft_options_or_another_backends_and_records_are_written_when_it_has_ended(tmp_path):
    prefix = str(tmp_path / "record_")
    done = subprocess.run([sys.executable, "-c", MAKES_GROUPS, prefix], capture_output=True, text=True)
    assert done.stdout.splitlines() == [
        "ValueError: weft: this process has no rank: it has made no group",
        "ValueError: weft: pg_options is {'algorithm': 'ring'}: it is a weftcomm_torch.Options",
        "ValueError: weft: pg_options is 'ring': it is a weftcomm_torch.Options",
        *["[1.0, 1.0, 1.0]"] * 3,
        f"{prefix}0",
    ], done.stdout + done.stderr
    assert (tmp_path / "record_0").stat().st_size > 0


@pytest.mark.parametrize(
    "given, says",
    [
        ({"timeout": 5}, "weft: Options: timeout is a datetime.timedelta, not 5"),
        ({"reproducible": "no"}, "weft: Options: reproducible is True or False, not 'no'"),
        ({"algorithm": 5}, "weft: Options: algorithm is a text, not 5"),
        ({"transport": None}, "weft: Options: transport is a text, not None"),
    ],
)
def test_values_of_another_type_are_refused(given, says):
    with pytest.raises(ValueError) as refused:
        weftcomm_torch.Options(**given)
    assert str(refused.value) == says


def test_options_that_are_right_are_kept():
    limit = datetime.timedelta(seconds=5)
    options = weftcomm_torch.Options(limit, reproducible=True, algorithm="ring", transport="tcp")
    assert (options._timeout, options.reproducible, options.algorithm, options.transport) == (limit, True, "ring", "tcp")


def test_dir_lists_the_names_that_are_for_programs():
    names = dir(weftcomm_torch)
    assert {"Options", "active", "allocations", "as_gloo", "bf16_sum_hook", "empty", "write_flight_record"} <= set(names)
    assert all(hasattr(weftcomm_torch, name) and not name.startswith("_") for name in names)
