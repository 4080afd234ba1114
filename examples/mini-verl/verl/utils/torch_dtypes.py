"""Names of dtypes. This module translates what others decide; its tables have to stay as they are."""

import torch

HALF_NAMES = ["fp16", "float16", "half", torch.float16]
FLOAT_NAMES = ["fp32", "float32", "float", torch.float32]
BFLOAT_NAMES = ["bf16", "bfloat16", torch.bfloat16]


class PrecisionType:
    """Between the names that people write in configs and the dtypes of torch."""

    SHORT = {torch.float32: "fp32", torch.float16: "fp16", torch.bfloat16: "bf16"}

    @staticmethod
    def to_dtype(name):
        """The dtype that a name means."""
        if name in FLOAT_NAMES:
            return torch.float32
        if name in HALF_NAMES:
            return torch.float16
        if name in BFLOAT_NAMES:
            return torch.bfloat16
        raise ValueError(f"unknown dtype {name!r}; write bf16, fp16 or fp32")

    @staticmethod
    def is_bf16(name):
        """Whether a name means bfloat16."""
        return name in BFLOAT_NAMES
