"""Padding helpers in plain PyTorch, in the place of ``flash_attn.bert_padding``.

Added by precpatch: flash-attn does not run on this GPU, and these helpers never needed it. They behave like those of
flash-attn 2.8 (``unpad_input`` returns five values since 2.7; callers take the rest with ``*_``).
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812  (the name that PyTorch code uses)


def index_first_axis(input: torch.Tensor, indices: torch.Tensor) -> torch.Tensor:  # noqa: A002  (the parameter's name in flash-attn)
    """Rows of a tensor. input: (n, ...), indices: (k,) int64 -> (k, ...)."""
    return torch.index_select(input, 0, indices)


def index_put_first_axis(values: torch.Tensor, indices: torch.Tensor, first_axis_dim: int) -> torch.Tensor:
    """The reverse: zeros of (first_axis_dim, ...) with values (k, ...) at the rows indices (k,)."""
    rows = values.new_zeros(first_axis_dim, *values.shape[1:])
    return rows.index_put((indices,), values)


def unpad_input(
    hidden_states: torch.Tensor, attention_mask: torch.Tensor, unused_mask: torch.Tensor | None = None
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, int, torch.Tensor]:
    """Drop the padding of a batch.

    hidden_states: (batch, seqlen, ...); attention_mask: (batch, seqlen), 1 or True for a token; unused_mask likewise,
    for tokens that are kept in the output but not used.

    Returns the tokens (total, ...), their indices in the flattened batch (total,), the cumulative lengths
    (batch + 1,) int32, the longest length as an int, and the used lengths (batch,) int32.
    """
    kept = attention_mask if unused_mask is None else attention_mask + unused_mask
    lengths = kept.sum(dim=-1, dtype=torch.int32)
    used = attention_mask.sum(dim=-1, dtype=torch.int32)
    indices = torch.nonzero(kept.flatten(), as_tuple=False).flatten()
    cumulative = F.pad(torch.cumsum(lengths, dim=0, dtype=torch.int32), (1, 0))
    tokens = index_first_axis(hidden_states.flatten(0, 1), indices)
    return tokens, indices, cumulative, lengths.max().item(), used


def pad_input(hidden_states: torch.Tensor, indices: torch.Tensor, batch: int, seqlen: int) -> torch.Tensor:
    """The reverse: tokens (total, ...) at their indices in (batch, seqlen, ...), zeros elsewhere."""
    return index_put_first_axis(hidden_states, indices, batch * seqlen).unflatten(0, (batch, seqlen))


def rearrange(tensor: Any, pattern: str, **axes_lengths: int) -> Any:
    """``einops.rearrange``, which flash_attn.bert_padding hands on; imported only when it is called."""
    from einops import rearrange as einops_rearrange

    return einops_rearrange(tensor, pattern, **axes_lengths)
