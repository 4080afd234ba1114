"""Reads shell scripts: Hydra overrides, options, variables and Python in here-documents.

The tree of tree-sitter's bash grammar says where the words are and what they belong to; what stands inside one word
(``+a.b.dtype="${DTYPE:-bfloat16}"``) is read here. Strings that hold words (``CONFIG="a.b=c d.e=f"``, ``bash -c``)
are parsed once more, and Python in a here-document is read by the Python reader.

Facts that a mention can carry:
    argument: a bare name among the arguments of a command.
    asks-bf16, asks-flash-attention: it stands in a branch that tests for that name.
    cli-flag: a switch given as an option that stands alone, such as ``--bf16``.
    default: it is the default of a variable, as in ``${DTYPE:-bfloat16}``.
    exported: a variable that programs see: ``export``, ``env`` or set in front of a command.
    heredoc: it stands in a here-document or in ``python -c``. What the Python reader tells there has the language
        "python" and the facts of that reader as well.
    in-list: an item of an array or of a ``for``.
    install: a requirement of a package installer such as pip.
    option: the value of ``--name value`` or ``--name=value``.
    other-device: the file, or the branch around it, is for a device that is not an NVIDIA GPU.
    override: the value of a Hydra override ``path.to.key=value``; after ``~``, which takes a key away, it compares.
    variable: the value of a variable.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from functools import cache, cached_property, lru_cache
from typing import TYPE_CHECKING, Any

from precpatch.languages.base import ReadError
from precpatch.languages.mention import Mention, place
from precpatch.languages.settings import (
    DEVICE_WORDS,
    ENVIRONMENT_KEYS,
    NAMED_SWITCHES,
    NUMBER_KEYS,
    OTHER_DEVICES,
    SWITCH_KEYS,
)
from precpatch.languages.source import SourceFile
from precpatch.languages.values import DTYPE_NAMES, FLASH_ATTENTION, FLASH_VARIANT, attention_of, dtype_of, spell_dtype
from precpatch.patch.edits import Edit

if TYPE_CHECKING:
    from tree_sitter import Node, Parser, Tree

MAX_DEPTH = 4
"""Strings inside strings inside strings are parsed to this depth."""

MAX_PARENTS = 100
"""So many nodes around a word are asked what they say of it."""

MAX_TEST = 1000
"""A condition of more characters than this is not looked at."""

MAX_WORDS = 20
"""So many words of a command are looked at to see which program it runs."""

_DTYPES = {name for name, (value, _) in DTYPE_NAMES.items() if "float16" in value} - {"half"}
_NAMES = r"(?:(?:torch\.)?(?:{})(?![^\W_])|{})".format(
    "|".join(map(re.escape, sorted(FLASH_ATTENTION | _DTYPES, reverse=True))), FLASH_VARIANT
)
_NAMED = {key.lower(): names for key, names in NAMED_SWITCHES.items()}
_KEYS = sorted({*SWITCH_KEYS, *_NAMED, *NUMBER_KEYS, "device", "device_name"})
_FLAGS = frozenset(SWITCH_KEYS) - {"mixed_precision"}
_VARIABLES = (*ENVIRONMENT_KEYS, "ASCEND_*", "HCCL_*")
_INSTALLED = r"flash[-_]?att(?:n|ention)|transformer[-_]?engine"
_SPOT = re.compile(
    r"\b(?:{}|(?:{}|{})=|{})|--(?:[a-z][\w-]*\.)*(?:{})(?![\w-])".format(
        _NAMES,
        "|".join(map(re.escape, _KEYS)),
        "|".join(name.lower().replace("*", r"\w+") for name in _VARIABLES),
        _INSTALLED,
        "|".join(re.escape(key).replace("_", "[-_]") for key in _KEYS),
    )
)
"""Where a mention can be, in text in lower case."""

_EMBEDDED = re.compile(r"""<<(?!<)|(?<=\s-c )["']""")
"""Where another language can begin."""

_WORD = re.compile(rf"(?<![^\W_]){_NAMES}", re.IGNORECASE)
_NEEDLES = tuple(
    needle.encode()
    for needle in (
        *("bf16", "float16", "fp16", "lash_att", "lash-att", "transformer_engine", "transformer-engine"),
        *("transformerengine", *(key.split(".")[0] for key in SWITCH_KEYS), *NUMBER_KEYS),
        *(key if "." in key else f"{key}=" for key in _NAMED),
        *(key.lower().rstrip("*") for key in ENVIRONMENT_KEYS),
        *(re.sub("_", "-", key) for key in _FLAGS if "_" in key),
    )
)
_PYTHON_NEEDLES = (b".half(", b"getattr(torch")
_KEY = re.compile(r"(?P<mark>\+{1,2}|~|-{1,2})?(?P<path>[A-Za-z_][\w.@/-]*)=(?!=)")
_OPTION = re.compile(r"(?P<mark>-{1,2})(?P<path>[A-Za-z][\w.-]*)")
_JOINED = re.compile(r"(?:^|,)(?P<path>[A-Za-z_]\w*)=(?P<value>[\w./-]+)(?=,[A-Za-z_]\w*=|$)")
"""A setting among others in one word: ``pretrained=$MODEL,dtype=bfloat16,tensor_parallel_size=2``."""

