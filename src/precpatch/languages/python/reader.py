"""The Python reader: bytes -> a reading, which tells its mentions with roles and makes the edits that rewrite them.

Facts that a mention can carry, besides those of ``conditions``:
    ``other-device``: the file or the branch is for an NPU or another device that is not CUDA.
    ``table``, ``dict-value``, ``in-call``, ``collected``, ``alias``, ``returned``, ``parameter-default``: what stands
        around the value (see ``roles``); ``argv``: it follows an option such as "--dtype" in a list of arguments.
    ``override``: it is the value of a Hydra override ``a.b.dtype=bfloat16`` in a string.
    ``embedded``: it stands in a longer command inside a string.
    ``taken-float32``, ``taken-float16``: the file uses that name for something that is not torch's.
    ``unresolved``: a bare ``bfloat16`` from a star import or another module. ``promised``: the function or the file
        says bf16 by its name. ``bf16-operand``: inside the call of a kernel that says so. ``reinterpreted``: its bytes
        are read as integers. ``under-list``: a cast under ``if x.dtype not in (...)`` with its own dtype in the list.
    ``aliased``: ``from torch import bfloat16 as bf``. ``mixed-import`` (set by the engine too): some uses must stay.
    ``rebound``: something else gives a value to the imported name as well.
    ``demands``: the check fails for every other value. ``check``: the allowed values are enforced.
    ``cast-guard``: ``if x.dtype != torch.bfloat16`` right around a cast of x to it.
    ``cli-flag``: a string such as "--bf16". ``dynamic``: ``getattr(torch, name)`` with a name known at run time only.
    ``guarded``: an import that may fail; ``lazy``: inside a function; ``padding``: of the part of flash_attn that is
        pure PyTorch. ``gated``: torch.compile behind a switch of its own. ``patches-attention``: a test under which the
        forward of an attention layer is replaced. ``no-scaler``: a backward pass in a file that knows no gradient
        scaler. ``class-default``: the default of a field of a class. ``variable``: of the environment.
"""

from __future__ import annotations

import ast
import re
import tokenize
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from io import BytesIO

from precpatch.languages import spell
from precpatch.languages.base import SiteReading
from precpatch.languages.mention import Mention, place
from precpatch.languages.python import branches, spans, structure
from precpatch.languages.python.comments import leftover_words
from precpatch.languages.python.find import Finder, Found
from precpatch.languages.python.links import Links
from precpatch.languages.python.scopes import ImportedDtype
from precpatch.languages.python.tree import Tree
from precpatch.languages.site import BOOLEAN, TYPE, UNRESOLVED, Site
from precpatch.languages.source import ReadError, SourceFile
from precpatch.languages.tell import Teller
from precpatch.patch.edits import Edit
from precpatch.vocabulary import Vocabulary

_WORD = re.compile(r"(?:torch\.)?[A-Za-z]*\d+(?:-[a-z]+)?|[A-Za-z][\w/.:@-]*")


_MOST_TO_EXTEND = 10_000
"""A list of allowed values of more characters than this is a table that a program wrote."""


class PythonLanguage:
    """Reads Python files; see ``languages.base.Language``."""

    name = "python"
    suffixes: tuple[str, ...] = (".py",)

    def open(self, path: str, data: bytes) -> SourceFile:
        """The file in the encoding that its byte order mark or its coding comment names.

        Raises:
            ReadError: it names an unknown encoding, is not text in it, or holds null bytes.
        """
        if b"\0" in data:
            raise ReadError("not text (null bytes), so left alone")
        try:
            encoding, _ = tokenize.detect_encoding(BytesIO(data).readline)
            bom = 3 if encoding == "utf-8-sig" else 0
            return SourceFile(path, data, "utf-8" if bom else encoding, bom).checked()
        except UnicodeError as error:
            at = getattr(error, "start", 0)
            raise ReadError(f"not {encoding} text at byte {at}, and no coding comment, so left alone") from None
        except (SyntaxError, LookupError) as error:
            raise ReadError(f"{error}, so left alone") from None

    def hides(self, data: bytes) -> bool:
        """Whether a word can stand in the text without standing in the bytes: never, in source that a person reads."""
        return False

    def read(self, source: SourceFile, vocabulary: Vocabulary, text: bool = False) -> PythonReading:
        """Parse the file and find what it says; with ``text`` also the words in comments, docstrings and names.

        Raises:
            ReadError: it does not parse.
        """
        return PythonReading(source, vocabulary, text)


