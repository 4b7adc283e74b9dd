"""The wheel that `make python` has repaired, installed without anything else of weft; WEFT_WHEEL names it."""

import os
import pathlib
import re
import subprocess
import sys
import zipfile

import pytest

WHEEL = os.environ.get("WEFT_WHEEL", "")
pytestmark = pytest.mark.skipif(not WHEEL, reason="WEFT_WHEEL names no wheel")

# What every Linux has, of https://peps.python.org/pep-0600/.
OF_THE_SYSTEM = {"libc.so.6", "libm.so.6", "libdl.so.2", "libpthread.so.0", "librt.so.1", "libgcc_s.so.1", "libstdc++.so.6"}
OF_THE_SYSTEM |= {"libz.so.1"}  # which the manylinux tags count in
OF_THE_SYSTEM |= {"ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1", "linux-vdso.so.1"}

SUM = """
import numpy as np, weftcomm as weft
comm = weft.init()
assert comm.all_reduce(np.full(1000, comm.rank + 1.0)).tolist() == [3.0] * 1000
print("right on rank", comm.rank, weft.__file__)
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """A fresh virtual environment with the wheel and NumPy; its folder."""
    folder = tmp_path_factory.mktemp("wheel") / "venv"
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    subprocess.run([folder / "bin/python", "-m", "pip", "install", "-q", os.path.abspath(WHEEL)], check=True)
    return folder


def run(*command, folder):
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "LD_", "WEFT"))}
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, cwd=folder, env=clean)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_wheel_is_less_than_12_megabytes_and_names_the_glibc_that_it_needs():
    assert os.path.getsize(WHEEL) < 12e6  # 10.9 MB on 2026-11-27: libweftcomm.so 9.5 (some 1.3 of libcrypto), readers of packed text and YAML 0.6
    assert re.search(r"-manylinux_2_\d+_\w+\.whl$", WHEEL), WHEEL


def test_a_wheel_is_typed_and_holds_the_command():
    names = zipfile.ZipFile(WHEEL).namelist()
    assert "weftcomm/py.typed" in names and "weftcomm/_core.pyi" in names
    assert any(re.fullmatch(r"weft_comm-[\d.]+\.data/scripts/weft", name) for name in names)


def test_the_module_and_the_command_need_no_library_that_the_wheel_lacks(installed):
    programs = [*installed.rglob("weftcomm/_core*.so"), installed / "bin/weft", *installed.rglob("weft_comm.libs/*.so*")]
    assert len(programs) >= 2
    for program in programs:
        if program.read_bytes()[:4] != b"\x7fELF":
            continue  # a script that starts the program, which stands elsewhere
        for line in run("ldd", program, folder=installed).splitlines():
            name, _, path = line.strip().partition(" => ")
            known = pathlib.Path(name.split()[0]).name in OF_THE_SYSTEM
            assert known or path.startswith(str(installed)), f"{program}: {line}"


def test_ranks_reduce_an_array_in_a_folder_without_the_repository(installed, tmp_path):
    python = installed / "bin/python"
    (tmp_path / "sum.py").write_text(SUM)
    text = run(installed / "bin/weft", "run", "-n", "2", python, "sum.py", folder=tmp_path)
    assert text.count("right on rank") == 2 and text.count(str(installed)) == 2, text


def test_the_module_runs_the_command(installed, tmp_path):
    python = installed / "bin/python"
    text = run(python, "-m", "weftcomm", "bench", "all_reduce", "--min", "1K", "--max", "1K", "--ranks", "2", folder=tmp_path)
    assert "all_reduce" in text and re.search(r"\b1024\b|1 KiB|1K", text), text
