"""Every example of every built-in rule, run as a user's file would be."""

from __future__ import annotations

from functools import cache

import pytest

from precpatch.doctor.pins import with_lists
from precpatch.engine.finding import REWRITE
from precpatch.engine.policy import Policy
from precpatch.engine.rules import Example, Rule, load_rules
from precpatch.gpu.resolve import resolve_target
from precpatch.patch.edits import PatchSet
from precpatch.session import file_findings

RULES = load_rules()
SUFFIX = {"python": ".py", "yaml": ".yaml", "shell": ".sh", "json": ".json", "notebook": ".ipynb"}
LINE_ENDS = {"lf": b"\n", "crlf": b"\r\n"}
BYTE_ORDER_MARK = b"\xef\xbb\xbf"


EXAMPLES = [
    pytest.param(rule, example, id=f"{rule.id}: {example.title}") for rule in RULES for example in rule.examples
]


@cache
def policy(target: str, dtype: str, attention: str, asks: str) -> Policy:
    """All rules for a target, once for all examples that name it."""
    return Policy(RULES, with_lists({"requirements.txt": asks}, resolve_target(target, dtype, attention)))


def run(example: Example, data: bytes) -> tuple[bytes, int]:
    """The bytes after a run on one file, and the number of places that need a person."""
    path = example.path or f"example{SUFFIX[example.language]}"
    findings = file_findings(path, data, policy(example.target, example.dtype, example.attention, example.asks))
    edits = [edit for finding in findings if finding.verdict == REWRITE for edit in finding.edits]
    patched = PatchSet.of(edits, lambda _: data).apply_to(path, data)
    return patched, sum(finding.action == "report" for finding in findings)


@pytest.mark.parametrize(("rule", "example"), EXAMPLES)
@pytest.mark.parametrize("line_end", LINE_ENDS)
@pytest.mark.parametrize("mark", [b"", BYTE_ORDER_MARK], ids=["plain", "bom"])
def test_example(rule: Rule, example: Example, line_end: str, mark: bytes) -> None:
    before, after = (
        mark + text.encode().replace(b"\n", LINE_ENDS[line_end]) for text in (example.before, example.after)
    )
    patched, reports = run(example, before)
    assert patched == after
    assert reports == example.reports
    assert run(example, patched)[0] == patched, "a second run changes something"


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.id)
def test_a_rule_is_proven_and_sourced(rule: Rule) -> None:
    """One example in which it acts, one that must stay, one under a target that needs nothing; and a source."""
    acts = [each for each in rule.examples if each.after != each.before or each.reports]
    stays = [each for each in rule.examples if each.after == each.before and not each.reports]
    nothing_needed = [each for each in stays if resolve_target(each.target).uses_bf16]
    assert acts, "no example that changes or reports something"
    assert len(stays) > len(nothing_needed), "no example that must stay"
    assert nothing_needed, "no example under a target that needs nothing"
    assert rule.references, "no source"


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.id)
def test_a_rule_decides_something_in_its_own_examples(rule: Rule) -> None:
    decided = {
        finding.rule
        for example in rule.examples
        for finding in file_findings(
            example.path or f"example{SUFFIX[example.language]}",
            example.before.encode(),
            policy(example.target, example.dtype, example.attention, example.asks),
        )
    }
    assert rule.id in decided
