"""precpatch: fit a verl checkout to GPUs without native bfloat16 or FlashAttention-2."""

__version__ = "0.1.0"
