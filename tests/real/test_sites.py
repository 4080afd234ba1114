"""Places in real releases that decide, and must change; and places that look the same, and must stay.

Only the words that matter are given, one expression of a line; the file may hold them more than once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

Patch = Callable[[str, str], Any]

FSDP_WORKERS = "verl/workers/fsdp_workers.py"
FSDP_ENGINE = "verl/workers/engine/fsdp/transformer_impl.py"
ENGINE_CONFIG = "verl/workers/config/engine.py"
ROLLOUT_CONFIG = "verl/workers/config/rollout.py"
TRAINER_CONFIG = "verl/trainer/config"
MEGATRON_ENGINE = "verl/workers/engine/megatron/transformer_impl.py"
MCORE_CONFIG = "verl/models/mcore/config_converter.py"
DTYPES = "verl/utils/torch_dtypes.py"

CHANGES = [
    ("0.2.0.post2", "verl/workers/actor/dp_actor.py", "dtype=torch.bfloat16", "dtype=torch.float32"),
    ("0.2.0.post2", "verl/workers/critic/dp_critic.py", "dtype=torch.bfloat16", "dtype=torch.float32"),
    ("0.2.0.post2", "verl/utils/megatron_utils.py", "params_dtype=torch.bfloat16", "params_dtype=torch.float32"),
    ("0.2.0.post2", f"{TRAINER_CONFIG}/ppo_trainer.yaml", "dtype: bfloat16", "dtype: float32"),
    ("0.4.1", "verl/workers/actor/dp_actor.py", "dtype=torch.bfloat16", "dtype=torch.float32"),
    ("0.4.1", FSDP_WORKERS, 'get("param_dtype", "bf16")', 'get("param_dtype", "fp32")'),
    ("0.4.1", FSDP_WORKERS, 'attn_implementation="flash_attention_2"', 'attn_implementation="eager"'),
    ("0.4.1", "verl/model_merger/fsdp_model_merger.py", "tensor.bfloat16()", "tensor.float()"),
    ("0.7.0", ROLLOUT_CONFIG, 'dtype: str = "bfloat16"', 'dtype: str = "float32"'),
    ("0.7.0", f"{TRAINER_CONFIG}/engine/fsdp.yaml", "dtype: bfloat16", "dtype: float32"),
    ("0.9.1", FSDP_ENGINE, 'get("param_dtype", "bf16")', 'get("param_dtype", "fp32")'),
    ("0.9.1", FSDP_ENGINE, "self._autocast_dtype = torch.bfloat16", "self._autocast_dtype = torch.float32"),
    ("0.9.1", FSDP_ENGINE, '"_autocast_dtype", torch.bfloat16)', '"_autocast_dtype", torch.float32)'),
    ("0.9.1", ENGINE_CONFIG, 'in ["bfloat16", "float16"]', 'in ["bfloat16", "float16", "float32"]'),
    ("0.9.1", ROLLOUT_CONFIG, 'dtype: str = "bfloat16"', 'dtype: str = "float32"'),
    ("0.9.1", f"{TRAINER_CONFIG}/rollout/rollout.yaml", "dtype: bfloat16", "dtype: float32"),
    (
        "0.9.1",
        f"{TRAINER_CONFIG}/ref/veomni_ref.yaml",
        "_implementation,flash_attention_2}",
        "_implementation,eager}",
    ),
]

STAYS = [
    ("0.2.0.post2", DTYPES, 'BFLOAT_LIST = ["bf16", "bfloat16"]'),
    ("0.4.1", DTYPES, 'BFLOAT_LIST = ["bf16", "bfloat16", torch.bfloat16]'),
    ("0.4.1", DTYPES, "return torch.bfloat16"),
    ("0.4.1", MCORE_CONFIG, '"bf16": dtype is torch.bfloat16'),
    ("0.7.0", MCORE_CONFIG, "disable_bf16_reduced_precision_matmul=True"),
    ("0.7.0", "verl/workers/megatron_workers.py", "bf16 = dtype == torch.bfloat16"),
    ("0.9.1", DTYPES, 'BFLOAT_LIST = ["bf16", "bfloat16", torch.bfloat16]'),
    ("0.9.1", MCORE_CONFIG, '"bf16": dtype is torch.bfloat16'),
    ("0.9.1", MCORE_CONFIG, "disable_bf16_reduced_precision_matmul=True"),
    ("0.9.1", MEGATRON_ENGINE, "bf16=self.param_dtype == torch.bfloat16"),
    (
        "0.9.1",
        "verl/workers/engine/megatron/transformer_impl.py",
        "tf_config.bf16 = self.param_dtype == torch.bfloat16",
    ),
]


@pytest.mark.parametrize(("version", "path", "before", "after"), CHANGES)
def test_a_place_that_decides_is_changed(version: str, path: str, before: str, after: str, patch: Patch) -> None:
    patched = patch(version, "p40")
    old, new = ((root / path).read_text() for root in (patched.original, patched.copy))
    assert before in old
    assert before not in new
    assert new.count(after) >= old.count(after) + old.count(before)


@pytest.mark.parametrize(("version", "path", "text"), STAYS)
def test_a_place_that_asks_or_translates_stays(version: str, path: str, text: str, patch: Patch) -> None:
    patched = patch(version, "p40")
    old, new = ((root / path).read_text() for root in (patched.original, patched.copy))
    assert text in old
    assert new.count(text) == old.count(text)
