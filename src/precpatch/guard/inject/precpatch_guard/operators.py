"""What an operator of PyTorch does to a forbidden dtype."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from .trips import COMPUTE, LOAD, PRODUCE

_READS = {"set_", "_reshape_alias", "_unsafe_view", "_local_scalar_dense"}
_COPIES = {"_to_copy", "to", "copy_", "copy", "_copy_from", "clone", "_foreach_copy_", "type_as"}
_FRESH = {
    "empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided", "zeros_like", "new_zeros", "ones_like",
    "new_ones", "full_like", "new_full", "lift_fresh", "lift_fresh_copy",
}  # fmt: skip

MATMUL, ATTENTION = "matmul", "attention"
"""What a run is told apart by: in which dtype it multiplied matrices, and which attention kernels it called."""

_MATMULS = {
    "mm", "addmm", "_addmm_activation", "bmm", "baddbmm", "addbmm", "matmul", "linear", "linear_backward", "bilinear",
    "_trilinear", "mv", "addmv", "dot", "vdot", "inner", "einsum", "tensordot", "chain_matmul", "linalg_multi_dot",
    "_scaled_mm", "_scaled_mm_v2", "_grouped_mm", "_scaled_grouped_mm", "_int_mm", "_weight_int8pack_mm",
    "_weight_int4pack_mm", "_sparse_mm", "mkldnn_linear", "_mkl_linear",
}  # fmt: skip
_CONVOLUTION = re.compile(r"_?conv(olution|_transpose|[123]d|_depthwise)|.*_convolution")
_ATTENTION = re.compile(r"attention|attn|scaled_dot_product|multi_head|_fa[23]_")


class Operator:
    """The facts about one operator.

    Attributes:
        name: "aten::mm".
        role: one of the words above; "" for any other operator.
    """

    def __init__(self, func: Any) -> None:
        """``func`` is an overload, or a higher-order operator, which has no schema."""
        schema = getattr(func, "_schema", None)
        self.name: str = schema.name if schema is not None else str(func)
        self._base = self.name.rpartition("::")[2]
        self.role = _role(self.name, self._base)
        self._is_view = schema is not None and any(_is_viewed(argument) for argument in schema.arguments)

    def kind(self, taken: Sequence[str], made: Sequence[str]) -> str:
        """What it does, from the forbidden dtypes among its arguments and its results.

        A load is a view of forbidden data or a copy out of it, as reading a bf16 checkpoint needs; it runs on any GPU.
        """
        if self._base in _FRESH:
            return PRODUCE
        if self._is_view or self._base in _READS:
            return LOAD
        if self._base in _COPIES:
            return PRODUCE if made else LOAD
        return COMPUTE if taken else PRODUCE


def _role(name: str, base: str) -> str:
    if _ATTENTION.search(name):
        return ATTENTION
    return MATMUL if base in _MATMULS or _CONVOLUTION.match(base) else ""


def _is_viewed(argument: Any) -> bool:
    alias = argument.alias_info
    return alias is not None and not alias.is_write
