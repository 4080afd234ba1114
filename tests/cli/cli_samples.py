"""Bytes that the command line tests work on."""

from __future__ import annotations

MODEL = b"""import torch


def load(name):
    return build(name, torch_dtype=torch.bfloat16)
"""

PATCHED_MODEL = MODEL.replace(b"bfloat16", b"float32")
