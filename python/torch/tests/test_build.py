"""The compiled part, made on the user's machine. WEFT_TEST_COMPILE=1 also compiles it, which takes minutes."""

import os
import pathlib
import subprocess
import sys

import pytest
import torch
import weftcomm_torch

MINOR = ".".join(torch.__version__.split(".")[:2])
SOURCES = pathlib.Path(weftcomm_torch.__file__).parent / "source"


def run(code, **more):
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=900, env={**os.environ, **more})


def test_the_package_has_the_sources_that_it_compiles():
    names = {str(file.relative_to(SOURCES)) for file in SOURCES.rglob("*") if file.is_file()}
    assert {"torch/adapter.cc", "torch/core.h", "src/lane.h", "src/registered_pool.h", "include/weft/communicator.h", "include/tl/expected.hpp"} <= names


def failing(tmp_path, compiler, torch_version="9.9"):
    """What loading says where the package's own part is for another torch, and this compiler is the only one."""
    code = (
        f"import weftcomm_torch._build as b; b._came_for = lambda: '{torch_version}'\n"
        "try: b.load()\n"
        "except ImportError as e: print(e)\n"
    )
    return run(code, CXX=compiler, XDG_CACHE_HOME=str(tmp_path)).stdout


def test_without_a_compiler_one_line_names_what_is_missing(tmp_path):
    text = failing(tmp_path, "/nowhere/c++")
    assert text.count("\n") == 1 and "part for torch 9.9" in text and f"for torch {MINOR} one is compiled" in text, text
    assert "no C++ compiler '/nowhere/c++'" in text


def test_a_torch_older_than_the_interface_is_refused_by_one_line_without_compiling(tmp_path):
    code = (
        "import torch, weftcomm_torch\n"  # the import goes on
        "torch.__version__ = '2.9.1+cpu'\n"
        "try: weftcomm_torch._compiled()\n"
        "except ImportError as e: print(e)\n"
    )
    done = run(code, CXX="/nowhere/c++", XDG_CACHE_HOME=str(tmp_path))
    assert done.stdout.count("\n") == 1 and "torch 2.9 is older than 2.13" in done.stdout, done.stdout + done.stderr
    assert done.stderr == "" and not list(tmp_path.iterdir())


def test_a_compiler_that_fails_is_quoted_and_its_whole_output_kept(tmp_path):
    broken = tmp_path / "broken"
    broken.write_text("#!/bin/sh\necho 'adapter.cc:1: error: no such thing'\nexit 1\n")
    broken.chmod(0o755)
    text = failing(tmp_path, str(broken))
    assert f"cannot be compiled for torch {MINOR}: adapter.cc:1: error: no such thing" in text, text
    assert len(list(tmp_path.rglob("log"))) == 1 and not list(tmp_path.rglob("*.so"))


def test_what_is_compiled_is_found_the_next_time(tmp_path):
    counted = tmp_path / "counted"
    counted.write_text("#!/bin/sh\necho run >> $COUNT\nwhile [ \"$1\" != -o ]; do shift; done\necho no module > $2\n")
    counted.chmod(0o755)
    code = f"import weftcomm_torch._build as b; b._came_for = lambda: '9.9'; print(b.compiled('{MINOR}'))"
    more = {"CXX": str(counted), "XDG_CACHE_HOME": str(tmp_path), "COUNT": str(tmp_path / "count")}
    first, second = run(code, **more), run(code, **more)
    assert first.stdout == second.stdout and first.stdout.strip().endswith(".so"), first.stderr
    assert "compiling for torch" in first.stderr and second.stderr == ""
    assert (tmp_path / "count").read_text() == "run\n"


@pytest.mark.skipif(os.environ.get("WEFT_TEST_COMPILE", "0") == "0", reason="WEFT_TEST_COMPILE=1 compiles, for minutes")
def test_what_is_compiled_carries_a_group(tmp_path):
    code = (
        "import weftcomm_torch._build as b; b._came_for = lambda: '9.9'\n"
        "import torch, torch.distributed as dist, weftcomm_torch\n"
        "dist.init_process_group('weft', store=dist.HashStore(), rank=0, world_size=1)\n"
        "x = torch.ones(3); dist.all_reduce(x); print(x.tolist(), weftcomm_torch.active()[0].asked_for)\n"
    )
    done = run(code, XDG_CACHE_HOME=str(tmp_path))
    assert done.stdout == "[1.0, 1.0, 1.0] weft\n", done.stderr
