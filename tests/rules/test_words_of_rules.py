"""Which rule each setting falls to on a P40: the words that share a rule, of which its examples show one or two."""

from __future__ import annotations

import pytest

from precpatch.engine.policy import Policy
from precpatch.engine.rules import load_rules
from precpatch.gpu.resolve import resolve_target
from precpatch.session import file_findings

P40 = Policy(load_rules(), resolve_target("p40"))

SETTINGS = {
    "attention-setting": "attention_implementation=flash_attention_2 attn_implementation=flash_attention_2 "
    "vision_attn_implementation=flash_attention_2 attn_implementation_internal=flash_attention_2",
    "bf16-switch": "bf16=true bf16_full_eval=true use_bf16=true enable_bf16=true bf16.enabled=true "
    "bfloat16.enabled=true",
    "dtype-setting": "main_grads_dtype=bfloat16 main_params_dtype=bfloat16 exp_avg_dtype=bfloat16 "
    "exp_avg_sq_dtype=bfloat16 dtype=bfloat16 dtype_name=bfloat16 dtype_str=bfloat16 data_type=bfloat16 "
    "model_dtype=bfloat16 model_data_type=bfloat16 precision=bfloat16 model_precision=bfloat16 "
    "mixed_precision=bfloat16 bnb_4bit_quant_storage=bfloat16",
    "flash-attention-short-name": "flash_attn=fa2 flash_attn=fa3",
    "flash-attention-short-name-unknown": "attn_implementation=fa2 attn_implementation=fa3 attn_implementation=fa4",
    "flash-attention-switch": "use_flash_attention_2=true use_flash_attn=true flash_attn=true use_flash_attention=true "
    "enable_flash_attn=true enable_flash_attention=true",
    "fp8": "enable_fp8=true fp8=e4m3 fp8=hybrid kv_cache_dtype=fp8 kv_cache_dtype=fp8_e4m3 kv_cache_dtype=fp8_e5m2 "
    "quantization=fp8 quantization=mxfp4 quantization=mxfp8 quantization=nvfp4",
    "fused-kernel-backend": "impl_backend=triton fused_kernel_backend=triton fused_lm_head_logprob_backend=triton",
    "kernel-backend": "attention_backend=fa2 attention_backend=fa3 attention_backend=flash "
    "attention_backend=flashinfer attention_backend=fused attention_backend_override=flash "
    "attention_backend_override=fused attn_type=flex attn_type=flex_flash attn_type=varlen",
    "liger-switch": "use_liger=true use_liger_kernel=true enable_liger_kernel=true",
    "moe-implementation": "moe_implementation=fused moe_implementation=fused_quack moe_implementation=fused_triton",
    "operator-implementation": "cross_entropy_loss_implementation=liger_kernel "
    "load_balancing_loss_implementation=liger_kernel load_balancing_loss_implementation=triton "
    "rms_norm_implementation=liger_kernel rms_norm_implementation=triton "
    "rotary_pos_emb_implementation=liger_kernel rotary_pos_emb_implementation=triton "
    "swiglu_mlp_implementation=liger_kernel swiglu_mlp_implementation=triton",
    "packing": "use_remove_padding=true remove_microbatch_padding=true padding_free=true packing=true "
    "packing_samples=true sample_packing=true neat_packing=true enable_seq_packing=true use_sample_packing=true "
    "use_sequence_packing=true sequence_packing=true sequence_packing.enabled=true",
    "generation-engine": "generation.backend=sglang infer_backend=sglang infer_backend=vllm strategy_name=sglang "
    "allocation_mode=sglang:d4",
    "rollout-engine": "rollout.name=sglang rollout.name=trtllm rollout.name=vllm rollout_name=vllm",
    "tf32-switch": "tf32=true",
    "torch-compile-switch": "use_torch_compile=true enable_compile=true enable_torch_compile=true torch_compile=true",
    "transformer-engine": "use_transformer_engine=true",
    "transformer-engine-attention": "attn=te",
    "transformer-engine-linear": "linear=te",
    "ulysses": "ulysses_sequence_parallel_size=4 ulysses_parallel_size=4 ulysses_size=4 "
    "sequence_parallel_size=4 context_parallel_size=4 ring_attn_size=4 sequence_parallel_degree=4 "
    "parallelism_config_sp_size=4 parallelism_config_cp_size=4",
}


