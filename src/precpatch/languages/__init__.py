"""The readers, one a language, found by a file's name."""

from __future__ import annotations

from functools import cache
from pathlib import PurePosixPath

from precpatch.languages.base import Language


@cache
def languages() -> dict[str, Language]:
    """Suffix -> the reader for it."""
    from precpatch.languages.json import JsonLanguage
    from precpatch.languages.notebook import NotebookLanguage
    from precpatch.languages.python import PythonLanguage
    from precpatch.languages.shell import ShellLanguage
    from precpatch.languages.yaml import YamlLanguage

    readers: tuple[Language, ...] = (
        PythonLanguage(),
        YamlLanguage(),
        ShellLanguage(),
        JsonLanguage(),
        NotebookLanguage(),
    )
    return {suffix: reader for reader in readers for suffix in reader.suffixes}


def language_of(path: str) -> Language | None:
    """The reader for a file, by the suffix of its name, or by a name such as Dockerfile."""
    from precpatch.languages.near import near_language

    name = PurePosixPath(path).name
    return languages().get(PurePosixPath(name).suffix) or near_language(name)
