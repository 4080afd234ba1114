"""Mistakes in the data of the vocabulary: each is one line that says which file and which field."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from precpatch.errors import UserError
from precpatch.vocabulary.load import builtin_folder, load_vocabulary

SETTINGS = "concept: c\nsays: s\nsettings:\n  - {}\n"
DEVICES = "devices:\n  - {}\n"

MISTAKES = {
    "a list": ("devices.yaml", "- npu\n", "must be a mapping of names"),
    "a name that is no text": ("devices.yaml", "1: a\n", "must be a mapping of names"),
    "a row that is no mapping": ("devices.yaml", DEVICES.format("npu"), "devices[0]: must be a mapping of names"),
    "rows that are no list": ("devices.yaml", "devices: npu\n", "'devices' must be a list"),
    "no name": ("devices.yaml", DEVICES.format("{words: [npu]}"), "devices[0]: 'name' must be text"),
    "unknown field": ("devices.yaml", DEVICES.format("{name: n, word: x}"), "devices[0]: unknown field 'word'"),
    "no flag": ("devices.yaml", DEVICES.format("{name: n, paths: 1}"), "devices[0]: 'paths' must be true or false"),
    "no words": ("devices.yaml", DEVICES.format("{name: n, words: [1]}"), "'words' must be a word or a list of words"),
    "an empty word": ("devices.yaml", DEVICES.format("{name: n, words: ['']}"), "must be a word or a list of words"),
    "no YAML": ("devices.yaml", "devices: [\n", "not YAML: "),
    "unknown field of packages": ("packages.yaml", "package: []\n", "unknown field 'package'"),
    "unknown field of a package": ("packages.yaml", "packages: [{name: a, install: b}]\n", "unknown field 'install'"),
    "unknown field of a dtype": ("values.yaml", "dtypes: {x: {lnog: x}}\n", "x: unknown field 'lnog'"),
    "unknown field of attention": ("values.yaml", "attention: {x: {quite: true}}\n", "x: unknown field 'quite'"),
    "no pattern": ("values.yaml", "attention: {x: {patterns: '('}}\n", "x: '(' is no regular expression"),
    "unknown field of a form": ("forms.yaml", "x: {ani: [a]}\n", "x: unknown field 'ani'"),
    "no list of lists": ("forms.yaml", "x: {all: a}\n", "x: 'all' must be a list of lists"),
    "unknown field of a concept": ("settings/compile.yaml", "concept: c\nsays: s\nhint: x\n", "unknown field 'hint'"),
    "a concept that says nothing": ("settings/compile.yaml", "concept: c\n", "'says' must be text"),
    "unknown field of a setting": ("settings/compile.yaml", SETTINGS.format("{take: any}"), "unknown field 'take'"),
    "takes nothing": ("settings/compile.yaml", SETTINGS.format("{names: {a: b}}"), "'takes' must be some of"),
    "takes the unknown": ("settings/compile.yaml", SETTINGS.format("{takes: [any, x]}"), "'takes' must be some of"),
    "choices without a choice": (
        "settings/compile.yaml",
        SETTINGS.format("{takes: boolean, choices: a}"),
        "settings[0]: 'choices' goes with `takes: choice`",
    ),
    "a choice without choices": ("settings/compile.yaml", SETTINGS.format("{takes: choice}"), "'choices' goes with"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_one_line_that_says_where(tmp_path: Path, name: str) -> None:
    file, text, expected = MISTAKES[name]
    folder = Path(shutil.copytree(builtin_folder(), tmp_path / "vocabulary"))
    text = f"forms:\n  {text}" if file == "forms.yaml" else text
    (folder / file).write_text(text)
    with pytest.raises(UserError) as caught:
        load_vocabulary(folder)
    message = str(caught.value)
    assert message.startswith(f"{folder / file}: ")
    assert expected in message
    assert "\n" not in message


def test_a_file_that_is_missing_is_named(tmp_path: Path) -> None:
    folder = Path(shutil.copytree(builtin_folder(), tmp_path / "vocabulary"))
    (folder / "forms.yaml").unlink()
    with pytest.raises(UserError, match=r"forms\.yaml: cannot be read"):
        load_vocabulary(folder)
    shutil.rmtree(folder / "settings")
    with pytest.raises(UserError, match="no vocabulary of settings there"):
        load_vocabulary(folder)


def test_names_do_not_mind_their_case_and_join(tmp_path: Path) -> None:
    """A name that stands in two groups takes what both say; the first word of a family is the one that is written."""
    folder = Path(shutil.copytree(builtin_folder(), tmp_path / "vocabulary"))
    rows = "{takes: boolean, names: {a: Own_Switch}}\n  - {takes: choice, choices: QUICK, names: {b: own_switch}}"
    (folder / "settings/own.yaml").write_text(SETTINGS.format(rows))
    words = load_vocabulary(folder)
    setting = words.setting("OWN_SWITCH")
    assert setting is not None
    assert (setting.takes, setting.stacks) == ({"boolean", "choice"}, ("a", "b"))
    assert setting.choices == {"quick"}
    assert words.spell("float16", "long") == "float16"
    assert words.dtype_of("HALF") == ("float16", "long")
    assert {"float32", "sdpa"} <= words.quiet
    assert not {"bfloat16", "flash_attention_2"} & words.quiet
