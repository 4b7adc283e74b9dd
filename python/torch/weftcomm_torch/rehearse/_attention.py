"""scaled_dot_product_attention with the fused kernel that a GPU would take, instead of the CPU build's own choice."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as functional

aten = torch.ops.aten


def install_attention() -> None:
    plain = functional.scaled_dot_product_attention

    def scaled_dot_product_attention(
        query: Any,
        key: Any,
        value: Any,
        attn_mask: Any = None,
        dropout_p: float = 0.0,
        is_causal: bool = False,
        scale: Any = None,
        enable_gqa: bool = False,
    ) -> Any:
        widths_fit = query.dim() == 4 and query.shape[-1] % 8 == 0 and query.shape[-1] == value.shape[-1] <= 256
        if query.device.type != "cuda" or not widths_fit:
            return plain(
                query, key, value, attn_mask, dropout_p, is_causal, scale=scale, enable_gqa=enable_gqa
            )
        if enable_gqa and key.shape[1] != query.shape[1]:
            repeats = query.shape[1] // key.shape[1]
            if attn_mask is not None or query.dtype == torch.float32:
                key, value = key.repeat_interleave(repeats, 1), value.repeat_interleave(repeats, 1)
        if attn_mask is None and query.dtype in (torch.float16, torch.bfloat16):
            return aten._scaled_dot_product_flash_attention(
                query, key, value, dropout_p, is_causal, False, scale=scale
            )[0]
        if attn_mask is not None:
            if attn_mask.dtype == torch.bool:
                attn_mask = torch.zeros_like(attn_mask, dtype=query.dtype).masked_fill_(~attn_mask, float("-inf"))
            attn_mask = attn_mask.expand(*query.shape[:3], key.shape[2])
        return aten._scaled_dot_product_efficient_attention(
            query, key, value, attn_mask, query.requires_grad or key.requires_grad, dropout_p, is_causal, scale=scale
        )[0]

    functional.scaled_dot_product_attention = scaled_dot_product_attention  # type: ignore[assignment]
    torch._C._nn.scaled_dot_product_attention = scaled_dot_product_attention  # type: ignore[attr-defined]
