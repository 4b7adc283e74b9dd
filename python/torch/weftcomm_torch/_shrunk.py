"""Groups that dist.shrink_group has made of weft's."""

from __future__ import annotations

import sys
from typing import Any


def mend() -> None:
    """Makes torch give a shrunk group of weft's the type CUSTOM.

    torch 2.13 gives every shrunk group on the CPU the type GLOO, and DDP's logger then takes the backend for an object of
    gloo's class.
    """
    from torch.distributed import distributed_c10d as c10d

    make = getattr(c10d, "_create_shrunk_process_group", None)
    if make is None or hasattr(make, "mended_by_weft"):
        return

    def create_shrunk_process_group(new_backend: Any, *more: Any, **keywords: Any) -> Any:
        group = make(new_backend, *more, **keywords)
        adapter = sys.modules.get("weftcomm_torch._adapter")
        if adapter is not None and isinstance(new_backend, adapter.ProcessGroupWeft):
            import torch

            custom = c10d.ProcessGroup.BackendType.CUSTOM
            group._register_backend(torch.device("cpu"), custom, new_backend)
            group._set_default_backend(custom)
        return group

    create_shrunk_process_group.mended_by_weft = True  # type: ignore[attr-defined]
    c10d._create_shrunk_process_group = create_shrunk_process_group