_DEFAULT = re.compile(r"\$\{(?P<name>\w+|[@*#?!$-]):?[-=+]")
_PADDING = "\"'\\ \t\r\n"
_BLANK = re.compile(r"[ \t\r\n]")
_TOKEN = re.compile(r"""(?:\\[^\r\n]|'[^']*'|"[^"]*"|[^\s'"\\])+""")
_SETTING = re.compile(r"""['"]?(?:\+{1,2}|~|-{1,2})?[A-Za-z_][\w@/-]*(?:\.[\w.@/-]*)?=|['"]?\+{1,2}\w|--?[A-Za-z]""")
_LAUNCH = re.compile(
    r"\s*(?:\w+=\S*\s+)*(?:\S*/)?(?:python[\d.]*|torchrun|accelerate|deepspeed|vllm|ray|uv|bash|sh|srun|env|nohup|exec)\s"
)
_PROGRAM = re.compile(r"\s-m\s|\.(?:py|sh)\b|\s--\w")
_PYTHON = re.compile(r"(?:^|[\s|/;&(])python[\d.]*(?=\s|$)|>\s*\S+\.py(?=[\s\"']|$)")
_SHELL = re.compile(r"(?:^|[\s|/;&(])(?:bash|sh|sbatch|ssh)(?=\s|$)|>\s*\S+\.(?:sh|bash|sbatch|slurm)(?=[\s\"']|$)")
_EXPANSION = re.compile(r"\$\{[^}\n]*\}|\$\([^)\n]*\)|\$\w+")
_INSTALLER = re.compile(r"(?:\S*/)?(?:pip[\d.]*|uv|conda|mamba|micromamba|poetry)")
_REQUIREMENT = re.compile(_INSTALLED, re.IGNORECASE)
_OTHER_DEVICE = re.compile(r"(?<![a-z])(?:{})(?![a-z])".format("|".join(sorted(OTHER_DEVICES | DEVICE_WORDS))))
_GPU = re.compile(r"(?<![A-Za-z])(?:cuda|gpu|nvidia)(?![A-Za-z])", re.IGNORECASE)
_NEGATED = re.compile(r"!=|(?<!\S)-z\s|==?\s*[\"']?(?:false|0|no|off)\b")
_NUMBER = re.compile(r"[0-9]{1,9}")
_SAFE = re.compile(r"[\w.,+/:@%-]+", re.ASCII)
_TWIN = re.compile(r"bf(?:loat)?16(?!.*bf)", re.IGNORECASE)
_BOOLEANS = (("true", "false"), ("yes", "no"), ("on", "off"), ("1", "0"))
_BOOLEAN_PAIRS = {word: pair for pair in _BOOLEANS for word in pair}
_ASCII = bytes(range(128)) + b"_" * 128

_PART = frozenset(
    {
        *("word", "string", "string_content", "raw_string", "ansi_c_string", "translated_string", "concatenation"),
        *("number", "expansion", "simple_expansion", "variable_name", "command_name", "extglob_pattern", "regex"),
    }
)
_TESTS = frozenset({"binary_expression", "unary_expression", "test_command", "parenthesized_expression"})
_OPENS = frozenset({"<<", "<<-"})
_HOLDS_OPTIONS = frozenset({"command", "array", "file_redirect", "ERROR"})
"""Options and their values stand here; after ``--root <your_root>`` the grammar gives the rest to the redirection."""

_SAYS = frozenset({"echo", "printf", "git", "logger"})
_LOOKS = frozenset({"test", "[", "grep", "egrep", "fgrep", "rg"})
_BRANCHES = frozenset({"else_clause", "case_item", "function_definition"})

Span = tuple[int, int]
"""Index of the first character and after the last."""

Name = tuple[str, str, str]
"""Kind, canonical value and spelling."""


class ShellLanguage:
    """The reader of bash and sh scripts: launch scripts, tests, installers."""

    name = "shell"
    suffixes: tuple[str, ...] = (".sh", ".bash", ".slurm", ".sbatch")

    def open(self, path: str, data: bytes) -> SourceFile:
        """The file as UTF-8, or byte for byte as Latin-1 where it is not: bash does not ask.

        Raises:
            ReadError: it holds null bytes.
        """
        if b"\0" in data:
            raise ReadError(f"not text: byte 0x00 at offset {data.index(0)}")
        bom = 3 if data.startswith(b"\xef\xbb\xbf") else 0
        words = re.split(r"[/_.-]", path.lower())
        facts = frozenset() if DEVICE_WORDS.isdisjoint(words) else frozenset({"other-device"})
        try:
            data.decode()
        except UnicodeDecodeError:
            return SourceFile(path, data, "latin-1", 0, facts)
        return SourceFile(path, data, "utf-8", bom, facts)

    def mentions(self, data: bytes) -> bool:
        """Whether a word of interest stands in the bytes."""
        lowered = data.lower()
        return any(needle in lowered for needle in (*_NEEDLES, *_PYTHON_NEEDLES))

    def read(self, source: SourceFile, text: bool = False) -> list[Mention]:
        """Every mention; with ``text`` also the words in comments, names and prose."""
        reading = _reading(source)
        mentions = [reading.mention(found) for found in reading.script.found.values()]
        for region in reading.script.regions:
            mentions += reading.python(region, text)
        if text:
            mentions += reading.leftovers(mentions)
        return sorted(mentions, key=lambda mention: (mention.start, mention.end))

    def rewrite(self, source: SourceFile, mention: Mention, value: str) -> tuple[Edit, ...]:
        """The edits that make ``mention`` say ``value`` in its own spelling; none where that cannot be done.

        For a switch, "float32" turns it off; "float16" also turns its fp16 twin in the same command or array on, and
        where there is no twin makes it one.
        """
        reading = _reading(source)
        if mention.language == "python":
            return reading.python_edits(mention, value)
        if mention.kind == "import" or mention.text.startswith("-"):
            return ()
        if mention.kind == "switch" and value in {"float32", "float16"}:
            return reading.switch_edits(mention, value)
        new = _spelled(mention.text, mention.kind, mention.spelling, value)
        if new is None or new == mention.text:
            return ()
        return (Edit(source.path, mention.start, source.data[mention.start : mention.end], new.encode()),)

    def extend(self, source: SourceFile, mention: Mention, value: str) -> tuple[Edit, ...]:
        """None: a script declares no set of allowed values."""
        return ()

    def check(self, before: SourceFile, data: bytes) -> str | None:
        """Parse the changed script again, and the Python in it; None when neither is worse than before."""
        try:
            old, new = _reading(before), _reading(self.open(before.path, data))
        except ReadError as error:
            return str(error)
        faults = _faults(new.script.tree.root_node)
        if len(faults) > len(_faults(old.script.tree.root_node)):
            line = data[: faults[-1]].count(b"\n") + 1
            return f"line {line}: not a shell script that bash can parse"
        if new.script.broken > old.script.broken:
            return "the Python in it no longer parses"
        return None


