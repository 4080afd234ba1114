"""CUDA_VISIBLE_DEVICES by index, by UUID, with invalid entries and empty."""

import pytest

from precpatch.gpu.capability import derive
from precpatch.gpu.visible import hides_everything, uses_indices, visible

GPUS = [
    derive("zero", (8, 0), source="nvidia-smi", index=0, uuid="GPU-aa11-0"),
    derive("one", (6, 1), source="nvidia-smi", index=1, uuid="GPU-aa22-1"),
    derive("two", (7, 0), source="nvidia-smi", index=2, uuid="GPU-bb33-2"),
]


@pytest.mark.parametrize(
    ("value", "names"),
    [
        (None, ["zero", "one", "two"]),
        ("", []),
        ("0", ["zero"]),
        ("2,0", ["two", "zero"]),
        (" 1 , 2 ", ["one", "two"]),
        ("0,9,1", ["zero"]),
        ("0,-1,1", ["zero"]),
        ("-1", []),
        ("none", []),
        ("0,0", []),
        ("1,", ["one"]),
        ("GPU-bb33-2", ["two"]),
        ("GPU-bb", ["two"]),
        ("gpu-BB", ["two"]),
        ("GPU-aa", []),
        ("GPU-", []),
        ("GPU-cc,0", []),
        ("GPU-aa2,GPU-bb", ["one", "two"]),
        ("MIG-GPU-aa22-1/7/0", ["one"]),
        ("MIG-GPU-aa22-1/7/0,MIG-GPU-aa22-1/8/0", ["one"]),
        ("MIG-1234", []),
    ],
)
def test_visible(value, names):
    assert [gpu.name for gpu in visible(GPUS, value)] == names


def test_rows_without_an_index_count_by_position():
    rows = [derive("zero", (8, 0), source="nvidia-smi"), derive("one", (6, 1), source="nvidia-smi")]
    assert [gpu.name for gpu in visible(rows, "1")] == ["one"]


@pytest.mark.parametrize(
    ("value", "hides"),
    [
        *((value, True) for value in ("", " ", "-1", "-1,0", "NoDevFiles", "GPU-")),
        *((value, False) for value in (None, "0", "9", "GPU-1", "MIG-1")),
    ],
)
def test_hides_everything(value, hides):
    assert hides_everything(value) == hides


@pytest.mark.parametrize(("value", "indices"), [(None, False), ("", False), ("1,0", True), ("GPU-1", False)])
def test_uses_indices(value, indices):
    assert uses_indices(value) == indices
