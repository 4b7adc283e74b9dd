"""Descriptor lists of what engines have: tuples, arrays, tensors, bytes of a peer."""

from __future__ import annotations

import io
import pickle
import sys
from typing import Any

import numpy as np

from . import _bindings as bindings
from ._bindings import nixl_mem_t, nixlRegDList, nixlRemoteDList, nixlXferDList
from .logging import get_logger

logger = get_logger(__name__)

KINDS = {
    "DRAM": nixl_mem_t.DRAM_SEG,
    "VRAM": nixl_mem_t.VRAM_SEG,
    "FILE": nixl_mem_t.FILE_SEG,
    "BLOCK": nixl_mem_t.BLK_SEG,
    "OBJ": nixl_mem_t.OBJ_SEG,
    "cpu": nixl_mem_t.DRAM_SEG,
    "cuda": nixl_mem_t.VRAM_SEG,
}


class Descriptors:
    """The calls of nixl_agent that make lists."""

    def get_xfer_descs(self, descs: Any, mem_type: str | None = None) -> Any:
        """Of tuples or an Nx3 array with mem_type, of a tensor or a list of tensors; None, with a line in the log, where
        that is not possible."""
        if isinstance(descs, nixlXferDList):
            return descs
        return self._made(nixlXferDList, descs, mem_type, 3)

    def get_reg_descs(self, descs: Any, mem_type: str | None = None) -> Any:
        """As get_xfer_descs, with four numbers in a tuple."""
        if isinstance(descs, nixlRegDList):
            return descs
        return self._made(nixlRegDList, descs, mem_type, 4)

    def get_remote_descs(self, descs: Any, mem_type: str | None = None) -> Any:
        if isinstance(descs, nixlRemoteDList):
            return descs
        return self._made(nixlRemoteDList, descs, mem_type, 4) if isinstance(descs[0], tuple) else None

    @staticmethod
    def _made(kind: Any, descs: Any, mem_type: str | None, columns: int) -> Any:
        if isinstance(descs, bindings._DescList):
            logger.error("a %s is no %s", type(descs).__name__, kind.__name__)
            return None
        is_array, torch = isinstance(descs, np.ndarray), sys.modules.get("torch")
        if is_array or isinstance(descs[0], tuple):
            if mem_type is None:
                logger.error("Please specify a mem type if not using Tensors")
            elif is_array and (descs.ndim != 2 or descs.shape[1] != 3):
                logger.error("Nx3 shape required for a descriptor list from numpy array")
            elif not is_array and len(descs[0]) != columns:
                logger.error("%d-tuple list needed", columns)
            else:
                return kind(KINDS[mem_type], descs)
            return None
        tensors = [descs] if torch is not None and isinstance(descs, torch.Tensor) else list(descs)
        if torch is None or not all(isinstance(t, torch.Tensor) for t in tensors):
            return None
        if not all(t.is_contiguous() and t.device == tensors[0].device for t in tensors):
            logger.error("Please use a list of contiguous Tensors")
            return None
        device = max(tensors[0].get_device(), 0)
        rows = [(t.data_ptr(), t.numel() * t.element_size(), device) for t in tensors]
        memory = nixl_mem_t.DRAM_SEG if tensors[0].get_device() == -1 else nixl_mem_t.VRAM_SEG
        return kind(memory, np.array(rows, dtype=np.uint64))

    def get_serialized_descs(self, descs: Any) -> bytes:
        return pickle.dumps(descs)

    def deserialize_descs(self, serialized_descs: bytes) -> Any:
        """Raises: nixlInvalidParamError where the bytes hold anything but a descriptor list."""
        return _Descriptors.read(serialized_descs)


class _Descriptors(pickle.Unpickler):
    """Descriptor lists come from peers, and pickle runs what they say: only these classes are made."""

    _ALLOWED = {
        (__package__ + "._bindings", "nixlXferDList"),
        (__package__ + "._bindings", "nixlRegDList"),
        (__package__ + "._bindings", "nixlRemoteDList"),
        (__package__ + "._bindings", "nixl_mem_t"),
        ("numpy", "ndarray"),
        ("numpy", "dtype"),
        ("numpy.core.multiarray", "_reconstruct"),
        ("numpy._core.multiarray", "_reconstruct"),
        ("numpy.core.numeric", "_frombuffer"),
        ("numpy._core.numeric", "_frombuffer"),
    }

    @staticmethod
    def read(text: bytes) -> Any:
        try:
            return _Descriptors(io.BytesIO(text)).load()
        except pickle.UnpicklingError as error:
            raise bindings.nixlInvalidParamError(str(error)) from error

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in self._ALLOWED:
            raise pickle.UnpicklingError(f"{module}.{name} is no part of a descriptor list")
        return super().find_class(module, name)
