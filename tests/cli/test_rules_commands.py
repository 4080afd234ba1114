"""`rules` and `explain`."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Run = Callable[..., Any]

RULE = """
id: my-rule
name: Keep the dtype of my op
what: Leaves my_op alone.
why: my_op has its own kernels.
safety: unsafe
when: {native_bf16: false}
match: {kind: dtype, callee: my_op}
then: {action: rewrite}
references:
  - {title: The manual, url: "https://example.com/manual"}
examples:
  - {title: a call, language: python, target: p40, before: "my_op([bfloat16])", after: "my_op([float32])"}
  - {title: another op, language: python, target: p40, before: "your_op(1)"}
"""


@pytest.fixture
def folder(checkout: Path) -> Path:
    mine = checkout.parent / "mine"
    mine.mkdir()
    (mine / "my-rule.yaml").write_text(RULE)
    return mine


def test_rules_lists_built_in_and_own_rules(folder: Path, precpatch: Run) -> None:
    built_in = precpatch("rules").text.splitlines()
    rows = precpatch("rules", "--rules", "mine").text.splitlines()
    assert built_in
    assert {row.split()[0] for row in rows} - {row.split()[0] for row in built_in} == {"my-rule"}
    assert next(row for row in rows if row.startswith("my-rule")).split(maxsplit=2)[1:] == [
        "unsafe",
        "Leaves my_op alone.",
    ]


def test_rules_as_json(folder: Path, precpatch: Run) -> None:
    document = json.loads(precpatch("rules", "--rules", "mine", "--format", "json").text)
    mine = next(rule for rule in document["rules"] if rule["id"] == "my-rule")
    assert document["version"] == 1
    assert mine["when"] == {"native_bf16": False}
    assert (mine["band"], mine["action"]) == ("known", "rewrite")
    assert mine["references"] == [{"title": "The manual", "url": "https://example.com/manual"}]


def test_rule_folders_of_the_settings_are_read(folder: Path, precpatch: Run) -> None:
    Path("precpatch.toml").write_text('rules = ["mine"]\n')
    assert "my-rule" in precpatch("rules").text


def test_explain_says_all_about_a_rule(folder: Path, precpatch: Run) -> None:
    answer = precpatch("explain", "my-rule", "--rules", "mine")
    assert answer.code == 0
    for words in [
        "my-rule: Keep the dtype of my op",
        "What it does\n  Leaves my_op alone.",
        "Why\n  my_op has its own kernels.",
        "no   the GPU has bfloat16 instructions",
        "unsafe: the fix should be reviewed; it is made only with --unsafe.",
        "Example: a call (python, target p40)\n  my_op([bfloat16])",
        "Becomes\n  my_op([float32])",
        "Stays as it is: another op (python, target p40)\n  your_op(1)",
        "The manual https://example.com/manual",
    ]:
        assert words in answer.text


def test_explain_says_what_a_rule_claims_and_when_it_is_asked(folder: Path, precpatch: Run) -> None:
    text = RULE.replace(
        "match: {kind: dtype, callee: my_op}",
        "band: special\nmatch:\n  - {kind: dtype, callee: [my_op, your_op], facts: check}\n"
        "  - {role: value, without: other-device, allows_target: false}",
    ).replace("then: {action: rewrite}", "then: {action: rewrite, to: float32, follows: true, otherwise: report}")
    (folder / "my-rule.yaml").write_text(text)
    answer = precpatch("explain", "my-rule", "--rules", "mine")
    assert (answer.code, answer.err) == (0, "")
    assert (
        "Claims\n"
        "  A place of which this is true:\n"
        "    kind    dtype\n"
        "    callee  my_op, your_op\n"
        "    fact    check: the program stops for every value that is not among those allowed\n"
        "  or:\n"
        "    role     value\n"
        "    no fact  other-device: the file, or a branch around the place, is for a device that is not an NVIDIA GPU\n"
        "    allowed  values that lack the target's\n"
        "\n"
        "Then\n"
        '  It is rewritten to "float32".\n'
        "  Only together with what it follows; where that does not change, a person is told.\n"
        "  Message: Keep the dtype of my op\n"
        "\n"
        "Asked\n"
        "  Band 'special', 4 of 7: the setting has words or an effect of its own, unlike others of its kind.\n"
    ) in answer.text


def test_every_built_in_rule_can_be_explained(checkout: Path, precpatch: Run) -> None:
    for rule in json.loads(precpatch("rules", "--format", "json").text)["rules"]:
        answer = precpatch("explain", rule["id"])
        assert (answer.code, answer.err) == (0, "")
        assert answer.text.startswith(f"{rule['id']}: {rule['name']}\n")


def test_an_unknown_rule_names_the_nearest(folder: Path, precpatch: Run) -> None:
    answer = precpatch("explain", "my-rul", "--rules", "mine")
    assert answer.code == 2
    assert "no rule 'my-rul'. Did you mean 'my-rule'?" in answer.err


def test_a_summary_is_a_whole_sentence(precpatch: Run, checkout: Path) -> None:
    summaries = {row.split()[0]: row.split(maxsplit=2)[2] for row in precpatch("rules").text.splitlines()}
    for rule, summary in summaries.items():
        assert summary.endswith("."), rule
        assert summary.count('"') % 2 == 0, rule
        assert not summary.endswith(".."), rule
    assert summaries["demands-bf16"].endswith("that stops for every other dtype.")
    assert summaries["allowed-values"].endswith("together with the default that it guards.")


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("kind: dtype", "kind: dtpye", "8: match.kind: unknown kind 'dtpye'; did you mean 'dtype'?"),
        ("kind: dtype", "language: pyhton", "8: match.language: unknown language 'pyhton'; did you mean 'python'?"),
        ("kind: dtype", "facts: guarderd", "8: match.facts: unknown fact 'guarderd'; did you mean 'guarded'?"),
        (
            "action: rewrite",
            "action: rewrite, to: '{'",
            "9: then.to: '{' is no single word; it may have quotes around it",
        ),
        (
            "safety: unsafe",
            "safety: unsafe\norder: 10",
            "7: 'order' is no field any more; 'band' says when a rule is asked",
        ),
    ],
)
def test_a_mistake_in_a_rule_ends_every_command_in_one_line(
    folder: Path, precpatch: Run, old: str, new: str, said: str
) -> None:
    (folder / "my-rule.yaml").write_text(RULE.replace(old, new))
    for command in (["rules"], ["explain", "dtype-value"], ["scan", ".", "--target", "p40"]):
        answer = precpatch(*command, "--rules", "mine")
        assert answer.code == 2
        assert answer.text == ""
        assert answer.err.startswith(f"precpatch: error: {Path('mine/my-rule.yaml')}:{said}")
        assert answer.err.count("\n") == 1
