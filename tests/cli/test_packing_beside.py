"""Packing, attention and sequence parallelism: what goes together changes together, or stays loud."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

from precpatch.cli.main import app

FLASH = "model.attn_implementation=flash_attention_2"
EAGER = "model.attn_implementation=eager"
PACKED = "model.use_remove_padding=True"
PLAIN = "model.use_remove_padding=False"
SIZE = "actor.ulysses_sequence_parallel_size"


def apply(tmp_path: Path, text: str, name: str, *options: str) -> tuple[str, str]:
    """A file after apply for a P40, and what was printed."""
    path = tmp_path / name
    path.write_text(text)
    result = CliRunner().invoke(app, ["apply", str(tmp_path), "--target", "p40", *options])
    assert result.exit_code in {0, 1}, result.output
    again = CliRunner().invoke(app, ["apply", str(tmp_path), "--target", "p40", *options])
    assert "Nothing to change" in again.output
    return path.read_text(), " ".join(result.output.split())


Write = Callable[..., str]
"""Words of a command in one of the languages."""


def in_shell(*words: str) -> str:
    return f"python3 -m verl.trainer.main_ppo {' '.join(words)}\n"


def in_python(*words: str) -> str:
    return f"subprocess.run(['python3', '-m', 'verl.trainer.main_ppo', {', '.join(map(repr, words))}])\n"


def in_yaml(*words: str) -> str:
    return f"args: [{', '.join(words)}]\n"


FORMS = pytest.mark.parametrize(
    ("write", "name"), [(in_shell, "r.sh"), (in_python, "r.py"), (in_yaml, "r.yaml")], ids=["shell", "python", "yaml"]
)


@FORMS
def test_packing_goes_with_the_attention(tmp_path: Path, write: Write, name: str) -> None:
    after, _ = apply(tmp_path, write(FLASH, PACKED), name)
    assert after == write(EAGER, PLAIN)


@FORMS
@pytest.mark.parametrize("size", ["4", "8"])
def test_a_size_above_1_without_packing_is_loud(tmp_path: Path, write: Write, name: str, size: str) -> None:
    """verl refuses Ulysses without packing: what would train wrong in silence stops, and the size is reported."""
    after, said = apply(tmp_path, write(FLASH, PACKED, f"{SIZE}={size}"), name)
    assert after == write(EAGER, PLAIN, f"{SIZE}={size}")
    assert "ulysses-with-packing" in said


@FORMS
def test_a_size_of_1_is_no_hazard(tmp_path: Path, write: Write, name: str) -> None:
    after, said = apply(tmp_path, write(FLASH, PACKED, f"{SIZE}=1"), name)
    assert after == write(EAGER, PLAIN, f"{SIZE}=1")
    assert "ulysses" not in said


@FORMS
def test_all_three_change_in_one_group_where_that_is_asked_for(tmp_path: Path, write: Write, name: str) -> None:
    after, _ = apply(tmp_path, write(FLASH, PACKED, f"{SIZE}=4"), name, "--unsafe")
    assert after == write(EAGER, PLAIN, f"{SIZE}=1")


def test_a_size_of_run_time_without_packing_is_loud(tmp_path: Path) -> None:
    after, said = apply(tmp_path, in_shell(FLASH, PACKED, f"{SIZE}=$1"), "r.sh")
    assert after == in_shell(EAGER, PLAIN, f"{SIZE}=$1")
    assert "ulysses" in said


@FORMS
@pytest.mark.parametrize(
    ("other", "why"), [(PACKED, "packing-under-sequence-parallel"), (FLASH, "gets wrong without an error")]
)
def test_a_size_above_1_keeps_the_packing_or_the_attention_alone_beside_it(
    tmp_path: Path, write: Write, name: str, other: str, why: str
) -> None:
    """verl demands the packing; and where packing may be on elsewhere, nothing here would make the run stop."""
    before = write(other, f"{SIZE}=4")
    after, said = apply(tmp_path, before, name)
    assert after == before
    assert why in said


def test_a_size_in_a_variable_is_told_at_its_value(tmp_path: Path) -> None:
    before = "sp_size=4\n" + in_shell(PACKED, f"{SIZE}=${{sp_size}}")
    after, said = apply(tmp_path, before, "r.sh")
    assert after == before
    assert "1:9" in said


def test_packing_that_is_suppressed_holds_the_attention_back(tmp_path: Path) -> None:
    before = "model:\n  use_remove_padding: true  # precpatch: ignore\n  attn_implementation: flash_attention_2\n"
    after, said = apply(tmp_path, before, "c.yaml")
    assert after == before
    assert "use_remove_padding on line 2 stays true" in said


def test_a_rule_left_out_for_packing_holds_the_attention_back(tmp_path: Path) -> None:
    before = in_shell(FLASH, PACKED)
    after, _ = apply(tmp_path, before, "r.sh", "--ignore", "packing*")
    assert after == before


def test_another_command_is_not_held_back(tmp_path: Path) -> None:
    after, _ = apply(tmp_path, in_shell(PACKED, f"{SIZE}=4") + in_shell(FLASH, PACKED), "r.sh")
    assert after == in_shell(PACKED, f"{SIZE}=4") + in_shell(EAGER, PLAIN)
