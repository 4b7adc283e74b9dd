"""Builds weftcomm_torch against the torch that is installed. WEFT_PREFIX: where weft is installed (cmake --install)."""

import os
import pathlib
import shutil

import torch
from setuptools import setup
from torch.utils.cpp_extension import BuildExtension, CppExtension

HERE = pathlib.Path(__file__).resolve().parent
PREFIX = pathlib.Path(os.environ["WEFT_PREFIX"])
LIBRARY = next(PREFIX.glob("**/libweft.so.0.1"))
shutil.copy(LIBRARY, HERE / "weftcomm_torch" / "libweft.so.0.1")  # beside the module: found by its rpath
MINOR = ".".join(torch.__version__.split(".")[:2])
(HERE / "weftcomm_torch" / "_built_for.py").write_text(f'TORCH = "{MINOR}"\n')

setup(
    name="weft-comm-torch",
    version="0.1.0",
    description='backend="weft" for torch.distributed',
    packages=["weftcomm_torch", "weftcomm_torch.rehearse"],
    package_data={"weftcomm_torch": ["libweft.so.0.1", "py.typed"]},
    install_requires=[f"torch=={MINOR}.*"],
    entry_points={"torch.backends": ["weft = weftcomm_torch:register"]},
    ext_modules=[
        CppExtension(
            "weftcomm_torch._adapter",
            ["adapter.cc"],
            depends=["channel.h", "collectives.h", "core.h", "elements.h", "errors.h", "flight_record.h", "mapped_memory.h", "reconfigure.h", "signals.h",
                     "tensors.h", "window.h", "work.h"],
            include_dirs=[str(PREFIX / "include")],
            library_dirs=[str(LIBRARY.parent)],
            libraries=[],
            # torch's headers use fmt, whose functions its libraries do not export.
            extra_compile_args=["-DFMT_HEADER_ONLY", "-std=c++20", "-O2", "-g0", "-fvisibility=hidden", "-Wno-attributes"],
            extra_link_args=[str(LIBRARY), "-Wl,-rpath,$ORIGIN", "-s"],
        ),
        CppExtension(  # no module: loaded before torch by weftcomm_torch/rehearse/_rank.py
            "weftcomm_torch._fake_cuda",
            ["fake_cuda.cc"],
            extra_compile_args=["-DFMT_HEADER_ONLY", "-std=c++20", "-O2", "-g0", "-Wno-attributes"],
            extra_link_args=["-s"],
        ),
    ],
    cmdclass={"build_ext": BuildExtension},
)
