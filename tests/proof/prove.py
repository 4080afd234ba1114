"""Runs real verl releases, patched and not, under the guard as if on a P40, and writes down what came of it.

    python tests/proof/prove.py                           every release and tree on the CPU: about 25 minutes
    python tests/proof/prove.py --version 0.9.1           one release
    python tests/proof/prove.py --device cuda --python PYTHON --output FILE
                                                          on a machine with a GPU, with an environment of its own
    python tests/proof/prove.py --merge FILE...           put such files into the results

Needs the dev extra, and the network at the first time: it makes an environment for each generation of verl, 1.7 GB
each, and keeps them in the cache of the user. Writes results.json and results.md beside this file, and the table in the
README. Exit code 1 where a patched tree trips or trains to other losses.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from cache import cache_folder
from environments import environment_for, make_environment
from results import CANNOT, PROVEN, merge, read_results, verdict, write_results
from runs import MODULES, PARTS, Job, Run, has_entry, run
from trees import ALL_BUT_DTYPES, PATCHED, SED, UNPATCHED, make_tree
from wheels import releases

COMPARED = ("0.4.1", "0.5.0", "0.6.1", "0.7.0", "0.8.0", "0.9.1")
"""The releases of which the other trees are run as well."""

LEAKING = "transformers-4.52"


def jobs(versions: list[str]) -> Iterator[Job]:
    """All of the full run."""
    for version in versions:
        usual = environment_for(version)
        for entry in MODULES:
            yield Job(version, PATCHED, entry, usual)
            if version in COMPARED and entry != "ppo":
                yield from (Job(version, tree, entry, usual) for tree in (UNPATCHED, ALL_BUT_DTYPES, SED))
        if version in ("0.4.1", "0.5.0"):
            yield Job(version, ALL_BUT_DTYPES, "ppo", usual)
        if version == "0.7.0":
            yield from (Job(version, tree, "sft", LEAKING) for tree in (SED, PATCHED))


def prove(job: Job, asked: argparse.Namespace, python: Path) -> Run | None:
    """Make a run, and print its line; None where the release has no such entry point."""
    with tempfile.TemporaryDirectory(prefix="precpatch-proof-") as scratch:
        tree = make_tree(job.tree, job.version, cache_folder(), Path(scratch))
        if not has_entry(tree, job.entry):
            return None
        made = run(tree, job, python, Path(scratch, "run"), device=asked.device)
        if asked.keep:
            shutil.copytree(Path(scratch, "run"), asked.keep / "-".join(job[:4]).replace(" ", "-"), dirs_exist_ok=True)
    made.environment = asked.environment or made.environment
    print(line(made), flush=True)
    return made


def line(made: Run) -> str:
    """A run in one line."""
    said = [
        f"{part} {verdict(made, part)} {made.losses.get(part, [])} {made.errors.get(part, '')}".strip()
        for part in PARTS[made.entry]
    ]
    return (
        f"PROOF verl={made.version} tree={made.tree!r} entry={made.entry} device={made.device} trips={made.trips} "
        f"matmuls={json.dumps(made.matmuls)} loads={made.loads} operators={made.operators} "
        f"compiled={made.compiled_calls} seconds={made.seconds}: {'; '.join(said)}"
    )


def is_good(made: Run) -> bool:
    """A patched tree may be unable to run a part here; what runs has to be proven."""
    return made.tree != PATCHED or all(verdict(made, part) in (PROVEN, CANNOT) for part in PARTS[made.entry])


def main() -> int:
    """Run what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--version", action="append", help="only this release; can be given more than once")
    parser.add_argument("--tree", action="append", help="only this kind of tree")
    parser.add_argument("--entry", action="append", choices=[*MODULES], help="only this entry point")
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--python", type=Path, help="run in this environment; default: make the one that is pinned")
    parser.add_argument("--environment", help="what to call the environment of --python in the results")
    parser.add_argument("--at-once", type=int, default=2, help="how many to run at a time")
    parser.add_argument("--output", type=Path, help="write the runs here, and touch neither results nor README")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="keep the log and the guard's report of each run")
    parser.add_argument("--merge", type=Path, nargs="+", help="run nothing; take the runs of these files")
    asked = parser.parse_args()
    if asked.merge:
        new = [Run(**row) for path in asked.merge for row in json.loads(path.read_text())]
    else:
        new = make_runs(asked)
    if asked.output:
        asked.output.write_text(json.dumps([made.as_json() for made in new]))
    else:
        write_results(merge(read_results(), new))
    return 0 if all(map(is_good, new)) else 1


def make_runs(asked: argparse.Namespace) -> list[Run]:
    """Make the runs that the options choose, several at a time."""
    chosen = [
        job
        for job in jobs(asked.version or [release.version for release in releases()])
        if job.tree in (asked.tree or [job.tree]) and job.entry in (asked.entry or [job.entry])
    ]
    pythons = {
        name: asked.python or make_environment(name, cache_folder())
        for name in dict.fromkeys(job.environment for job in chosen)
    }
    with ThreadPoolExecutor(asked.at_once) as pool:
        made = pool.map(lambda job: prove(job, asked, pythons[job.environment]), chosen)
        return [each for each in made if each is not None]


if __name__ == "__main__":
    sys.exit(main())