# From a file to what stands in it.


@dataclass(frozen=True, slots=True)
class _Setting:
    """What a word is for: the place that its mention inherits.

    Attributes:
        name: where the name of the setting itself stands, if there is one.
    """

    role: str
    key: str | None = None
    key_path: str | None = None
    facts: frozenset[str] = frozenset()
    name: Span | None = None


@dataclass(frozen=True, slots=True)
class _Found:
    """A value before its place is turned into a Mention; all indexes count from the start of the file's text.

    Attributes:
        box: the command or the array that it stands in.
    """

    start: int
    end: int
    kind: str
    value: str
    spelling: str
    setting: _Setting
    scope: str
    box: Span


@dataclass(frozen=True, slots=True)
class _Region:
    """Python in a script: ``source`` is its text, whose first byte stands at ``shift`` in the script."""

    source: SourceFile
    shift: int
    end: int
    facts: frozenset[str]
    scope: str


class _Reading:
    """One file that was read: its script, and the way from positions in the script to positions in the file."""

    def __init__(self, source: SourceFile) -> None:
        self.source = source
        self.code = source.data[source.bom :].translate(_ASCII).decode("ascii")
        self.script = _Script(source.path, self.code)

    def mention(self, found: _Found) -> Mention:
        """The mention of a value."""
        setting = found.setting
        return Mention(
            **self._place(found.start, found.end),
            language=ShellLanguage.name,
            kind=found.kind,
            value=found.value,
            spelling=found.spelling,
            role=setting.role,
            key=setting.key,
            key_path=setting.key_path,
            scope=found.scope,
            facts=setting.facts | self._file_facts(found.start),
        )

    def python(self, region: _Region, text: bool) -> list[Mention]:
        """What the Python reader tells of a region, at its place in the script."""
        from precpatch.languages.python import PythonLanguage

        return [
            replace(
                mention,
                **self._place(mention.start + region.shift, mention.end + region.shift),
                facts=mention.facts | region.facts | self._file_facts(mention.start + region.shift),
                scope=".".join(filter(None, (region.scope, mention.scope))),
                follows=tuple(start + region.shift + self.source.bom for start in mention.follows),
            )
            for mention in PythonLanguage().read(region.source, text)
            if mention.start + region.shift >= 0
        ]

    def python_edits(self, mention: Mention, value: str) -> tuple[Edit, ...]:
        """The edits of the Python reader, moved to their place in the script."""
        from precpatch.languages.python import PythonLanguage

        python = PythonLanguage()
        for region in self.script.regions:
            shift = region.shift + self.source.bom
            if not shift <= mention.start < region.end + self.source.bom:
                continue
            for inner in python.read(region.source):
                if (inner.start + shift, inner.kind) == (mention.start, mention.kind):
                    told = replace(inner, facts=mention.facts)
                    return self._moved(python.rewrite(region.source, told, value), shift)
        return ()

    def _moved(self, edits: Iterable[Edit], shift: int) -> tuple[Edit, ...]:
        """The edits at their place, or none where the script hides something in what they replace."""
        moved = tuple(replace(edit, start=edit.start + shift) for edit in edits)
        return moved if all(self.source.data[edit.start : edit.end] == edit.old for edit in moved) else ()

    def leftovers(self, mentions: Iterable[Mention]) -> list[Mention]:
        """A mention for each name that none of ``mentions`` covers."""
        taken = {
            at for mention in mentions for at in range(mention.start - self.source.bom, mention.end - self.source.bom)
        }
        names = [found.setting.name for found in self.script.found.values() if found.setting.name]
        keys = {at for start, end in names for at in range(start, end)}
        words = []
        for match in _WORD.finditer(self.code):
            named = _named(match[0])
            if named and match.start() not in taken:
                setting = _Setting("key" if match.start() in keys else self.script.prose_role(match.start()))
                words.append(self.mention(_Found(*match.span(), *named, setting, "", (0, 0))))
        return words

    def switch_edits(self, mention: Mention, dtype: str) -> tuple[Edit, ...]:
        """Turn the switch ``mention`` off, and for "float16" turn its twin on or make it the twin."""
        found = self.script.found.get(mention.start - self.source.bom)
        if found is None or found.setting.name is None:
            return ()
        off = self._set(found, "false")
        if dtype == "float32":
            return off
        name = self.code[slice(*found.setting.name)]
        twin_name = _TWIN.sub(lambda match: _twin(match[0]), name)
        if twin_name == name or found.value != "true":
            return ()
        for twin in self.script.found.values():
            if twin.box == found.box and twin.setting.name and self.code[slice(*twin.setting.name)] == twin_name:
                return (*off, *self._set(twin, "true"))
        return self._renamed(found, twin_name)

    def _renamed(self, found: _Found, twin_name: str) -> tuple[Edit, ...]:
        """The switch under the name of its twin; none where that name is used already, or this one elsewhere."""
        start, end = found.setting.name or (0, 0)
        word = _TWIN.search(self.code, start, end)
        used = re.search(rf"(?<![\w.]){re.escape(twin_name)}(?![\w.-])", self.code[slice(*found.box)])
        if word is None or used or "variable" in found.setting.facts:
            return ()
        first = word.start() + self.source.bom
        return (Edit(self.source.path, first, word[0].encode(), _twin(word[0]).encode()),)

    def _set(self, found: _Found, truth: str) -> tuple[Edit, ...]:
        """The edit that gives a switch the value ``truth``, unless it has it."""
        old = self.code[found.start : found.end]
        new = _spelled_boolean(old, truth)
        if new is None or new == old:
            return ()
        return (Edit(self.source.path, found.start + self.source.bom, old.encode(), new.encode()),)

    def _file_facts(self, index: int) -> frozenset[str]:
        """The facts of the file and of the branch at ``index``."""
        if any(start <= index < end for start, end in self.script.elsewhere):
            return self.source.facts | {"other-device"}
        return self.source.facts

    def _place(self, start: int, end: int) -> dict[str, Any]:
        return place(self.source, self._character(start), self._character(end))

    def _character(self, index: int) -> int:
        """The character of the text that stands at byte ``index`` after the byte order mark."""
        return index - bisect_left(self._continued, index)

    @cached_property
    def _continued(self) -> list[int]:
        """The bytes that continue a character of UTF-8."""
        data = self.source.data[self.source.bom :]
        if self.source.encoding != "utf-8" or data.isascii():
            return []
        return [index for index, byte in enumerate(data) if byte & 0xC0 == 0x80]


