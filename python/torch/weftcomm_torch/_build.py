"""The compiled part for the torch and the Python that are here: as it came with the package, or compiled once from the
sources in it (decision 0203)."""

from __future__ import annotations

import fcntl
import hashlib
import importlib.util
import os
import pathlib
import shlex
import shutil
import subprocess
import sys
import sysconfig
from types import ModuleType

HERE = pathlib.Path(__file__).resolve().parent
SOURCES = HERE / "source"
LIBRARY = HERE / "libweft.so.0.1"
SUFFIX: str = sysconfig.get_config_var("EXT_SUFFIX") or ".so"
LEAST = (2, 13)


def _minor(version: str) -> str:
    return ".".join(version.split("+")[0].split(".")[:2])


def _came_for() -> str:
    """The minor version of torch that the package's own compiled part is for; empty: it brings none."""
    try:
        from ._built_for import TORCH
    except ImportError:
        return ""
    return TORCH if (HERE / f"_adapter{SUFFIX}").exists() else ""


def load() -> ModuleType:
    """Raises: ImportError: no compiled part is here, and none can be made; one line that says why."""
    import torch

    minor, name = _minor(torch.__version__), f"{__package__}._adapter"
    if _came_for() == minor:
        return importlib.import_module(name)
    known = sys.modules.get(name)
    if known is not None:
        return known
    file = compiled(minor)
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise ImportError(f"{file} cannot be loaded")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def compiled(minor: str) -> pathlib.Path:
    """The compiled part in the user's cache; made if it is not there, by one of the processes that ask for it at once."""
    came = _came_for()
    brings = f"weft-comm-torch brings a compiled part for torch {came}" if came else "weft-comm-torch brings no compiled part"
    if tuple(map(int, minor.split("."))) < LEAST:
        raise ImportError(f"{brings}, and torch {minor} is older than {'.'.join(map(str, LEAST))}")
    if not SOURCES.is_dir():
        raise ImportError(f"{brings}, but torch {minor} is installed")
    folder = _cache() / _key(minor)
    file = folder / f"_adapter{SUFFIX}"
    if file.exists():
        return file
    compiler = _compiler(f"{brings}, and for torch {minor}")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with open(folder / "lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not file.exists():
                _compile(compiler, file, minor)
    except OSError as problem:
        raise ImportError(f"the compiled part for torch {minor} cannot be kept in {folder}: {problem}") from problem
    return file


def _cache() -> pathlib.Path:
    return pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "weft" / "torch"


def _key(minor: str) -> str:
    """One folder per torch, Python, place of weft's library and text of the sources."""
    import torch

    digest = hashlib.sha256(f"{torch.__version__} {torch.__file__} {LIBRARY} {LIBRARY.stat().st_mtime_ns}".encode())
    for source in sorted(SOURCES.rglob("*")):
        if source.is_file():
            digest.update(source.read_bytes())
    return f"{minor}-{sys.implementation.cache_tag}-{digest.hexdigest()[:16]}"


def _compiler(why: str) -> list[str]:
    words = shlex.split(os.environ.get("CXX", "")) or ["c++"]
    if shutil.which(words[0]) is None:
        raise ImportError(f"{why} one is compiled, but there is no C++ compiler '{words[0]}' (Debian: g++; CXX names one)")
    return words


def _compile(compiler: list[str], file: pathlib.Path, minor: str) -> None:
    import torch
    from torch.utils import cpp_extension

    print(f"weftcomm_torch: compiling for torch {minor}, once for this user (a minute or two)", file=sys.stderr, flush=True)
    libraries = pathlib.Path(torch.__file__).parent / "lib"
    made = file.with_suffix(f".{os.getpid()}")
    includes = [str(SOURCES / "include"), sysconfig.get_path("include"), *cpp_extension.include_paths()]
    command = [
        *compiler, "-shared", "-fPIC", "-std=c++20", "-O2", "-g0", "-fvisibility=hidden", "-w",
        "-DFMT_HEADER_ONLY", "-DTORCH_EXTENSION_NAME=_adapter", "-DTORCH_API_INCLUDE_EXTENSION_H",
        f"-D_GLIBCXX_USE_CXX11_ABI={int(torch._C._GLIBCXX_USE_CXX11_ABI)}",
        *(word for folder in includes for word in ("-isystem", folder)),
        str(SOURCES / "torch" / "adapter.cc"), str(LIBRARY), "-o", str(made), "-s",
        f"-L{libraries}", "-lc10", "-ltorch_cpu", "-ltorch", "-ltorch_python",
        f"-Wl,-rpath,{HERE}", f"-Wl,-rpath,{libraries}",
    ]  # fmt: skip
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace")
    log = file.with_name("log")
    log.write_text(shlex.join(command) + "\n" + done.stdout)
    if done.returncode != 0:
        first = next((line for line in done.stdout.splitlines() if "error" in line), done.stdout[-200:])
        raise ImportError(f"weftcomm_torch cannot be compiled for torch {minor}: {first.strip()} (all of it: {log})")
    made.replace(file)
