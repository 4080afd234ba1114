"""The facts themselves: their form, a source for each, and no two that contradict each other."""

from __future__ import annotations

import copy
import itertools
import re
import string
from collections.abc import Iterable
from importlib import resources
from typing import Any

import pytest
import yaml
from packaging.version import Version

from precpatch.doctor import facts as facts_module
from precpatch.doctor.checks import examine
from precpatch.doctor.environment import Environment, cuda_of
from precpatch.doctor.facts import NOT_PACKAGES, STATUSES, VERIFIED, Case, Condition, Fact, code_of, load_facts
from precpatch.doctor.versions import version_of, within
from precpatch.gpu.catalog import load_catalog
from precpatch.gpu.resolve import resolve_target

FACTS = load_facts()
DATA = yaml.safe_load(resources.files("precpatch.doctor").joinpath("software.yaml").read_text(encoding="utf-8"))
CASES = [(check, case) for check in FACTS.checks for case in check.cases]
SUPPORT = [(check, row) for check in FACTS.checks for row in check.support]
EVERY_FACT: list[Fact] = [
    *FACTS.wheels,
    *(case for _, case in CASES),
    *(row for _, row in SUPPORT),
    *FACTS.engine_versions,
    *FACTS.packing_defaults,
    *(engine.fact for engine in FACTS.engines if engine.fact),
]
PLACEHOLDERS = {"pip", "torch", "version", "capability", "dtype", "attention"}
CHECKS = pytest.mark.parametrize("check", FACTS.checks, ids=lambda check: check.id)


def placeholders(text: str | None) -> set[str]:
    return {name for _, name, _, _ in string.Formatter().parse(text or "") if name}


def boundaries(ranges: Iterable[str]) -> list[str]:
    """Versions at, just below and just above every version that ``ranges`` name."""
    found = {Version("0"), Version("99")}
    for text in re.findall(r"\d[\w.]*", " ".join(ranges)):
        release = Version(text.removesuffix(".*").removesuffix(".")).release
        for step in (-1, 0, 1):
            found.add(Version(".".join(str(max(part, 0)) for part in (*release[:-1], release[-1] + step))))
        found.add(Version(".".join(map(str, (*release, 1)))))
    return [str(version) for version in sorted(found)]


def overlap(one: Condition, other: Condition) -> bool:
    """Whether some value fulfils both conditions."""
    if one is None or other is None:
        return one is other
    if isinstance(one, tuple) and isinstance(other, tuple):
        return not set(one).isdisjoint(other)
    assert isinstance(one, str)
    assert isinstance(other, str)
    return any(within(each, one) and within(each, other) for each in boundaries([one, other]))


def contradict(one: Case, other: Case) -> bool:
    """Whether both cases can hold at once."""
    left, right = dict(one.when), dict(other.when)
    return all(overlap(left[key], right[key]) for key in left.keys() & right.keys())


def test_every_fact_has_a_source_and_says_how_it_was_checked() -> None:
    for fact in EVERY_FACT:
        assert fact.sources, fact
        assert fact.verified in VERIFIED, fact


def test_sources_have_titles_and_are_used() -> None:
    used = {source.id for fact in EVERY_FACT for source in fact.sources} | set(DATA["cubins"]["sources"])
    assert used == set(FACTS.sources)
    for source in FACTS.sources.values():
        assert source.title
        assert source.url is None or source.url.startswith("https://")


def test_ids_are_unique() -> None:
    for ids in ([check.id for check in FACTS.checks], [engine.name for engine in FACTS.engines]):
        assert len(set(ids)) == len(ids)


@CHECKS
def test_a_check_is_well_formed(check: facts_module.CheckFacts) -> None:
    assert check.title
    assert check.why
    assert check.cases or check.support
    assert check.shown in ("always", "unless-known")
    for case in check.cases:
        assert case.status in STATUSES
        assert placeholders(case.seen) | placeholders(case.fix) <= PLACEHOLDERS
        assert case.fix is None or case.status in ("warn", "fail")
        assert check.package in dict(case.when), "a case has to name the package that its check is about"
    for row in check.support:
        assert (row.minimum is None) != (row.code is None)
        assert placeholders(row.otherwise) <= PLACEHOLDERS


