"""A Situation: what the conditions of the facts are about."""

from __future__ import annotations

from dataclasses import dataclass

from precpatch.doctor.checkout import Checkout
from precpatch.doctor.environment import Environment
from precpatch.doctor.facts import Case, Condition, Facts
from precpatch.doctor.versions import within
from precpatch.gpu.capability import ComputeCapability, format_compute_capability
from precpatch.gpu.target import Target


@dataclass(frozen=True)
class Situation:
    """The facts, and the environment, target and checkout that they are applied to."""

    facts: Facts
    environment: Environment
    target: Target
    checkout: Checkout | None

    @property
    def card(self) -> ComputeCapability | None:
        """The compute capability of the target."""
        return self.target.capability.compute_capability

    @property
    def verl(self) -> str | None:
        """The version of verl: the checkout's, else the installed one."""
        if self.checkout and self.checkout.version:
            return self.checkout.version
        return self.environment.packages.get("verl")

    @property
    def packing(self) -> str:
        """Whether verl packs samples: what the checkout says, else the default of the release."""
        if self.checkout and self.checkout.packing != "unknown":
            return self.checkout.packing
        return self.facts.packing_default(self.verl)

    def value(self, key: str) -> str | None:
        """What a condition on ``key`` is compared with."""
        values = {
            "capability": format_compute_capability(self.card),
            "dtype": self.target.dtype,
            "attention": self.target.attention,
            "cuda": self.environment.cuda,
            "driver": self.environment.driver,
            "verl": self.verl,
            "packing": self.packing,
        }
        return values[key] if key in values else self.environment.packages.get(key)

    def holds(self, case: Case) -> bool:
        """Whether every condition of ``case`` is true."""
        return all(_fulfilled(self.value(key), condition) for key, condition in case.when)


def _fulfilled(value: str | None, condition: Condition) -> bool:
    if condition is None or value is None:
        return condition is value
    return within(value, condition) if isinstance(condition, str) else value in condition
