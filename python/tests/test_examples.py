"""The programs of examples/, as their first lines say."""

import importlib.util
import os
import pathlib
import subprocess
import sys
import sysconfig
import xml.etree.ElementTree as ElementTree

import pytest

EXAMPLES = pathlib.Path(__file__).parents[2] / "examples"
WEFT = os.path.join(sysconfig.get_path("scripts"), "weft")


def run(*command, **options):
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, **options)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_what_ifs_over_concurrent_futures():
    text = run(sys.executable, EXAMPLES / "what_if.py", "--points", "15")
    assert text.startswith("15 simulations\n") and "times as long" in text


def test_what_ifs_over_dask_are_the_same(tmp_path):
    pytest.importorskip("distributed")
    patient = {  # a busy machine takes long to start workers
        "DASK_DISTRIBUTED__COMM__TIMEOUTS__CONNECT": "240s",
        "DASK_DISTRIBUTED__COMM__TIMEOUTS__TCP": "240s",
    }
    command = (sys.executable, EXAMPLES / "what_if.py", "--points", "3")
    plain = run(*command, cwd=tmp_path)
    assert run(*command, "--dask", cwd=tmp_path, env=os.environ | patient) == plain


def test_what_ifs_over_ray_are_the_same(tmp_path):
    pytest.importorskip("ray")
    command = (sys.executable, EXAMPLES / "what_if.py", "--points", "3")
    plain = run(*command, cwd=tmp_path)
    assert run(*command, "--ray", cwd=tmp_path, env=os.environ | {"RAY_USAGE_STATS_ENABLED": "0"}) == plain


def test_a_ring_of_ones_own_is_proved_simulated_and_drawn(tmp_path):
    text = run(sys.executable, EXAMPLES / "own_ring.py", "ring.svg", cwd=tmp_path)
    assert text.count("is proved") == 7 and text.count("weft's choice") == 2
    assert ElementTree.parse(tmp_path / "ring.svg").getroot().tag.endswith("svg")


def test_a_ring_of_ones_own_runs_on_four_processes(tmp_path):
    text = run(WEFT, "run", "-n", "4", sys.executable, EXAMPLES / "own_ring.py", cwd=tmp_path)
    assert text.count("ring summed right") == 4


def test_the_sweep_has_a_thousand_points():
    spec = importlib.util.spec_from_file_location("what_if", EXAMPLES / "what_if.py")
    what_if = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(what_if)
    assert len(what_if.points(10_000)) == 12 * 6 * 14  # machines, sizes, faults
