"""The checks: facts x environment x target -> verdicts. Nothing here reads a file or runs a command."""

from __future__ import annotations

from precpatch.doctor.checkout import Checkout
from precpatch.doctor.checks.check import Check
from precpatch.doctor.checks.packages import package_check
from precpatch.doctor.checks.requirements import requirements_check
from precpatch.doctor.checks.rollout import rollout_checks
from precpatch.doctor.checks.situation import Situation
from precpatch.doctor.checks.torch import torch_check
from precpatch.doctor.environment import Environment
from precpatch.doctor.facts import Facts
from precpatch.gpu.target import Target

__all__ = ["Check", "examine"]


def examine(facts: Facts, environment: Environment, target: Target, checkout: Checkout | None) -> tuple[Check, ...]:
    """Every check that the situation calls for, in the order of the facts."""
    situation = Situation(facts, environment, target, checkout)
    packages = (package_check(situation, each) for each in facts.checks)
    checks = (torch_check(situation), *packages, *rollout_checks(situation), requirements_check(situation))
    return tuple(check for check in checks if check)
