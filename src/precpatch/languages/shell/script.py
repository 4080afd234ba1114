"""From the tree of a script to sites: words of commands, arrays and assignments, strings that hold words, Python."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from precpatch.languages import spell
from precpatch.languages.embedded import BY_SUFFIX, language_by_name
from precpatch.languages.shell.around import HANDS_ON, SAYS, Around, Setting
from precpatch.languages.shell.conditions import Conditions
from precpatch.languages.shell.dicts import BEGINS, Entry, values_in
from precpatch.languages.shell.grammar import HOLDS_OPTIONS, KEY, OPENS, OPTION, PART, STARTS, BashTree, Span
from precpatch.languages.shell.looks import reads_as_commands
from precpatch.languages.shell.uses import DEFAULT, REFERENCE, Use, unresolved
from precpatch.languages.site import BOOLEAN, REQUIREMENT, START, TEXT, Site, Slot
from precpatch.languages.spell import SWEEP, SWEPT
from precpatch.vocabulary import Setting as Known
from precpatch.vocabulary import Vocabulary
from precpatch.vocabulary.words import CHOICE

if TYPE_CHECKING:
    from tree_sitter import Node

MAX_DEPTH = 4
"""Strings inside strings inside strings are parsed to this depth."""

WRITES = frozenset({"echo", "printf"})
"""Programs whose arguments are the text of a file where their output goes to one."""

DEVICE_KEYS = frozenset({"device", "device_name"})

_PATH = re.compile(r"(?<![\w.@/-])(?:--[\w.@/-]*|[\w.@/-]+(?==))")
"""What can be the key of a setting: before ``=``, or after ``--``; a long one is gone through once."""

_MOST_KNOWN = 20_000

_EMBEDDED = re.compile(r"""<<(?!<)|\s-[a-z]*c(?:[ \t]|\\\r?\n)+(?=["'])""")
"""Where another language can begin, up to its quote."""

_JOINED = re.compile(r"(?:^|,)(?P<path>[A-Za-z_]\w*)=(?P<value>[\w./-]+|\$\w+|\$\{\w+\})(?=,[A-Za-z_]\w*=|$)")
"""A setting among others in one word: ``pretrained=$MODEL,dtype=bfloat16,tensor_parallel_size=2``."""

_HANDED_ON = re.compile(r"""(?<![\w.-])(?P<path>[A-Za-z_]\w*)=(?P<value>["']?[^\s,=]*)(?=,|["']|$|\s)""")
"""A variable among those that a launcher sets."""

_ENTRY = re.compile(r"""(?<!\$)[{,]\s*\\*["']?(?P<key>[A-Za-z_][\w.-]*)\\*["']?\s*:""")
"""A key of a dict in a word."""

_ENVIRONMENT = re.compile(r"[A-Z][A-Z0-9_]+")
_BLANK = re.compile(r"[ \t\r\n]")
_TOKEN = re.compile(r"""(?:\\[^\r\n]|'[^']*'|"[^"]*"|[^\s'"\\])+""")
_SETTING = re.compile(r"""['"]?(?:\+{1,2}|~|-{1,2})?[A-Za-z_][\w@/-]*(?:\.[\w.@/-]*)?=|['"]?\+{1,2}\w|--?[A-Za-z]""")
_LAUNCH = re.compile(
    r"\s*(?:\w+=\S*\s+)*(?:\S*/)?"
    r"(?:python[\d.]*|torchrun|accelerate|deepspeed|vllm|ray|uv|bash|sh|srun|env|nohup|exec)\s"
)
_BEFORE = re.compile(r"\s*(?:\w+=\S*\s+)*(?:\S*/)?")
_PROGRAM = re.compile(r"\s-m\s|\.(?:py|sh)\b|\s--\w")
_NEXT = re.compile(r"&&|\|\||[;\n]")
_PYTHON = re.compile(r"(?:^|[\s|/;&(])python[\d.]*(?=\s|$)")
_WRITES = re.compile(r"""(?:>|\btee(?:\s+-\w+)*\s)\s*[^\s>|&;]+(?P<suffix>\.(?:py|ya?ml|json))(?=[\s"';|&)]|$)""")
_KEYED = frozenset({"yaml", "json"})
"""Languages in which a key, a colon and a value make a setting."""
_INTO = re.compile(r"""(?:>{1,2}\|?|&>{1,2}|tee(?:\s+-\w+)*\s)\s*["']?(?P<file>[^\s"'>|&;)]+)""")
_WRITTEN = re.compile(r"""\b(?:echo|printf)[ \t]+(?:-\w{1,5}[ \t]+)?(?=["'][\s\S]{0,500}?(?:>|\btee\s))""")
"""Before a text in quotes that may be written to a file."""

_SETS_VARIABLES = re.compile(
    r"(?:.*[/}])?(?:[\w.-]*\.env(?:\.\w+)?|\.(?:bash|zsh)rc|\.(?:bash_|z)?profile|environment)"
)
_MOST_AROUND = 20
"""So many nodes around a word are looked at for the file that it is written to."""

_TAKES_YAML = re.compile(r"(?:^|[\s|;&(])kubectl\s[^|;&]*-f\s+-")
_SHELL = re.compile(r"(?:^|[\s|/;&(])(?:bash|sh|sbatch|ssh)(?=\s|$)|>\s*\S+\.(?:sh|bash|sbatch|slurm)(?=[\s\"']|$)")


_READS_NOTHING = re.compile(r"\s*(?::|true)\s+\d*<<")
"""A command that takes no notice of its here-document: what stands there is commented out."""

_LINE_KEY = re.compile(r"""(?P<indent>[ \t{]*(?:-[ \t]+)*)["']?(?P<key>[A-Za-z_][\w.-]*)["']?[ \t]*:(?=[ \t\r\n]|$)""")
_TAKES_VARIABLE = re.compile(
    r"""(?<![\w.$-])["']?(?P<key>[A-Za-z_][\w.-]*)["']?[ \t]*:[ \t]+"""
    r"""(?P<value>["']?\$(?:\w+|\{(?:[^{}\n]|\$\{[^{}\n]*\})*\})["']?)(?=[ \t,}\]\r\n]|$)"""
)
"""A key with a variable after it, as YAML and JSON write them."""


@dataclass(frozen=True, slots=True)
class Region:
    """Text of another language in a script; where it ``expands``, ``$name`` in it is something else."""

    start: int
    end: int
    facts: frozenset[str]
    scope: str
    expands: bool
    language: str = "python"


class Script:
    """The text of one script, or of a string in one that holds commands; indexes count from the start of the file.

    Attributes:
        sites: the values by where they start.
        regions: the texts of other languages in it.
        uses: the settings that take variables.
        inner: the scripts in it.
        elsewhere: the spans that are for another device.
    """

    def __init__(self, code: str, vocabulary: Vocabulary, shift: int = 0, depth: int = 0) -> None:
        self.code = code
        self.vocabulary = vocabulary
        self.shift = shift
        self.depth = depth
        self.tree = BashTree(code)
        self.conditions = Conditions(self.tree, vocabulary)
        self.sites: dict[int, Site] = {}
        self.regions: list[Region] = []
        self.elsewhere: set[Span] = set()
        self.uses: list[Use] = []
        self.inner: list[Script] = []
        self._done: set[int] = set()
        self._unread: set[int] = set()
        for index in sorted(set(self._spots())):
            self._spot(self.tree.chain(index))

    @classmethod
    def joined(cls, code: str, vocabulary: Vocabulary, parts: Iterable[Span]) -> Script:
        """The scripts that stand at ``parts`` of a text as those of one: none can break another."""
        whole = cls("", vocabulary)
        for start, end in parts:
            inner = cls(code[start:end], vocabulary, start)
            whole.sites |= inner.sites
            whole.regions += inner.regions
            whole.uses += inner.uses
            whole.elsewhere |= inner.elsewhere
            whole.inner.append(inner)
        return whole

    def _spots(self) -> Iterator[int]:
        """Where something of interest can be."""
        words = self.vocabulary
        yield from (match.start() for match in words.names_in(self.code))
        yield from (match.start() for match in words.requirements_in(self.code))
        yield from (match.start() for match in words.starts_in(self.code))
        known: dict[tuple[str, bool], int | None] = words.derived.setdefault("keys of scripts", {})
        if len(known) > _MOST_KNOWN:
            known.clear()
        for match in _PATH.finditer(self.code):
            asked = match[0], self.code.startswith("=", match.end())
            if asked not in known:
                known[asked] = self._key_in(*asked)
            if (length := known[asked]) is not None:
                yield match.end() - length
        for match in _ENTRY.finditer(self.code):
            if self._is_key(match["key"]) or words.setting(match["key"].rpartition(".")[2]) is not None:
                yield match.start("key")
        for match in _EMBEDDED.finditer(self.code):
            yield match.start() if match[0] == "<<" else match.end()
        yield from (match.end() for match in _WRITTEN.finditer(self.code))

    def _key_in(self, word: str, is_assigned: bool) -> int | None:
        """How many characters at the end of a word are the key of a setting or of a device; None where none are."""
        path = word.lstrip("-.@/0123456789")
        if path and (self._is_key(path) or (is_assigned and self.vocabulary.device_variables.match(path))):
            return len(path.rpartition(".")[2]) or len(path)
        return None

    def _is_key(self, path: str) -> bool:
        """Whether a dotted path is that of a setting, or chooses a device."""
        above, _, key = path.replace("-", "_").rpartition(".")
        return key.lower() in DEVICE_KEYS or self.vocabulary.setting(key, above.rpartition(".")[2] or None) is not None

    def prose_role(self, index: int) -> str:
        """The role of a word that decides nothing."""
        chain = self.tree.chain(index)
        if chain[-1].type == "comment":
            return "comment"
        return "message" if any(self.tree.command_name(node) in SAYS for node in chain) else "text"

    def _spot(self, chain: list[Node]) -> None:
        """Look at the word, or the here-document, at the end of ``chain``."""
        at = len(chain) - 1
        while at > 0 and chain[at].type in PART and chain[at - 1].type in PART:
            at -= 1
        node, box = chain[at], chain[max(at - 1, 0)]
        if node.type in OPENS:
            for body in (child for child in box.children if child.type == "heredoc_body"):
                self._heredoc([*chain[:at], body], at)
        elif "heredoc_body" in (node.type, box.type) and node.type != "expansion":
            self._heredoc(chain, at if node.type == "heredoc_body" else at - 1)
        elif box.type == "heredoc_body" and box.start_byte in self._unread:
            return
        elif node.type in PART and box.type != "heredoc_redirect":
            self._word(self.around(chain[:at], node))

    @property
    def all(self) -> Iterator[Script]:
        """The script and those in it."""
        yield self
        for each in self.inner:
            yield from each.all

    def around(self, parents: list[Node], node: Node) -> Around:
        """What stands around a word."""
        return Around(self.tree, self.conditions, parents, node)

    # --- words -------------------------------------------------------------------------------------------------

    def _word(self, around: Around) -> None:
        """A word of a command, an array, an assignment or a test."""
        node = around.node
        if node.type == "variable_name" and around.box.type != "variable_assignment":
            return
        if around.box.type == "variable_assignment":
            if self.vocabulary.device_variables.match(self.tree.text(around.box).partition("=")[0]):
                self.elsewhere.add(self.absolute(around.branch))
            value = around.box.child_by_field_name("value")
            if value is None or value.type not in PART:
                return
            around.node = node = value
        if node.start_byte in self._done:
            return
        self._done.add(node.start_byte)
        start, end = _inner(node)
        language = self._written_language(around) if around.command in WRITES else None
        if language == "shell" and self.depth < MAX_DEPTH:
            self._nested(start, end, around, frozenset({"heredoc"}), role="")
            return
        if language is not None and language != "shell":
            self._region(start, end, around, node.type != "raw_string", language)
            return
        given = self._given_text(around)
        if given is not None and self._holds_words(around, *given):
            self._nested(*given, around)
        elif _is_quoted(node) and self._holds_words(around, start, end):
            self._nested(start, end, around)
        elif node.type in ("string", "raw_string") and around.runs_python:
            self._region(start, end, around, node.type == "string")
        else:
            self._argument(around, *spell.stripped(self.code, node.start_byte, node.end_byte))

    def _given_text(self, around: Around) -> Span | None:
        """The span of a text in quotes that an option or an alias is: ``--wrap="python3 train.py"``."""
        node = around.node
        children = node.children if node.type == "concatenation" else []
        if len(children) != 2 or children[1].type not in ("string", "raw_string"):
            return None
        match = KEY.fullmatch(self.code, children[0].start_byte, children[0].end_byte)
        is_text = match and ((match["mark"] or "").startswith("-") or around.command == "alias")
        return _inner(children[1]) if is_text else None

    def _holds_words(self, around: Around, start: int, end: int) -> bool:
        """Whether a quoted string holds words of a command, not one value or prose."""
        if self.depth >= MAX_DEPTH or around.runs_python:
            return False
        content = self.code[start:end]
        if around.runs_shell or _BLANK.search(content.strip()) is None:
            return around.runs_shell
        return _reads_as_words(content) or self._is_start(content)

    def _is_start(self, content: str) -> bool:
        """Whether text begins with a command that starts a program, and has an option."""
        first = next(self.vocabulary.starts_in(content), None)
        before = _BEFORE.match(content) if first is not None else None
        if first is None or before is None:
            return False
        return before.end() == first.start() and _PROGRAM.search(content) is not None

    def _written_language(self, around: Around) -> str | None:
        """The language of the file that a word is written to: ``echo "dtype: bfloat16" >> config.yaml``."""
        for parent in reversed(around.parents[-_MOST_AROUND:]):
            ends = parent.children[-1:] if parent.type == "pipeline" else parent.children_by_field_name("redirect")
            for match in (_INTO.match(self.tree.text(each)) for each in ends):
                if match is not None:
                    return "shell" if _SETS_VARIABLES.fullmatch(match["file"]) else language_by_name(match["file"])
        return None

    def _nested(
        self, start: int, end: int, around: Around, facts: frozenset[str] = frozenset(), role: str | None = None
    ) -> None:
        """Read the text between ``start`` and ``end`` as a script of its own, in the place ``around``."""
        given = around.role if role is None else role
        is_script = around.runs_shell or "heredoc" in facts or _reads_as_script(self.code[start:end])
        setup = self._setup(around)
        inner = Script(self.code[start:end], self.vocabulary, self.shift + start, self.depth + 1)
        facts |= around.facts
        for site in inner.sites.values():
            found = replace(site, role=given or site.role, facts=site.facts | facts, scope=site.scope or around.scope)
            if not is_script:  # the words of a string: of the command that it is given to, or of any
                found = replace(found, setup=setup)
            self.sites.setdefault(found.start, found)
        self.regions += [replace(each, facts=each.facts | facts) for each in inner.regions]
        if not given:
            self.uses += [
                replace(use, site=replace(use.site, scope=use.site.scope or around.scope)) for use in inner.uses
            ]
        self.inner.append(inner)
        if inner.elsewhere:
            self.elsewhere.add(self.absolute(around.branch))

    def _argument(self, around: Around, start: int, end: int) -> None:
        """One word, which stands without its quotes between ``start`` and ``end``."""
        if self._started(around):
            return
        setting = around.setting()
        match = KEY.match(self.code, start, end)
        if self._handed_on(around, start, end, match):
            return
        if match and (around.box.type != "variable_assignment" or match["mark"] or "." in match["path"]):
            setting = self._keyed(around, match)
            start = match.end()
        elif around.box.type == "variable_assignment":
            if self._is_wheel(start, end):  # installed by the name of the variable
                self._add(around, (start, end), REQUIREMENT, Setting("import", facts=around.facts | {"install"}))
                return
        elif option := OPTION.fullmatch(self.code, start, end):
            self._flag(around, option)
            return
        elif around.installs(self.vocabulary.installers) and self.vocabulary.requirement.search(self.code, start, end):
            place = Setting(around.role or "import", facts=around.facts | {"install"})
            self._add(around, (start, end), REQUIREMENT, place)
            return
        else:
            setting = self._after_option(around, setting)
        names, value = self.referred(start, end, around.scope)
        if BEGINS.match(self.code, *value) and self._dict(around, value, setting):
            return
        if "," in self.code[slice(*value)]:
            self._joined(around, value if match is None else (match.start("path"), value[1]), setting)
        if self._sweep(around, value, setting):
            return
        if DEFAULT.match(self.code, start, end) or value != spell.stripped(self.code, start, end):
            name = next((each for each in reversed(names) if each.isidentifier()), None)
            setting = replace(setting, facts=setting.facts | {"default"})
            if setting.key is None and name is not None:
                setting = replace(setting, key=name, facts=setting.facts - {"argument"} | {"variable"})
        self._value(around, value, setting)
        self._take(around, (start, end), names, value, setting)

    def _started(self, around: Around) -> bool:
        """Tell the program that a command starts with this word, or with it and those after it; whether it does."""
        node = around.node
        if around.box.type not in STARTS or not self.vocabulary.may_start(_unquoted(self.tree.text(node))):
            return False
        first, words = around.run
        found = self.vocabulary.started_by([_unquoted(self.tree.text(each)) for each in words], first)
        if found is None:
            return False
        program, length = found
        span = words[first].start_byte, words[first + length - 1].end_byte
        place = Setting(around.role or "value", program.concept, facts=around.facts)
        self._add(around, span, START, place, program.name)
        return True

    def _handed_on(self, around: Around, start: int, end: int, match: re.Match[str] | None) -> bool:
        """The variables that an option sets for what is run, ``--export=ALL,A=b``; whether the word is such a list."""
        if around.box.type != "command":
            return False
        option = "--" + match["path"] if match and match["mark"] == "--" else ""
        if match is not None and option in HANDS_ON:
            start = match.end()
        elif not around.sets_variable or around.command == "env" or "," not in self.code[start:end]:
            return False
        found = list(_HANDED_ON.finditer(self.code, start, end))
        for each in found:
            facts = around.facts | {"variable", "exported"}
            place = Setting(around.role or "value", each["path"], None, facts, each.span("path"))
            names, value = self.referred(*each.span("value"), around.scope)
            self._value(around, value, place)
            self._take(around, each.span("value"), names, value, place)
        return bool(found)

    def _is_wheel(self, start: int, end: int) -> bool:
        """Whether a word is the file or the address of a package that an installer takes."""
        return (
            self.code.endswith(".whl", start, end)
            and self.vocabulary.requirement.search(self.code, start, end) is not None
        )

    def _take(
        self,
        around: Around,
        span: Span,
        names: tuple[str, ...],
        value: Span,
        setting: Setting,
        *,
        slot: Slot | None = None,
        flag: Site | None = None,
    ) -> None:
        """Note that a setting takes variables."""
        word = self.code[slice(*value)]
        joined = "," in word and "=" in word
        composed = ("$" in word or "`" in word) and not joined and REFERENCE.fullmatch(word) is None
        if setting.role != "value" or not (names or composed):
            return
        if "variable" in setting.facts:
            names = tuple(name for name in names if name != setting.key)
        place = spell.stripped(self.code, *span)
        site = unresolved(self._site(around, place, TEXT, setting, ""))
        site = site if slot is None else replace(site, slot=slot)
        known_setting = self.vocabulary.setting(site.key, site.above) is not None
        if known_setting and (names or (composed and "variable" not in site.facts)):
            known = bool(word) and "$" not in word and "`" not in word
            self.uses.append(Use(names if not composed else (word,), site, known, flag))

    def _joined(self, around: Around, span: Span, setting: Setting) -> None:
        """The settings that stand in one word with commas between them."""
        if setting.role not in ("value", "lookup"):
            return
        for match in _JOINED.finditer(self.code[slice(*span)]):
            key = span[0] + match.start("path"), span[0] + match.end("path")
            place = Setting("value", match["path"], None, around.facts | {"override"}, key)
            value = span[0] + match.start("value"), span[0] + match.end("value")
            if self._names(self.code[slice(*value)]):
                self._add(around, value, TEXT, place)
            names, left = self.referred(*value, around.scope)
            self._take(around, value, names, left, place)

    def _sweep(self, around: Around, span: Span, setting: Setting) -> bool:
        """The values of a setting that is given several, one a run, as Hydra's multirun takes them; whether it is."""
        is_set = not setting.facts.isdisjoint({"override", "option"}) and setting.role == "value"
        match = SWEEP.fullmatch(self.code, *span) if is_set and "," in self.code[slice(*span)] else None
        above = (setting.key_path or "").rpartition(".")[0].rpartition(".")[2]
        if match is None or not setting.key or self.vocabulary.setting(setting.key, above or None) is None:
            return False
        each = replace(setting, facts=setting.facts | {"in-list"})
        for item in SWEPT.finditer(self.code, *match.span("items")):
            self._value(around, item.span(), each)
        return True

    def _names(self, word: str) -> bool:
        """Whether a word names a dtype or an attention implementation."""
        return (self.vocabulary.dtype_of(word) or self.vocabulary.attention_of(word)) is not None

    def referred(self, start: int, end: int, scope: str = "") -> tuple[tuple[str, ...], Span]:
        """The variables that a word takes its value from, and the span of what is left: a default, or the last of them.

        An argument of the function ``scope`` goes by the name of the function and its number.
        """
        start, end = spell.stripped(self.code, start, end)
        names = []
        while (match := DEFAULT.match(self.code, start, end)) and self.code[end - 1] == "}":
            if not match["how"].endswith("+"):
                names.append(match["name"])
            start, end = spell.stripped(self.code, match.end(), end - 1)
        if last := REFERENCE.fullmatch(self.code, start, end):
            names.append(last["plain"] or last["name"])
        return tuple(f"{scope}:{name}" if scope and name.isdigit() else name for name in names), (start, end)

    # --- dicts ---------------------------------------------------------------------------------------------------

    def _dict(self, around: Around, span: Span, setting: Setting) -> bool:
        """The values of a dict or a list in a word; whether it is one."""
        if setting.role not in ("value", "lookup"):
            return False
        outer = setting.key_path if "override" in setting.facts else None
        found = False
        for value in values_in(self.code, *span):
            found = True
            keys = value.entry.path
            facts = (setting.facts - {"argument", "variable", "exported", "in-list"}) | {"override"}
            if _ENVIRONMENT.fullmatch(value.entry.key):
                facts = around.facts | {"variable", "exported"}
            role = "lookup" if value.in_list else "value"
            facts |= {"in-list"} if value.in_list else frozenset()
            path = f"{outer}.{keys}" if outer else keys
            place = Setting(role, value.entry.key, path, facts, value.entry.span)
            names, left = self.referred(*value.span, around.scope)
            slot = self._entry_slot(value.entry)
            self._value(around, left, place, slot)
            self._take(around, value.span, names, left, place, slot=slot)
        return found

    def _entry_slot(self, entry: Entry) -> Slot:
        """The slot of a key in a dict, with that of the key above it."""
        box = box_number(self.absolute(entry.box))
        above = self._entry_slot(entry.above) if entry.above is not None else None
        return Slot(entry.key, *self.absolute(entry.span), box, above=above)

    # --- settings ------------------------------------------------------------------------------------------------

    def _keyed(self, around: Around, match: re.Match[str]) -> Setting:
        """The setting of an override, of an option with ``=`` or of a variable among arguments."""
        path, mark = match["path"], match["mark"] or ""
        name = match.span("path")
        if not mark and "." not in path and around.sets_variable:
            return Setting(around.role or "value", path, None, around.facts | {"variable", "exported"}, name)
        key = path.rpartition(".")[2]
        facts = around.facts | {"override"}
        if mark.startswith("-"):
            key, facts = key.replace("-", "_"), around.facts | ({"option", "override"} if "." in path else {"option"})
        role = "comparison" if mark == "~" else "value"
        return Setting(around.role or role, key, path if "." in path or "override" in facts else None, facts, name)

    def _after_option(self, around: Around, setting: Setting) -> Setting:
        """The setting of a word, which is that of the option before it where there is one."""
        before = around.before if around.box.type in HOLDS_OPTIONS else None
        option = OPTION.fullmatch(self.code, before.start_byte, before.end_byte) if before is not None else None
        if option is None or around.role == "comparison":
            return setting
        key = option["path"].rpartition(".")[2].replace("-", "_")
        key_path = option["path"] if "." in option["path"] else None
        return Setting(around.role or "value", key, key_path, around.facts | {"option"}, option.span("path"))

    def _flag(self, around: Around, option: re.Match[str]) -> None:
        """An option that is a switch: with the word after it where that is a boolean, else alone."""
        path = option["path"].replace("-", "_")
        above, _, key = path.rpartition(".")
        known = self.vocabulary.setting(key, above.rpartition(".")[2] or None)
        if around.role == "comparison" or known is None:
            return
        setting = Setting(
            around.role or "value", key, path if above else None, around.facts | {"cli-flag"}, option.span("path")
        )
        after = around.after
        if after is not None:
            names, argument = self.referred(after.start_byte, after.end_byte, around.scope)
            word = self.code[slice(*argument)].lower()
            if spell.is_boolean(word, numbers=True) or not (word.startswith("-") or self._is_flag(known, word)):
                self._word(self.around(around.parents, after))
                return
            if names and word.startswith("$"):
                taken = replace(setting, facts=setting.facts - {"cli-flag"} | {"option"})
                flag = None if key.lower() in word else self._site(around, option.span(), BOOLEAN, setting, "true")
                self._take(
                    self.around(around.parents, after),
                    (after.start_byte, after.end_byte),
                    names,
                    argument,
                    taken,
                    flag=flag,
                )
                return
        self._add(around, option.span(), BOOLEAN, setting, "true")

    def _is_flag(self, known: Known, word: str) -> bool:
        """Whether an option stands without a value before ``word``: one that takes a boolean or a word such as auto."""
        if known.takes == {BOOLEAN}:
            return True
        is_either = known.takes == {BOOLEAN, CHOICE} and known.choices <= self.vocabulary.ordinary
        return is_either and word not in known.choices

    def _value(self, around: Around, span: Span, setting: Setting, slot: Slot | None = None) -> None:
        """The word at ``span`` as the value of a setting, or as a bare word."""
        word = self.code[slice(*span)]
        key = setting.key or ""
        if key.lower() in DEVICE_KEYS:
            if setting.role == "value" and self.vocabulary.is_other_device(word):
                self.elsewhere.add(self.absolute(around.branch))
            if not self._names(word):
                return
        if word:
            form = spell.form_of(word, numbers=True)
            site = self._site(around, span, form, setting, word)
            self.sites.setdefault(site.start, site if slot is None else replace(site, slot=slot))

    def _add(self, around: Around, span: Span, form: str, setting: Setting, word: str | None = None) -> None:
        site = self._site(around, span, form, setting, self.code[slice(*span)] if word is None else word)
        self.sites.setdefault(site.start, site)

    def _site(self, around: Around, span: Span, form: str, setting: Setting, word: str) -> Site:
        start, end = self.absolute(span)
        slot = None
        if setting.name is not None and setting.key is not None:
            first, last = self.absolute(setting.name)
            box = self.absolute((around.box.start_byte, around.box.end_byte))
            name = self.code[slice(*setting.name)]
            above = name.replace("-", "_").rpartition(".")[0].rpartition(".")[2]
            slot = Slot(
                name,
                first,
                last,
                box_number(box),
                above=Slot(above) if above else None,
                renames="variable" not in setting.facts,
            )
        return Site(
            start,
            end,
            form,
            word,
            setting.role,
            slot=slot,
            key=setting.key,
            key_path=setting.key_path,
            scope=around.scope,
            facts=setting.facts,
            setup=self._setup(around),
        )

    def _setup(self, around: Around) -> int:
        """The command that a word is an argument of; what an array or a variable holds may go with any command."""
        box = around.box
        return box_number(self.absolute((box.start_byte, box.end_byte))) if box.type == "command" else 0

    def absolute(self, span: Span) -> Span:
        """The span counted from the start of the file's text."""
        return span[0] + self.shift, span[1] + self.shift

    # --- Python and here-documents -----------------------------------------------------------------------------

    def _heredoc(self, chain: list[Node], at: int) -> None:
        """Read a here-document: as Python, as a script, or line by line where the lines are words of a command."""
        body = chain[at]
        if body.start_byte in self._done:
            return
        self._done.add(body.start_byte)
        around = self.around(chain[:at], body)
        statement = next((node for node in reversed(chain[:at]) if node.type == "redirected_statement"), chain[at - 1])
        start = self.code.rfind("\n", 0, body.start_byte) + 1
        head = self.code[statement.start_byte : start]
        if _READS_NOTHING.match(head):
            self._unread.add(body.start_byte)
            return
        opened = next((each for each in chain[at - 1].children if each.type == "heredoc_start"), None)
        quoted = opened is not None and self.code[opened.start_byte] in "'\"\\"
        written = _WRITES.search(head)
        if written or _PYTHON.search(head) or _TAKES_YAML.search(head):
            yaml = _TAKES_YAML.search(head)
            language = BY_SUFFIX[written["suffix"]] if written else "yaml" if yaml else "python"
            self._region(start, body.end_byte, around, not quoted, language)
            if language in _KEYED and not quoted:
                self._keyed_lines(start, body.end_byte, around)
        elif self.depth < MAX_DEPTH and _SHELL.search(head):
            self._nested(start, body.end_byte, around, frozenset({"heredoc"}))
        elif self.depth < MAX_DEPTH:
            self._heredoc_lines(start, body.end_byte, around)

    def _heredoc_lines(self, start: int, end: int, around: Around) -> None:
        while start < end:
            stop = self.code.find("\n", start, end) + 1 or end
            line = self.code[start:stop]
            if ("=" in line or "--" in line or next(self.vocabulary.names_in(line), None)) and _reads_as_words(line):
                self._nested(start, stop, around, frozenset({"heredoc"}))
            start = stop

    def _keyed_lines(self, start: int, end: int, around: Around) -> None:
        """The settings of a file in a here-document that take variables of the script; its key says what a value is."""
        above: list[tuple[int, str]] = []
        for line in re.finditer(r"[^\n]+", self.code[start:end]):
            first = start + line.start()
            head = _LINE_KEY.match(line[0])
            if head is not None:
                while above and above[-1][0] >= len(head["indent"]):
                    above.pop()
            for match in _TAKES_VARIABLE.finditer(line[0]) if not line[0].lstrip().startswith("#") else ():
                is_first = head is not None and match.start("key") == head.start("key")
                outer = above[-1][1] if is_first and above else head["key"] if head and not is_first else ""
                self._keyed_value(around, first, match, outer)
            if head is not None:
                above.append((len(head["indent"]), head["key"]))

    def _keyed_value(self, around: Around, first: int, match: re.Match[str], outer: str) -> None:
        """The value after a key in a line that starts at ``first``, as that of the setting under ``outer``."""
        path, _, key = f"{outer}.{match['key']}".lstrip(".").rpartition(".")
        above = path.rpartition(".")[2]
        if self.vocabulary.setting(key, above or None) is None:
            return
        facts = around.facts | {"heredoc"} | ({"variable", "exported"} if _ENVIRONMENT.fullmatch(key) else set())
        place = Setting("value", key, f"{path}.{key}" if path else key, facts)
        slot = Slot(key, above=Slot(above) if above else None, renames=False)
        span = first + match.start("value"), first + match.end("value")
        names, value = self.referred(*span, around.scope)
        default = {"default"} if value != spell.stripped(self.code, *span) else set()
        self._value(around, value, replace(place, facts=facts | default), slot)
        self._take(around, span, names, value, place, slot=slot)

    def _region(self, start: int, end: int, around: Around, expands: bool, language: str = "python") -> None:
        facts = around.facts | {"heredoc"}
        self.regions.append(Region(*self.absolute((start, end)), facts, around.scope, expands, language))


def box_number(span: Span) -> int:
    """The number of a command or an array, by its place."""
    return (span[0] << 32) | span[1]


def box_span(number: int) -> Span:
    """The place of the command or the array with a number."""
    return number >> 32, number & 0xFFFFFFFF


def _is_quoted(node: Node) -> bool:
    """Whether a word stands in quotes; also one with more quotes in it: ``"a=1 betas="[0.9,0.95]" b=2"``."""
    if node.type == "concatenation" and len(node.children) > 1:
        return node.children[0].type == node.children[-1].type == "string"
    return node.type in ("string", "raw_string")


def _unquoted(word: str) -> str:
    """A word without the quotes right around it."""
    return word[1:-1] if len(word) > 1 and word[0] == word[-1] and word[0] in "\"'" else word


def _inner(node: Node) -> Span:
    """The span of a word without the quotes right around it."""
    quoted = _is_quoted(node) and node.end_byte - node.start_byte > 1
    return (node.start_byte + 1, node.end_byte - 1) if quoted else (node.start_byte, node.end_byte)


def _reads_as_words(content: str) -> bool:
    """Whether text consists of overrides, options and their values, or is a command that runs a program."""
    if (_LAUNCH.match(content) and _PROGRAM.search(content)) or _reads_as_script(content):
        return True
    after_option = False
    tokens = [match[0] for match in _TOKEN.finditer(content.replace("\\\r\n", " ").replace("\\\n", " "))]
    for token in tokens:
        if not (_SETTING.match(token) or token.startswith(("$", "#")) or after_option or not token.strip("\\ \t\r\n")):
            return False
        after_option = token.startswith("-") and "=" not in token
    return any(map(_SETTING.match, tokens))


def _reads_as_script(content: str) -> bool:
    """Whether text is several commands, one of which runs a program: ``cd /w && python3 train.py``."""
    commands = _NEXT.split(content)
    if len(commands) < 2 or not reads_as_commands(content):
        return False
    return any(_LAUNCH.match(each) and _PROGRAM.search(each) for each in commands)
