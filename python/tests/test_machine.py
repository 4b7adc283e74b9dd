"""Simulated machines and proofs, against the command."""

import json
import os
import pickle
import subprocess
import sysconfig

import pytest

import weftcomm as weft

WEFT = os.path.join(sysconfig.get_path("scripts"), "weft")
CLUSTER = "dgx-h100:nodes=16,net=ib-ndr"


def by_command(*arguments):
    return json.loads(subprocess.run([WEFT, *arguments, "--json", "-"], capture_output=True, text=True, check=False).stdout)


def without_wall_time(report):
    """What depends on how fast this machine simulates is left out."""

    def kept(row):
        simulation = {k: v for k, v in row["simulation"].items() if k != "simulating_s" and not k.endswith("_per_s")}
        return {**row, "simulation": simulation}

    return {**report, "rows": [kept(row) for row in report["rows"]]}


def test_bench_gives_the_commands_rows():
    rows = weft.machine(CLUSTER).bench("all_reduce", bytes=["1M", 64 << 20])
    assert rows["schema"] == "weft.bench/3" and rows["ranks"] == 128
    assert [row["bytes"] for row in rows["rows"]] == [1 << 20, 64 << 20]
    command = by_command("bench", "all_reduce", "--on", CLUSTER, "--min", "1M", "--max", "64M", "--factor", "64", "--verbose")
    assert without_wall_time(rows) == without_wall_time(command)


def test_explain_and_verify_give_the_commands_answers():
    m = weft.machine("dgx-h100")
    assert m.explain("all_reduce", bytes="4M") == by_command("explain", "all_reduce", "--bytes", "4M", "--on", "dgx-h100")
    proof = weft.verify("all_reduce", "ring", ranks=8, in_place=True)
    assert proof["proved"] and proof == by_command("verify", "all_reduce", "--algo", "ring", "--ranks", "8", "--in-place")


def test_a_machine_is_a_value():
    m = weft.machine("dgx-h100")
    assert pickle.loads(pickle.dumps(m)) == m and hash(m) == hash(weft.machine("dgx-h100"))


@pytest.mark.parametrize(
    "call, words",
    [
        (lambda: weft.machine("dgx-h1"), "dgx-h1"),
        (lambda: weft.machine("dgx-h100").bench("all_reduce", algo="nonsense"), "nonsense"),
        (lambda: weft.machine("dgx-h100").bench("all_reduce", bytes="many"), "many"),
        (lambda: weft.machine("dgx-h100").bench("all_reduce", colour="red"), "colour"),
        (lambda: weft.verify("all_reduce", "ring", ranks=0), "0"),
    ],
)
def test_bad_input_is_one_line_that_names_it(call, words):
    with pytest.raises(weft.InvalidArgument, match=words) as caught:
        call()
    assert "\n" not in str(caught.value)
