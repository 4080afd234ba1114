"""Modules that precpatch adds to a checkout where it has no path of its own without a package the card cannot use."""

from __future__ import annotations

from pathlib import Path


def padding_source() -> bytes:
    """The source of ``padding.py``, which stands in for flash_attn.bert_padding."""
    return (Path(__file__).parent / "padding.py").read_bytes()
