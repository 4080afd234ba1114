"""Every word of the vocabulary, in every reader and every shape that its language has for it: told, or why not."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest

from precpatch.languages import language_of
from precpatch.languages.mention import Mention
from precpatch.vocabulary import Setting, builtin_vocabulary
from precpatch.vocabulary.words import ANY, ATTENTION, BOOLEAN, CHOICE, DTYPE, NUMBER

VOCABULARY = builtin_vocabulary()
STAR = "model"
"""What stands for the star in the name of a setting."""


@dataclass(frozen=True)
class Word:
    """A setting with a value that it takes: how the value is written, and what is to be told of it."""

    setting: Setting
    takes: str
    value: str
    kind: str
    told: str

    @property
    def path(self) -> list[str]:
        star = STAR.upper() if self.setting.variable else STAR
        return self.setting.name.replace("*", star).split(".")

    @property
    def key(self) -> str:
        return self.path[-1]

    def literal(self, true: str = "true", quote: str = '"') -> str:
        """The value as a literal of a language."""
        if self.takes == BOOLEAN:
            return true
        return self.value if self.takes == NUMBER else f"{quote}{self.value}{quote}"


def words() -> Iterator[Word]:
    for setting in VOCABULARY.all_settings:
        for takes in sorted(setting.takes):
            if takes == BOOLEAN:
                yield Word(setting, takes, "true", "switch", "true")
            elif takes == NUMBER:
                yield Word(setting, takes, "4", "switch", "4")
            elif takes == DTYPE:
                yield Word(setting, takes, "bfloat16", "dtype", "bfloat16")
            elif takes == ATTENTION:
                yield Word(setting, takes, "flash_attention_2", "attention", "flash_attention_2")
            elif takes == CHOICE:
                choices = (choice.replace("*", "d4p1t1") for choice in sorted(setting.choices))
                yield from (Word(setting, takes, choice, "switch", choice) for choice in choices)
            elif takes == ANY:
                yield Word(setting, takes, "some_text", "switch", "some_text")


def _nested(path: list[str], inner: str) -> str:
    """``{"a": {"b": inner}}`` for a.b."""
    text = inner
    for key in reversed(path):
        text = f'{{"{key}": {text}}}'
    return text


def _python(word: Word) -> Iterator[str]:
    value = word.literal("True")
    dotted, call = ".".join(word.path), ""
    for key in reversed(word.path):
        call = f"{key}={call or value}" if not call else f"{key}=dict({call})"
    yield f"config = {_nested(word.path, value)}\n"
    if word.takes == ANY:
        yield f'import os\nos.environ["{word.key}"] = {value}\n'
        yield f'import os\nx = os.environ.get("{word.key}", {value})\n'
        return
    yield f"run({call})\n"
    yield f"run(\n    {call.replace('=', '=  # why' + chr(10) + '        ', 1)}\n)\n"
    yield f"config.{dotted} = {value}\n"
    yield f'config.get("{dotted}", {value})\n'
    yield f'arguments = ["trainer.{dotted}={word.value}"]\n'
    owner = word.path[-2].title().replace("_", "") if len(word.path) > 1 else "Some"
    yield f"@dataclass\nclass {owner}Config:\n    {word.key}: str = {value}\n"
    yield f"@dataclass\nclass {owner}Config:\n    {word.key}: str = field(\n        default={value},\n    )\n"
    if len(word.path) == 1:
        yield f'parser.add_argument("--{word.key}", default={value})\n'
        yield f"def run({word.key}={value}):\n    pass\n"


def _yaml(word: Word) -> Iterator[str]:
    value = word.literal()
    nested = ""
    for depth, key in enumerate(word.path):
        nested += f"{'  ' * depth}{key}:" + ("\n" if depth < len(word.path) - 1 else f" {value}\n")
    if word.takes == ANY:
        yield f"env:\n  {word.key}: {value}\n"
        yield f"environment:\n  - {word.key}={word.value}\n"
        return
    yield nested
    yield "some:\n" + "".join(f"  {line}\n" for line in nested.splitlines())
    yield f"{_nested(word.path, value)}\n"
    yield f"overrides:\n  - trainer.{'.'.join(word.path)}={word.value}\n"
    yield f"overrides:\n  - '+{'.'.join(['trainer', *word.path])}={word.value}'\n"


def _json(word: Word) -> Iterator[str]:
    inside = _nested(word.path, word.literal())[1:-1]
    yield f'{{"output_dir": "out", "learning_rate": 1e-6, {inside}}}'


def _shell(word: Word) -> Iterator[str]:
    if word.setting.variable:
        yield f"export {word.key}={word.value}\n"
        yield f"{word.key}={word.value} python3 train.py\n"
        yield f"env {word.key}={word.value} python3 train.py\n"
        return
    path = ".".join(word.path)
    yield f"python3 -m train trainer.{path}={word.value}\n"
    yield f'python3 -m train "+trainer.{path}={word.value}" \\\n    x=1\n'
    yield f"ARGS=(\n    trainer.{path}={word.value}\n)\n"
    yield f"python3 train.py --{path} {word.value}\n"
    yield f"python3 train.py --{path}={word.value}\n"


def _cell(code: str) -> str:
    cell = {"cell_type": "code", "execution_count": None, "metadata": {}, "outputs": [], "source": code}
    return json.dumps({"cells": [cell], "metadata": {}, "nbformat": 4, "nbformat_minor": 5})


def _notebook(word: Word) -> Iterator[str]:
    yield from map(_cell, _python(word))
    yield from (_cell("".join(f"!{line}\n" for line in each.splitlines()[:1])) for each in list(_shell(word))[-1:])


SHAPES: dict[str, tuple[str, Callable[[Word], Iterator[str]]]] = {
    "python": ("module.py", _python),
    "yaml": ("config.yaml", _yaml),
    "json": ("config.json", _json),
    "shell": ("run.sh", _shell),
    "notebook": ("book.ipynb", _notebook),
}


def why_not(word: Word, reader: str) -> str | None:
    """Why a reader does not tell a word, if it is right not to."""
    if word.takes == ANY and reader == "json":
        return "JSON of a form that is known holds settings and no environment"
    if word.value == "???" and reader in {"shell", "notebook"}:
        return "Hydra's mark of a value that is missing stands in configs; on a command line it would say nothing"
    return None


def told(path: str, text: str) -> list[Mention]:
    language = language_of(path)
    assert language is not None
    return list(language.read(language.open(path, text.encode()), VOCABULARY).mentions)


CASES = [
    pytest.param(word, reader, id=f"{word.setting.name}={word.value} ({word.takes}) in {reader}")
    for word in words()
    for reader in SHAPES
    if why_not(word, reader) is None
]


@pytest.mark.parametrize(("word", "reader"), CASES)
def test_a_word_is_told(word: Word, reader: str) -> None:
    path, shapes = SHAPES[reader]
    for text in shapes(word):
        found = [(mention.kind, mention.value) for mention in told(path, text)]
        assert (word.kind, word.told) in found, f"{text!r} tells {found}"


def readers_of_dtype(name: str) -> set[str]:
    """The readers that tell a data type: what needs nothing and ordinary words are not looked for in code."""
    if name == "auto":
        return set()
    if VOCABULARY.dtypes[name][0] in VOCABULARY.quiet or name in VOCABULARY.ordinary:
        return {"yaml", "json"}
    return set(SHAPES)


@pytest.mark.parametrize(
    ("name", "reader"),
    [(name, reader) for name in sorted(VOCABULARY.dtypes) for reader in sorted(readers_of_dtype(name))],
)
def test_a_dtype_is_told_under_its_key(name: str, reader: str) -> None:
    value, _ = VOCABULARY.dtypes[name]
    setting = VOCABULARY.setting("dtype")
    assert setting is not None
    path, shapes = SHAPES[reader]
    for text in shapes(Word(setting, DTYPE, name, "dtype", value)):
        assert ("dtype", value) in [(mention.kind, mention.value) for mention in told(path, text)], text
