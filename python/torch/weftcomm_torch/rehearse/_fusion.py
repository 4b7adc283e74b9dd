"""What torch.compile makes of kernels that are bound by memory: those that follow each other become one, which reads what
comes from before it and writes what is still held after it."""

from __future__ import annotations

import weakref
from typing import Any

import torch


class Fusion:
    """Off until the script compiles something. `pending`: the kernel that is being put together."""

    def __init__(self, record: Any) -> None:
        self.on = False
        self._record = record
        self._event: dict[str, Any] = {}
        self._read: dict[int, int] = {}  # bytes by storage
        self._made: dict[int, tuple[Any, int]] = {}  # by storage: its weak reference, its bytes

    def add(self, event: dict[str, Any], operands: list[torch.Tensor], outputs: list[torch.Tensor]) -> None:
        """A kernel bound by memory, on the stream and of the class of `event`."""
        if self._event and self._event["stream"] != event["stream"]:
            self.flush()
        self._event = self._event or event
        for tensor in operands:
            key = tensor.untyped_storage()._cdata
            if tensor.device.type == "cuda" and key not in self._made:
                self._read[key] = max(self._read.get(key, 0), tensor.numel() * tensor.element_size())
        for tensor in outputs:
            storage = tensor.untyped_storage()
            if tensor.device.type == "cuda":
                self._made[storage._cdata] = (weakref.ref(storage), tensor.numel() * tensor.element_size())

    def flush(self) -> None:
        if not self._event:
            return
        event, self._event = self._event, {}
        written = sum(size for storage, size in self._made.values() if storage() is not None)
        event["bytes"] = sum(self._read.values()) + written
        self._read, self._made = {}, {}
        self._record.write(**event)