@lru_cache(maxsize=2)
def _reading(source: SourceFile) -> _Reading:
    """The reading of a file; kept for the rewrites that follow it."""
    return _Reading(source)


@cache
def _parser() -> Parser:
    """The parser of bash, loaded only when a script has something of interest."""
    import tree_sitter_bash
    from tree_sitter import Language, Parser

    return Parser(Language(tree_sitter_bash.language()))


def _faults(root: Node) -> list[int]:
    """Where the parser gave up: the start of each error or missing node."""
    faults, stack = [], [root]
    while stack:
        node = stack.pop()
        if node.is_error or node.is_missing:
            faults.append(node.start_byte)
        stack += [child for child in node.children if child.has_error]
    return sorted(faults)


# From the tree of a script to values.


class _Script:
    """The text of one script, or of a string in one that holds commands.

    Attributes:
        found: the values by where they start; indexes count from the start of the file's text.
        regions: the Python in it.
        broken: number of texts for Python that do not parse.
        elsewhere: the spans that are for another device.
    """

    def __init__(self, path: str, code: str, shift: int = 0, depth: int = 0) -> None:
        self.path = path
        self.code = code
        self.shift = shift
        self.depth = depth
        self.tree: Tree = _parser().parse(code.encode())
        self.found: dict[int, _Found] = {}
        self.regions: list[_Region] = []
        self.broken = 0
        self.elsewhere: set[Span] = set()
        self._done: set[int] = set()
        self._words: dict[int, list[Node]] = {}
        self._branches: dict[int, tuple[list[Node], Span]] = {}
        spots = [match.start() for match in _SPOT.finditer(code.lower())]
        if "<<" in code or " -c " in code:
            spots += [match.start() for match in _EMBEDDED.finditer(code)]
        for index in spots:
            self._spot(self._chain(index))

    def prose_role(self, index: int) -> str:
        """The role of a word that decides nothing."""
        chain = self._chain(index)
        if chain[-1].type == "comment":
            return "comment"
        return "message" if any(self.command_name(node) in _SAYS for node in chain) else "text"

    def _chain(self, index: int) -> list[Node]:
        """The nodes around the character ``index``, from the root to the innermost."""
        cursor = self.tree.walk()
        chain = [self.tree.root_node]
        while cursor.goto_first_child_for_byte(index) is not None:
            node = cursor.node
            if node is None or not node.start_byte <= index < node.end_byte:
                break
            chain.append(node)
        return chain

    def _spot(self, chain: list[Node]) -> None:
        """Tell what stands in the word, or the here-document, at the end of ``chain``."""
        at = len(chain) - 1
        while at > 0 and chain[at].type in _PART and chain[at - 1].type in _PART:
            at -= 1
        node, box = chain[at], chain[max(at - 1, 0)]
        if node.type in _OPENS:
            for body in (child for child in box.children if child.type == "heredoc_body"):
                self._heredoc([*chain[:at], body], at)
        elif "heredoc_body" in (node.type, box.type) and node.type != "expansion":
            self._heredoc(chain, at if node.type == "heredoc_body" else at - 1)
        elif node.type in _PART and box.type != "heredoc_redirect":
            self._word(_Around(self, chain[:at], node))

    # Words.

    def _word(self, around: _Around) -> None:
        """Tell a word of a command, an array, an assignment or a test."""
        node = around.node
        if node.type == "variable_name" and around.box.type != "variable_assignment":
            return
        if around.box.type == "variable_assignment":
            if self.text(around.box).startswith(("HCCL_", "ASCEND_")):
                self.elsewhere.add(self.absolute(around.branch))
            value = around.box.child_by_field_name("value")
            if value is None or value.type not in _PART:
                return
            around.node = node = value
        if node.start_byte in self._done:
            return
        self._done.add(node.start_byte)
        start, end = self._inner(node)
        if node.type in ("string", "raw_string") and self._holds_words(around, start, end):
            self._nested(start, end, around)
        elif node.type in ("string", "raw_string") and around.runs_python:
            self._python(start, end, around, node.type == "string")
        else:
            self._argument(around, *_stripped(self.code, node.start_byte, node.end_byte))

    def _inner(self, node: Node) -> Span:
        """The span of a word without the quotes right around it."""
        quoted = node.type in ("string", "raw_string") and node.end_byte - node.start_byte > 1
        return (node.start_byte + 1, node.end_byte - 1) if quoted else (node.start_byte, node.end_byte)

    def _holds_words(self, around: _Around, start: int, end: int) -> bool:
        """Whether a quoted string holds words of a command, not one value or prose."""
        if self.depth >= MAX_DEPTH or around.runs_python:
            return False
        content = self.code[start:end]
        return around.runs_shell or (_BLANK.search(content.strip()) is not None and _reads_as_words(content))

    def _nested(self, start: int, end: int, around: _Around, facts: frozenset[str] = frozenset()) -> None:
        """Read the text between ``start`` and ``end`` as a script of its own, in the place ``around``."""
        inner = _Script(self.path, self.code[start:end], self.shift + start, self.depth + 1)
        facts |= around.facts
        for found in inner.found.values():
            setting = replace(found.setting, facts=found.setting.facts | facts)
            if around.role:
                setting = replace(setting, role=around.role)
            self.found.setdefault(found.start, replace(found, setting=setting, scope=found.scope or around.scope))
        self.broken += inner.broken
        self.regions += [replace(each, facts=each.facts | facts) for each in inner.regions]
        if inner.elsewhere:
            self.elsewhere.add(self.absolute(around.branch))

    def _argument(self, around: _Around, start: int, end: int) -> None:
        """Tell one word, which stands without its quotes between ``start`` and ``end``."""
        setting = around.setting()
        match = _KEY.match(self.code, start, end)
        if match and (around.box.type != "variable_assignment" or match["mark"] or "." in match["path"]):
            setting = self._keyed(around, match)
            start = match.end()
        elif around.box.type == "variable_assignment":
            pass
        elif option := _OPTION.fullmatch(self.code, start, end):
            self._flag(around, option)
            return
        elif around.installs and _REQUIREMENT.search(self.code, start, end):
            self._install(around, start, end)
            return
        else:
            setting = self._after_option(around, setting)
        value, name = self._resolved(start, end)
        if "," in self.code[slice(*value)]:
            self._joined(around, value if match is None else (match.start("path"), value[1]), setting)
        if name is not None:
            setting = replace(setting, facts=setting.facts | {"default"})
            if setting.key is None and not name.isdigit():
                setting = replace(setting, key=name, facts=setting.facts - {"argument"} | {"variable"})
        self._tell(around, value, setting)

    def _joined(self, around: _Around, span: Span, setting: _Setting) -> None:
        """Tell the settings that stand in one word with commas between them."""
        if setting.role not in ("value", "lookup"):
            return
        for match in _JOINED.finditer(self.code[slice(*span)]):
            named = _named(match["value"])
            if named:
                key = span[0] + match.start("path"), span[0] + match.end("path")
                facts = around.facts | {"override"}
                place = _Setting("value", match["path"], None, facts, self.absolute(key))
                self._add(around, (span[0] + match.start("value"), span[0] + match.end("value")), named, place)

    def _resolved(self, start: int, end: int) -> tuple[Span, str | None]:
        """The span of a value without quotes, or of the default in it and the name of the innermost variable."""
        start, end = _stripped(self.code, start, end)
        name = None
        while (match := _DEFAULT.match(self.code, start, end)) and self.code[end - 1] == "}":
            name = match["name"]
            start, end = _stripped(self.code, match.end(), end - 1)
        return (start, end), name

    def _keyed(self, around: _Around, match: re.Match[str]) -> _Setting:
        """The setting of an override, of an option with ``=`` or of a variable among arguments."""
        path, mark = match["path"], match["mark"] or ""
        name = self.absolute(match.span("path"))
        if not mark and "." not in path and around.sets_variable:
            return _Setting(around.role or "value", path, None, around.facts | {"variable", "exported"}, name)
        key = path.rpartition(".")[2]
        facts = around.facts | {"override"}
        if mark.startswith("-"):
            key, facts = key.replace("-", "_"), around.facts | ({"option", "override"} if "." in path else {"option"})
        role = "comparison" if mark == "~" else "value"
        return _Setting(around.role or role, key, path if "override" in facts else None, facts, name)

    def _after_option(self, around: _Around, setting: _Setting) -> _Setting:
        """The setting of a word, which is that of the option before it where there is one."""
        before = around.before if around.box.type in _HOLDS_OPTIONS else None
        option = _OPTION.fullmatch(self.code, before.start_byte, before.end_byte) if before is not None else None
        if option is None or around.role == "comparison":
            return setting
        name = self.absolute(option.span("path"))
        key = option["path"].rpartition(".")[2].replace("-", "_")
        key_path = option["path"] if "." in option["path"] else None
        return _Setting(around.role or "value", key, key_path, around.facts | {"option"}, name)

    def _flag(self, around: _Around, option: re.Match[str]) -> None:
        """Tell an option that is a switch: with the word after it where that is a boolean, else alone."""
        path = option["path"].replace("-", "_")
        key = path.rpartition(".")[2]
        if around.role == "comparison" or key.lower() not in _FLAGS:
            return
        name = self.absolute(option.span("path"))
        key_path = path if "." in path else None
        setting = _Setting(around.role or "switch", key, key_path, around.facts | {"cli-flag"}, name)
        span, value = option.span(), "true"
        after = around.after
        if after is not None:
            argument, _ = self._resolved(after.start_byte, after.end_byte)
            word = self.code[slice(*argument)].lower()
            if word in _BOOLEAN_PAIRS:
                span, value = argument, _truth(word)
                setting = replace(setting, facts=around.facts | {"option"})
                self._done.add(after.start_byte)
            elif word.startswith("$") and key.lower() in word:
                return
        self._add(around, span, ("switch", value, "name"), setting)

    def _install(self, around: _Around, start: int, end: int) -> None:
        """Tell a requirement that ``pip install`` names."""
        match = _REQUIREMENT.search(self.code, start, end)
        value = "flash_attn" if match and match[0].lower().startswith("flash") else "transformer_engine"
        setting = _Setting(around.role or "import", None, None, around.facts | {"install"})
        self._add(around, (start, end), ("import", value, "name"), setting)

    def _tell(self, around: _Around, span: Span, setting: _Setting) -> None:
        """Tell the word at ``span`` if it is the value of a setting."""
        word = self.code[slice(*span)]
        named = _named(word)
        if named:
            self._add(around, span, named, setting)
            return
        key = setting.key
        if key is None or not word:
            return
        if key.lower() in ("device", "device_name"):
            if setting.role == "value" and word.lower().partition(":")[0] in OTHER_DEVICES:
                self.elsewhere.add(self.absolute(around.branch))
            return
        switch = _switch(key, setting.key_path or key, word, "variable" in setting.facts)
        if switch:
            known, value = switch
            role = "switch" if setting.role == "value" else setting.role
            self._add(around, span, ("switch", value, "name"), replace(setting, role=role, key=known))

    def _add(self, around: _Around, span: Span, named: Name, setting: _Setting) -> None:
        start, end = self.absolute(span)
        box = self.absolute((around.box.start_byte, around.box.end_byte))
        self.found[start] = _Found(start, end, *named, setting, around.scope, box)

    def words_of(self, box: Node) -> list[Node]:
        """The words of a command or an array."""
        if box.id not in self._words:
            self._words[box.id] = [child for child in box.named_children if child.type != "comment"]
        return self._words[box.id]

    def branches_of(self, node: Node) -> tuple[list[Node], Span]:
        """The condition of an ``if``, ``elif`` or ``while``, and the span of what it decides about."""
        if node.id not in self._branches:
            self._branches[node.id] = _branches(node)
        return self._branches[node.id]

    def absolute(self, span: Span) -> Span:
        """The span counted from the start of the file's text."""
        return span[0] + self.shift, span[1] + self.shift

    # Python and here-documents.

    def _heredoc(self, chain: list[Node], at: int) -> None:
        """Read a here-document: as Python, as a script, or line by line where the lines are words of a command."""
        body = chain[at]
        if body.start_byte in self._done:
            return
        self._done.add(body.start_byte)
        around = _Around(self, chain[:at], body)
        statement = next((node for node in reversed(chain[:at]) if node.type == "redirected_statement"), chain[at - 1])
        start = self.code.rfind("\n", 0, body.start_byte) + 1
        head = self.code[statement.start_byte : start]
        opened = next((each for each in chain[at - 1].children if each.type == "heredoc_start"), None)
        quoted = opened is not None and self.code[opened.start_byte] in "'\"\\"
        if _PYTHON.search(head):
            self._python(start, body.end_byte, around, not quoted)
        elif self.depth < MAX_DEPTH and _SHELL.search(head):
            self._nested(start, body.end_byte, around, frozenset({"heredoc"}))
        elif self.depth < MAX_DEPTH:
            self._heredoc_lines(start, body.end_byte, around)

    def _heredoc_lines(self, start: int, end: int, around: _Around) -> None:
        while start < end:
            stop = self.code.find("\n", start, end) + 1 or end
            if _SPOT.search(self.code[start:stop].lower()) and _reads_as_words(self.code[start:stop]):
                self._nested(start, stop, around, frozenset({"heredoc"}))
            start = stop

    def _python(self, start: int, end: int, around: _Around, expands: bool) -> None:
        """Hand Python to its reader; indented as a whole, it is read as a block. What does not parse is left out."""
        from precpatch.languages.python import PythonLanguage

        python = PythonLanguage()
        text = self.code[start:end]
        if expands:
            text = _EXPANSION.sub(lambda match: "x" * len(match[0]), text)
        facts = around.facts | {"heredoc"}
        for head in ("", "if 1:\n"):
            source = SourceFile(self.path, (head + text).encode())
            shift = self.shift + start - len(head)
            try:
                python.read(source)
            except ReadError:
                continue
            self.regions.append(_Region(source, shift, self.shift + end, facts, around.scope))
            return
        self.broken += 1

    def command_name(self, node: Node) -> str:
        """The name of the program that a command runs, without its folder."""
        if node.type == "test_command":
            return "["
        name = node.child_by_field_name("name") if node.type == "command" else None
        return self.text(name).rpartition("/")[2] if name is not None else ""

    def text(self, node: Node) -> str:
        """The source text of a node."""
        return self.code[node.start_byte : node.end_byte]


