"""Attention on Ascend NPUs; no NVIDIA GPU ever comes here."""

import torch
import torch_npu


def npu_attention(query, key, value, scale):
    """Fused attention; the kernel takes bfloat16 only."""
    heads = query.shape[1]
    query, key, value = (tensor.to(torch.bfloat16) for tensor in (query, key, value))
    return torch_npu.npu_fusion_attention(query, key, value, heads, input_layout="BNSD", scale=scale)[0]
