"""What the guard costs: CPU time of a float32 training step under `precpatch guard`, beside the same step without it.

    python benchmarks/guard.py [--steps 60] [--runs 4]

Needs torch (``pip install 'precpatch[torch]'``). Three models on one thread: one so small that a step is nothing but
dispatching, which is the most that the guard can cost, a small and a medium one. Prints milliseconds a step, the best
of several runs, and their ratio; also what a process that only imports torch costs. A benchmark, not a test: it prints
figures and judges none.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Sequence

TRAIN = """
import json, sys, time, warnings
warnings.simplefilter("ignore")
import torch
from torch import nn
torch.set_num_threads(1)

def train(width, length, steps):
    torch.manual_seed(0)
    model = nn.Sequential(*[nn.TransformerEncoderLayer(width, 4, 4 * width, 0.0, batch_first=True) for _ in range(2)])
    optimizer = torch.optim.AdamW(model.parameters())
    batch = torch.randn(2, length, width)
    for step in range(steps + 2):
        if step == 2:
            start = time.process_time()
        optimizer.zero_grad()
        model(batch).pow(2).mean().backward()
        optimizer.step()
    return 1000 * (time.process_time() - start) / steps

steps = int(sys.argv[1])
print(json.dumps({f"width {width}, {length} tokens": train(width, length, steps)
                  for width, length in ((16, 4), (128, 64), (512, 256))}))
"""


def measure(command: Sequence[str], runs: int) -> dict[str, float]:
    """The best milliseconds a step of each model."""
    answers = [json.loads(subprocess.run(command, check=True, capture_output=True).stdout) for _ in range(runs)]
    return {model: min(answer[model] for answer in answers) for model in answers[0]}


def start_up(command: Sequence[str], runs: int) -> float:
    """The best milliseconds of a whole process."""
    return min(children_cpu(command) for _ in range(runs))


def children_cpu(command: Sequence[str]) -> float:
    """The CPU milliseconds of a command with its children."""
    before = os.times()
    subprocess.run(command, check=True, capture_output=True)
    after = os.times()
    used = after.children_user - before.children_user + after.children_system - before.children_system
    return 1000 * used


def main() -> None:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--runs", type=int, default=4)
    options = parser.parse_args()
    guard = [sys.executable, "-m", "precpatch", "guard", "--target", "p40", "--"]
    train = [sys.executable, "-c", TRAIN, str(options.steps)]
    plain, guarded = measure(train, options.runs), measure([*guard, *train], options.runs)
    begin = [sys.executable, "-c", "import torch"]
    plain["process with torch"] = start_up(begin, options.runs)
    guarded["process with torch"] = start_up([*guard, *begin], options.runs)
    print(f"{'':28}{'plain ms':>10}{'guarded ms':>12}{'ratio':>8}")
    for model, alone in plain.items():
        print(f"{model:28}{alone:10.1f}{guarded[model]:12.1f}{guarded[model] / alone:8.2f}")


if __name__ == "__main__":
    main()
