"""The settings that stand in a longer text which another language holds: a command in a string, arguments, a mapping.

Which words those are says the vocabulary; whether the text is run at all is not known here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

from precpatch.languages import spell
from precpatch.languages.shell.looks import reads_as_commands
from precpatch.languages.site import BOOLEAN
from precpatch.vocabulary import Setting, Vocabulary
from precpatch.vocabulary.words import ANY

_PAIR = re.compile(
    r"(?<![\w./@$}-])(?P<mark>--|\+{1,2})?(?P<path>[A-Za-z_][\w./@-]*)=['\"]?(?P<value>[A-Za-z0-9][\w./-]*)"
)
_OPTION = re.compile(
    r"(?<![\w./-])--(?P<path>[A-Za-z][\w.-]*)(?:[ \t]+['\"]?(?P<value>[A-Za-z0-9][\w./-]*))?(?![\w.=-])"
)
_ENTRY = re.compile(
    r"""(?:^|[{,])[ \t]*(?:- )?(?P<quote>['"])?(?P<path>[A-Za-z_][\w.]*)"""
    r"""(?(quote)['"]\s*:\s*|\s*:\s+)['"]?(?P<value>\w+)""",
    re.MULTILINE,
)
_SECTION = re.compile(r"""['"]?(?P<section>[A-Za-z_]\w{0,80})['"]?\s*:\s*\{(?P<body>[^{}]{1,400})\}""")
_ARGUMENT = re.compile(r"(?:--?|\+{1,2}|~)[A-Za-z_]|(?:\+{1,2}|~)?[A-Za-z_][\w./@-]*=")
_LAUNCH = re.compile(r"\s-m\s+\w|\.(?:py|sh)\b")
_MAX_WORD = 200
_MOST = 200
"""So many words of one text are looked at."""


@dataclass(frozen=True, slots=True)
class Word:
    """A setting in a text: its key, with the path to it, and the value.

    Attributes:
        begin: where the setting begins in the text; start, end: where its value stands.
        facts: how it is written: an override, an option, a flag alone, a variable of the environment.
    """

    path: str
    key: str
    value: str
    form: str
    begin: int
    start: int
    end: int
    facts: frozenset[str]


def settings_in(text: str, vocabulary: Vocabulary) -> Iterator[Word]:
    """The switches, choices and sizes that a text sets, from left to right in each form.

    Options and plain pairs only count where the text reads as a command.
    """
    is_command = _is_command(text)
    for match in islice(_PAIR.finditer(text), _MOST):
        path, mark = match["path"], match["mark"] or ""
        setting = _setting(path, vocabulary)
        if setting is None or not (is_command or mark or "." in path or setting.variable):
            continue
        kind = "variable" if setting.variable and path.isupper() else "option" if mark == "--" else "override"
        if _says(setting, match["value"]):
            yield _word(match, kind)
    for match in islice(_OPTION.finditer(text), _MOST) if is_command else ():
        setting = _setting(match["path"], vocabulary)
        if setting is not None and match["value"] and _says(setting, match["value"]):
            yield _word(match, "option")
        elif setting is not None and BOOLEAN in setting.takes:  # alone: the next word is another argument
            place = match.start(), match.start(), match.end("path")
            yield Word(match["path"], _key(match["path"]), "True", BOOLEAN, *place, frozenset({"cli-flag"}))
    for match in islice(_ENTRY.finditer(text), _MOST):
        setting = _setting(match["path"], vocabulary)
        if setting is not None and _says(setting, match["value"]):
            yield _word(match, "override")
    yield from _in_sections(text, vocabulary)


def _in_sections(text: str, vocabulary: Vocabulary) -> Iterator[Word]:
    """The settings that need the section they stand in: ``"bf16": {"enabled": true}``."""
    if "{" not in text:
        return
    for section in islice(_SECTION.finditer(text), _MOST):
        for match in _ENTRY.finditer(text, section.start("body") - 1, section.end("body")):
            path = f"{section['section']}.{match['path']}"
            setting = _setting(path, vocabulary)
            if setting is not None and "." in setting.name and _says(setting, match["value"]):
                place = match.start(), *match.span("value")
                form = spell.form_of(match["value"])
                yield Word(path, setting.name, match["value"], form, *place, frozenset({"override"}))


def _is_command(text: str) -> bool:
    """Whether a text is a command, or nothing but arguments of one."""
    return reads_as_commands(text) or _LAUNCH.search(text) is not None or are_arguments(text)


def are_arguments(text: str) -> bool:
    """Whether a text is made of settings and options with their values, and of nothing else."""
    after_option = False
    words = text.split()
    for word in words:
        if not (after_option or _ARGUMENT.match(word)):
            return False
        after_option = word.startswith("-") and "=" not in word
    return len(words) > 1


def _key(path: str) -> str:
    return path.rpartition(".")[2].replace("-", "_")


def _setting(path: str, vocabulary: Vocabulary) -> Setting | None:
    """The setting that a path ends in, under the key before it."""
    above = path.rpartition(".")[0].rpartition(".")[2]
    return vocabulary.setting(_key(path), above or None) if len(path) <= _MAX_WORD else None


def _says(setting: Setting, word: str) -> bool:
    """Whether a word says something of a setting that is a switch, a choice or a number."""
    return setting.tells(spell.form_of(word), word) or (setting.variable and ANY in setting.takes)


def _word(match: re.Match[str], fact: str) -> Word:
    path, value = match["path"], match["value"]
    place = match.start(), *match.span("value")
    return Word(path, _key(path), value, spell.form_of(value), *place, frozenset({fact}))
