"""The table of releases in the README says what tests/real/expected.json holds."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

EXPECTED = Path(__file__).with_name("expected.json")
README = Path(__file__).parents[2] / "README.md"
HEAD = (
    "| verl | rewritten for p40 | reported | rewritten for v100, float16, sdpa | reported |\n"
    "| --- | --- | --- | --- | --- |\n"
)


def release_table() -> str:
    """A row a release: how many sites are rewritten and reported for each of the two targets."""
    rows = []
    for version, targets in json.loads(EXPECTED.read_text()).items():
        numbers = [
            sum(targets[target][action].values())
            for target in ("p40", "v100-float16-sdpa")
            for action in ("rewrite", "report")
        ]
        rows.append(f"| {version} | {' | '.join(map(str, numbers))} |\n")
    return HEAD + "".join(rows)


def test_the_table_of_releases_is_up_to_date(pytestconfig: pytest.Config) -> None:
    """To write it anew: pytest tests/real --all-releases --update-expected."""
    text = README.read_text()
    start = text.index(HEAD)
    end = text.index("\n\n", start) + 1
    if pytestconfig.getoption("--update-expected"):
        README.write_text(text[:start] + release_table() + text[end:])
    else:
        assert text[start:end] == release_table()
