"""Real verl trains in float32 after ``apply``, and trips before it.

Each test installs verl's environment from the package registry and trains a tiny random model on the CPU under the
guard, as if on a P40. With --proof only: it takes some minutes and 3.4 GB. ``prove.py`` makes the full run.

Two of the runs are in two processes (gloo): the evidence for the rules on sequence parallelism. SFT of verl 0.9.1 with
torch 2.13.0 and transformers 5.10.2, patched and edited by nothing else, has the losses of three steps

- 7.719211 6.893961 6.281547  packed, in one process, and in two that share the batch (size 1);
- 7.692674 6.911072 6.317988  packed, in two that share each sequence (size 2): wrong, and no error.

verl 0.7.0 with transformers 4.57.6 gives the same two rows, and sdpa in place of eager the second.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest
from environments import environment_for, make_environment
from results import PROVEN, README, TRIPS, page, read_results, reference, table, verdict
from runs import PARTS, TOLERANCE, Job, Run, run
from trees import ALL_BUT_DTYPES, PATCHED, SED, UNPATCHED, make_tree

from precpatch.cli.main import run as precpatch

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


PACKED, SIZE, SPREAD = "model.use_remove_padding=True", "engine.ulysses_sequence_parallel_size", 2
NOT_SAVED = "++checkpoint.save_contents=[]"
"""On the CPU several processes cannot gather a model to save it: FSDP's own limit, whatever the size."""

SHARED_BATCH = job("0.9.1", PATCHED, "sft", NOT_SAVED, PACKED, f"{SIZE}=1")._replace(processes=2)
SHARED_SEQUENCE = job("0.9.1", PATCHED, "sft", NOT_SAVED, PACKED, f"{SIZE}={SPREAD}")._replace(processes=2)


@pytest.mark.parametrize("asked", [SHARED_BATCH], ids=["size-1"])
def test_processes_that_share_the_batch_train_right(made: Run) -> None:
    """Two processes, gloo and packing change nothing: the losses are those of one process."""
    assert verdicts(made) == {"sft": PROVEN}, made
    assert made.exit_code == 0


@pytest.mark.parametrize("asked", [SHARED_SEQUENCE], ids=["size-2"])
def test_processes_that_share_a_sequence_train_wrong_without_an_error(made: Run) -> None:
    """Nothing differs but the size, and it is no matter of rounding: each process attends to its half of the row."""
    assert (made.exit_code, made.errors) == (0, {})
    assert made.computed_in_float32(), made
    assert made.same_losses("sft", [7.692674, 6.911072, 6.317988]), made
    right = reference(made, "sft") or []
    off = [abs(loss - good) / good for loss, good in zip(made.losses["sft"], right, strict=True)]
    assert min(off) > 2 * TOLERANCE, off


@pytest.mark.parametrize("asked", [job("0.9.1", PATCHED, "sft", f"{SIZE}={SPREAD}")], ids=["not-packed"])
def test_without_packing_the_size_is_refused(made: Run) -> None:
    """What ``apply`` leaves where it turned packing off and a person has yet to set the size to 1 is not silent."""
    assert made.exit_code != 0
    assert "ulysses_sequence_parallel_size > 1" in made.errors["sft"], made


FORMS = {
    "run.sh": f"SP={SPREAD}\ntorchrun --nproc_per_node=2 -m verl.trainer.sft_trainer {PACKED} {SIZE}=$SP\n",
    "run.py": f"overrides = [{PACKED!r}, {f'{SIZE}={SPREAD}'!r}]\nsubprocess.run([*command, *overrides])\n",
    "sft.yaml": f"model:\n  use_remove_padding: true\nengine:\n  {SIZE.partition('.')[2]}: {SPREAD}\n",
}
"""The settings of the run that trains wrong: through a variable, in a list of Python, and in YAML."""


@pytest.mark.parametrize("name", FORMS)
def test_scan_tells_the_settings_of_that_run_in_every_form(
    name: str, tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def told(text: str) -> set[str]:
        (tmp_path / name).write_text(text)
        command = ["precpatch", "scan", str(tmp_path / name), "--target", "p40", "--format", "json"]
        monkeypatch.setattr(sys, "argv", command)
        precpatch()
        return {each["rule"] for each in json.loads(capfd.readouterr().out)["findings"]}

    text = FORMS[name]
    assert told(text) == {"ulysses-with-packing", "packing-under-sequence-parallel"}
    text = text.replace("=True", "=False").replace(": true", ": false")
    assert told(text) == {"ulysses"}
    for size in ("SP=", "size=", "size: "):
        text = text.replace(f"{size}{SPREAD}", f"{size}1")
    assert told(text) == set()


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
