"""Real verl trains in float32 after ``apply``, and trips before it.

Each test installs verl's environment from the package registry and trains a tiny random model on the CPU under the
guard, as if on a P40. With --proof only: it takes some minutes and 3.4 GB. ``prove.py`` makes the full run.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest
from environments import environment_for, make_environment
from results import PROVEN, README, TRIPS, page, read_results, table, verdict
from runs import PARTS, Job, Run, run
from trees import ALL_BUT_DTYPES, PATCHED, SED, UNPATCHED, make_tree

AT_ONCE = 2


def job(version: str, tree: str, entry: str, *overrides: str) -> Job:
    """A run in the environment that the release needs."""
    return Job(version, tree, entry, environment_for(version), overrides)


TRAINED = [
    job("0.4.0", PATCHED, "workers"),
    job("0.4.1", PATCHED, "ppo"),
    job("0.5.0", PATCHED, "ppo"),
    job("0.6.0", PATCHED, "fsdp_sft"),
    job("0.6.1", PATCHED, "sft"),
    job("0.7.0", PATCHED, "sft"),
    job("0.7.1", PATCHED, "workers"),
    job("0.8.0", PATCHED, "sft"),
    job("0.9.0", PATCHED, "workers"),
    job("0.9.1", PATCHED, "sft"),
]
"""At least one a release that the README calls proven."""

IN_BFLOAT16 = [
    job("0.4.1", ALL_BUT_DTYPES, "fsdp_sft"),
    job("0.9.1", ALL_BUT_DTYPES, "sft"),
]


@pytest.fixture(scope="session")
def runs(
    request: pytest.FixtureRequest, download_cache: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[Job, Future[Run]]]:
    """The runs of all tests that were chosen, two at a time."""
    parameters = [vars(item).get("callspec") for item in request.session.items]
    chosen = dict.fromkeys(each.params["asked"] for each in parameters if each and "asked" in each.params)
    names = list(dict.fromkeys(each.environment for each in chosen))

    def train(asked: Job) -> Run:
        folder = tmp_path_factory.mktemp("proof")
        tree = make_tree(asked.tree, asked.version, download_cache, folder)
        return run(tree, asked, pythons[asked.environment], folder / "run")

    with ThreadPoolExecutor(AT_ONCE) as pool:
        made = pool.map(lambda name: make_environment(name, download_cache), names)
        pythons = dict(zip(names, made, strict=True))
        yield {asked: pool.submit(train, asked) for asked in chosen}
        pool.shutdown(cancel_futures=True)


@pytest.fixture
def made(asked: Job, request: pytest.FixtureRequest) -> Run:
    """The run that a test asks for."""
    if not request.config.getoption("--proof"):
        pytest.skip("trains with real verl: give --proof")
    future: Future[Run] = request.getfixturevalue("runs")[asked]
    return future.result()


def verdicts(made: Run) -> dict[str, str]:
    """What came of each part of a run."""
    return {part: verdict(made, part) for part in PARTS[made.entry]}


@pytest.mark.parametrize("asked", TRAINED, ids=lambda asked: f"{asked.version}-{asked.entry}")
def test_a_patched_release_trains_in_float32(made: Run) -> None:
    """No trip, float32 matrix products only, no attention kernel, nothing compiled, and the reference's losses."""
    assert verdicts(made) == dict.fromkeys(PARTS[made.entry], PROVEN), made
    assert made.exit_code == 0


@pytest.mark.parametrize("asked", IN_BFLOAT16, ids=lambda asked: f"{asked.version}-{asked.entry}")
def test_the_guard_sees_bfloat16_that_is_left(made: Run) -> None:
    """The same release with all mended but the dtypes: the same training, and it trips."""
    assert set(verdicts(made).values()) == {TRIPS}, made
    assert made.trips > 1000
    assert made.matmuls["bfloat16"] > made.matmuls["float32"]


@pytest.mark.parametrize("asked", [job("0.9.1", UNPATCHED, "sft")])
def test_an_unpatched_release_stops_at_flash_attention(made: Run) -> None:
    assert made.exit_code != 0
    assert "FlashAttention2 has been toggled on" in made.errors["sft"]


@pytest.mark.parametrize("asked", [job("0.9.1", UNPATCHED, "sft", "+model.override_config.attn_implementation=eager")])
def test_an_unpatched_release_with_eager_attention_trips(made: Run) -> None:
    assert verdicts(made) == {"sft": TRIPS}
    assert made.trips > 1000
    assert any("verl/workers/engine/fsdp/" in site for site in made.sites), made.sites


@pytest.mark.parametrize("asked", [job("0.9.1", SED, "workers")])
def test_replacing_the_words_compiles_kernels(made: Run) -> None:
    """What ``sed`` makes of verl 0.9.1 computes in float32, and calls torch.compile, which a P40 cannot run."""
    assert set(made.matmuls) == {"float32"}
    assert made.compiled_calls > 0
    assert verdict(made, "actor") == TRIPS


def test_the_tables_are_up_to_date() -> None:
    """To write them anew: python tests/proof/prove.py."""
    made = read_results()
    assert table(made) in README.read_text()
    assert page(made) == Path(__file__).with_name("results.md").read_text()


def test_every_release_that_is_called_proven_is_run_here() -> None:
    proven = {
        made.version
        for made in read_results()
        if made.tree == PATCHED and made.device == "cpu" and PROVEN in verdicts(made).values()
    }
    assert proven == {asked.version for asked in TRAINED}
