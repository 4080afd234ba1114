"""How the work grows with a file's size: each generated shape at one size and at twice that size, as CPU and ratio.

    python benchmarks/shapes.py                   64 kB against 128 kB
    python benchmarks/shapes.py 250000 list dict  250 kB against 500 kB, of the shapes with these words in their name

A ratio near 2 is work in proportion to the size; near 4 it grows with its square.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from shapes import SHAPES, Shape

from precpatch.config import Settings
from precpatch.gpu.resolve import resolve_target
from precpatch.languages.source import ReadError
from precpatch.session import file_findings, policy_for

TARGETS = [resolve_target("p40"), resolve_target("v100", "float16", "sdpa")]
POLICIES = [policy_for(Settings(), target) for target in TARGETS]


def seconds(path: str, shape: Shape, size: int) -> tuple[float, str]:
    """CPU seconds to read and decide one file for both policies, and how much was found."""
    data = shape(size).encode()
    start = time.process_time()
    try:
        found = [len(file_findings(path, data, policy)) for policy in POLICIES]
        told = f"{found[0]} findings"
    except ReadError as error:
        told = str(error)[:50]
    return time.process_time() - start, told


def main() -> None:
    size = int(sys.argv[1]) if len(sys.argv) > 1 else 64_000
    words = sys.argv[2:]
    print(f"{'shape':<42} {f'{size} B':>9} {f'{2 * size} B':>9} ratio")
    for path, shapes in SHAPES.items():
        for name, shape in shapes.items():
            if words and not any(word in f"{path} {name}" for word in words):
                continue
            (once, _), (twice, told) = seconds(path, shape, size), seconds(path, shape, 2 * size)
            ratio = twice / max(once, 0.001)
            print(f"{path + ': ' + name:<42} {once:8.2f}s {twice:8.2f}s {ratio:5.1f}  {told}", flush=True)


if __name__ == "__main__":
    main()