def test_every_range_and_every_version_can_be_read() -> None:
    conditions = [said for _, case in CASES for _, said in case.when if isinstance(said, str)]
    ranges = [row.versions for _, row in SUPPORT] + [row.cuda for _, row in SUPPORT if row.cuda]
    ranges += [row.verl for row in FACTS.engine_versions] + [row.verl for row in FACTS.packing_defaults]
    for text in (*conditions, *ranges):
        assert any(within(each, text) for each in boundaries([text])), text
    assert all(version_of(text) for fact in EVERY_FACT for text in fact.read)


def test_conditions_on_words_name_words_that_exist() -> None:
    words = {
        "dtype": {"float32", "float16", "bfloat16"},
        "attention": {"eager", "sdpa", "flash_attention_2"},
        "packing": {"true", "false", "unknown"},
    }
    for _, case in CASES:
        for key, said in case.when:
            assert isinstance(said, tuple) == (key in words), case
            assert not isinstance(said, tuple) or set(said) <= words[key], case


def test_versions_that_were_read_are_in_the_range_of_the_fact() -> None:
    for check, row in SUPPORT:
        assert all(within(version, row.versions) for version in row.read), row
        pinned = (row.install or "").partition("==")[2]
        assert not pinned or within(pinned, row.versions), (check.id, row.install)
    for check, case in CASES:
        said = dict(case.when)[check.package]
        assert all(isinstance(said, str) and within(version, said) for version in case.read), case
    for asked in FACTS.engine_versions:
        assert within(asked.newest, asked.versions)


@CHECKS
def test_no_two_cases_hold_at_once(check: facts_module.CheckFacts) -> None:
    for one, other in itertools.combinations(check.cases, 2):
        assert not contradict(one, other), f"{check.id}: {one.when} and {other.when}"


@CHECKS
def test_no_version_has_two_ranges_of_cards(check: facts_module.CheckFacts) -> None:
    for one, other in itertools.combinations(check.support, 2):
        same_cuda = overlap(one.cuda, other.cuda) if one.cuda and other.cuda else True
        assert not (overlap(one.versions, other.versions) and same_cuda), f"{check.id}: {one.versions}"


def test_contradictions_are_noticed() -> None:
    def case(**when: Condition) -> Case:
        return Case(when=tuple(when.items()), status="ok", seen="", verified="wheel", sources=())

    assert contradict(case(torch=">=2.6", capability="<7.5"), case(torch="<2.8"))
    assert not contradict(case(torch=">=2.8"), case(torch="<2.8"))
    assert not contradict(case(vllm=None), case(vllm=">=0"))
    assert contradict(case(dtype=("float16", "float32")), case(dtype=("float32",)))


def test_there_is_one_row_for_a_wheel_and_one_default_for_a_release() -> None:
    rows = [(row.torch, row.variant) for row in FACTS.wheels]
    assert len(set(rows)) == len(rows)
    defaults = [row.torch for row in FACTS.wheels if row.pypi_default]
    assert len(set(defaults)) == len(defaults)
    for row in FACTS.wheels:
        assert row.release is None or within(row.release, f"=={row.torch}.*")
        assert cuda_of(row.variant)


def test_no_wheel_holds_code_that_its_cuda_cannot_make() -> None:
    cases = FACTS.check("cuda").cases
    for row in FACTS.wheels:
        for major, minor in row.code.sm | row.code.ptx:
            values = {"cuda": cuda_of(row.variant) or "", "capability": f"{major}.{minor}"}
            told = [each for each in cases if all(within(values[key], str(said)) for key, said in each.when)]
            assert [each.status for each in told] == ["ok"], (row.torch, row.variant, values)