class PythonReading(SiteReading):
    """One Python file that was read."""

    def __init__(self, source: SourceFile, vocabulary: Vocabulary, text: bool = False) -> None:
        super().__init__(source, vocabulary, Teller(source, vocabulary, PythonLanguage.name))
        self.finder = Finder(source, vocabulary)
        self._text = text
        self._found: dict[tuple[int, str], Found] = {}
        self._extended: dict[tuple[int, str], str] = {}

    @cached_property
    def mentions(self) -> Sequence[Mention]:
        """Every mention, in order of position."""
        links = Links(self.finder, self._pairs())
        mentions = [*links.linked(), *self._imports(links)]
        if self._text:
            mentions += leftover_words(self.finder, mentions)
        return sorted(mentions, key=lambda mention: (mention.start, mention.end))

    def _pairs(self) -> Iterator[tuple[Mention, Found]]:
        """The places that say something, with what the conditions around them add."""
        for found in self.finder.find():
            name = self.teller.name(self.finder.site(found))
            if name is None:
                continue
            self.finder.take_conditions(found, name)
            site = replace(self.finder.site(found), scope=found.scope, setup=self.finder.setup(found))
            mention = self.teller.mention(site, name)
            key = mention.start, mention.kind
            if key not in self._told:
                self._told[key], self._found[key] = (mention, site), found
                yield mention, found

    def _imports(self, links: Links) -> Iterator[Mention]:
        """``from torch import bfloat16 [as bf]``: one mention an import, tied to the uses of the name."""
        for imported in (each for group in self.finder.names.dtypes.values() for each in group):
            if imported.value == "bfloat16":
                yield self._import(imported, links.uses_of(imported))

    def _import(self, imported: ImportedDtype, uses: tuple[int, ...]) -> Mention:
        finder = self.finder
        facts = {"aliased"} if imported.alias.asname else set()
        if finder.names.scopes.is_rebound(imported):
            facts.add("rebound")
        if self._is_given_on(imported) or self._loads.get(finder.names.scopes.group_of(imported), 0) > len(uses):
            facts.add("mixed-import")
        if finder.other_device:
            facts.add("other-device")
        facts |= {f"taken-{name}" for name in ("float32", "float16") if finder.names.is_taken(name)}
        return Mention(
            language=PythonLanguage.name,
            kind="dtype",
            value=imported.value,
            spelling="torch",
            role="import",
            key=imported.local,
            facts=frozenset(facts),
            follows=uses,
            **place(self.source, finder.tree.start(imported.alias), finder.tree.end(imported.alias)),
        )

    def _is_given_on(self, imported: ImportedDtype) -> bool:
        """Whether ``__all__`` names it."""
        text = self.source.text
        return "__all__" in text and any(f"{quote}{imported.local}{quote}" in text for quote in "\"'")

    @cached_property
    def _loads(self) -> Counter[int]:
        """How often the name of each group of imports is read, in whatever way."""
        names = self.finder.names
        found = (names.imported_dtype(node, ancestors) for node, ancestors in self.finder.nodes)
        return Counter(names.scopes.group_of(imported) for imported in found if imported is not None)

    # --- edits -------------------------------------------------------------------------------------------------

    def rewrite(self, mention: Mention, value: str) -> tuple[Edit, ...]:
        """The edits that make the mention say ``value`` in its own spelling.

        Raises:
            ValueError: the value does not stand in one piece (a word split over two string literals).
        """
        if f"taken-{value}" in mention.facts or "unresolved" in mention.facts:
            return ()
        if mention.role == "import" and mention.kind == "dtype":
            if "rebound" in mention.facts and not ("aliased" in mention.facts and "mixed-import" not in mention.facts):
                return ()
            return (self._replace(mention, _imported(mention, value)),)
        return super().rewrite(mention, value)

    def _replace(self, mention: Mention, new: str) -> Edit:
        old = self.source.data[mention.start : mention.end]
        return Edit(self.source.path, mention.start, old, new.encode(self.source.encoding))

    def written(self, site: Site, mention: Mention, value: str) -> str | None:
        """The source text of a mention that says ``value``."""
        text = mention.text
        if mention.kind == "import" or not mention.facts.isdisjoint({"cli-flag", "embedded"}):
            return None
        if site.form == TYPE:
            return spans.replace_name(text, self.vocabulary.spell(value, mention.spelling))
        if mention.spelling == "torch":
            return spans.replace_name(text, self.vocabulary.spell(value, "torch"))
        if mention.spelling == "method":
            old = self.vocabulary.spell(mention.value, "method")
            return spans.replace_method(text, old, self.vocabulary.spell(value, "method"))
        if site.form == UNRESOLVED and value in ("true", "false"):
            return value.title()
        if site.form == BOOLEAN and text in ("True", "False"):
            return spell.boolean(text, value)
        if "composed" in site.facts:
            return f'"{spell.word(self.vocabulary, mention, site.word, value)}"'
        word = self._word_in(site, text)
        return spans.replace_in_string(text, word, spell.word(self.vocabulary, mention, word, value))

    def turned(self, site: Site, value: str) -> tuple[Edit, ...] | None:
        """The edit that gives a switch the value "true" or "false", also where it stands in an override."""
        text = self.source.text[site.start : site.end]
        if text in ("True", "False"):
            return super().turned(site, value)
        new = spell.boolean(site.word, value) if site.facts.isdisjoint({"cli-flag", "embedded"}) else None
        if new is None:
            return None
        return (self.edit(site.start, site.end, spans.replace_in_string(text, site.word, new)),)

    def _word_in(self, site: Site, text: str) -> str:
        """The word in a string that says what the site says, as it is written there."""
        if spans.word_pattern(site.word).search(text):
            return site.word
        wanted = self._says(site.word)
        return next((word for word in reversed(_WORD.findall(text)) if self._says(word) == wanted), site.word)

    def _says(self, word: str) -> object:
        return self.vocabulary.dtype_of(word) or self.vocabulary.attention_of(word)

    def holds(self, box: int, key: str) -> bool:
        """Whether the call or the dict has this key, or takes keys that are not written there."""
        return self.finder.slots.holds(box, key)

    def extend(self, mention: Mention, value: str) -> tuple[Edit, ...]:
        """Add ``value`` to the literal list, tuple or set that the mention stands in, or a branch to its converter."""
        found = self._found.get((mention.start, mention.kind))
        site = self.site_of(mention)
        if found is None or site is None:
            return ()
        if mention.role == "value":
            added = branches.added(self.vocabulary, self.finder.tree, found.node, found.ancestors, value)
            return () if added is None else (self.edit(*added),)
        container = found.ancestors[-1]
        if not isinstance(container, (ast.List, ast.Tuple, ast.Set)):
            return ()
        new = self.written(site, mention, value)
        if new is None:
            return ()
        start, end = self.finder.tree.start(container), self.finder.tree.end(container)
        if end - start > _MOST_TO_EXTEND:
            return ()
        key = start, new
        if key not in self._extended:
            tree = self.finder.tree
            elements = [(tree.start(each) - start, tree.end(each) - start) for each in container.elts]
            self._extended[key] = structure.extend_container(self.source.text[start:end], elements, new)
        return (self.edit(start, end, self._extended[key]),)

    def check(self, data: bytes) -> str | None:
        """Parse the changed file again."""
        try:
            Tree(PythonLanguage().open(self.source.path, data))
        except ReadError as error:
            return str(error)
        return None


def _imported(mention: Mention, value: str) -> str:
    """The alias of an import that brings ``value``, beside the old one where some of its uses stay."""
    if "mixed-import" in mention.facts:
        return f"{mention.text}, {value}"
    return structure.replace_import(mention.text, mention.text.split()[0], value)
