"""Packing: rows of different lengths in one batch, without padding between them."""

from flash_attn.bert_padding import index_first_axis, pad_input, unpad_input


def pack(hidden, mask):
    """Drop the padding; what comes back can be unpacked again with the indices."""
    packed, indices, cu_seqlens, longest, *_ = unpad_input(hidden, mask)
    return packed, indices, cu_seqlens, longest


def unpack(packed, indices, batch, length):
    """Put the padding back."""
    return pad_input(packed, indices, batch, length)


def pick(values, indices):
    """The values of the rows that are not padding."""
    return index_first_axis(values.flatten(0, 1), indices)
