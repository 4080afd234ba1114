"""In which order rules are asked: band by band, and inside a band a user's rules, the more demanding, the graver."""

from __future__ import annotations

from pathlib import Path

import pytest

from precpatch.engine.bands import BANDS
from precpatch.engine.rules import load_rules

RULE = """\
id: {id}
name: a rule
what: It is one.
why: It is needed.
safety: keep
severity: {severity}
{band}
match: {match}
then: {{action: keep}}
"""


def asked(tmp_path: Path, *rows: tuple[str, str, str, str]) -> list[str]:
    """The ids of the rules of a user's folder, in the order in which they are asked."""
    for name, band, severity, match in rows:
        line = f"band: {band}" if band else ""
        (tmp_path / f"{name}.yaml").write_text(RULE.format(id=name, band=line, severity=severity, match=match))
    return [rule.id for rule in load_rules([tmp_path]) if rule.source.is_relative_to(tmp_path)]


def test_bands_are_asked_in_their_order(tmp_path: Path) -> None:
    bands = [band for band in BANDS if band != "together"]
    rows = [(f"{9 - at}-{band}", band, "error", "{kind: dtype}") for at, band in enumerate(bands)]
    assert asked(tmp_path, *rows) == [row[0] for row in rows]


def test_a_rule_without_a_band_is_known(tmp_path: Path) -> None:
    rows = [("c", "rest", "error", "{kind: dtype}"), ("b", "", "error", "{kind: dtype}")]
    assert asked(tmp_path, *rows, ("a", "special", "error", "{kind: dtype}")) == ["a", "b", "c"]


@pytest.mark.parametrize("more", ["value: bfloat16", "facts: check", "allows_target: true"])
def test_in_a_band_the_rule_that_asks_more_comes_first(tmp_path: Path, more: str) -> None:
    rows = [("a", "", "error", "{kind: dtype, without: [check, alias]}"), ("b", "", "info", f"{{kind: dtype, {more}}}")]
    assert asked(tmp_path, *rows) == ["b", "a"]


def test_what_counts_is_the_alternative_that_asks_least(tmp_path: Path) -> None:
    loose = "[{kind: dtype}, {kind: dtype, value: bfloat16, role: value}]"
    rows = [("a", "", "error", loose), ("b", "", "error", "{kind: dtype, value: bfloat16}")]
    assert asked(tmp_path, *rows) == ["b", "a"]


def test_of_equal_rules_the_graver_comes_first_then_the_id(tmp_path: Path) -> None:
    rows = [(name, "", severity, "{kind: dtype}") for name, severity in [("a", "info"), ("c", "error"), ("b", "error")]]
    assert asked(tmp_path, *rows) == ["b", "c", "a"]


def test_a_users_rules_come_before_the_built_in_ones_of_their_band(tmp_path: Path) -> None:
    (tmp_path / "own.yaml").write_text(RULE.format(id="own", band="", severity="info", match="{kind: dtype}"))
    known = [rule.id for rule in load_rules([tmp_path]) if rule.band == "known"]
    assert known[0] == "own"
    assert len(known) > 1


def test_every_band_is_used() -> None:
    assert {rule.band for rule in load_rules()} == set(BANDS)
