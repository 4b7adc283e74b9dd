"""weftcomm.jax; skipped without jax."""

import pathlib
import shutil
import subprocess
import sys

import pytest

pytest.importorskip("jax")
JOBS = pathlib.Path(__file__).parent / "jobs"


def run(ranks, job, expected):
    command = [sys.executable, "-m", "weftcomm", "run", "-n", str(ranks), str(JOBS / job)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    said = sorted(line.split("right on rank ")[1] for line in done.stdout.splitlines() if "right on rank " in line)
    assert said == [str(r) for r in expected], done.stdout + done.stderr


@pytest.mark.parametrize("ranks", [1, 2, 3])
def test_every_call_is_numpys_under_jit_and_has_its_derivative(ranks):
    run(ranks, "jax_calls.py", range(ranks))


def test_a_rank_that_ends_is_named_and_the_others_go_on_without_it():
    run(3, "jax_dies.py", range(2))


OFFSETS = """
#include <cstdio>
#include "xla/ffi/api/c_api.h"
#include "xla_interface.h"
namespace own = weft::python::xla;
#define SAME(mine, member, theirs, other) \\
  static_assert(offsetof(own::mine, member) == offsetof(theirs, other) && \\
                sizeof(own::mine::member) == sizeof(theirs::other))
SAME(Extension, kind, XLA_FFI_Extension_Base, type);
SAME(Version, minor, XLA_FFI_Api_Version, minor_version);
SAME(Metadata, version, XLA_FFI_Metadata, api_version);
SAME(Metadata, traits, XLA_FFI_Metadata, traits);
SAME(MetadataExtension, metadata, XLA_FFI_Metadata_Extension, metadata);
SAME(ErrorArguments, message, XLA_FFI_Error_Create_Args, message);
SAME(ErrorArguments, code, XLA_FFI_Error_Create_Args, errc);
SAME(Api, version, XLA_FFI_Api, api_version);
SAME(Api, make_error, XLA_FFI_Api, XLA_FFI_Error_Create);
SAME(Buffer, type, XLA_FFI_Buffer, dtype);
SAME(Buffer, dimensions, XLA_FFI_Buffer, dims);
SAME(Buffers, values, XLA_FFI_Args, args);
SAME(Buffers, values, XLA_FFI_Rets, rets);
SAME(Array, data, XLA_FFI_Array, data);
SAME(Attributes, values, XLA_FFI_Attrs, attrs);
SAME(CallFrame, api, XLA_FFI_CallFrame, api);
SAME(CallFrame, stage, XLA_FFI_CallFrame, stage);
SAME(CallFrame, arguments, XLA_FFI_CallFrame, args);
SAME(CallFrame, results, XLA_FFI_CallFrame, rets);
SAME(CallFrame, attributes, XLA_FFI_CallFrame, attrs);
static_assert(own::kMetadataExtension == static_cast<int>(XLA_FFI_Extension_Metadata));
static_assert(own::kExecute == static_cast<int>(XLA_FFI_ExecutionStage_EXECUTE));
static_assert(own::kArrayAttribute == static_cast<int>(XLA_FFI_AttrType_ARRAY));
static_assert(static_cast<int>(own::Type::kBfloat16) == static_cast<int>(XLA_FFI_DataType_BF16));
static_assert(static_cast<int>(own::Type::kComplex128) == static_cast<int>(XLA_FFI_DataType_C128));
static_assert(static_cast<int>(own::Type::kFloat8E4M3) == static_cast<int>(XLA_FFI_DataType_F8E4M3FN));
static_assert(static_cast<int>(own::Type::kToken) == static_cast<int>(XLA_FFI_DataType_TOKEN));
"""


def test_the_interface_is_laid_out_as_jaxlibs_header(tmp_path):
    import jax

    sources = pathlib.Path(__file__).parents[1] / "src"
    if shutil.which("g++") is None or not (sources / "xla_interface.h").exists():
        pytest.skip("no compiler, or no sources")
    (tmp_path / "offsets.cc").write_text(OFFSETS)
    command = ["g++", "-std=c++20", "-fsyntax-only", f"-I{jax.ffi.include_dir()}", f"-I{sources}", "offsets.cc"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
