"""What follows from a compute capability, and which of several GPUs decides."""

import json

import pytest

from precpatch.errors import UserError
from precpatch.gpu.capability import (
    derive,
    format_compute_capability,
    from_document,
    parse_compute_capability,
    to_document,
    weakest_of,
)

P40 = derive("Tesla P40", (6, 1), source="driver", shared_memory_per_block_optin=49152, memory_bytes=24 << 30)
P100 = derive("Tesla P100", (6, 0), source="driver", shared_memory_per_block_optin=49152, memory_bytes=16 << 30)
V100 = derive("Tesla V100", (7, 0), source="driver", shared_memory_per_block_optin=98304)
T4 = derive("Tesla T4", (7, 5), source="driver", shared_memory_per_block_optin=65536)
A100 = derive("A100", (8, 0), source="driver", shared_memory_per_block_optin=166912)


@pytest.mark.parametrize(
    ("capability", "bf16", "fp16", "tf32", "fp8"),
    [
        (None, "none", "none", False, False),
        ((5, 2), "none", "none", False, False),
        ((6, 0), "none", "fast", False, False),
        ((6, 1), "none", "slow", False, False),
        ((7, 0), "emulated", "tensor-core", False, False),
        ((7, 5), "emulated", "tensor-core", False, False),
        ((8, 0), "native", "tensor-core", True, False),
        ((8, 9), "native", "tensor-core", True, True),
        ((12, 0), "native", "tensor-core", True, True),
    ],
)
def test_number_formats_follow_from_the_compute_capability(capability, bf16, fp16, tf32, fp8):
    card = derive("card", capability, source="driver")
    assert (card.bf16, card.fp16, card.tf32, card.fp8) == (bf16, fp16, tf32, fp8)
    assert card.native_bf16 == (bf16 == "native")


def test_an_unknown_compute_capability_reaches_nothing():
    card = derive("card", None, source="nvidia-smi")
    assert not card.at_least((0, 0))


@pytest.mark.parametrize("text", ["", "6", "6.", ".1", "6.1.2", "six", "\uff16.\uff11", "[N/A]"])
def test_what_is_not_a_compute_capability(text):
    assert parse_compute_capability(text) is None


def test_compute_capability_round_trip():
    assert format_compute_capability(parse_compute_capability(" 12.0 ")) == "12.0"
    assert format_compute_capability(None) is None


def test_the_lowest_compute_capability_decides():
    weakest = weakest_of([A100, P40])
    assert (weakest.name, weakest.compute_capability) == ("Tesla P40", (6, 1))


def test_then_the_smallest_opt_in_shared_memory_decides():
    small = derive("small", (7, 5), source="driver", shared_memory_per_block_optin=49152)
    assert weakest_of([T4, small]).name == "small"


def test_no_fact_is_better_than_on_any_of_the_cards():
    weakest = weakest_of([V100, T4])
    assert (weakest.name, weakest.shared_memory_per_block_optin) == ("Tesla V100", 65536)
    mixed = weakest_of([P40, P100])
    assert (mixed.name, mixed.fp16, mixed.memory_bytes) == ("Tesla P100", "slow", 16 << 30)


def test_a_card_that_does_not_tell_is_never_taken_for_a_modern_one():
    with pytest.raises(UserError, match=r"'Strange Card' is unknown.*--target"):
        weakest_of([A100, derive("Strange Card", None, source="nvidia-smi")])


def test_no_card_decides_nothing():
    with pytest.raises(UserError, match="--target p40"):
        weakest_of([])


def test_document_round_trip():
    card = derive("Tesla T4", (7, 5), source="torch", uuid="GPU-1", index=3, torch_bf16=True, memory_bytes=5)
    read = from_document(json.loads(json.dumps(to_document(card))))
    assert to_document(read) == to_document(card) | {"source": "file"}


def test_a_file_cannot_claim_what_the_card_cannot_do():
    edited = to_document(P40) | {"bf16": "native", "fp16": "tensor-core", "fp8": True}
    read = from_document(edited)
    assert (read.bf16, read.fp16, read.fp8) == ("none", "slow", False)


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("name", None, "without a name"),
        ("compute_capability", "modern", "not a compute capability"),
        ("memory_bytes", "24 GiB", "memory_bytes"),
        ("memory_bytes", True, "not a number of bytes"),
        ("shared_memory_per_sm", -1, "not a number of bytes"),
        ("fp16", "quick", "fp16 is 'quick'"),
        ("uuid", 5, "uuid is 5"),
    ],
)
def test_a_document_with_a_wrong_field(field, value, message):
    with pytest.raises(ValueError, match=message):
        from_document(to_document(P40) | {field: value})
