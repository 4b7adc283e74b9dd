"""NIXL's Python interface over weft's agents. docs/transfers.md says what differs.

`import weftcomm.nixl as nixl` has its names. A program that says `from nixl._api import nixl_agent` runs unchanged with

    PYTHONPATH=$(python -m weftcomm.nixl) python program.py

or after `weftcomm.nixl.install()`.
"""

from __future__ import annotations

import os
import sys

from . import _api, _bindings, _utils, logging
from ._agent import nixlAgent
from ._api import *
from ._bindings import *
from ._utils import ba_buf, free_passthru, malloc_passthru, verify_transfer
from ._handles import nixlAgentConfig
from .logging import get_logger

__all__ = [
    *_api.__all__,
    *(name for name in vars(_bindings) if name.startswith(("nixl", "NIXL")) or name.endswith("_SEG")),
    "ba_buf",
    "free_passthru",
    "get_logger",
    "install",
    "nixlAgent",
    "nixlAgentConfig",
    "malloc_passthru",
    "path",
    "verify_transfer",
]


def path() -> str:
    """A folder for PYTHONPATH, in which the package `nixl` is this one."""
    return os.path.join(os.path.dirname(os.path.dirname(__file__)), "nixl_path")


def install() -> None:
    """`import nixl` and its submodules give this package from here on."""
    sys.modules["nixl"] = sys.modules[__name__]
    for module in (_api, _bindings, _utils, logging):
        sys.modules["nixl." + module.__name__.rpartition(".")[2]] = module
