"""Real verl trains in float32 after ``apply``, and trips before it.

Each test installs verl's environment from the package registry and trains a tiny random model on the CPU under the
guard, as if on a P40. With --proof only: it takes five minutes and 3.4 GB. ``prove.py`` makes the full run.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from environments import environment_for, make_environment
from results import PROVEN, README, TRIPS, page, read_results, table, verdict
from runs import PARTS, Job, Run, run
from trees import ALL_BUT_DTYPES, PATCHED, SED, UNPATCHED, make_tree

RunEntry = Callable[..., Run]

PROVEN_ENTRIES = [
    ("0.4.0", "workers"),
    ("0.4.1", "ppo"),
    ("0.5.0", "ppo"),
    ("0.6.0", "fsdp_sft"),
    ("0.6.1", "sft"),
    ("0.7.0", "sft"),
    ("0.7.1", "workers"),
    ("0.8.0", "sft"),
    ("0.9.0", "workers"),
    ("0.9.1", "sft"),
    ("0.9.1", "workers"),
]


@pytest.fixture
def run_entry(pytestconfig: pytest.Config, tmp_path: Path, download_cache: Path) -> RunEntry:
    """Run an entry point of a tree that is made for it."""
    if not pytestconfig.getoption("--proof"):
        pytest.skip("trains with real verl: give --proof")

    def make(version: str, kind: str, entry: str, *overrides: str) -> Run:
        job = Job(version, kind, entry, environment_for(version))
        tree = make_tree(kind, version, download_cache, tmp_path)
        return run(tree, job, make_environment(job.environment, download_cache), tmp_path / "run", overrides=overrides)

    return make


@pytest.mark.parametrize(("version", "entry"), PROVEN_ENTRIES)
def test_a_patched_release_trains_in_float32(run_entry: RunEntry, version: str, entry: str) -> None:
    """No trip, float32 matrix products only, no attention kernel, nothing compiled, and the reference's losses."""
    made = run_entry(version, PATCHED, entry)
    assert {part: verdict(made, part) for part in PARTS[entry]} == dict.fromkeys(PARTS[entry], PROVEN), made
    assert made.exit_code == 0


@pytest.mark.parametrize(("version", "entry"), [("0.4.1", "fsdp_sft"), ("0.7.0", "workers"), ("0.9.1", "sft")])
def test_the_guard_sees_bfloat16_that_is_left(run_entry: RunEntry, version: str, entry: str) -> None:
    """The same release with all mended but the dtypes: the same training, and it trips."""
    made = run_entry(version, ALL_BUT_DTYPES, entry)
    assert {verdict(made, part) for part in PARTS[entry]} == {TRIPS}
    assert made.trips > 1000
    assert made.matmuls["bfloat16"] > made.matmuls["float32"]


def test_an_unpatched_release_stops_at_flash_attention(run_entry: RunEntry) -> None:
    made = run_entry("0.9.1", UNPATCHED, "sft")
    assert made.exit_code != 0
    assert "FlashAttention2 has been toggled on" in made.errors["sft"]


def test_an_unpatched_release_with_eager_attention_trips(run_entry: RunEntry) -> None:
    made = run_entry("0.9.1", UNPATCHED, "sft", "+model.override_config.attn_implementation=eager")
    assert verdict(made, "sft") == TRIPS
    assert made.trips > 1000
    assert any("torch_functional.py" in site for site in made.sites)


def test_replacing_the_words_compiles_kernels(run_entry: RunEntry) -> None:
    """What ``sed`` makes of verl 0.9.1 computes in float32, and calls torch.compile, which a P40 cannot run."""
    made = run_entry("0.9.1", SED, "workers")
    assert set(made.matmuls) == {"float32"}
    assert made.compiled_calls > 0
    assert verdict(made, "actor") == TRIPS


def test_the_tables_are_up_to_date() -> None:
    """To write them anew: python tests/proof/prove.py."""
    runs = read_results()
    assert table(runs) in README.read_text()
    assert page(runs) == Path(__file__).with_name("results.md").read_text()


def test_every_release_that_is_called_proven_is_run_here() -> None:
    proven = {
        made.version
        for made in read_results()
        if made.tree == PATCHED and made.device == "cpu" and any(verdict(made, part) == PROVEN for part in made.losses)
    }
    assert proven == {version for version, _ in PROVEN_ENTRIES}
