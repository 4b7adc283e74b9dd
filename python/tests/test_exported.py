"""python/check_exported.py, on a library and a module of a few lines each."""

import pathlib
import shutil
import subprocess
import sys

import pytest

CHECK = pathlib.Path(__file__).parents[1] / "check_exported.py"
pytestmark = pytest.mark.skipif(shutil.which("c++") is None or shutil.which("nm") is None, reason="no compiler here")

LIBRARY = "namespace weft { int here() { return 1; } int forgotten(int, char) { return 2; } }"
MODULE = "namespace weft { int here(); int forgotten(int, char); } int all() { return weft::here() + weft::forgotten(1, 'a'); }"


def built(folder, *names):
    """A library that exports these names of weft, and a module that uses both."""
    (folder / "library.cc").write_text(LIBRARY)
    (folder / "module.cc").write_text(MODULE)
    listed = "".join(f"weft::{name}*; " for name in names)
    (folder / "map").write_text(f'V {{ global: extern "C++" {{ {listed}}}; local: *; }};\n')
    for name, options in (("library", ["-Wl,--version-script=map"]), ("module", [])):
        subprocess.run(["c++", "-shared", "-fPIC", f"{name}.cc", "-o", f"{name}.so", *options], cwd=folder, check=True)
    return subprocess.run([sys.executable, CHECK, "module.so", "library.so"], cwd=folder, capture_output=True, text=True)


def test_a_name_that_the_library_does_not_export_ends_the_build_with_its_name(tmp_path):
    done = built(tmp_path, "here")
    assert done.returncode == 1
    assert done.stderr == "library.so does not export weft::forgotten(int, char): python/exported.map lacks it\n"


def test_nothing_is_said_where_all_names_are_exported(tmp_path):
    done = built(tmp_path, "here", "forgotten")
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


def test_a_file_that_is_no_library_is_named(tmp_path):
    (tmp_path / "text.so").write_text("no library")
    done = subprocess.run([sys.executable, CHECK, tmp_path / "text.so", tmp_path / "text.so"], capture_output=True, text=True)
    assert done.returncode == 2 and "text.so" in done.stderr
