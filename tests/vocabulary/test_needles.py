"""Needles: a file in which a rule acts is read, and one that only has ordinary words is not."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

from precpatch.doctor.pins import with_lists
from precpatch.engine.policy import Policy
from precpatch.engine.rules import Example, Rule, load_rules
from precpatch.gpu.resolve import resolve_target
from precpatch.languages import language_of
from precpatch.session import file_findings

RULES = load_rules()
SUFFIX = {"python": ".py", "yaml": ".yaml", "shell": ".sh", "json": ".json", "notebook": ".ipynb"}


@cache
def policy(rules: tuple[Rule, ...], target: str, dtype: str, attention: str, asks: str) -> Policy:
    return Policy(rules, with_lists({"requirements.txt": asks}, resolve_target(target, dtype, attention)))


def is_read(policy: Policy, path: str, data: bytes) -> bool:
    language = language_of(path)
    assert language is not None
    return policy.needles[language.name].stand_in(data) or language.hides(data)


EXAMPLES = [
    pytest.param(rule, example, id=f"{rule.id}: {example.title}")
    for rule in RULES
    for example in rule.examples
    if rule.action not in {"keep", "group"}
]


@pytest.mark.parametrize(("rule", "example"), EXAMPLES)
def test_a_file_in_which_a_rule_acts_is_read_for_it(rule: Rule, example: Example) -> None:
    path = example.path or f"example{SUFFIX[example.language]}"
    data = example.before.encode()
    asked = (example.target, example.dtype, example.attention, example.asks)
    own = policy((rule,), *asked)  # whose needles are all there are
    if any(each.rule == rule.id and each.action != "keep" for each in file_findings(path, data, policy(RULES, *asked))):
        assert is_read(own, path, data)


RULE = """\
id: own-rule
name: a rule of one's own
what: Tells of it.
why: It matters here.
safety: report
match: {match}
then: {{action: report}}
"""

ASKED = {
    "a key": ("{key: reduce_dtype}", 'reduce_dtype = "bfloat16"', 'reduce = "x"'),
    "a key with a star": ("{key: 'reduce_*'}", 'reduce_dtype = "bfloat16"', 'reduce = "x"'),
    "an ordinary word under a key": (
        "{kind: dtype, value: float16, key: reduce_dtype}",
        "reduce_dtype: half",
        "reduce: half",
    ),
    "an ordinary word under a key with a star": (
        "{kind: dtype, value: float16, key: 'reduce_d*'}",
        "reduce_dtype: half",
        "reduce: half",
    ),
    "a value": ("{value: flash_attention_2}", 'x = f("flash_attention_2")', 'x = f("sdpa")'),
    "a quiet value": ("{kind: dtype, value: float32}", "dtype: float32", "dtype: float64"),
    "a switch by its key alone": ("{key: use_liger}", "use_liger = True", "liger = True"),
    "a short key with a choice": ("{kind: switch, key: attn, value: te}", "attn: te", "attn: tea"),
    "a call": ("{kind: switch, key: torch.compile}", "import torch as th\nf = th.compile(g)", "re.compile(p)"),
    "a call by its bare name": (
        "{kind: switch, key: torch.compile}",
        "from torch import compile\nf = compile(g)",
        "from re import compile\nf = compile(g)",
    ),
    "a package": ("{kind: import, value: 'triton.*'}", "import triton.language as tl", "import tritons"),
}


@pytest.mark.parametrize(("match", "read", "not_read"), ASKED.values(), ids=ASKED)
def test_what_a_rule_asks_for_is_read_and_no_more(tmp_path: Path, match: str, read: str, not_read: str) -> None:
    (tmp_path / "own.yaml").write_text(RULE.format(match=match))
    (own,) = (rule for rule in load_rules([tmp_path]) if rule.id == "own-rule")
    needles = Policy([own], resolve_target("p40")).needles["yaml" if ": " in read else "python"]
    assert needles.stand_in(read.encode())
    assert not needles.stand_in(not_read.encode())


@pytest.mark.parametrize(
    "text", ["x = float(y) / half\n", "mode: auto\neager: true\n", "name: enabled\n", "torch.tensor(1)\n", ""]
)
def test_a_file_of_ordinary_words_is_not_read(text: str) -> None:
    needles = Policy(RULES, resolve_target("p40")).needles
    assert not any(each.stand_in(text.encode()) for each in needles.values())
