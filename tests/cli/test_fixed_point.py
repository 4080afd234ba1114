"""`apply` and `diff` leave a file alone that a second run would change further."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Run = Callable[..., Any]

RULE = """\
id: {id}
name: {id}
what: Rewrites one value to another.
why: A rule of a user can name what another one rewrites.
safety: safe
when: {{uses_bf16: false}}
match: {{kind: attention, value: {old}, role: value}}
then: {{action: rewrite, to: {new}}}
message: to another one
"""
BEFORE = b"attn_implementation: flash_attention_3\n"


@pytest.fixture
def chained(checkout: Path) -> Path:
    """A checkout beside two rules of which one rewrites to what the other rewrites."""
    rules = checkout.parent / "mine"
    rules.mkdir()
    for name, old, new in (("first", "flash_attention_3", "sdpa"), ("second", "sdpa", "eager")):
        (rules / f"{name}.yaml").write_text(RULE.format(id=name, old=old, new=new))
    (checkout / "config.yaml").write_bytes(BEFORE)
    return checkout


def test_what_would_change_again_is_reported_and_the_rest_is_written(chained: Path, precpatch: Run) -> None:
    options = ("verl", "--target", "p40", "--rules", "mine", "--ignore", "attention-*")
    shown = precpatch("diff", *options)
    answer = precpatch("apply", *options)
    assert answer.code == 1
    assert (chained / "config.yaml").read_bytes() == BEFORE
    assert "a second run would change the file further" in answer.text
    assert "float32" in (chained / "model.py").read_text()
    assert (b"model.py" in shown.out, b"config.yaml" in shown.out) == (True, False)
