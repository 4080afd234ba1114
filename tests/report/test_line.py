"""Text on one line."""

from __future__ import annotations

import pytest

from precpatch.report.line import first_sentence


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("One. Two.", "One."),
        ("One\n  and more.\nTwo.", "One and more."),
        ("No stop", "No stop."),
        ('An "if ... not in x. Y: raise" stops. Two.', 'An "if ... not in x. Y: raise" stops.'),
        ("It calls f(...) and g(). torch.x stays.", "It calls f(...) and g()."),
        ("One ... of these. Two.", "One ... of these."),
        ("A switch, e.g. bf16, goes off. Two.", "A switch, e.g. bf16, goes off."),
        ("torch.bfloat16 stays. Two.", "torch.bfloat16 stays."),
        ('It is 5" wide. Two.', 'It is 5" wide. Two.'),
    ],
)
def test_the_first_sentence(text: str, sentence: str) -> None:
    assert first_sentence(text) == sentence
