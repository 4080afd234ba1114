"""What the last full run found: read, written, judged, and shown as the tables of the README and of results.md."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from runs import PARTS, Run
from trees import PATCHED, TREES

RESULTS = Path(__file__).with_name("results.json")
REFERENCES = Path(__file__).with_name("references.json")
PAGE = Path(__file__).with_name("results.md")
README = Path(__file__).parents[2] / "README.md"

PROVEN, TRIPS, OTHER_LOSSES, CANNOT = "proven", "trips", "other losses", "cannot"
COLUMNS = {
    "sft": "SFT, engine",
    "fsdp_sft": "SFT, `fsdp_sft_trainer`",
    "actor": "actor update and log-probs",
    "critic": "critic",
    "rollout": "HF rollout",
    "ppo": "whole PPO with Ray",
}
NAMES = {"cpu": "CPU", "cuda": "GPU"}
EXPLAINED = {
    "_cuda_setDevice": "asks for CUDA itself",
    "has no attribute 'tolist'": "its data set does not read these columns",
    "Rollout hf": "its trainer has no HF rollout any more, and no other engine runs on a P40",
    "transfer_queue": "its trainer needs TransferQueue, which the environment lacks; it has no HF rollout either",
}
"""What an error means, by a part of its text."""

START, END = "<!-- proof: this table is written by tests/proof/prove.py -->\n", "<!-- end of proof -->\n"


def read_results() -> list[Run]:
    """The runs in results.json."""
    return [Run(**row) for row in json.loads(RESULTS.read_text())] if RESULTS.exists() else []


def merge(old: Iterable[Run], new: Iterable[Run]) -> list[Run]:
    """All runs, each once: the new one where there are two of a kind; by release, tree, entry and device."""
    runs = {_key(run): run for run in [*old, *new]}
    return sorted(runs.values(), key=_key)


def _key(run: Run) -> tuple[object, ...]:
    version = tuple(int(part) for part in run.version.split(".") if part.isdigit())
    return version, run.version, [*TREES].index(run.tree), [*PARTS].index(run.entry), run.device, run.environment


def write_results(runs: Sequence[Run]) -> None:
    """Write results.json and both tables."""
    RESULTS.write_text(json.dumps([run.as_json() for run in runs], indent=1) + "\n")
    PAGE.write_text(page(runs))
    README.write_text(with_table(README.read_text(), runs))


def with_table(readme: str, runs: Sequence[Run]) -> str:
    """The README with the table of these runs."""
    before, _, rest = readme.partition(START)
    _, _, after = rest.partition(END)
    return before + START + table(runs) + END + after


def reference(run: Run, part: str) -> list[float] | None:
    """The losses that float32 gives; none where they are drawn (PPO) or not known for this release."""
    known: dict[str, dict[str, list[float]]] = json.loads(REFERENCES.read_text())["losses"]
    return known.get(run.version, {}).get(part)


def verdict(run: Run, part: str) -> str:
    """One of proven, trips, other losses, cannot."""
    wanted = reference(run, part)
    if not run.trained(part):
        return CANNOT
    if not run.computed_in_float32():
        return TRIPS
    return PROVEN if wanted is None or run.same_losses(part, wanted) else OTHER_LOSSES


def table(runs: Sequence[Run]) -> str:
    """Releases by parts of verl, for trees that ``apply`` patched; the reasons below it."""
    patched = [run for run in runs if run.tree == PATCHED and run.environment == _usual(run, runs)]
    reasons: dict[str, int] = {}
    lines = [f"| verl | {' | '.join(COLUMNS.values())} |\n", "| --- " * (len(COLUMNS) + 1) + "|\n"]
    for version in dict.fromkeys(run.version for run in patched):
        of_version = [run for run in patched if run.version == version]
        cells = [_cell(of_version, part, reasons) for part in COLUMNS]
        lines.append(f"| {version} | {' | '.join(cells)} |\n")
    notes = [f"{number}. {reason}\n" for reason, number in reasons.items()]
    return "".join(lines) + ("\n" + "".join(notes) if notes else "")


def _usual(run: Run, runs: Sequence[Run]) -> str:
    """The environment that the release is otherwise run in on this device."""
    return next(other.environment for other in runs if (other.version, other.device) == (run.version, run.device))


def _cell(runs: Sequence[Run], part: str, reasons: dict[str, int]) -> str:
    """What came of a part on each device; a proof on one is not spoiled by a device that it cannot run on."""
    found = {run.device: (verdict(run, part), run) for run in runs if part in PARTS[run.entry]}
    if not found:
        return "none"
    proven = [NAMES[device] for device, (said, _) in found.items() if said == PROVEN]
    others = {device: (said, run) for device, (said, run) in found.items() if said not in (PROVEN, CANNOT)}
    cell = [f"proven ({', '.join(proven)})"] if proven else []
    cell += [f"{said} ({NAMES[device]})" for device, (said, _) in others.items()]
    if not cell:
        reason = "; ".join(_reason(run, part) for _, run in found.values())
        number = reasons.setdefault(reason, len(reasons) + 1)
        cell = [f"cannot [{number}]"]
    return ", ".join(cell)


def _reason(run: Run, part: str) -> str:
    error = run.errors.get(part, "its losses are not finite")
    meaning = next((f"{said}: " for text, said in EXPLAINED.items() if text in error), "")
    return f"{NAMES[run.device]}: {meaning}`{error}`"


def page(runs: Sequence[Run]) -> str:
    """All figures, by release."""
    lines = [
        "# Figures of the last full run\n\n",
        "Written by `tests/proof/prove.py`; the README says what is run. Each figure is that of one step: the loss,",
        " for the actor the mean log-prob, for the rollout the number of tokens. Products, trips and loads (reads of",
        " the checkpoint in bfloat16) are of the whole process, which actor, critic and rollout share. The",
        " environments of the CPU are pinned in environments/; those of the GPU are named for their transformers.\n\n",
        "Trees:\n\n",
        *(f"- {kind}: {what}\n" for kind, what in TREES.items()),
        "\n| verl | part | tree | device, environment | figures | matrix products | trips | loads | came of it |\n",
        "| --- " * 9 + "|\n",
    ]
    lines += [row for run in runs for row in _rows(run)]
    lines += ["\n## Where the trees trip\n\n"]
    lines += [
        f"- {run.version} {run.entry}, {run.tree}, {run.device}: {'; '.join(run.sites)}\n" for run in runs if run.sites
    ]
    return "".join(lines)


def _rows(run: Run) -> Iterator[str]:
    products = ", ".join(f"{count} {dtype}" for dtype, count in run.matmuls.items())
    for part in PARTS[run.entry]:
        figures = " ".join(
            f"{figure:g}" if part == "rollout" else f"{figure:.6f}" for figure in run.losses.get(part, [])
        )
        said = verdict(run, part)
        cells = [run.version, part, run.tree, f"{run.device}, {run.environment}", figures, products]
        cells += [str(run.trips), str(run.loads), f"{said}: {run.errors[part]}" if part in run.errors else said]
        yield f"| {' | '.join(cell.replace('|', '/') for cell in cells)} |\n"
