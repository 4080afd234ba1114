"""The settings of verl and its peers that turn a precision or a kernel on by a switch or choose one by name.

Every reader tells these, in its own syntax, as mentions of kind "switch"; what becomes of them is for the rules.
"""

from __future__ import annotations

SWITCH_KEYS = (
    "bf16",
    "fp16",
    "use_bf16",
    "enable_bf16",
    "bf16_full_eval",
    "fp16_full_eval",
    "bf16.enabled",
    "bfloat16.enabled",
    "fp16.enabled",
    "mixed_precision",
    "tf32",
    "use_flash_attention_2",
    "use_flash_attn",
    "flash_attn",
    "use_flash_attention",
    "enable_flash_attn",
    "enable_flash_attention",
    "use_remove_padding",
    "use_torch_compile",
    "enforce_eager",
    "enable_compile",
    "enable_torch_compile",
    "torch_compile",
    "use_fused_kernels",
    "use_liger",
    "use_liger_kernel",
    "enable_liger_kernel",
    "enable_chunked_prefill",
    "enable_fp8",
    "padding_free",
    "packing",
    "packing_samples",
    "sample_packing",
    "neat_packing",
    "enable_seq_packing",
    "use_sample_packing",
    "use_sequence_packing",
    "sequence_packing",
    "sequence_packing.enabled",
    "remove_microbatch_padding",
)
"""Keys whose boolean turns a precision or an attention kernel on or off; "a.b" is the key b directly under a."""

NAMED_SWITCHES = {
    "attention_backend": frozenset({"auto", "flash", "flashinfer", "fused", "fa2", "fa3", "local", "unfused"}),
    "attention_backend_override": frozenset({"flash", "fused"}),
    "attn": frozenset({"te"}),
    "attn_implementation": frozenset({"fa2", "fa3", "fa4"}),
    "attn_type": frozenset({"flex", "flex_flash", "varlen"}),
    "cross_entropy_loss_implementation": frozenset({"liger_kernel"}),
    "flash_attn": frozenset({"fa2", "fa3"}),
    "fp8": frozenset({"e4m3", "hybrid"}),
    "fused_kernel_backend": frozenset({"torch", "triton"}),
    "fused_lm_head_logprob_backend": frozenset({"torch", "triton"}),
    "impl_backend": frozenset({"torch", "triton"}),
    "linear": frozenset({"te"}),
    "kv_cache_dtype": frozenset({"fp8", "fp8_e4m3", "fp8_e5m2"}),
    "load_balancing_loss_implementation": frozenset({"liger_kernel", "triton"}),
    "moe_implementation": frozenset({"fused", "fused_quack", "fused_triton"}),
    "quantization": frozenset({"fp8", "nvfp4", "mxfp4", "mxfp8"}),
    "rms_norm_implementation": frozenset({"liger_kernel", "triton"}),
    "rollout.name": frozenset({"???", "hf", "sglang", "trtllm", "vllm"}),
    "rotary_pos_emb_implementation": frozenset({"liger_kernel", "triton"}),
    "swiglu_mlp_implementation": frozenset({"liger_kernel", "triton"}),
    "VERL_DISABLE_FLASH_ATTN_CE": frozenset({"0"}),
}
"""Keys that choose a kernel library or an engine by name, and the names that are told."""

OTHER_DEVICES = frozenset({"hpu", "mlu", "musa", "npu", "xpu"})
"""Values of ``device`` that are not an NVIDIA GPU."""

DEVICE_WORDS = frozenset({"ascend", "hccl", "mindspeed", "npu", "tpu", "xla"})
"""Words of a path (split at ``/ _ - .``) that say a file is for a device that is not an NVIDIA GPU."""

NUMBER_KEYS = frozenset({"ulysses_sequence_parallel_size", "ulysses_parallel_size", "ulysses_size"})
"""Keys whose number turns something on when it is more than 1; told with the number as the value."""

ENVIRONMENT_KEYS = (
    "DS_ALLOW_DEPRECATED_FP16",
    "NVTE_*",
    "TORCH_CUDA_ARCH_LIST",
    "TORCH_DTYPE",
    "TRITON_MAX_SHARED_MEMORY",
    "VERL_DISABLE_FLASH_ATTN_CE",
    "VLLM_ATTENTION_BACKEND",
    "VLLM_DTYPE",
    "VLLM_USE_V1",
)
"""Environment variables that choose a kernel, an engine or a precision; ``*`` stands for the rest of a name."""
