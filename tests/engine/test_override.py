"""The Hydra override that would do the same as an edit, told where a key reaches the place for certain."""

from __future__ import annotations

import pytest

from precpatch.engine.policy import Policy
from precpatch.engine.rules import load_rules
from precpatch.gpu.resolve import resolve_target
from precpatch.session import file_findings

P40 = Policy(load_rules(), resolve_target("p40"))

PRIMARY = "actor_rollout_ref:\n  actor:\n    {}\n"

PLACES = {
    "a name": ("dtype: bfloat16", "++actor_rollout_ref.actor.dtype=float32"),
    "a name in quotes": ('dtype: "bfloat16"', "++actor_rollout_ref.actor.dtype=float32"),
    "a switch": ("bf16: true", "++actor_rollout_ref.actor.bf16=false"),
    "in a list": ("stages: [{dtype: bfloat16}]", None),
    "a default that is interpolated": ("attn_implementation: ${oc.select:a.b,flash_attention_2}", None),
}


def overrides(text: str) -> list[str | None]:
    """The override of each place that is rewritten."""
    return [each.override for each in file_findings("c.yaml", text.encode(), P40) if each.action == "rewrite"]


@pytest.mark.parametrize(("setting", "expected"), PLACES.values(), ids=PLACES)
def test_the_override_of_a_place_in_a_whole_config(setting: str, expected: str | None) -> None:
    assert overrides(PRIMARY.format(setting)) == [expected]


@pytest.mark.parametrize(("setting", "expected"), PLACES.values(), ids=PLACES)
def test_a_part_of_a_config_has_none(setting: str, expected: str | None) -> None:
    assert overrides(PRIMARY.format(setting).replace("actor_rollout_ref", "actor")) == [None]


def test_what_is_not_rewritten_has_none() -> None:
    text = PRIMARY.format("dtype: bfloat16  # precpatch: ignore")
    assert [each.override for each in file_findings("c.yaml", text.encode(), P40)] == [None]
