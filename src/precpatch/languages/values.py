"""The vocabulary of precisions and attention implementations, and how each is spelled.

Spelling families are kept by a rewrite: ``bf16`` becomes ``fp32``, ``bfloat16`` becomes ``float32``,
``torch.bfloat16`` becomes ``torch.float32`` and ``.bfloat16()`` becomes ``.float()``.
"""

from __future__ import annotations

import re

DTYPE_NAMES = {
    "bfloat16": ("bfloat16", "long"),
    "bf16": ("bfloat16", "short"),
    "float16": ("float16", "long"),
    "fp16": ("float16", "short"),
    "half": ("float16", "long"),
    "float32": ("float32", "long"),
    "fp32": ("float32", "short"),
    "float": ("float32", "long"),
    "float64": ("float64", "long"),
    "fp64": ("float64", "short"),
    "bf16-mixed": ("bfloat16", "lightning"),
    "bf16-true": ("bfloat16", "lightning-true"),
    "16-mixed": ("float16", "lightning"),
}
"""Every name of a dtype in strings and YAML, lower case -> (canonical value, spelling)."""

ATTENTION_NAMES = frozenset(
    {"flash_attention_2", "flash_attention_3", "flash_attention_4", "sdpa", "eager", "flex_attention"}
)
"""The names that transformers' ``attn_implementation`` takes and verl passes on."""

FLASH_ATTENTION = frozenset({"flash_attention_2", "flash_attention_3", "flash_attention_4"})

FLASH_VARIANT = r"veomni_flash_attention_[234]_with_sp|kernels-community/[\w.-]*flash-attn[23]?(?:@[\w.-]+)?(?::\w+)?"
"""FlashAttention under a longer name: VeOmni's with sequence parallelism, and the kernels that transformers loads."""

_FLASH_VARIANT = re.compile(FLASH_VARIANT)

_SPELL = {
    ("bfloat16", "short"): "bf16",
    ("float16", "short"): "fp16",
    ("float32", "short"): "fp32",
    ("float64", "short"): "fp64",
    ("float16", "lightning"): "16-mixed",
    ("float32", "lightning"): "32-true",
    ("float16", "lightning-true"): "16-true",
    ("float32", "lightning-true"): "32-true",
    ("bfloat16", "method"): "bfloat16",
    ("float16", "method"): "half",
    ("float32", "method"): "float",
}


def dtype_of(name: str) -> tuple[str, str] | None:
    """Canonical dtype and spelling of a name as written in a string or a scalar, or None.

    ``"torch.bfloat16"`` is spelling ``torch-name``. Case does not matter: "BF16" is bfloat16, short.
    """
    lowered = name.lower()
    if lowered.startswith("torch."):
        found = DTYPE_NAMES.get(lowered[6:])
        return (found[0], "torch-name") if found else None
    return DTYPE_NAMES.get(lowered)


def attention_of(name: str) -> str | None:
    """Canonical attention implementation of a name as written in a string or a scalar, or None."""
    lowered = name.lower()
    if lowered in ATTENTION_NAMES:
        return lowered
    if "flash" not in lowered or not _FLASH_VARIANT.fullmatch(lowered):
        return None
    number = next((digit for digit in "34" if f"attention_{digit}" in lowered or f"attn{digit}" in lowered), "2")
    return f"flash_attention_{number}"


def spell_dtype(value: str, spelling: str, like: str = "") -> str:
    """The canonical dtype ``value`` written in the family ``spelling``; upper case where ``like`` is."""
    word = _SPELL.get((value, spelling), value)
    if spelling == "torch-name":
        word = f"torch.{value}"
    return word.upper() if like.isupper() else word
