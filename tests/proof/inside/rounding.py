"""Why the losses of bfloat16 leave those of float32 at the second step: it is the weights, not the gradients.

    python rounding.py FOLDER        with an environment of this proof; FOLDER is one that tiny.py filled

Takes one step of the size of the learning rate, as Adam's first is, and prints the loss before and after it: with
gradients in float32 and in bfloat16, and with the weights rounded to bfloat16 for the forward pass, as mixed precision
does it. Then how far the rounded weights moved. Beside weights of 0.25 and more, bfloat16 has no number nearer than
0.002: a step of 0.001 is seen doubled, or not at all.
"""

from __future__ import annotations

import sys
from copy import deepcopy
from pathlib import Path

import torch
from transformers import Qwen2ForCausalLM, logging

LEARNING_RATE = 1e-3


def main(folder: Path) -> None:
    """Print the losses."""
    logging.disable_progress_bar()
    model = Qwen2ForCausalLM.from_pretrained(folder / "model", dtype=torch.float32, attn_implementation="eager")
    torch.manual_seed(1)
    tokens = torch.randint(3, 259, (8, 48))
    exact = step(model, tokens, torch.float32)
    rounded = deepcopy(exact).bfloat16().float()
    moved = torch.cat(
        [(new - old).flatten() for new, old in zip(rounded.parameters(), model.parameters(), strict=True)]
    )
    seen = (moved.abs() / LEARNING_RATE).round()
    print(f"before                                        float32 {loss(model, tokens):.4f}")
    print(f"                                             bfloat16 {loss(deepcopy(model).bfloat16(), tokens):.4f}")
    print(f"after a step, all in float32                          {loss(exact, tokens):.4f}")
    print(
        f"  gradients in bfloat16                               {loss(step(model, tokens, torch.bfloat16), tokens):.4f}"
    )
    print(f"  weights rounded to bfloat16, the rest in float32    {loss(rounded, tokens):.4f}")
    for times in 0, 1, 2:
        print(f"weights that moved by {times} x the step: {(seen == times).float().mean():.0%}")


def step(model: Qwen2ForCausalLM, tokens: torch.Tensor, dtype: torch.dtype) -> Qwen2ForCausalLM:
    """The model after a step against the sign of its gradients, which are computed in ``dtype``."""
    computed = deepcopy(model).to(dtype)
    computed(input_ids=tokens, labels=tokens).loss.backward()
    stepped = deepcopy(model)
    with torch.no_grad():
        for weight, source in zip(stepped.parameters(), computed.parameters(), strict=True):
            weight.sub_(LEARNING_RATE * source.grad.float().sign())
    return stepped


@torch.no_grad()
def loss(model: Qwen2ForCausalLM, tokens: torch.Tensor) -> float:
    """The loss of a model on tokens."""
    return float(model(input_ids=tokens, labels=tokens).loss)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