def test_the_facts_agree_with_what_targets_are_asked() -> None:
    questions = {"vllm": "runs_vllm", "sglang": "runs_sglang"}
    for gpu in load_catalog().gpus:
        target = resolve_target(gpu.id)
        for check, question in questions.items():
            rows = FACTS.check(check).support
            runs = any(target.capability.at_least(_capability(row.minimum)) for row in rows)
            assert runs == target.ask(question), (gpu.id, check)
        newer = FACTS.check("flash-attn").support[1]
        assert target.capability.at_least(_capability(newer.minimum)) == target.runs_flash_attention_2


def _capability(text: str | None) -> tuple[int, int]:
    major, minor = (text or "0.0").split(".")
    return int(major), int(minor)


def test_asked_for_packages_are_distributions() -> None:
    names = FACTS.package_names()
    assert {"torch", "triton", "flash-attn", "vllm", "sglang", "sgl-kernel", "transformers", "verl"} <= set(names)
    assert not set(names) & NOT_PACKAGES
    assert all(re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", name) for name in names)


@pytest.mark.parametrize("gpu", ["p40", "v100", "t4", "a100", "h100", "b200", "3.7", "5.2", "7.2", "8.7", "cpu"])
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_any_mix_of_versions_gets_a_verdict(gpu: str, dtype: str) -> None:
    for torch, wheel in ((row.release or row.torch, row) for row in FACTS.wheels):
        packages = {"torch": torch, "triton": "3.4.0", "vllm": "0.20.0", "transformers": "4.53.1", "xformers": "0.0.31"}
        environment = Environment(packages=packages, torch_variant=wheel.variant, cuda=cuda_of(wheel.variant))
        checks = examine(FACTS, environment, resolve_target(gpu, dtype), None)
        assert {check.status for check in checks} <= set(STATUSES)


@pytest.mark.parametrize(
    ("card", "runs"),
    [("6.0", True), ("6.1", True), ("6.2", False), ("7.0", False), ("7.2", False), ("7.5", True), ("8.0", False)],
)
def test_a_cubin_serves_later_cards_of_its_family(card: str, runs: bool) -> None:
    assert code_of([60, 75]).serves(_capability(card), FACTS.alone) is runs


def test_ptx_counts_upward_and_a_family_member_only_for_itself() -> None:
    code = code_of([80, "90a"], ptx=[70])
    assert [card for card in ((6, 1), (7, 0), (7, 5), (8, 6), (9, 0), (12, 0)) if code.serves(card, FACTS.alone)] == [
        (7, 0),
        (7, 5),
        (8, 6),
        (9, 0),
        (12, 0),
    ]
    assert not code_of(["90a"]).serves((9, 1), FACTS.alone)
    assert str(code) == "sm_80, sm_90a, PTX 7.0"


def test_the_exceptions_of_jetson() -> None:
    code = code_of([60, 70, 80, 87])
    assert not code.serves((6, 2), FACTS.alone)
    assert not code.serves((7, 2), FACTS.alone)
    assert code.serves((8, 7), FACTS.alone)
    assert code.serves((8, 9), FACTS.alone)
    assert not code_of([87]).serves((8, 9), FACTS.alone)


@pytest.mark.parametrize("change", ["unknown key", "no source", "bad word"])
def test_a_row_that_is_not_as_it_should_be_is_refused(change: str) -> None:
    data: dict[str, Any] = copy.deepcopy(DATA)
    row = data["checks"][0]["cases"][0]
    if change == "unknown key":
        row["statsu"] = "ok"
    elif change == "no source":
        row["sources"] = ["nowhere"]
    else:
        row["verified"] = "surely"
    with pytest.raises((KeyError, ValueError)):
        facts_module.read_facts(data)


@pytest.mark.parametrize(
    ("text", "version"),
    [("2.8.0+cu126", "2.8.0"), ("2.6.0a0+df5.nv24.12", "2.6.0"), ("0.4.6.post5", "0.4.6.post5"), ("dev", None)],
)
def test_versions_are_read_as_pip_reads_them(text: str, version: str | None) -> None:
    assert version_of(text) == (Version(version) if version else None)


def test_ten_comes_after_nine() -> None:
    assert within("2.10.0", ">2.9")
    assert within("10.0", ">=9.0")
    assert not within(None, ">=0")
