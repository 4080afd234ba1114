"""The policy, and the questions that rules ask."""

import pytest

from precpatch.errors import UserError
from precpatch.gpu.capability import derive
from precpatch.gpu.target import QUESTIONS, UnknownQuestionError, make_target


def target(capability, **policy):
    return make_target(derive("card", capability, source="catalog"), "card", **policy)


@pytest.mark.parametrize(
    ("capability", "policy", "dtype", "attention"),
    [
        ((6, 1), {}, "float32", "eager"),
        ((7, 5), {}, "float32", "eager"),
        (None, {}, "float32", "eager"),
        ((8, 0), {}, "bfloat16", "flash_attention_2"),
        ((12, 0), {}, "bfloat16", "flash_attention_2"),
        ((7, 0), {"dtype": "float16"}, "float16", "eager"),
        ((7, 0), {"dtype": "float16", "attention": "sdpa"}, "float16", "sdpa"),
        ((8, 0), {"dtype": "float32"}, "float32", "eager"),
        ((8, 0), {"dtype": "float16"}, "float16", "flash_attention_2"),
        ((8, 0), {"attention": "sdpa"}, "bfloat16", "sdpa"),
    ],
)
def test_policy(capability, policy, dtype, attention):
    made = target(capability, **policy)
    assert (made.dtype, made.attention) == (dtype, attention)


@pytest.mark.parametrize("policy", [{"dtype": "bf16"}, {"dtype": "bfloat16"}, {"attention": "flash"}])
def test_an_invalid_choice_lists_the_choices(policy):
    with pytest.raises(UserError, match="is not one of auto, "):
        target((6, 1), **policy)


def answers(made):
    return {question for question in QUESTIONS if made.ask(question)}


def test_what_a_p40_answers():
    assert answers(target((6, 1))) == {"dtype_float32", "attention_eager"}


def test_what_a_p100_answers():
    assert answers(target((6, 0))) == {"dtype_float32", "attention_eager", "fast_fp16"}


def test_what_a_v100_answers_under_float16_and_sdpa():
    expected = {
        "dtype_float16",
        "attention_sdpa",
        "fast_fp16",
        "runs_triton",
        "runs_inductor",
        "runs_vllm",
        "runs_pinned_vllm",
    }
    assert answers(target((7, 0), dtype="float16", attention="sdpa")) == expected


def test_what_an_h100_answers():
    expected = {
        "uses_bf16",
        "uses_flash_attention",
        "native_bf16",
        "runs_flash_attention_2",
        "runs_triton",
        "runs_inductor",
        "runs_vllm",
        "runs_pinned_vllm",
        "runs_sglang",
        "tf32",
        "fp8",
        "fast_fp16",
    }
    assert answers(target((9, 0))) == expected


@pytest.mark.parametrize("question", ["is_modern", "describe", "capability", "ask", ""])
def test_an_unknown_question_is_a_clear_error(question):
    with pytest.raises(UnknownQuestionError) as caught:
        target((6, 1)).ask(question)
    assert isinstance(caught.value, UserError)
    assert isinstance(caught.value, KeyError)
    assert str(caught.value).startswith(f"unknown question {question!r}")


def test_describe():
    assert target((6, 1)).describe() == {
        "name": "card",
        "compute_capability": "6.1",
        "dtype": "float32",
        "attention": "eager",
    }
    assert target(None).describe()["compute_capability"] is None