@pytest.mark.parametrize(
    ("rule", "setting"), [(rule, setting) for rule, settings in SETTINGS.items() for setting in settings.split()]
)
def test_a_setting_falls_to_its_rule(rule: str, setting: str) -> None:
    found = file_findings("run.sh", f"python3 -m train trainer.{setting}\n".encode(), P40)
    assert rule in {each.rule for each in found if each.action != "keep"}


@pytest.mark.parametrize("setting", ["attention_backend=local", "attention_backend=unfused", "rollout.name=hf"])
def test_a_setting_that_an_old_card_can_take_stays(setting: str) -> None:
    found = file_findings("run.sh", f"python3 -m train trainer.{setting}\n".encode(), P40)
    assert [each for each in found if each.action != "keep"] == []


@pytest.mark.parametrize("installer", ["pip", "uv", "conda", "mamba", "micromamba", "poetry"])
def test_a_program_that_installs_a_package_is_told(installer: str) -> None:
    found = file_findings("run.sh", f"{installer} install flash-attn\n".encode(), P40)
    assert [each.rule for each in found] == ["flash-attn-install"]
    assert file_findings("run.sh", b"echo install flash-attn\n", P40) == []


@pytest.mark.parametrize("operator", ["_grouped_mm", "grouped_mm", "_scaled_grouped_mm"])
def test_an_operator_that_takes_nothing_else_needs_a_person(operator: str) -> None:
    code = "import torch\ny = torch.{}(x.to(torch.bfloat16), w)\n"
    assert [each.rule for each in file_findings("m.py", code.format(operator).encode(), P40)] == ["dtype-bf16-operand"]
    assert [each.rule for each in file_findings("m.py", code.format("mm").encode(), P40)] == ["dtype-value"]


@pytest.mark.parametrize("alias", ["fa2", "fa3", "fa4", "flash", "flash_attn", "flash-attn", "flash_attention"])
def test_a_branch_that_asks_for_flash_attention_by_another_name_stays(alias: str) -> None:
    code = 'if backend == "{}":\n    run(attn_implementation="flash_attention_2")\n'
    assert {each.action for each in file_findings("m.py", code.format(alias).encode(), P40)} == {"keep"}
    assert "keep" not in {each.action for each in file_findings("m.py", code.format("other").encode(), P40)}


@pytest.mark.parametrize("name", ["float32", "fp32", "float64", "fp64", "sdpa", "eager"])
def test_a_name_that_needs_nothing_is_not_listed_in_code(name: str) -> None:
    found = file_findings("m.py", f'x = f(dtype="bf16")\ny = f(dtype="{name}")\n'.encode(), P40)
    assert [each.mention.text for each in found] == ['"bf16"']


@pytest.mark.parametrize(("on", "off"), [("true", "false"), ("yes", "no"), ("on", "off")])
def test_a_switch_is_turned_in_its_own_words_and_case(on: str, off: str) -> None:
    for old, new in ((on, off), (on.title(), off.title()), (on.upper(), off.upper())):
        found = file_findings("c.yaml", f"bf16: {old}\n".encode(), P40)
        assert [each.after for each in found if each.action == "rewrite"] == [new]
        assert {each.action for each in file_findings("c.yaml", f"bf16: {new}\n".encode(), P40)} <= {"keep"}


def test_a_switch_whose_value_is_known_at_run_time_only() -> None:
    """Whoever hands TransformerEngine's switch on has to look; others are decided where they get their value."""
    found = file_findings("m.py", b"run(use_transformer_engine=te, use_liger=liger)\n", P40)
    assert [(each.rule, each.mention.value, each.mention.text) for each in found] == [
        ("transformer-engine", "variable", "te")
    ]