class _Around:
    """What stands around a word: its command, array or assignment, and the conditions that it is under.

    Attributes:
        node: the word.
        box: what it is a part of.
        facts: the facts of the branches that it is in.
        scope: the function that it is in.
        branch: the span of the innermost branch or function, else of the script.
    """

    def __init__(self, script: _Script, parents: list[Node], node: Node) -> None:
        self.script = script
        self.parents = parents or [script.tree.root_node]
        self.node = node
        self.box = self.parents[-1]
        self.scope = ""
        self.branch: Span = (0, len(script.code))
        self.facts: frozenset[str] = frozenset()
        below = node
        for parent in reversed(self.parents[-MAX_PARENTS:]):
            self._take(parent, below)
            below = parent

    def _take(self, parent: Node, below: Node) -> None:
        """Take over what ``parent`` says of what is in its child ``below``."""
        if parent.type == "heredoc_body":
            self.facts |= {"heredoc"}
        branch = (parent.start_byte, parent.end_byte) if parent.type in _BRANCHES else None
        if parent.type in ("if_statement", "elif_clause", "while_statement"):
            test, body = self.script.branches_of(parent)
            if below.start_byte >= body[0]:
                yes = below.type not in ("elif_clause", "else_clause")
                self.facts |= _asked_by_tests(self.script, test, yes)
                branch = body if yes else None
        elif parent.type == "list" and len(parent.children) == 3 and below.start_byte == parent.children[2].start_byte:
            self.facts |= _asked_by_tests(self.script, parent.children[:1], parent.children[1].type == "&&")
        elif parent.type == "case_item" and below.start_byte > (end := _end_of_patterns(parent)):
            patterns = self.script.code[parent.start_byte : end]
            facts = _asked_by_text(patterns, True)
            self.facts |= facts - {"other-device"} if _GPU.search(patterns) else facts
        elif parent.type == "function_definition" and not self.scope:
            name = parent.child_by_field_name("name")
            self.scope = self.script.text(name) if name is not None else ""
        if branch and self.branch == (0, len(self.script.code)):
            self.branch = branch

    @cached_property
    def command(self) -> str:
        """The name of the program whose argument the word is."""
        return self.script.command_name(self.box)

    @cached_property
    def _at(self) -> int:
        """Which of the words of its box it is."""
        return bisect_left(self.script.words_of(self.box), self.node.start_byte, key=lambda word: word.start_byte)

    @property
    def before(self) -> Node | None:
        """The word before it in the same command or array."""
        return self.script.words_of(self.box)[self._at - 1] if self._at else None

    @property
    def after(self) -> Node | None:
        """The word after it in the same command or array."""
        words = self.script.words_of(self.box)[self._at + 1 : self._at + 2]
        return words[0] if words and words[0].type in _PART else None

    @cached_property
    def words(self) -> list[str]:
        """The first words of its command, as far as they stand before it."""
        words = self.script.words_of(self.box) if self.box.type == "command" else []
        return [self.script.text(each) for each in words[: min(self._at, MAX_WORDS)]]

    @property
    def runs_shell(self) -> bool:
        """Whether the word is a script: the argument of ``eval``, or of ``bash -c`` and the like."""
        return self.command == "eval" or (self._is_program and not self._names_python)

    @property
    def runs_python(self) -> bool:
        """Whether the word is a program for Python: ``python -c '...'``."""
        return self._is_program and self._names_python

    @property
    def _is_program(self) -> bool:
        before = self.before if self.box.type == "command" else None
        return before is not None and re.fullmatch(r"-[a-z]*c", self.script.text(before)) is not None

    @property
    def _names_python(self) -> bool:
        return any(re.fullmatch(r"(?:\S*/)?python[\d.]*", word) for word in self.words)

    @property
    def installs(self) -> bool:
        """Whether the word is what a package installer is to install."""
        return not {"install", "add"}.isdisjoint(self.words) and any(map(_INSTALLER.fullmatch, self.words))

    @property
    def sets_variable(self) -> bool:
        """Whether ``NAME=value`` in this place sets a variable: after ``env``, or ``-e`` as docker has it."""
        before = self.before if self.box.type == "command" else None
        if before is None:
            return False
        if self.script.text(before) in ("-e", "--env"):
            return True
        return self.command == "env" and all("=" in word or word.startswith("-") for word in self.words[1:])

    @property
    def role(self) -> str:
        """The role that the place gives whatever stands there, if it gives one."""
        if self.command in _SAYS:
            return "message"
        if self.box.type == "case_item":
            return "comparison" if self.node.start_byte < _end_of_patterns(self.box) else ""
        return "comparison" if self.box.type in _TESTS or self.command in _LOOKS else ""

    def setting(self) -> _Setting:
        """The setting of a bare word in this place."""
        box, facts = self.box, self.facts
        if box.type == "variable_assignment":
            return self._assigned(box, self.parents[-2] if len(self.parents) > 1 else None)
        if box.type in ("array", "for_statement"):
            owner = self.parents[-2] if box.type == "array" and len(self.parents) > 1 else box
            name = owner.child_by_field_name("name") or owner.child_by_field_name("variable")
            key = self.script.text(name) if name is not None else None
            return _Setting("lookup", key, None, facts | {"in-list"})
        if self.role:
            return _Setting(self.role, facts=facts)
        return _Setting("value", facts=facts | {"argument"})

    def _assigned(self, box: Node, owner: Node | None) -> _Setting:
        name = box.child_by_field_name("name")
        if name is None:
            return _Setting("value", facts=self.facts | {"variable"})
        if name.type == "subscript":
            name = name.child_by_field_name("index") or name
        facts = self.facts | {"variable"}
        if owner is not None and (owner.type == "command" or self._exports(owner)):
            facts |= {"exported"}
        at = self.script.absolute((name.start_byte, name.end_byte))
        return _Setting("value", self.script.text(name).strip("\"'"), None, facts, at)

    def _exports(self, owner: Node) -> bool:
        """``export NAME=...`` or ``declare -x NAME=...``."""
        if owner.type != "declaration_command":
            return False
        words = [self.script.text(child) for child in owner.children if child.end_byte <= self.box.start_byte]
        return words[:1] == ["export"] or any(re.fullmatch(r"-\w*x\w*", word) for word in words)


