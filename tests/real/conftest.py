"""Real verl releases, each patched once a session for each policy."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from wheels import Release, releases

from precpatch.config import Settings
from precpatch.gpu.resolve import resolve_target
from precpatch.patch import transaction
from precpatch.plan import Plan
from precpatch.session import plan

POLICIES = {
    "p40": ("p40", "auto", "auto"),
    "v100-float16-sdpa": ("v100", "float16", "sdpa"),
    "a100": ("a100", "auto", "auto"),
}


@dataclass(frozen=True)
class Patched:
    """A release before and after.

    Attributes:
        original: the unpacked wheel.
        copy: a copy of it that was patched.
        plan: what was to do in ``original``.
        plan_after: what was left to do in ``copy``.
    """

    original: Path
    copy: Path
    plan: Plan
    plan_after: Plan


Patch = Callable[[str, str], Patched]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a test that takes ``version`` on four releases, or with --all-releases on every one."""
    if "version" in metafunc.fixturenames and not any("version" in mark.args[0] for mark in _parameters(metafunc)):
        chosen = releases(metafunc.config.getoption("--all-releases"))
        metafunc.parametrize("version", [release.version for release in chosen])


def _parameters(metafunc: pytest.Metafunc) -> list[pytest.Mark]:
    return list(metafunc.definition.iter_markers("parametrize"))


@pytest.fixture(scope="session")
def patch(tmp_path_factory: pytest.TempPathFactory, download_cache: Path) -> Patch:
    """Give a release patched under a policy; made at the first call, so no test may change it."""
    known: dict[str, Release] = {release.version: release for release in releases()}
    originals: dict[str, Path] = {}
    patched: dict[tuple[str, str], Patched] = {}

    def make(version: str, policy: str) -> Patched:
        if version not in originals:
            originals[version] = known[version].unpack(download_cache / "wheels", tmp_path_factory.mktemp("verl"))
        if (version, policy) not in patched:
            patched[version, policy] = _patched(originals[version], policy, tmp_path_factory.mktemp(policy))
        return patched[version, policy]

    return make


def _patched(original: Path, policy: str, folder: Path) -> Patched:
    target = resolve_target(*POLICIES[policy])
    copy = folder / original.name
    shutil.copytree(original, copy)
    before = plan(original, (), target, Settings())
    transaction.apply(copy, before.patches)
    return Patched(original, copy, before, plan(copy, (), target, Settings()))
