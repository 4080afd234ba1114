"""Readers know grammar only: no word of the vocabulary stands as a literal in their code."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import precpatch.languages
from precpatch.vocabulary import builtin_vocabulary

FOLDER = Path(precpatch.languages.__file__).parent
VOCABULARY = builtin_vocabulary()

WORDS = frozenset(
    {
        *(name.lower() for name in VOCABULARY.settings),
        *VOCABULARY.dtypes,
        *VOCABULARY.attention,
        *VOCABULARY.flash_aliases,
        *VOCABULARY.device_words,
        *VOCABULARY.device_packages,
        *(package.name for package in VOCABULARY.packages),
        *VOCABULARY.permissive_checks,
        *VOCABULARY.bf16_operators,
    }
)

GRAMMAR = {
    "dtype": "a kind of mention, and the argument of that name",
    "dtype_name": "an argument that gives something a name",
    "dtype_str": "the same",
    "precision": "a concept",
    "packing": "a concept",
    "auto": "the one name that hands the choice to another file",
    "torch_dtype": "the key of `auto`",
    "bfloat16": "the dtype that this program is about: what a test asks for, and what an import brings",
    "float16": "the other dtype of two bytes",
    "float32": "what bfloat16 becomes",
    "bf16": "in the pattern of twins",
    "fp16": "in the pattern of twins",
}
"""Words that may stand in code, and why."""


def literals(path: Path) -> set[str]:
    """The string literals of a module that are no documentation."""
    tree = ast.parse(path.read_text("utf-8"))
    documentation = {
        id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }
    return {
        node.value.lower()
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in documentation
    }


@pytest.mark.parametrize("path", sorted(FOLDER.rglob("*.py")), ids=lambda path: path.relative_to(FOLDER).as_posix())
def test_no_word_stands_in_a_reader(path: Path) -> None:
    assert literals(path) & WORDS <= GRAMMAR.keys()
