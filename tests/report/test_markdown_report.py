"""The Markdown report renders as meant, whatever the code holds."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from handmade import Site
from markdown_it import MarkdownIt

from precpatch.plan import Plan
from precpatch.report import markdown


def parsed(source: str) -> list[str]:
    """The texts of the inline code spans and words that a Markdown reader sees, cell by cell."""
    tokens = MarkdownIt("commonmark", {"html": True}).enable("table").parse(source)
    return ["".join(child.content for child in token.children or []) for token in tokens if token.type == "inline"]


def test_sections_in_order(plan: Plan) -> None:
    titles = [row for row in markdown.render(plan).decode().splitlines() if row.startswith("#")]
    assert titles == [
        "# Precision report",
        "## Changes (1)",
        "### `pkg/a.py`",
        "## Needs a person (2)",
        "## Stays as written (2)",
        "## Could not be read (1)",
        "## Left alone (1)",
        "## Diff",
    ]


def test_a_change_is_a_row(plan: Plan) -> None:
    row = "| 2 | `torch.bfloat16` | `torch.float32` | torch-dtype | The GPU has no bfloat16 instructions. |"
    assert row in markdown.render(plan).decode().splitlines()


def test_kept_sites_are_counted_by_role_and_listed_when_asked(plan: Plan) -> None:
    assert "| comparison | compared with something, not chosen | 1 |" in markdown.render(plan).decode()
    assert "| `pkg/a.py:4` | `bfloat16` |" in markdown.render(plan, show_kept=True).decode()


def test_the_diff_is_one_block_although_it_holds_backticks(plan: Plan) -> None:
    tokens = MarkdownIt().parse(markdown.render(plan).decode())
    fences = [token for token in tokens if token.type == "fence"]
    assert len(fences) == 1
    assert fences[0].info == "diff"
    assert "-x = torch.bfloat16\n+x = torch.float32\n" in fences[0].content
    assert "````" in fences[0].content


@pytest.mark.parametrize(
    "source",
    ["a | b", "a || b", r"a\|b", "`x`", "``", "a ` b", "<b>", "*a*_b_", r"\\", "x" * 20, "[a](b)", "&amp;"],
)
def test_code_in_a_cell_is_shown_as_written(source: str) -> None:
    cell = markdown.code(source, in_table=True)
    cells = parsed(markdown.table(("Found", "Rule"), [(cell, "rule")]))
    assert cells[2].removeprefix("<code>").removesuffix("</code>") == source
    assert cells[3] == "rule"


@pytest.mark.parametrize(
    ("message", "seen"),
    [
        ("use `a_b` | *now*", "use a_b | *now*"),
        ("odd ` tick | and <i>", "odd ` tick | and <i>"),
        ("__init__ is **kwargs\nhere", r"__init__ is **kwargs\nhere"),
    ],
)
def test_a_message_in_a_cell_is_shown_as_written(message: str, seen: str) -> None:
    cells = parsed(markdown.table(("Why", "Rule"), [(markdown.prose(message), "rule")]))
    assert cells[2:] == [seen, "rule"]


def test_text_that_is_not_unicode_is_escaped(plan_of: Callable[..., Plan]) -> None:
    report = markdown.render(plan_of(Site("\udce9\x00", 1, 1, "report", path="caf\udce9.py"))).decode()
    assert r"`caf\udce9.py:1`" in report
    assert r"`\udce9\x00`" in report


def test_added_files_are_listed(adding_plan: Plan) -> None:
    report = markdown.render(adding_plan).decode()
    assert "## Added files (2)\n\n- added: `empty`\n- added: `pkg/added.py`\n" in report
    assert "+import torch\n" in report.partition("## Diff")[2]
