"""What an index of packages has to serve, tried from one on loopback: WEFT_WHEEL names the wheel, WEFT_SDIST the sources."""

import contextlib
import email
import functools
import http.server
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile
import threading
import zipfile

import pytest

WHEEL, SDIST = os.environ.get("WEFT_WHEEL", ""), os.environ.get("WEFT_SDIST", "")
pytestmark = pytest.mark.skipif(not WHEEL, reason="WEFT_WHEEL names no wheel")
PAGE = pathlib.Path(__file__).parents[1] / "pypi.md"


@contextlib.contextmanager
def served(folder):
    """The address of an index, as https://peps.python.org/pep-0503/ has it: a folder per package, served on loopback."""
    handler = functools.partial(Quiet, directory=folder)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/simple"
        finally:
            server.shutdown()
            thread.join()


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


def run(*command, folder, **more):
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "LD_", "WEFT"))}
    done = subprocess.run(command, capture_output=True, text=True, timeout=400, cwd=folder, env=clean | more)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """A virtual environment that has pip-installed weft-comm from a local index, which also has NumPy; its folder."""
    folder = tmp_path_factory.mktemp("index")
    ours, numpy = folder / "simple/weft-comm", folder / "simple/numpy"
    ours.mkdir(parents=True)
    shutil.copy(WHEEL, ours)
    run(sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", numpy, "numpy", folder=folder)
    run(sys.executable, "-m", "venv", "venv", folder=folder)
    with served(folder) as url:
        pip = [folder / "venv/bin/python", "-m", "pip", "install", "-q", "--index-url", url, "weft-comm"]
        run(*pip, folder=folder, PIP_CONFIG_FILE=os.devnull, PIP_FIND_LINKS="", PIP_NO_CACHE_DIR="1")
    return folder / "venv"


def program_of(page):
    return re.search(r"^```python\n(.*?)^```$", page.read_text(), re.M | re.S)[1]


def test_what_the_page_says_runs_after_pip_install_from_an_index(installed, tmp_path):
    (tmp_path / "program.py").write_text(program_of(PAGE))
    assert len(program_of(PAGE).splitlines()) <= 12
    text = run(installed / "bin/weftcomm", "run", "-n", "2", "program.py", folder=tmp_path)
    assert "[0] 2 ranks, sum 3.0 of [1. 2.]" in text, text
    assert "all_reduce" in text, text
    assert "leak" not in text


def test_the_metadata_have_what_an_index_shows():
    with zipfile.ZipFile(WHEEL) as wheel:
        name = next(n for n in wheel.namelist() if n.endswith(".dist-info/METADATA"))
        metadata = email.message_from_string(wheel.read(name).decode())
        licences = [n for n in wheel.namelist() if "/licenses/" in n]
    assert metadata["Name"] == "weft-comm" and metadata["License-Expression"] == "Apache-2.0"
    assert licences, "the text of the licence"
    assert metadata["Author"] == "weft maintainers"
    assert not [value for value in metadata.values() if ".invalid" in value], "an address that leads nowhere"
    assert metadata["Description-Content-Type"] == "text/markdown" and "pip install weft-comm" in metadata.get_payload()
    assert "Programming Language :: Python :: 3.14" in metadata.get_all("Classifier")


def test_the_index_would_take_the_files():
    pytest.importorskip("twine")
    files = [f for f in (WHEEL, SDIST) if f]
    assert "FAILED" not in run(sys.executable, "-m", "twine", "check", "--strict", *files, folder=".")


def test_a_wheel_for_later_pythons_uses_the_limited_interface_only():
    """Wheels are cp310, cp311 and one cp312-abi3 for all that follow."""
    tag = re.search(r"-(cp\d+)-(cp\d+|abi3)-", os.path.basename(WHEEL))
    assert (tag[2] == "abi3") == (int(tag[1][2:]) >= 312), WHEEL
    with zipfile.ZipFile(WHEEL) as wheel:
        module = next(n for n in wheel.namelist() if re.match(r"weftcomm/_core\..*so$", n))
    assert (".abi3." in module) == (tag[2] == "abi3"), module


@pytest.mark.skipif(not SDIST, reason="WEFT_SDIST names no source distribution")
def test_the_sources_have_all_that_the_build_reads():
    with tarfile.open(SDIST) as archive:
        names = {name.split("/", 1)[-1] for name in archive.getnames()}
    assert {"pyproject.toml", "CMakeLists.txt", "LICENSE", "python/CMakeLists.txt", "python/pypi.md", "python/src/core.cc",
            "python/weftcomm/__init__.py", "include/weft/communicator.h", "src/apps/cli/main.cc"} <= names  # fmt: skip
    assert not any(name.startswith(("tests/", "docs/decisions", "build")) for name in names)
    assert os.path.getsize(SDIST) < 8e6