# What conditions ask.


def _branches(node: Node) -> tuple[list[Node], Span]:
    """The condition of an ``if``, ``elif`` or ``while``, and the span of what it decides about."""
    children = node.children
    at = next((i for i, child in enumerate(children) if child.type in ("then", "do_group")), len(children) - 1)
    body = [child for child in children[at + 1 :] if child.type in ("elif_clause", "else_clause")]
    return children[1:at], (children[at].start_byte, body[0].start_byte if body else node.end_byte)


def _end_of_patterns(case: Node) -> int:
    """Where the patterns of a branch of ``case`` end."""
    return next((child.start_byte for child in case.children if child.type == ")"), case.end_byte)


def _asked_by_tests(script: _Script, tests: list[Node], holds: bool) -> frozenset[str]:
    """The facts of a branch that is taken when all ``tests`` hold, or when they do not."""
    if not tests or tests[-1].end_byte - tests[0].start_byte > MAX_TEST:
        return frozenset()
    facts = _asked(script, tests, holds)
    if _GPU.search(script.code, tests[0].start_byte, tests[-1].end_byte):
        return facts - {"other-device"}
    return facts


def _asked(script: _Script, tests: Iterable[Node], holds: bool) -> frozenset[str]:
    """What each of ``tests`` asks when it holds, or when it does not."""
    facts: frozenset[str] = frozenset()
    for test in tests:
        operators = {child.type for child in test.children}
        if test.type in ("negated_command", "unary_expression") and "!" in operators:
            facts |= _asked(script, test.children[1:], not holds)
        elif test.type in ("test_command", "list", "parenthesized_expression") or operators & {"&&", "||"}:
            facts |= _asked(script, test.children, holds)
        else:
            facts |= _asked_by_text(script.text(test), holds)
    return facts


