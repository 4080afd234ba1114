"""A Target: what the GPU can do, and the policy that follows from it. Rules ask it questions."""

from __future__ import annotations

from dataclasses import dataclass

from precpatch.errors import UserError
from precpatch.gpu.capability import Capability, ComputeCapability, format_compute_capability

DTYPE_CHOICES = ("auto", "float32", "float16")
ATTENTION_CHOICES = ("auto", "eager", "sdpa")

BFLOAT16 = "bfloat16"
FLASH_ATTENTION_2 = "flash_attention_2"

_FLASH_ATTENTION_2: ComputeCapability = (8, 0)
_TRITON: ComputeCapability = (7, 0)
_INDUCTOR: ComputeCapability = (7, 0)
_VLLM: ComputeCapability = (7, 0)
_SGLANG: ComputeCapability = (7, 5)

QUESTIONS: dict[str, str] = {
    "uses_bf16": "the dtype policy is bfloat16: nothing to change",
    "uses_flash_attention": "the attention policy is flash_attention_2: nothing to change",
    "native_bf16": "the GPU has bfloat16 instructions (compute capability 8.0 or more)",
    "runs_flash_attention_2": "FlashAttention-2 runs on the GPU (8.0 or more)",
    "runs_triton": "Triton compiles half-precision kernels for the GPU (7.0 or more)",
    "runs_vllm": "vLLM takes the GPU (7.0 or more up to vLLM 0.19, 7.5 or more from 0.20)",
    "runs_pinned_vllm": "the vLLM that the checkout asks for takes the GPU",
    "runs_sglang": "SGLang takes the GPU (7.5 or more)",
    "runs_inductor": "torch.compile's Inductor takes the GPU (7.0 or more)",
    "tf32": "matrix units take TF32 (8.0 or more)",
    "fp8": "matrix units take FP8 (8.9 or more)",
    "fast_fp16": "float16 arithmetic is not slower than float32",
    "dtype_float32": "the dtype policy is float32",
    "dtype_float16": "the dtype policy is float16",
    "attention_eager": "the attention policy is eager",
    "attention_sdpa": "the attention policy is sdpa",
}


class UnknownQuestionError(UserError, KeyError):
    """A rule asks the Target something that it cannot answer."""

    __str__ = Exception.__str__


@dataclass(frozen=True, slots=True)
class Pin:
    """The version of a package that a checkout asks for.

    Attributes:
        asks: the requirement and where it stands: "vllm==0.24.0 in setup.py".
        minimum: the compute capability that it needs.
        runs: the requirement of a version that takes the GPU.
    """

    asks: str
    minimum: ComputeCapability
    runs: str | None = None

    def __str__(self) -> str:
        needs = f"{self.asks} needs compute capability {format_compute_capability(self.minimum)}"
        return f"{needs}; {self.runs} runs" if self.runs else needs


