"""How long precpatch takes on a checkout, beside a search tool on the same files.

    python benchmarks/scan.py CHECKOUT [--target p40] [--runs 5]

Prints CPU seconds, wall seconds and peak memory of whole processes: the best of several runs, everything in the file
cache. The peer is ast-grep where it is installed (``pip install ast-grep-cli``), else grep. A benchmark, not a test:
it prints figures and judges none.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

WORDS = "bfloat16|bf16|flash_attention_2"


@dataclass(frozen=True)
class Cost:
    """What one process took."""

    cpu: float
    wall: float
    peak_mib: float


def cost(command: Sequence[str]) -> Cost:
    """Run a command, its output thrown away."""
    start = time.perf_counter()
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    unit = 1024 * 1024 if sys.platform == "darwin" else 1024
    return Cost(usage.ru_utime + usage.ru_stime, time.perf_counter() - start, usage.ru_maxrss / unit)


def best(command: Sequence[str], runs: int) -> Cost:
    """The run with the least CPU time, after one that fills the file cache."""
    cost(command)
    return min((cost(command) for _ in range(runs)), key=lambda each: each.cpu)


def peer(checkout: str) -> tuple[str, list[str]]:
    """The name and the command of the tool to compare with."""
    beside = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    ast_grep = shutil.which("ast-grep", path=beside)
    if ast_grep:
        return "ast-grep, one pattern", [ast_grep, "run", "--lang", "python", "--pattern", "torch.bfloat16", checkout]
    return "grep, three words", ["grep", "-rIE", WORDS, checkout]


def main() -> None:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkout")
    parser.add_argument("--target", default="p40")
    parser.add_argument("--runs", type=int, default=5)
    options = parser.parse_args()
    precpatch = [sys.executable, "-m", "precpatch"]
    name, command = peer(options.checkout)
    costs = {
        "precpatch --help": best([*precpatch, "--help"], options.runs),
        "precpatch scan": best([*precpatch, "scan", options.checkout, "--target", options.target], options.runs),
        "precpatch diff": best([*precpatch, "diff", options.checkout, "--target", options.target], options.runs),
        name: best(command, options.runs),
    }
    print(f"{'':24}{'CPU s':>8}{'wall s':>8}{'peak MiB':>10}{'CPU / peer':>12}")
    for title, each in costs.items():
        ratio = each.cpu / max(costs[name].cpu, 0.001)
        print(f"{title:24}{each.cpu:8.2f}{each.wall:8.2f}{each.peak_mib:10.0f}{ratio:12.2f}")


if __name__ == "__main__":
    main()