def _asked_by_text(test: str, holds: bool) -> frozenset[str]:
    """What one comparison asks when it ``holds`` or does not."""
    facts = set()
    lowered = test.lower()
    if _NEGATED.search(lowered):
        holds = not holds
    if not holds:
        return frozenset()
    values = {named[1] for match in _WORD.finditer(test) if (named := _named(match[0]))}
    if "bfloat16" in values:
        facts.add("asks-bf16")
    if values & FLASH_ATTENTION:
        facts.add("asks-flash-attention")
    if _OTHER_DEVICE.search(lowered):
        facts.add("other-device")
    return frozenset(facts)


# From words to values and back.


def _named(word: str) -> Name | None:
    """Kind, value and spelling of a name of interest."""
    lowered = word.lower()
    attention = attention_of(word)
    if attention in FLASH_ATTENTION:
        return "attention", attention, "name"
    dtype = dtype_of(word)
    if dtype is None or "float16" not in dtype[0] or lowered.endswith("half"):
        return None
    return ("dtype", *dtype)


def _switch(key: str, key_path: str, word: str, variable: bool) -> tuple[str, str] | None:
    """The key, in the form of the tables, and the value of a switch that says ``word``."""
    lowered = word.lower()
    parts = key_path.split(".")
    for name in (key, ".".join(parts[-2:])):
        if name.lower() in SWITCH_KEYS and lowered in _BOOLEAN_PAIRS:
            return name, _truth(lowered)
        if lowered in _NAMED.get(name.lower(), ()):
            return name, lowered
    if key in NUMBER_KEYS and _NUMBER.fullmatch(word) and int(word) > 1:
        return key, word
    known = variable and any(fnmatchcase(key, glob) for glob in ENVIRONMENT_KEYS)
    return (key, word) if known and "$" not in word else None


