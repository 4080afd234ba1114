"""The verdict on each recorded environment: versions and target in, statuses out."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from precpatch.doctor.checkout import Checkout
from precpatch.doctor.checks import Check, examine
from precpatch.doctor.environment import Environment, cuda_of
from precpatch.doctor.facts import load_facts
from precpatch.gpu.resolve import resolve_target

FOLDER = Path(__file__).parent / "environments"
RECORDED = [record for path in sorted(FOLDER.glob("*.yaml")) for record in yaml.safe_load(path.read_text())]


def environment_of(record: Mapping[str, Any]) -> Environment:
    build = record.get("build")
    listed = record.get("architectures")
    return Environment(
        python_version="3.11.9",
        packages=record["packages"],
        requires={name: tuple(texts) for name, texts in record.get("requires", {}).items()},
        torch_variant=build,
        cuda=cuda_of(build),
        architectures=tuple(listed) if listed else None,
        driver=record.get("driver"),
    )


def checkout_of(record: Mapping[str, Any]) -> Checkout | None:
    said = record.get("checkout")
    if said is None:
        return None
    places = dict.fromkeys(said.get("engines", ()), "verl/trainer/config/ppo_trainer.yaml:7")
    return Checkout(said.get("verl"), places, said.get("packing", "unknown"))


def checks_of(record: Mapping[str, Any]) -> dict[str, Check]:
    target = resolve_target(record["target"], record.get("dtype", "auto"), record.get("attention", "auto"))
    checks = examine(load_facts(), environment_of(record), target, checkout_of(record))
    assert len({check.id for check in checks}) == len(checks)
    return {check.id: check for check in checks}


def test_there_are_enough_recorded_environments() -> None:
    assert len(RECORDED) >= 30
    assert len({(record["target"], record["name"]) for record in RECORDED}) == len(RECORDED)


@pytest.mark.parametrize("record", RECORDED, ids=lambda record: f"{record['target']}: {record['name']}")
def test_a_recorded_environment(record: Mapping[str, Any]) -> None:
    checks = checks_of(record)
    assert {name: check.status for name, check in checks.items()} == record["expect"]
    for name, fix in record.get("fix", {}).items():
        assert checks[name].fix == fix
    for name, doubt in record.get("doubt", {}).items():
        assert checks[name].doubt == doubt


@pytest.mark.parametrize("record", RECORDED, ids=lambda record: f"{record['target']}: {record['name']}")
def test_a_check_says_all_that_a_person_needs(record: Mapping[str, Any]) -> None:
    for check in checks_of(record).values():
        assert check.seen
        assert check.why
        assert "{" not in check.seen + (check.fix or "")
        assert not (check.fix and check.status in ("ok", "unknown"))
        decided = check.status in ("ok", "warn", "fail") and record["packages"].get("torch")
        assert check.sources or not decided


def test_every_check_of_the_facts_is_seen_in_some_environment() -> None:
    seen = {name for record in RECORDED for name in record["expect"]}
    assert {check.id for check in load_facts().checks} - seen == {"tensorrt-llm"}


def test_the_mend_is_for_the_interpreter_that_was_named() -> None:
    environment = Environment(python="/opt/my verl/bin/python", packages={"torch": "2.8.0"}, torch_variant="cu128")
    (torch, *_) = examine(load_facts(), environment, resolve_target("p40"), None)
    assert torch.fix is not None
    assert torch.fix.startswith("'/opt/my verl/bin/python' -m pip install 'torch==2.8.0+cu126'")


def test_torch_that_did_not_answer_is_judged_by_the_facts_and_says_so() -> None:
    environment = Environment(
        packages={"torch": "2.6.0"}, torch_variant="cu124", cuda="12.4", architectures_error="ImportError: libcudnn"
    )
    (torch, *_) = examine(load_facts(), environment, resolve_target("p40"), None)
    assert torch.status == "ok"
    assert "torch itself did not tell: ImportError: libcudnn" in torch.seen
    assert [source.id for source in torch.sources] == ["torch-wheels"]


def test_a_torch_that_no_fact_knows_is_unknown() -> None:
    environment = Environment(packages={"torch": "3.0.0"}, torch_variant="cu140", cuda="14.0")
    (torch, *_) = examine(load_facts(), environment, resolve_target("p40"), None)
    assert (torch.status, torch.fix) == ("unknown", None)
