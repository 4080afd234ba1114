"""A reader as the tests ask it: one call a question, with the built-in vocabulary."""

from __future__ import annotations

from functools import lru_cache

from precpatch.languages.base import Language, Reading
from precpatch.languages.mention import Mention
from precpatch.languages.source import SourceFile
from precpatch.patch.edits import Edit
from precpatch.vocabulary import builtin_vocabulary
from precpatch.vocabulary.needles import needles_of_values


class Reader:
    """One language's reader."""

    def __init__(self, language: Language) -> None:
        self.language = language
        self.name = language.name
        self.suffixes = language.suffixes

    def open(self, path: str, data: bytes) -> SourceFile:
        return self.language.open(path, data)

    def read(self, source: SourceFile, text: bool = False) -> list[Mention]:
        return list(_reading(self.language, source, text).mentions)

    def rewrite(self, source: SourceFile, mention: Mention, value: str) -> tuple[Edit, ...]:
        """The edits that change something."""
        edits = _reading(self.language, source, False).rewrite(mention, value)
        return tuple(edit for edit in edits if edit.old != edit.new)

    def extend(self, source: SourceFile, mention: Mention, value: str) -> tuple[Edit, ...]:
        return _reading(self.language, source, False).extend(mention, value)

    def check(self, before: SourceFile, data: bytes) -> str | None:
        return _reading(self.language, before, False).check(data)

    def mentions(self, data: bytes) -> bool:
        """Whether a file with these bytes can hold a word of the vocabulary."""
        return needles_of_values(builtin_vocabulary()).stand_in(data) or self.language.hides(data)


@lru_cache(maxsize=8)
def _reading(language: Language, source: SourceFile, text: bool) -> Reading:
    return language.read(source, builtin_vocabulary(), text)
