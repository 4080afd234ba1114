"""The catalog: its facts agree, and names find the right card or none."""

import subprocess
import sys

import pytest

from precpatch.gpu.capability import bf16_support, fp8_support, fp16_support, tf32_support
from precpatch.gpu.catalog import GIB, load_catalog

CATALOG = load_catalog()
GPUS = pytest.mark.parametrize("gpu", CATALOG.gpus, ids=lambda gpu: gpu.id)

# TU116 is 7.5 without tensor cores.
WITHOUT_TENSOR_CORES = {"1660ti": "fast"}


@GPUS
def test_a_card_agrees_with_its_compute_capability(gpu):
    capability = gpu.compute_capability
    assert gpu.shared_memory == CATALOG.shared_memory[capability]
    assert gpu.bf16 == bf16_support(capability)
    assert gpu.fp16 == WITHOUT_TENSOR_CORES.get(gpu.id, fp16_support(capability))
    assert gpu.tf32 == tf32_support(capability)
    assert gpu.fp8 == fp8_support(capability)


@GPUS
def test_every_source_is_in_the_sources_map(gpu):
    assert gpu.sources
    assert set(gpu.sources) <= set(CATALOG.sources)


@GPUS
def test_a_card_is_found_by_every_unshared_name(gpu):
    for name in (gpu.id, gpu.name, *gpu.aliases):
        found = CATALOG.matches(name)
        assert gpu in found
        assert len(found) == 1 or name == "RTX 6000"


def test_ids_are_unique():
    ids = [gpu.id for gpu in CATALOG.gpus]
    assert len(ids) == len(set(ids))


def test_rows_agree_with_the_derived_facts():
    import yaml

    from precpatch.gpu import catalog

    with open(catalog.__file__.replace("catalog.py", "catalog.yaml"), encoding="utf-8") as file:
        data = yaml.safe_load(file)
    for text, row in data["by_compute_capability"].items():
        capability = tuple(int(part) for part in text.split("."))
        assert row["bf16"] == bf16_support(capability), text
        assert row["fp16"] == fp16_support(capability), text
        assert row["tf32"] == tf32_support(capability), text
        assert row["fp8"] == fp8_support(capability), text
        assert set(row["sources"]) <= set(data["sources"]), text


@pytest.mark.parametrize(
    ("name", "card", "capability"),
    [
        ("p40", "p40", (6, 1)),
        ("P40", "p40", (6, 1)),
        ("Tesla P40", "p40", (6, 1)),
        ("tesla-p40", "p40", (6, 1)),
        ("TeslaP40", "p40", (6, 1)),
        ("GRID P40-24Q", "p40", (6, 1)),
        ("Tesla P100-PCIE-16GB", "p100", (6, 0)),
        ("Tesla V100-SXM2-32GB", "v100", (7, 0)),
        ("Tesla V100-DGXS-16GB", "v100", (7, 0)),
        ("V100S", "v100", (7, 0)),
        ("NVIDIA TITAN V", "titan-v", (7, 0)),
        ("T4", "t4", (7, 5)),
        ("Tesla T4", "t4", (7, 5)),
        ("GRID T4-8C", "t4", (7, 5)),
        ("2080ti", "2080ti", (7, 5)),
        ("NVIDIA GeForce RTX 2080 Ti", "2080ti", (7, 5)),
        ("rtx2080ti", "2080ti", (7, 5)),
        ("Quadro RTX 6000", "quadro-rtx-6000", (7, 5)),
        ("NVIDIA Quadro RTX 6000", "quadro-rtx-6000", (7, 5)),
        ("RTX A6000", "a6000", (8, 6)),
        ("NVIDIA RTX 6000 Ada Generation", "rtx-6000-ada", (8, 9)),
        ("RTX 6000 Ada", "rtx-6000-ada", (8, 9)),
        ("RTX PRO 6000", "rtx-pro-6000", (12, 0)),
        ("NVIDIA RTX PRO 6000 Blackwell Server Edition", "rtx-pro-6000", (12, 0)),
        ("A10", "a10", (8, 6)),
        ("NVIDIA A10G", "a10g", (8, 6)),
        ("NVIDIA A100-SXM4-80GB", "a100", (8, 0)),
        ("NVIDIA A100 80GB PCIe", "a100", (8, 0)),
        ("NVIDIA A100-SXM4-40GB MIG 1g.5gb", "a100", (8, 0)),
        ("NVIDIA L4", "l4", (8, 9)),
        ("L40S", "l40s", (8, 9)),
        ("4090", "4090", (8, 9)),
        ("NVIDIA H100 80GB HBM3", "h100", (9, 0)),
        ("NVIDIA H100 PCIe", "h100-pcie", (9, 0)),
        ("h100", "h100", (9, 0)),
        ("NVIDIA H200", "h200", (9, 0)),
    ],
)
def test_names_as_people_and_drivers_write_them(name, card, capability):
    (found,) = CATALOG.matches(name)
    assert (found.id, found.compute_capability) == (card, capability)


@pytest.mark.parametrize(
    "name",
    [
        "",
        "NVIDIA",
        "T400",
        "T4G",
        "P400",
        "A1000",
        "GeForce GTX TITAN X",
        "NVIDIA GeForce RTX 3080 Laptop GPU",
        "RTX A600",
        "Quadro P40000",
        "NVIDIA Graphics Device",
        "80GB",
    ],
)
def test_another_card_is_never_taken_for_a_known_one(name):
    assert CATALOG.matches(name) == ()


def test_a_name_that_several_cards_share_is_ambiguous():
    found = CATALOG.matches("rtx-6000")
    assert {gpu.id for gpu in found} == {"quadro-rtx-6000", "rtx-6000-ada", "rtx-pro-6000"}


@pytest.mark.parametrize(("typo", "meant"), [("p4O", "p40"), ("v10", "v100"), ("T400", "t4"), ("h10", "h100")])
def test_suggestions(typo, meant):
    assert meant in CATALOG.suggestions(typo)


@pytest.mark.parametrize("name", ["", "quantum computer"])
def test_nothing_is_suggested_for_what_is_far_off(name):
    assert CATALOG.suggestions(name) == []


@pytest.mark.parametrize(("called", "gib"), [("Tesla V100-SXM2-32GB", 32), ("V100", 16), ("V100 99GB", 16), ("", 16)])
def test_memory_is_that_of_the_named_variant(called, gib):
    (v100,) = CATALOG.matches("v100")
    assert v100.capability(called=called).memory_bytes == gib * GIB


def test_a_bare_capability_gets_the_shared_memory_that_was_not_measured():
    card = CATALOG.describe_capability((7, 5), "card", "torch", shared_memory_per_block=1, shared_memory_per_sm=None)
    assert card.shared_memory_per_block == 1
    assert card.shared_memory_per_block_optin == 64 * 1024
    assert card.shared_memory_per_sm == 64 * 1024


def test_a_capability_newer_than_the_catalog_has_no_invented_shared_memory():
    card = CATALOG.describe_capability((13, 0), "card", "driver")
    assert card.native_bf16
    assert card.shared_memory_per_block_optin is None


def test_importing_the_commands_does_not_read_the_catalog():
    code = (
        "import sys, precpatch.cli.probe, precpatch.cli.targets, precpatch.gpu.resolve; "
        "assert 'yaml' not in sys.modules and 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
