"""Files of kinds that no reader knows: whether a line of one sets what a rule looks for.

TOML, templates, batch files and the like are not understood here; only what one line says by itself is looked at: a
key with a value after it, an option, a package to install. A run names the file and leaves its places to a person.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import PurePosixPath

from precpatch.languages import spell
from precpatch.languages.base import SiteReading, path_facts
from precpatch.languages.mention import Mention
from precpatch.languages.python import PythonLanguage
from precpatch.languages.shell import ShellLanguage
from precpatch.languages.site import REQUIREMENT, Site
from precpatch.languages.source import SourceFile
from precpatch.languages.tell import Teller
from precpatch.vocabulary import Vocabulary

NAME = "text"
"""The language of a mention that is not of any."""

_PROSE = "adoc bib htm html license md mdx org pdf po pot rst tex textile txt typ"
_DATA = (
    "arrow avro bin ckpt csv dat db diff feather h5 hdf5 jsonl lock log map ndjson npy npz onnx orc parquet patch pb"
    " pem pkl pt pth safetensors gguf sqlite tsv"
)
_MEDIA = (
    "avif bmp css eot gif ico jpeg jpg less mov mp3 mp4 ogg otf png psd scss svg tif tiff ttf wav webm webp woff woff2"
)
_PACKED = "bz2 class dll dylib exe gz jar o obj pack pyc pyd rar so tar tgz wasm whl xz zip"
_SUFFIXES = frozenset(f".{each}" for words in (_PROSE, _DATA, _MEDIA, _PACKED) for each in words.split())
"""What people read, data, pictures and what is packed or built: it decides nothing, or talks about it."""

_NAMES = re.compile(
    r"(?:authors|changelog|changes|codeowners|contributing|copying|faq|license|metadata|news|notes?|notice|readme|record|todo)(?:[-_][^.]*)?"
    r"|\.git.*|\..*ignore|.*\.min\.js|.*-lock\.json|.*\.lock\.json|py\.typed",
    re.IGNORECASE,
)
_REQUIREMENTS = re.compile(r"(?:.*[_-])?(?:requirements?|constraints?)(?:[_.-].*)?\.(?:txt|in)", re.IGNORECASE)
_SHEBANG = re.compile(rb"#!\s*\S*?(?:/|env\s+(?:-\S+\s+)*)(?P<program>bash|sh|dash|zsh|ksh|python)[\d.]*(?:\s|\Z)")

_COMMENT = re.compile(r"[ \t]*(?:#|//|;|::|--(?=[ \t])|\{#|<!--|\*|@?rem\b)", re.IGNORECASE)
_PAIR = re.compile(
    r"""(?P<mark>--?|\+{1,2})?(?<![\w.])(?P<key>[A-Za-z_][\w.-]*)["'\]}]*"""
    r"""(?:[ \t]*(?:=>|:=|[:?]?=(?!=)|:)[ \t]*|[ \t]+)[\["'(]*(?P<value>[A-Za-z0-9_][\w./-]*)"""
)
_LISTED = re.compile(r"""(?:^|[\[,(])\s*["']$""")
_MAX_LINE = 4000
"""A longer line is data."""


def may_decide(path: str) -> bool:
    """Whether a file of an unknown kind may set something, by its name: no prose, no data, no picture."""
    name = PurePosixPath(path).name
    if _REQUIREMENTS.fullmatch(name):
        return True
    return PurePosixPath(name).suffix.lower() not in _SUFFIXES and _NAMES.fullmatch(name) is None


def script_language(path: str, data: bytes) -> ShellLanguage | PythonLanguage | None:
    """The reader for a script without a suffix, by its first line."""
    match = _SHEBANG.match(data) if "." not in PurePosixPath(path).name else None
    if match is None:
        return None
    return PythonLanguage() if match["program"] == b"python" else ShellLanguage()


class PlainLanguage(ShellLanguage):
    """What a file of an unknown kind sets, as far as one line says so."""

    name = NAME
    suffixes: tuple[str, ...] = ()

    def read(self, source: SourceFile, vocabulary: Vocabulary, text: bool = False) -> PlainReading:  # type: ignore[override]
        """Look at each line of a file."""
        return PlainReading(source, vocabulary)


class PlainReading(SiteReading):
    """One such file; nothing in it is rewritten.

    Attributes:
        is_list: whether it is a list of requirements.
    """

    def __init__(self, source: SourceFile, vocabulary: Vocabulary) -> None:
        super().__init__(source, vocabulary, Teller(source, vocabulary, NAME))
        self.facts = path_facts(source, vocabulary)
        self.is_list = _REQUIREMENTS.fullmatch(PurePosixPath(source.path).name) is not None
        self.tell(self._sites())

    def written(self, site: Site, mention: Mention, value: str) -> str | None:
        """Nothing is written in a file that is not understood."""
        return None

    def check(self, data: bytes) -> str | None:
        """Nothing is written, so nothing can be broken."""
        return None

    def _sites(self) -> Iterator[Site]:
        start = 0
        for line in self.source.text.splitlines(keepends=True):
            if len(line) <= _MAX_LINE and not _COMMENT.match(line):
                yield from self._pairs(line, start)
                yield from self._installs(line, start)
            start += len(line)

    def _pairs(self, line: str, start: int) -> Iterator[Site]:
        """Keys and options with their values."""
        position = 0
        while match := _PAIR.search(line, position):
            position = match.start("value")
            key = match["key"].rpartition(".")[2].replace("-", "_")
            between = line[match.end("key") : match.start("value")]
            is_option = (match["mark"] or "").startswith("-")
            word = match["value"].rstrip(".")
            if not between.strip(" \t\"'") and not is_option:
                continue
            facts = self.facts | ({"option"} if is_option else {"override"} if "." in match["key"] else set())
            facts |= {"variable"} if key.isupper() else set()
            form = spell.form_of(word)
            first = start + match.start("value")
            yield Site(first, first + len(word), form, word, "value", key=key, key_path=match["key"], facts=facts)

    def _installs(self, line: str, start: int) -> Iterator[Site]:
        """Packages that a line installs, or that a list of requirements names."""
        words = line.split()
        installs = not {"install", "add"}.isdisjoint(words) and not self.vocabulary.installers.isdisjoint(
            word.rpartition("/")[2].rstrip("0123456789.") for word in words
        )
        for match in self.vocabulary.requirements_in(line):
            before = line[: match.start()]
            listed = not before.strip() if self.is_list else _LISTED.search(before) is not None
            if installs or listed:
                first, last = start + match.start(), start + match.end()
                facts = self.facts | {"install"}
                yield Site(first, last, REQUIREMENT, line[match.start() :].split(maxsplit=1)[0], "import", facts=facts)
