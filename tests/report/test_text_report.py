"""What a person reads on the screen."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from handmade import Site

from precpatch.gpu.capability import derive
from precpatch.gpu.resolve import resolve_target
from precpatch.gpu.target import make_target
from precpatch.plan import Plan
from precpatch.report import text
from precpatch.report.line import plain, shorten, styled


def shown(plan: Plan, show_kept: bool = False) -> list[str]:
    return text.render(plan, show_kept).decode().splitlines()


def test_the_head_line_says_the_target_in_words(plan: Plan) -> None:
    assert shown(plan)[0] == (
        "Target p40: Tesla P40, compute capability 6.1, no native bfloat16 -> float32, eager attention"
    )


def test_a_gpu_that_needs_nothing_says_so(plan_of: Callable[..., Plan]) -> None:
    target = make_target(derive("NVIDIA A100", (8, 0), source="catalog"), "a100")
    head = shown(plan_of(target=target))[0]
    assert head == "Target a100: NVIDIA A100, compute capability 8.0, native bfloat16, FlashAttention-2"


def test_one_row_a_site_under_its_file(plan: Plan) -> None:
    rows = shown(plan)
    at = rows.index("pkg/a.py")
    assert rows[at + 1].split() == ["2:5", "torch.bfloat16", "->", "torch.float32", "torch-dtype"]
    assert rows[at + 2].split()[:4] == ["3:1", "use_remove_padding", "=", "True"]
    assert rows[at + 3].strip() == "Packed samples attend to each other."


def test_an_unsafe_fix_is_listed_not_counted(plan: Plan) -> None:
    report = "\n".join(shown(plan))
    assert '["bfloat16"] -> ["bfloat16", "float32"]' in report
    assert "1 site to rewrite" in report


def test_the_summary_counts_what_is_to_do(plan: Plan) -> None:
    rows = shown(plan)
    assert "1 site to rewrite in 1 file, 2 sites need a person, 1 file could not be read." in rows
    assert (
        "7 files scanned, 1 mention stays as written (--show-kept lists them, and the words in comments and text), "
        "1 suppressed by a comment." in rows
    )


def test_nothing_to_do(plan_of: Callable[..., Plan]) -> None:
    rows = shown(plan_of())
    assert "Nothing to rewrite." in rows
    assert not any("Run `" in row for row in rows)


def test_the_next_step_is_named_only_where_there_is_one(plan: Plan, plan_of: Callable[..., Plan]) -> None:
    step = "precpatch apply verl --target p40"
    assert f"Run `{step}` to write them." in plain(text.scan_lines(plan, next_step=step)).decode()
    assert step not in plain(text.scan_lines(plan_of(), next_step=step)).decode()


def test_bad_and_skipped_files_are_named(plan: Plan) -> None:
    report = "\n".join(shown(plan))
    assert "Could not be read:\n  pkg/bad.py: line 3: invalid syntax" in report
    assert "Left alone:\n  link.py: a link that leaves the folder" in report


def test_kept_sites_say_why(plan: Plan) -> None:
    report = "\n".join(shown(plan, show_kept=True))
    assert "kept: compared with something, not chosen (comparison)" in report
    assert "suppressed by a comment (comment)" in report


def test_code_is_never_markup_nor_control_sequence(plan_of: Callable[..., Plan]) -> None:
    plan = plan_of(Site("Optional[int] [red]x[/red] \x1b[31m\udce9", 1, 1, "report", path="a\nb\udcff.py"))
    rows = shown(plan)
    assert any(r"Optional[int] [red]x[/red] \x1b[31m\udce9" in row for row in rows)
    assert r"a\nb\udcff.py" in rows
    assert any("[red]x[/red]" in styled(pieces).plain for pieces in text.scan_lines(plan))


def test_long_and_multi_line_code_is_one_short_line() -> None:
    assert shorten("a(\n    b,\n)") == "a( b, )"
    short = shorten("x" * 50 + "y" * 50, 60)
    assert len(short) == 60
    assert "..." in short


def test_files_to_add_are_named_and_counted(adding_plan: Plan) -> None:
    rows = shown(adding_plan)
    assert [row for row in rows if row.startswith("added: ")] == ["added: empty", "added: pkg/added.py"]
    assert any(row.startswith("1 site to rewrite in 1 file, 2 files to add, 2 sites need a person") for row in rows)


@pytest.mark.parametrize(
    ("card", "dtype", "said"),
    [
        ("p40", "float16", "float16 (at 1/64 of the speed of float32 on this card)"),
        ("1080ti", "float16", "float16 (at 1/64 of the speed of float32 on this card)"),
        ("m40", "float16", "float16 (which this card only stores)"),
        ("p100", "float16", "float16, "),
        ("v100", "float16", "float16, "),
        ("p40", "float32", "float32, "),
    ],
)
def test_what_float16_costs_is_said(card: str, dtype: str, said: str) -> None:
    target = resolve_target(card, dtype=dtype)
    assert f"-> {said}" in text.target_in_words(target)
