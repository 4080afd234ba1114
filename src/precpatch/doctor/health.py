"""The health of a run: losses and gradients that are not finite, skipped steps, a loss that stands still."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice, product

from precpatch.doctor.logline import LogLine

CONSTANT_STEPS = 20
"""Steps with exactly the same loss that are too many."""

_NOT_FINITE = ("nan", "NaN", "inf", "Inf")
_BEFORE_IT = ("loss:", "norm:", "np.float32(", "tensor(")

ANCHORS = (
    *map("".join, product(_BEFORE_IT, _NOT_FINITE)),
    *("grad_norm is not finite", "kipping", "kipped", "oss scale", "radient overflow", "ound inf", "ound_inf"),
)
"""Every line that matters to ``Health.line`` holds one of them, digits and marks aside."""

_NUMBER = r"[+-]?(?:[0-9]+(?:\.[0-9]*)?(?:[eE][+-]?[0-9]+)?|nan|inf(?:inity)?)\b"
_METRIC = re.compile(
    rf"(?<![\w./-])([\w./-]*(?:loss|grad_norm))['\"]?\s?([:=])\s{{0,2}}['\"]?(?:np\.float\d\d\(|tensor\()?({_NUMBER})",
    re.IGNORECASE,
)
_STEP = re.compile(r"(?<![\w/])(?:global_)?step['\"]?\s?[:=]\s?['\"]?(\d+)")
_SKIPPED = re.compile(
    r"[Ss]kipp(?:ing|ed) (?:the )?(?:optimizer |update )?step|(?:[Rr]educing|[Ss]etting) (?:the )?loss scale"
    r"|[Aa]ttempted loss scale|[Gg]radient overflow|grad_norm is not finite"
    r"|[Ff]ound[ _]inf\b(?!\W{0,4}(?:tensor\(\[?)?(?:0(?:\.0*)?(?!\d)|False|None))"
)
# The values of the losses, as they are written: enough to see that one comes again and again.
_LOSS_VALUE = re.compile(rb"loss['\"]?: ?(?:np\.float\d\d\()?([^\s,})]+)")

# With so many values at most, a block is read line by line.
_FEW = 100
# After so many values the watch ends.
_ENOUGH = 400_000

# Part losses that are 0 for a whole run where they are switched off; a main loss of 0 is a sign.
_MAIN_LOSSES = frozenset(
    ["loss", "pg_loss", "vf_loss", "policy_loss", "value_loss", "actor_loss", "critic_loss", "train_loss", "sft_loss"]
)


@dataclass(slots=True)
class Ailment:
    """One thing that is wrong with a run.

    Attributes:
        kind: "non-finite-loss", "non-finite-gradients", "skipped-steps" or "constant-loss".
        metric: the name of the metric, or "" where a message says it.
        line: where it was seen first.
        step: the training step there; None where the log does not say.
        count: how many steps or messages.
        value: the value, or the message.
    """

    kind: str
    metric: str
    line: int
    step: int | None
    count: int
    value: str


class Health:
    """Collects what a log says of the health of its run."""

    def __init__(self) -> None:
        """Nothing was seen yet."""
        self._found: dict[tuple[str, str], Ailment] = {}
        self._losses = _LossWatch()

    def line(self, line: LogLine) -> None:
        """Look at one line that holds an anchor."""
        step = _step(line.text)
        for name, _, value in _METRIC.findall(line.text):
            if not math.isfinite(float(value)):
                kind = "non-finite-loss" if name.lower().endswith("loss") else "non-finite-gradients"
                self._add(kind, name, line, step, value)
        if _SKIPPED.search(line.text):
            self._add("skipped-steps", "", line, step, line.message.strip())

    def block(self, text: bytes, number: int) -> None:
        """Look at the losses in a block of whole lines, the first of which is line ``number``."""
        self._losses.block(text, number)

    def ailments(self) -> list[Ailment]:
        """What is wrong, by line."""
        return sorted([*self._found.values(), *self._losses.constant()], key=lambda each: each.line)

    def _add(self, kind: str, metric: str, line: LogLine, step: int | None, value: str) -> None:
        found = self._found.setdefault((kind, metric), Ailment(kind, metric, line.number, step, 0, value))
        found.count += line.times


@dataclass(slots=True)
class _Run:
    """Steps in a row with the same value."""

    value: str = ""
    line: int = 0
    step: int | None = None
    last_step: int | None = None
    steps: int = 0


@dataclass(slots=True)
class _LossWatch:
    """Finds a loss that does not change.

    Values are compared one by one where they are few. In a block with many, that is done only if some value occurs
    often; a run of equal ones that began in the block before, or that ends in the one behind, is followed there. A
    run that has shown some hundred thousand values is not watched any longer.
    """

    _runs: dict[str, _Run] = field(default_factory=dict)
    _longest: dict[str, _Run] = field(default_factory=dict)
    _before: tuple[bytes, int] = (b"", 1)
    _following: bool = False
    _watched: int = 0

    def block(self, text: bytes, number: int) -> None:
        if self._watched > _ENOUGH:
            return
        values = _LOSS_VALUE.findall(text)
        if not values:
            return
        self._watched += len(values)
        if len(values) <= _FEW or _repeats(values):
            if not self._following:
                self._runs.clear()
                self._feed([*_loss_lines(*self._before)][-CONSTANT_STEPS:])
            self._feed(_loss_lines(text, number))
            self._following = True
        elif self._following:
            self._feed(islice(_loss_lines(text, number), CONSTANT_STEPS))
            self._following = False
        self._before = (text, number)

    def constant(self) -> list[Ailment]:
        """The losses that stood still for too long: each at its longest."""
        return [
            Ailment("constant-loss", name, run.line, run.step, run.steps, run.value)
            for name, run in self._longest.items()
            if run.steps >= CONSTANT_STEPS
        ]

    def _feed(self, lines: Iterator[tuple[int, str]] | list[tuple[int, str]]) -> None:
        for number, text in lines:
            step = _step(text)
            for name, sign, value in _METRIC.findall(text):
                # A progress bar, which writes "loss=0.5", repeats itself within a step.
                if sign == ":" and name.lower().endswith("loss") and math.isfinite(float(value)):
                    self._note(name, value, number, step)

    def _note(self, name: str, value: str, number: int, step: int | None) -> None:
        run = self._runs.get(name)
        if run is None or run.value != value:
            run = self._runs[name] = _Run(value, number, step)
        elif step is not None and step == run.last_step:
            return
        run.last_step = step
        run.steps += 1
        switched_off = float(value) == 0 and name.rpartition("/")[2] not in _MAIN_LOSSES
        if not switched_off and (name not in self._longest or run.steps > self._longest[name].steps):
            self._longest[name] = run


def _repeats(values: list[bytes]) -> bool:
    """Whether one value is there so often that half a run of equal losses may be among them."""
    half = CONSTANT_STEPS // 2
    return len(values) - len(set(values)) >= half - 1 and Counter(values).most_common(1)[0][1] >= half


def _loss_lines(text: bytes, number: int) -> Iterator[tuple[int, str]]:
    """The lines of a block that speak of a loss, with their numbers."""
    end, found = 0, text.find(b"loss")
    while found >= 0:
        start = text.rfind(b"\n", 0, found) + 1
        number += text.count(b"\n", end, start)
        end = text.find(b"\n", found)
        end = len(text) if end < 0 else end
        yield number, text[start:end].decode("utf-8", "replace")
        found = text.find(b"loss", end)


def _step(text: str) -> int | None:
    match = _STEP.search(text)
    return int(match[1]) if match else None
