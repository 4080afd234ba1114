"""JSON that is no config of a known form: whether it sets something, a member or an argument at a time.

A job, a launch or an environment that someone keeps in JSON decides as much as a script does, but what it means is not
known. Members and whole strings are looked at; what stands in a longer string is talk, and what a list at the top
holds is data.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import PurePosixPath

from precpatch.languages import spell
from precpatch.languages.base import SiteReading, path_facts
from precpatch.languages.mention import Mention
from precpatch.languages.site import Site
from precpatch.languages.source import SourceFile
from precpatch.languages.tell import Teller
from precpatch.vocabulary import Vocabulary

MAX_BYTES = 256 * 1024
"""A file with more bytes is data."""

_DATA = re.compile(
    r"package|.*[-.]lock|.*(?:tokeniz|vocab|token|merges|dataset|schema|result|metric|score|trace|profile|report|log|"
    r"summary|benchmark|history|trainer_state|metadata|sample|prediction|annotation).*|.*\.index",
    re.IGNORECASE,
)
"""What a file of data, of what was measured or of what is installed is called, without its suffix."""

_STARTS = re.compile(r"\s*\{")
_PAIR = re.compile(
    r"""(?<!\\)"(?P<member>[A-Za-z_][\w.-]{0,200})"\s*:\s*(?P<quote>"?)(?P<value>[A-Za-z0-9_][\w./-]{0,80})(?P=quote)(?=\s*[,}\]])"""
    r"""|(?<=[\[,\s])"(?P<mark>--|\+{1,2})?(?P<path>[A-Za-z_][\w./@-]{0,200})(?:=|"\s*,\s*")(?P<given>[A-Za-z0-9_][\w./-]{0,80})"(?=\s*[,\]])"""
)


def may_set(path: str, text: str) -> bool:
    """Whether a file is one that someone may keep settings in: an object, and no data by its name."""
    return len(text) <= MAX_BYTES and _STARTS.match(text) is not None and not _DATA.fullmatch(PurePosixPath(path).stem)


class OtherReading(SiteReading):
    """One such file; nothing in it is rewritten."""

    def __init__(self, source: SourceFile, vocabulary: Vocabulary) -> None:
        super().__init__(source, vocabulary, Teller(source, vocabulary, "text", keyed=True))
        self.facts = path_facts(source, vocabulary)
        self.tell(self._sites() if may_set(source.path, source.text) else ())

    def written(self, site: Site, mention: Mention, value: str) -> str | None:
        """Nothing is written in a file that is not understood."""
        return None

    def check(self, data: bytes) -> str | None:
        """Nothing is written, so nothing can be broken."""
        return None

    def _sites(self) -> Iterator[Site]:
        for match in _PAIR.finditer(self.source.text):
            group = "value" if match["value"] else "given"
            path = match["member"] or match["path"]
            has_equals = match["given"] and self.source.text[match.start("given") - 1] == "="
            if match["given"] and not has_equals and match["mark"] != "--":
                continue
            key = path.rpartition(".")[2].replace("-", "_")
            facts = self.facts | ({"option"} if match["mark"] == "--" else {"override"} if match["given"] else set())
            facts |= {"variable"} if key.isupper() else set()
            word = match[group]
            form = spell.form_of(word)
            yield Site(*match.span(group), form, word, "value", key=key, key_path=path, facts=facts)