def _twin(name: str) -> str:
    return "FP16" if name.isupper() else "fp16"


def _truth(word: str) -> str:
    return "true" if word == _BOOLEAN_PAIRS[word][0] else "false"


def _stripped(code: str, start: int, end: int) -> Span:
    """The span without the blanks and quotes around what it holds."""
    word = code[start:end].lstrip(_PADDING)
    first = end - len(word)
    return first, first + len(word.rstrip(_PADDING))


def _reads_as_words(content: str) -> bool:
    """Whether text consists of overrides, options and their values, or is a command that runs a program."""
    if _LAUNCH.match(content) and _PROGRAM.search(content):
        return True
    after_option = False
    tokens = [match[0] for match in _TOKEN.finditer(content.replace("\\\r\n", " ").replace("\\\n", " "))]
    for token in tokens:
        if not (_SETTING.match(token) or token.startswith(("$", "#")) or after_option or not token.strip("\\ \t\r\n")):
            return False
        after_option = token.startswith("-") and "=" not in token
    return any(map(_SETTING.match, tokens))


def _spelled(text: str, kind: str, spelling: str, value: str) -> str | None:
    """The source text that says ``value`` in the place of ``text``; None where it would not be one plain word."""
    if kind == "dtype" and value in {canonical for canonical, _ in DTYPE_NAMES.values()}:
        return spell_dtype(value, spelling, like=text)
    if kind == "switch" and value in ("true", "false") and text.lower() in _BOOLEAN_PAIRS:
        return _spelled_boolean(text, value)
    return value if _SAFE.fullmatch(value) else None


def _spelled_boolean(text: str, truth: str) -> str | None:
    """A boolean in the words and the case of ``text``; None where that is no boolean."""
    pair = _BOOLEAN_PAIRS.get(text.lower())
    if pair is None:
        return None
    new = pair[truth == "false"]
    return new.upper() if text.isupper() else new.title() if text.istitle() else new