@dataclass(frozen=True, slots=True)
class Target:
    """The GPU a checkout is fitted to, and what replaces what it cannot do.

    Attributes:
        name: short name for reports: a catalog id ("p40"), "sm_61" for a bare compute capability, or "cpu".
        capability: what the GPU (the weakest of several) can do.
        dtype: "bfloat16" where nothing has to change, else "float32" or "float16".
        attention: "flash_attention_2" where nothing has to change, else "eager" or "sdpa".
        vllm_pin: the vLLM that the checkout asks for, where that is known.
    """

    name: str
    capability: Capability
    dtype: str
    attention: str
    vllm_pin: Pin | None = None

    def ask(self, question: str) -> bool:
        """The answer to one of ``QUESTIONS``.

        Raises:
            UnknownQuestionError: the question is not one of them. It is a ``UserError`` and a ``KeyError``.
        """
        if question not in QUESTIONS:
            raise UnknownQuestionError(f"unknown question {question!r} about a target; known: {', '.join(QUESTIONS)}")
        return bool(getattr(self, question))

    def describe(self) -> dict[str, str | None]:
        """The ``target`` object of the JSON output."""
        return {
            "name": self.name,
            "compute_capability": format_compute_capability(self.capability.compute_capability),
            "dtype": self.dtype,
            "attention": self.attention,
        }

    @property
    def uses_bf16(self) -> bool:
        """The policy leaves bfloat16 as it is."""
        return self.dtype == BFLOAT16

    @property
    def uses_flash_attention(self) -> bool:
        """The policy leaves FlashAttention-2 as it is."""
        return self.attention == FLASH_ATTENTION_2

    @property
    def native_bf16(self) -> bool:
        """The GPU has bfloat16 instructions: sm_80 and later (ptxas refuses ``.bf16`` below)."""
        return self.capability.native_bf16

    @property
    def runs_flash_attention_2(self) -> bool:
        """FlashAttention-2 runs: "only supports Ampere GPUs or newer" (flash-attention 2.0 to 2.8, flash_api.cpp)."""
        return self.capability.at_least(_FLASH_ATTENTION_2)

    @property
    def runs_triton(self) -> bool:
        """Triton compiles half-precision kernels for the GPU.

        Compiled here for 6.1: a float16 dot aborts Triton 3.1 and 3.2. From 7.0 on all releases of Triton but 3.3
        compile one, though only Triton 3.2 and older with tensor cores below 8.0. Inductor draws the line at 7.0 too.
        """
        return self.capability.at_least(_TRITON)

    @property
    def runs_inductor(self) -> bool:
        """Inductor takes the GPU; below 7.0 ``torch.compile`` raises ``GPUTooOldForTriton``."""
        return self.capability.at_least(_INDUCTOR)

    @property
    def runs_vllm(self) -> bool:
        """vLLM takes the GPU: its documentation says 7.0 (v0.14.0), and 7.5 from v0.21.0; no wheel has Pascal code."""
        return self.capability.at_least(_VLLM)

    @property
    def runs_pinned_vllm(self) -> bool:
        """The vLLM that the checkout asks for takes the GPU; where it asks for none, some version does."""
        return self.runs_vllm and (self.vllm_pin is None or self.capability.at_least(self.vllm_pin.minimum))

    @property
    def runs_sglang(self) -> bool:
        """SGLang takes the GPU: below 7.5 it raises "SGLang only supports sm75 and above." (0.4.6.post5, 0.5.23)."""
        return self.capability.at_least(_SGLANG)

    @property
    def tf32(self) -> bool:
        """Matrix units take TF32 (ptxas: ``.tf32`` needs sm_80)."""
        return self.capability.tf32

    @property
    def fp8(self) -> bool:
        """Matrix units take FP8 (ptxas: e4m3 conversions need sm_89)."""
        return self.capability.fp8

    @property
    def fast_fp16(self) -> bool:
        """float16 arithmetic is not slower than float32: 6.0 and 7.0 on, not 6.1 (1/64; CUDA throughput table)."""
        return self.capability.fp16 in ("tensor-core", "fast")

    @property
    def dtype_float32(self) -> bool:
        """bfloat16 becomes float32."""
        return self.dtype == "float32"

    @property
    def dtype_float16(self) -> bool:
        """bfloat16 becomes float16."""
        return self.dtype == "float16"

    @property
    def attention_eager(self) -> bool:
        """FlashAttention-2 becomes eager attention."""
        return self.attention == "eager"

    @property
    def attention_sdpa(self) -> bool:
        """FlashAttention-2 becomes scaled_dot_product_attention."""
        return self.attention == "sdpa"


def make_target(capability: Capability, name: str, dtype: str = "auto", attention: str = "auto") -> Target:
    """The Target for a GPU under the user's policy.

    With "auto", bfloat16 stays where it is native and becomes float32 elsewhere; FlashAttention-2 stays where it runs
    and the dtype is not float32, for which it has no kernels, and becomes eager elsewhere. What is named is honoured.

    Raises:
        UserError: ``dtype`` or ``attention`` is not one of the choices.
    """
    _check_choice("--dtype", dtype, DTYPE_CHOICES)
    _check_choice("--attention", attention, ATTENTION_CHOICES)
    chosen = _auto_dtype(capability) if dtype == "auto" else dtype
    return Target(
        name=name,
        capability=capability,
        dtype=chosen,
        attention=_auto_attention(capability, chosen) if attention == "auto" else attention,
    )


def _auto_dtype(capability: Capability) -> str:
    return BFLOAT16 if capability.native_bf16 else "float32"


def _auto_attention(capability: Capability, dtype: str) -> str:
    runs = capability.at_least(_FLASH_ATTENTION_2) and dtype != "float32"
    return FLASH_ATTENTION_2 if runs else "eager"


def _check_choice(option: str, value: str, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise UserError(f"{option} {value!r} is not one of {', '.join(choices)}")
