"""A long scan: a row a rule, what stops the run first; every place with --full."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from precpatch.cli.main import app

ENGINES = "model.dtype=bfloat16 model.use_remove_padding=True rollout.name=vllm"


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """Thirty scripts of three places each, and a framework with two of its own."""
    for number in range(30):
        script = tmp_path / "examples" / f"trainer_{number % 3}" / f"run_{number}.sh"
        script.parent.mkdir(parents=True, exist_ok=True)
        script.write_text(f"python3 -m verl.trainer.main_ppo {ENGINES}\n")
    core = tmp_path / "verl" / "workers.py"
    core.parent.mkdir()
    core.write_text("import torch\nimport flash_attn\nx = x.to(torch.bfloat16)\nllm = vllm.LLM(path)\n")
    return tmp_path


def scan(checkout: Path, *options: str, command: str = "scan") -> list[str]:
    result = CliRunner().invoke(app, [command, str(checkout), "--target", "p40", *options])
    assert result.exit_code == 1, result.output
    return result.output.splitlines()


def test_what_stops_the_run_is_said_first_and_once(checkout: Path) -> None:
    rows = scan(checkout)
    assert rows[2] == "Stops you, and no rewrite mends it:"
    assert "no rollout engine of verl runs on p40" in rows[4]
    assert sum("no rollout engine" in row for row in rows) == 1


def test_a_rule_is_one_row_with_its_places_counted(checkout: Path) -> None:
    rows = [row.split() for row in scan(checkout)]
    row = next(row for row in rows if row[:1] == ["packing"])
    assert row[1:5] == ["30", "examples", "30:", "examples/trainer_0/run_0.sh:1:80"]
    assert row[5:] == ["and", "29", "more"]


@pytest.mark.parametrize("folder", ["examples", "recipe", ".github/workflows", "docker"])
def test_what_stands_around_comes_after_the_framework(checkout: Path, folder: str) -> None:
    (checkout / folder).mkdir(parents=True, exist_ok=True)
    (checkout / folder / "a.yaml").write_text("rollout: {name: vllm}\ndtype: bfloat16\n")
    (checkout / "verl" / "rollout.yaml").write_text("rollout: {name: vllm}\ndtype: bfloat16\n")
    row = next(row for row in scan(checkout) if row.split()[:1] == ["rollout-engine"])
    assert "verl/rollout.yaml:1" in row


def test_no_more_rows_than_a_screen_holds(checkout: Path) -> None:
    assert len(scan(checkout)) < 40


def test_full_lists_every_place(checkout: Path) -> None:
    rows = scan(checkout, "--full")
    for number in range(30):
        assert f"examples/trainer_{number % 3}/run_{number}.sh" in rows
    assert not any("--full" in row for row in rows)


def test_folded_and_full_count_the_same(checkout: Path) -> None:
    summary = next(row for row in scan(checkout) if "to rewrite in" in row)
    assert summary in scan(checkout, "--full")


def test_kept_places_are_listed_where_they_are_asked_for(checkout: Path) -> None:
    assert any(row.startswith("examples/trainer_0/run_0.sh") for row in scan(checkout, "--show-kept"))


def test_a_short_scan_lists_every_place_below_what_stops_the_run(tmp_path: Path) -> None:
    (tmp_path / "run.sh").write_text(f"python3 -m verl.trainer.main_ppo {ENGINES}\n")
    rows = scan(tmp_path)
    assert rows[2] == "Stops you, and no rewrite mends it:"
    assert "no rollout engine of verl runs on p40" in rows[3]
    assert rows[5] == "run.sh"
    assert sum("no rollout engine" in row for row in rows) == 1


@pytest.mark.parametrize("more", [[], ["--full"], ["--format", "markdown"]], ids=["text", "full", "markdown"])
def test_what_takes_a_variable_makes_no_other_message(tmp_path: Path, more: list[str]) -> None:
    (tmp_path / "a.sh").write_text(f"python3 -m verl.trainer.main_ppo {ENGINES}\n")
    (tmp_path / "b.sh").write_text("E=vllm\npython3 -m verl.trainer.main_ppo a.rollout.name=$E\n")
    rows = [row for row in scan(tmp_path, *more) if not row.startswith("| ")]
    assert sum("no rollout engine" in row for row in rows) == 1
    assert more or any(row.strip() == "used by a.rollout.name" for row in rows)


def test_apply_folds_what_is_left_as_well(checkout: Path) -> None:
    for script in checkout.rglob("*.sh"):
        script.write_text(script.read_text() * 2)
    rows = scan(checkout, command="apply")
    assert sum("no rollout engine" in row for row in rows) == 1
    assert "Stops you, and no rewrite mends it:" in rows
    assert any("scan --full" in row for row in rows)


def test_what_a_comment_suppresses_stops_nobody(tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_text("rollout:\n  name: vllm  # precpatch: ignore\ndtype: bfloat16\n")
    assert not any("Stops you" in row for row in scan(tmp_path, "--show-kept"))


def test_several_messages_of_one_rule_are_said_to_be_several(checkout: Path) -> None:
    for number in range(50):
        (checkout / f"a{number}.sh").write_text("python3 t.py --packing_samples\npython3 t.py --neat_packing\n")
    assert any("(and 1 more like it)" in row for row in scan(checkout))


def test_json_and_markdown_hold_every_place(checkout: Path) -> None:
    found = json.loads("\n".join(scan(checkout, "--format", "json")))["findings"]
    assert sum(each["rule"] == "rollout-engine" and each["severity"] == "blocker" for each in found) >= 30
    markdown = scan(checkout, "--format", "markdown")
    assert f"## Stops you, and no rewrite mends it ({sum(each['severity'] == 'blocker' for each in found)})" in markdown
    assert sum("run_7.sh:1" in row for row in markdown) >= 1


def test_a_hostile_name_is_shown_and_not_obeyed(checkout: Path) -> None:
    (checkout / "examples" / "trainer_0" / "run_0.sh").rename(checkout / "examples" / "a\x1b[31m.sh")
    assert not any("\x1b" in row for row in scan(checkout))
