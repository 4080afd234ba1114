"""The padding shim against a reference written out in loops, on random masks, in float32 on the CPU.

torch is an extra of precpatch. Without it this module is skipped on a laptop; in CI it has to be there.
"""

from __future__ import annotations

import importlib.util
import os
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

if importlib.util.find_spec("torch") is None and not os.environ.get("CI"):
    pytest.skip("torch is not installed (pip install 'precpatch[torch]')", allow_module_level=True)

import torch

from precpatch.shim.padding import index_first_axis, index_put_first_axis, pad_input, unpad_input

MASKS = st.integers(1, 4).flatmap(
    lambda batch: st.integers(1, 6).flatmap(
        lambda length: st.lists(
            st.lists(st.booleans(), min_size=length, max_size=length), min_size=batch, max_size=batch
        )
    )
).filter(lambda rows: any(map(any, rows)))  # fmt: skip


def reference_unpad(hidden: torch.Tensor, mask: torch.Tensor) -> tuple[torch.Tensor, list[int], list[int], int]:
    """The tokens of a batch row by row, their places in the flattened batch, cumulative lengths, the longest."""
    batch, length = mask.shape
    places = [(row, at) for row, at in product(range(batch), range(length)) if mask[row, at]]
    tokens = torch.stack([hidden[row, at] for row, at in places])
    lengths = [sum(1 for row, _ in places if row == each) for each in range(batch)]
    cumulative = [sum(lengths[:each]) for each in range(batch + 1)]
    return tokens, [row * length + at for row, at in places], cumulative, max(lengths)


@given(MASKS, st.sampled_from([(), (3,), (2, 3)]), st.sampled_from([torch.bool, torch.int64]))
def test_unpad_agrees_forward_and_backward(rows: list[list[bool]], tail: tuple[int, ...], dtype: torch.dtype) -> None:
    mask = torch.tensor(rows).to(dtype)
    hidden = torch.randn(*mask.shape, *tail, requires_grad=True)
    twin = hidden.detach().clone().requires_grad_()
    tokens, indices, cumulative, longest, used = unpad_input(hidden, mask)
    expected = reference_unpad(twin, mask)

    assert torch.equal(tokens, expected[0])
    assert (indices.tolist(), cumulative.tolist(), longest) == expected[1:]
    assert used.tolist() == [sum(row) for row in rows]
    assert (cumulative.dtype, used.dtype, indices.dtype) == (torch.int32, torch.int32, torch.int64)

    weight = torch.randn_like(tokens)
    (tokens * weight).sum().backward()
    (expected[0] * weight).sum().backward()
    assert torch.equal(hidden.grad, twin.grad)


@given(MASKS, st.sampled_from([(3,), (2, 3)]))
def test_pad_undoes_unpad_forward_and_backward(rows: list[list[bool]], tail: tuple[int, ...]) -> None:
    mask = torch.tensor(rows)
    batch, length = mask.shape
    hidden = torch.randn(batch, length, *tail)
    tokens, indices, *_ = unpad_input(hidden, mask)
    tokens.requires_grad_()
    padded = pad_input(tokens, indices, batch, length)

    kept = mask.reshape(batch, length, *[1] * len(tail)).expand_as(hidden)
    assert torch.equal(padded, torch.where(kept, hidden, 0.0))
    weight = torch.randn_like(padded)
    (padded * weight).sum().backward()
    assert torch.equal(tokens.grad, weight.flatten(0, 1)[indices])


def test_unused_tokens_are_kept_and_not_counted_as_used() -> None:
    hidden = torch.arange(4.0).reshape(1, 4, 1)
    mask, unused = torch.tensor([[1, 0, 1, 0]]), torch.tensor([[0, 1, 0, 0]])
    tokens, indices, cumulative, longest, used = unpad_input(hidden, mask, unused)
    assert (tokens.flatten().tolist(), indices.tolist()) == ([0.0, 1.0, 2.0], [0, 1, 2])
    assert (cumulative.tolist(), longest, used.tolist()) == ([0, 3], 3, [2])


def test_index_helpers_are_each_others_reverse() -> None:
    values, indices = torch.randn(3, 2), torch.tensor([4, 0, 2])
    assert torch.equal(index_first_axis(index_put_first_axis(values, indices, 5), indices), values)
