"""Builds weft-comm-torch. WEFT_PREFIX: where weft is installed (cmake --install).

By default the wheel has a compiled part for the torch that is installed. WEFT_TORCH_PARTS=none: it has none, needs no torch
to be built, serves every CPython, and compiles the part on the user's machine when the first group is made: so it is published.
Either way the sources are in it, for another torch than the one that it was built for.
"""

import os
import pathlib
import shutil

from setuptools import setup

HERE = pathlib.Path(__file__).resolve().parent
PREFIX = pathlib.Path(os.environ["WEFT_PREFIX"])
LIBRARY = next(PREFIX.glob("**/libweft.so.0.1"))
PACKAGE = HERE / "weftcomm_torch"
VERSION = "0.1.0"
PARTS = os.environ.get("WEFT_TORCH_PARTS", "installed")
if PARTS not in ("installed", "none"):
    raise SystemExit(f"WEFT_TORCH_PARTS={PARTS}: it is installed or none")


def copy_sources():
    """What _build.py compiles, under the relative paths that it has here."""
    source = PACKAGE / "source"
    shutil.rmtree(source, ignore_errors=True)
    (source / "torch").mkdir(parents=True)
    (source / "src").mkdir()
    for file in [HERE / "adapter.cc", *HERE.glob("*.h")]:
        shutil.copy(file, source / "torch")
    for header in ("lane.h", "registered_pool.h"):
        shutil.copy(HERE.parent / "src" / header, source / "src")
    shutil.copytree(PREFIX / "include" / "weft", source / "include" / "weft")
    for folder in (PREFIX / "include", pathlib.Path("/usr/include"), pathlib.Path("/usr/local/include")):
        if (folder / "tl/expected.hpp").exists():  # of the public domain (CC0), which weft's headers include
            (source / "include" / "tl").mkdir()
            shutil.copy(folder / "tl/expected.hpp", source / "include" / "tl")
            return
    raise SystemExit("tl/expected.hpp is missing (Debian: libexpected-dev)")


def compiled_parts():
    import torch
    from torch.utils.cpp_extension import BuildExtension, CppExtension

    minor = ".".join(torch.__version__.split(".")[:2])
    (PACKAGE / "_built_for.py").write_text(f'TORCH = "{minor}"\n')
    common = ["-DFMT_HEADER_ONLY", "-std=c++20", "-O2", "-g0", "-Wno-attributes"]
    adapter = CppExtension(
        "weftcomm_torch._adapter",
        ["adapter.cc"],
        depends=[file.name for file in HERE.glob("*.h")],
        include_dirs=[str(PREFIX / "include")],
        library_dirs=[str(LIBRARY.parent)],
        libraries=[],
        # torch's headers use fmt, whose functions its libraries do not export.
        extra_compile_args=[*common, "-fvisibility=hidden"],
        extra_link_args=[str(LIBRARY), "-Wl,-rpath,$ORIGIN", "-s"],
    )
    device = CppExtension(  # no module: loaded before torch by weftcomm_torch/rehearse/_rank.py
        "weftcomm_torch._fake_cuda", ["fake_cuda.cc"], extra_compile_args=common, extra_link_args=["-s"]
    )
    return {
        "ext_modules": [adapter, device],
        "cmdclass": {"build_ext": BuildExtension},
        "install_requires": [f"torch>={minor}"],
    }


def no_compiled_parts():
    """A wheel for every CPython of this kind of machine."""
    from setuptools.command.bdist_wheel import bdist_wheel

    class ForEveryPython(bdist_wheel):
        def finalize_options(self):
            super().finalize_options()
            self.root_is_pure = False

        def get_tag(self):
            return "py3", "none", super().get_tag()[2]

    (PACKAGE / "_built_for.py").unlink(missing_ok=True)
    return {"cmdclass": {"bdist_wheel": ForEveryPython}, "install_requires": ["torch>=2.13"]}


shutil.copy(LIBRARY, PACKAGE / "libweft.so.0.1")  # beside the module: found by its rpath
copy_sources()
setup(
    name="weft-comm-torch",
    version=VERSION,
    description='backend="weft" for torch.distributed on the CPU, and weft in gloo\'s place',
    long_description=(HERE / "pypi.md").read_text(),
    long_description_content_type="text/markdown",
    author="weft maintainers",
    license_expression="Apache-2.0",
    python_requires=">=3.10",
    classifiers=[
        "Development Status :: 4 - Beta",
        "Intended Audience :: Science/Research",
        "Operating System :: POSIX :: Linux",
        "Programming Language :: C++",
        "Programming Language :: Python :: 3 :: Only",
        "Topic :: System :: Distributed Computing",
    ],
    packages=["weftcomm_torch", "weftcomm_torch.elastic", "weftcomm_torch.rehearse"],
    package_data={"weftcomm_torch": ["libweft.so.0.1", "py.typed", "source/**/*"]},
    entry_points={
        "torch.backends": ["weft = weftcomm_torch:register"],
        "vllm.general_plugins": ["weft = weftcomm_torch.vllm:register"],
    },
    **(compiled_parts() if PARTS == "installed" else no_compiled_parts()),
)
