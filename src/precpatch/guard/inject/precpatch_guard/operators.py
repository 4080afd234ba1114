"""What an operator of PyTorch does to a forbidden dtype."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from .trips import COMPUTE, LOAD, PRODUCE

_READS = {
    "set_", "_reshape_alias", "_unsafe_view", "_local_scalar_dense", "is_pinned", "is_same_size", "is_coalesced",
    "_has_same_storage_numel", "record_stream", "detach_", "t_", "transpose_", "squeeze_", "unsqueeze_",
    "as_strided_", "sym_size", "sym_stride", "sym_numel", "sym_storage_offset", "size", "stride", "numel", "device",
    "dim", "storage_offset", "_version", "is_contiguous", "is_strides_like_format", "is_non_overlapping_and_dense",
}  # fmt: skip
_COPIES = {"_to_copy", "to", "_copy_from", "clone", "_lazy_clone", "type_as", "contiguous", "_pin_memory"}
_COPIES_INTO = {"copy_", "copy", "_foreach_copy_"}
_FRESH = {
    "empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided", "zeros_like", "new_zeros", "ones_like",
    "new_ones", "full_like", "new_full", "lift_fresh", "lift_fresh_copy",
}  # fmt: skip

MATMUL, ATTENTION = "matmuls", "attention"
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
        is_copy_into: its first argument is filled from its second.
        is_composite: it is nothing but calls of other operators.
    """

    def __init__(self, func: Any, dispatcher: Any) -> None:
        """``func`` is an overload, or a higher-order operator, which has no schema; ``dispatcher`` is ``torch._C``."""
        schema = getattr(func, "_schema", None)
        self.name: str = schema.name if schema is not None else str(func)
        self._base = self.name.rpartition("::")[2]
        self.role = _role(self.name, self._base)
        self.is_copy_into = self._base in _COPIES_INTO
        self.is_composite = schema is not None and _is_composite(func.name(), dispatcher)
        self._is_view = schema is not None and any(_is_viewed(argument) for argument in schema.arguments)

    def kind(self, taken: Sequence[str], made: Sequence[str], args: Sequence[Any]) -> str:
        """What it does with ``args``, from the forbidden dtypes among its arguments and its results.

        A load is a view of forbidden data or a copy of it, as reading a bf16 checkpoint needs; it runs on any GPU.
        """
        if self._base == "new_empty" and args[1:] == ([],):
            return LOAD  # the shell that ``copy.deepcopy`` fills with a copy of the storage
        if self._base in _FRESH:
            return PRODUCE
        if self._base in _COPIES:
            return PRODUCE if made and made != taken else LOAD
        if self._is_view or self._base in _READS:
            return LOAD
        return COMPUTE if taken else PRODUCE


def _is_composite(name: str, dispatcher: Any) -> bool:
    """Whether the kernel of an operator is made of other operators, and no device has one of its own."""
    has_kernel = dispatcher._dispatch_has_kernel_for_dispatch_key
    try:
        return has_kernel(name, "CompositeImplicitAutograd") and not (
            has_kernel(name, "CPU") or has_kernel(name, "CUDA")
        )
    except RuntimeError:  # the operators of namespace "prim" are no operators to the dispatcher
        return False


def _role(name: str, base: str) -> str:
    if _ATTENTION.search(name):
        return ATTENTION
    return MATMUL if base in _MATMULS or _CONVOLUTION.match(base) else ""


def _is_viewed(argument: Any) -> bool:
    alias = argument.alias_info
    return alias is not None and not alias.is_write
