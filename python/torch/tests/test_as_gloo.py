"""Programs that ask for gloo run on weft. WEFT: the command's path, where it is neither beside Python nor in PATH."""

import os
import pathlib
import subprocess
import sys

import pytest

HERE = pathlib.Path(__file__).parent
PROGRAM = HERE / "gloo_program.py"
# weft says so itself where it is used: a line per rank and group.
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1", "WEFT_RATES": "none", "WEFT_DEBUG": "INFO", "WEFT_DEBUG_SUBSYS": "INIT"}
if "WEFT" in os.environ:
    ENVIRONMENT["PATH"] = str(pathlib.Path(os.environ["WEFT"]).parent) + ":" + os.environ["PATH"]


def run(*words, **more):
    return subprocess.run(
        [sys.executable, *map(str, words)], capture_output=True, text=True, timeout=180, env={**ENVIRONMENT, **more}
    )


def groups_of_weft(done):
    return done.stderr.count("weft INFO INIT communicator world: rank ")


def test_ranks_of_weft_run_are_weft_under_gloos_name():
    done = run("-m", "weftcomm_torch", "run", "-n", "2", "--as-gloo", PROGRAM, "--epochs", "3")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines == ["gloo gloo ['--epochs', '3']"] * 2, done.stdout
    assert groups_of_weft(done) >= 4, done.stderr  # two ranks, two groups


