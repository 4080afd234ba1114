"""How fast ``precpatch diagnose`` reads a large log, beside grep -E with the same alternatives.

    python benchmarks/diagnose.py [--mib 1024] [--runs 3] [--text]

Makes a log of a run without failures in a temporary file, and prints seconds and peak memory of whole processes: the
best of several runs, everything in the file cache. With ``--text`` every line is new prose, which is the worst case. A
benchmark, not a test: it prints figures and judges none.
"""

from __future__ import annotations

import argparse
import os
import random
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from precpatch.doctor.failures import load_failures

MIB = 1 << 20


@dataclass(frozen=True)
class Cost:
    """What one process took."""

    wall: float
    cpu: float
    peak_mib: float


def cost(command: Sequence[str]) -> Cost:
    """Run a command, its output thrown away."""
    start = time.perf_counter()
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    unit = MIB if sys.platform == "darwin" else 1024
    return Cost(time.perf_counter() - start, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / unit)


def best(command: Sequence[str], runs: int) -> Cost:
    """The fastest run, after one that fills the file cache."""
    cost(command)
    return min((cost(command) for _ in range(runs)), key=lambda each: each.wall)


def training_line(dice: random.Random, step: int) -> str:
    """A line of a healthy run: metrics, progress bars, notes of Ray and vLLM, samples."""
    ray = f"(WorkerDict pid={dice.randint(1000, 9999)}, ip=10.0.0.{dice.randint(1, 9)}) "
    prefix = dice.choice(["", ray, f"\x1b[36m(main_task pid={dice.randint(1000, 9999)})\x1b[0m "])
    return prefix + dice.choice(
        [
            f"step:{step} - actor/entropy_loss:{dice.random():.6f} - actor/pg_loss:{dice.gauss(0, 1):.9f} - "
            f"actor/grad_norm:{dice.random():.6f} - actor/lr:1e-06 - critic/score/mean:{dice.random():.4f} - "
            f"timing_s/gen:{dice.random() * 50:.3f} - timing_s/update_actor:{dice.random() * 50:.3f}",
            f"INFO 12-01 10:{step % 60:02}:00 [executor.py:{step % 300}] # GPU blocks: {step}, # CPU blocks: 9",
            f"Training Progress:  {step % 100}%|{'#' * (step % 10)}| {step}/40000 [00:10<10:00, {step % 9}s/it]",
            f"2025-12-01 10:00:00,{step % 1000:03} INFO worker.py:12 -- Started a local Ray instance.",
            f"[prompt] Ann has {step} apples and gives {step % 7} away. How many has she left? [response] {step // 2}",
            f"After update actor, memory allocated (GB): {dice.random() * 20}, memory reserved (GB): 22.5",
        ]
    )


def prose_line(dice: random.Random, _: int) -> str:
    """A line of words that does not come again."""
    syllables = ["ba", "con", "der", "fu", "gra", "in", "lo", "men", "no", "per", "qui", "ra", "sto", "tin", "u", "ver"]
    return " ".join("".join(dice.choices(syllables, k=dice.randint(1, 4))) for _ in range(dice.randint(5, 25)))


def write_log(stream: BinaryIO, size: int, make_line: Callable[[random.Random, int], str]) -> None:
    """Write lines until there are ``size`` bytes; those after the first 32 MiB repeat them."""
    dice = random.Random(1)  # noqa: S311 (no secret)
    made = 0
    while stream.tell() < min(size, 32 * MIB):
        stream.write(make_line(dice, made).encode() + b"\n")
        made += 1
    length = stream.tell()
    with open(stream.name, "rb") as beginning:
        while stream.tell() < size:
            stream.flush()
            beginning.seek(stream.tell() % length)
            stream.write(beginning.read(min(MIB, length - beginning.tell())))


def extended_regex() -> str:
    """The regexes of errors.yaml as alternatives that grep -E takes."""
    regexes = (failure.regex.pattern for failure in load_failures() if not failure.echo)
    one = "|".join(f"({regex})" for regex in regexes)
    return re.sub(r"\[\[0-9\]x\]", "[0-9x]", one.replace("(?:", "(").replace(r"\d", "[0-9]"))


def main() -> None:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mib", type=int, default=1024)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--text", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "train.log"
        with log.open("wb") as stream:
            write_log(stream, options.mib * MIB, prose_line if options.text else training_line)
        costs = {
            "precpatch diagnose": best([sys.executable, "-m", "precpatch", "diagnose", str(log)], options.runs),
            "grep -E -c": best(["grep", "-E", "-c", extended_regex(), str(log)], options.runs),
        }
    peer = costs["grep -E -c"]
    print(f"{options.mib} MiB{'':12}{'wall s':>8}{'CPU s':>8}{'peak MiB':>10}{'speed / grep':>14}")
    for title, each in costs.items():
        print(f"{title:20}{each.wall:8.2f}{each.cpu:8.2f}{each.peak_mib:10.0f}{peer.wall / each.wall:14.2f}")


if __name__ == "__main__":
    main()