def test_torchrun_started_by_it_hands_it_down():
    done = run(
        "-m", "weftcomm_torch", "run", "--as-gloo", "-m", "torch.distributed.run", "--nproc-per-node", "2",
        "--master-port", "29651", PROGRAM,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert groups_of_weft(done) >= 4, done.stderr
    assert done.stdout.splitlines() == ["gloo gloo []"] * 2


def test_without_it_gloo_is_gloo():
    done = run("-m", "torch.distributed.run", "--nproc-per-node", "2", "--master-port", "29652", PROGRAM)
    assert done.returncode == 0, done.stderr
    assert groups_of_weft(done) == 0 and done.stdout.splitlines() == ["gloo gloo []"] * 2, done.stderr


def test_a_call_does_the_same_for_this_process_and_gloos_class_can_be_constructed():
    code = (
        "import torch, torch.distributed as dist, weftcomm_torch\n"
        "from datetime import timedelta\n"
        "real = dist.ProcessGroupGloo\n"
        "weftcomm_torch.as_gloo()\n"
        "assert dist.ProcessGroupGloo is not real\n"
        "options = dist.ProcessGroupGloo._Options()\n"
        "options._timeout = timedelta(seconds=5)\n"
        "options._devices = [dist.ProcessGroupGloo.create_device(interface='lo')]\n"
        "options._threads = 2\n"
        "group = dist.ProcessGroupGloo(dist.HashStore(), 0, 1, options)\n"
        "x = torch.ones(3)\n"
        "group.allreduce([x]).wait()\n"
        "group._set_default_timeout(timedelta(seconds=7))\n"
        "assert group.options._timeout == timedelta(seconds=7), group.options._timeout\n"
        "print(x.tolist(), group.name(), isinstance(group, dist.ProcessGroupGloo))\n"
    )
    done = run("-c", code)
    assert done.stdout.strip() == "[1.0, 1.0, 1.0] gloo True", done.stderr


def test_detail_needs_no_second_group():
    done = run("-m", "weftcomm_torch", "run", "-n", "2", "--as-gloo", PROGRAM, TORCH_DISTRIBUTED_DEBUG="DETAIL")
    assert done.returncode == 0 and groups_of_weft(done) >= 4, done.stderr


def test_where_weft_cannot_stand_for_gloo_the_group_is_refused_and_the_import_is_not(tmp_path):
    code = (
        "import weftcomm_torch._build as b; b._came_for = lambda: '1.0'\n"
        "import torch, torch.distributed as dist, weftcomm_torch\n"
        "weftcomm_torch._as_gloo_or_refusal()\n"
        "try: dist.init_process_group('gloo', store=dist.HashStore(), rank=0, world_size=1)\n"
        "except ImportError as e: print(e)\n"
    )
    done = run("-c", code, CXX="/nowhere/c++", XDG_CACHE_HOME=str(tmp_path))
    assert "WEFT_AS_GLOO: weft cannot stand for gloo" in done.stdout and "torch 1.0" in done.stdout, done.stderr
    assert "there is no C++ compiler '/nowhere/c++'" in done.stdout, done.stdout


ACTIVE = """
import os, torch, torch.distributed as dist, weftcomm_torch
before = weftcomm_torch.active()
dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
group = dist.group.WORLD._get_backend(torch.device("cpu"))
print(before, weftcomm_torch.active()[0][1:], type(group).__name__)
dist.destroy_process_group()
del group
print(weftcomm_torch.active())
"""


def test_a_program_can_ask_whether_weft_carries_its_groups():
    done = run("-c", ACTIVE, WEFT_AS_GLOO="1")
    assert done.stdout.splitlines() == ["[] ('gloo', 0, 1) ProcessGroupWeft", "[]"], done.stdout + done.stderr
    assert done.stderr.count("weft carries torch.distributed here: a group of 1 ranks, asked for as gloo (torch 2.") == 1


def test_where_gloo_is_gloo_weft_carries_nothing_and_says_nothing():
    code = ACTIVE.replace("weftcomm_torch.active()[0][1:]", "weftcomm_torch.active()")
    done = run("-c", code)
    assert done.stdout.splitlines() == ["[] [] ProcessGroupGloo", "[]"], done.stdout + done.stderr
    assert "weft carries" not in done.stderr


@pytest.mark.parametrize(
    "words, says",
    [
        (["run", "--as-gloo"], "which program?"),
        (["run", "-n", "0", "--as-gloo", "x.py"], "-n 0"),
        (["run", "--as-gloo", "--hosts", "a", "x.py"], "knows no --hosts"),
        (["run", "--as-gloo", "no-such-command"], "cannot start no-such-command"),
        (["run", "-n", "3", "--as-gloo", "no_such.py"], "no_such.py: no such file"),
        (["run", "-n", "3", "-m", "no_such_module"], "there is no module no_such_module"),
        (["run", "--nproc", "some", "x.py"], "--nproc some: a number of ranks is needed, or auto"),
        (["run", "--join", "127.0.0.1:1", "x.py"], "--join goes with --elastic MIN:MAX"),
        (["run", "--listen=127.0.0.1", "x.py"], "--listen goes with --elastic MIN:MAX"),
        (["run", "--replace", "1", "x.py"], "--replace goes with --elastic MIN:MAX"),
        (["walk"], "weftcomm run --elastic MIN:MAX [-n N] [--replace N] [--join HOST:PORT] [--listen ADDRESS]"),
    ],
)
def test_wrong_words_are_named(words, says):
    done = run("-m", "weftcomm_torch", *words)
    assert done.returncode == 2 and says in done.stderr, (done.returncode, done.stderr)
    if len(words) > 1 and "knows no" not in says and "which" not in says:
        assert len(done.stderr.splitlines()) == 1, done.stderr


@pytest.mark.parametrize("words", [["--help"], ["run", "--help"], ["run", "-n", "2", "-h"]])
def test_help_names_commands_and_options(words):
    done = run("-m", "weftcomm_torch", *words)
    assert done.returncode == 0 and done.stderr == "", done.stderr
    for name in ("run ", "build ", "rehearse ", "--as-gloo ", "-n N, --nproc N ", "auto", "--elastic MIN:MAX ", "--replace N ",
                 "--join HOST:PORT ", "--listen ADDRESS ", "-m MODULE "):  # fmt: skip
        assert f"\n  {name}" in done.stdout or name == "auto" in done.stdout, name


def test_a_value_of_the_variable_that_means_nothing_makes_no_group_of_gloo():
    code = (
        "import torch.distributed as dist\n"
        "try: dist.init_process_group('gloo', store=dist.HashStore(), rank=0, world_size=1)\n"
        "except ImportError as e: print(e)\n"
    )
    done = run("-c", code, WEFT_AS_GLOO="yes")
    assert done.stdout == "WEFT_AS_GLOO: weft cannot stand for gloo: it is 'yes', which is neither 0 nor 1\n", done.stdout + done.stderr
