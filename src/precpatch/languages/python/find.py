"""Finding the places in a tree that may say something: names of dtypes, literals under a key, imports, calls.

What comes out is neutral: where it stands, what it says, and its role. Whether that means anything is for the teller.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice, pairwise
from pathlib import PurePosixPath

from precpatch.languages import site as forms
from precpatch.languages import spell
from precpatch.languages.python import fold, imports, own_label, starts
from precpatch.languages.python.conditions import Conditions
from precpatch.languages.python.flows import Flows
from precpatch.languages.python.names import Names
from precpatch.languages.python.reinterpreted import Views
from precpatch.languages.python.roles import Role, Roles, option_key
from precpatch.languages.python.slots import Slots
from precpatch.languages.python.tree import FUNCTIONS, Ancestors, Tree, dotted, last_name, scope_of, string
from precpatch.languages.site import Site
from precpatch.languages.source import SourceFile
from precpatch.languages.tell import Name
from precpatch.languages.twins import twin_of
from precpatch.languages.words_of_text import Word, settings_in
from precpatch.vocabulary import Program, Setting, Vocabulary
from precpatch.vocabulary.needles import needles_of_words
from precpatch.vocabulary.words import BOOLEAN, NUMBER

_OVERRIDE = re.compile(r"(?:--)?[+~]{0,2}(?P<key>[A-Za-z_][\w./@-]*)=(?P<quote>['\"]?)(?P<value>[\w./?:+-]+)(?P=quote)")
_IN_COMMAND = re.compile(
    r"(?<![\w.])(?:(?:(?<=,)|\A(?=\S+,))(?P<pair>\w+)=|[+]{0,2}(?:[A-Za-z_]\w*\.)+[A-Za-z_]\w*=|(?P<key>\w+)(?:['\"]\s*:\s*|\s*:\s+)|"
    r"--(?P<option>[\w.-]+)[ =])['\"]?(?P<value>[A-Za-z]\w*)\b"
)
_FLAG = re.compile(r"--([A-Za-z]\w*)")
_TABLE = re.compile(r"(?i)\w*dtypes?(?:_(?:map|mapping|table|dict))?")
"""The name of a table that gives dtypes by their names, wherever it stands."""

_CONVERTS = re.compile(r"(?i)dtype\w*\Z")
"""The name of a function that makes a dtype of a name."""

_ENUM = re.compile(r"[A-Z]\w*[a-z]\w*")
_SCALER = re.compile(r"(?i)grad_?scal|loss_?scaler|\bscaler|_scaler\b|scale_loss")
"""What a file says that scales its gradients; a scaler of something else, such as an auxiliary loss, is none."""

_LEADS_ON = (ast.IfExp, ast.BoolOp, ast.Call, ast.Attribute, ast.keyword)
"""What a name goes through on its way to where it is looked up."""

_MAKES_OTHER = frozenset({"replace", "format", "join", "translate"})
"""Methods that make another text, so that what stands in it is not the name."""

_TAKERS: dict[str, tuple[type[ast.AST], ...]] = {"parameter-default": FUNCTIONS, "class-default": (ast.ClassDef,)}
"""What reads a default that is declared in it."""

_RUNS_CODE = frozenset({"builtins.exec", "builtins.eval", "builtins.compile"})

_SPEAKS = frozenset({"docstring", "message", "comparison", "key"})
"""The roles of a text that only speaks of what it holds."""

_MOST_FALLBACKS = 30
"""So many sets of names that may be None are looked for in one file."""

_MOST_PARTS = 100
_MAX_OVERRIDE = 1000
"""A string of more characters than this is no single override."""

_MOST_AROUND = 100
"""So many nodes around a value are looked at for what it is set in."""


_HOLDS_SEVERAL = (ast.Call, ast.Dict, ast.List, ast.Tuple, ast.Set)
_ADDS = frozenset(
    {"add_argument", "append", "extend", "insert", "add", "setdefault", "update", "setattr", "set_struct"}
)
"""Functions and methods that add one value to what is made elsewhere."""


@dataclass
class Found:
    """A place in the tree; ``start`` and ``end`` are character indexes."""

    form: str
    word: str
    start: int
    end: int
    role: Role
    node: ast.AST
    ancestors: Ancestors

    @property
    def scope(self) -> str:
        """Qualified name of the classes and functions around it."""
        return scope_of(self.ancestors)


class Finder:
    """Finds the places of one file."""

    def __init__(self, source: SourceFile, vocabulary: Vocabulary) -> None:
        self.source = source
        self.vocabulary = vocabulary
        self.tree = Tree(source)
        self.names = Names(self.tree, vocabulary)
        self.roles = Roles(self.tree, self.names, vocabulary)
        self.slots = Slots(self.tree)
        self.flows = Flows(self.tree)
        self.views = Views(self.tree, self.names, vocabulary)
        self._taken: dict[int, ast.Constant] = {}
        self._untested: dict[frozenset[str], bool] = {}
        self.nodes = list(self.tree.walk(self._lines()))
        self.conditions = Conditions(self.tree, vocabulary, {})
        self.conditions.lists.update(self._named_lists())
        self.other_device = self.conditions.is_other_device()
        self._promised = vocabulary.named_in(PurePosixPath(source.path).stem, "bfloat16")

    def _lines(self) -> list[int]:
        """The lines that can hold a value: those with a word of the vocabulary or the name of an imported dtype."""
        names = [local.encode() for local in (*self.names.dtypes, *self._typed, *self._compiling, *self._starting())]
        stems = [f"{quote}{stem}".encode() for stem in self.vocabulary.half_stems for quote in "\"'"]
        return self.tree.lines_with(
            needles_of_words(self.vocabulary), (b"getattr(", b"eval(", b".from_pretrained(", *names, *stems)
        )

    @cached_property
    def _typed(self) -> dict[str, str]:
        """The names of the types of tensors and storages that the file imports from torch."""
        found = {local: full.rpartition(".") for local, full in self.names.functions.items()}
        return {
            local: name
            for local, (module, _, name) in found.items()
            if name in self.vocabulary.types and module in {"torch", "torch.cuda"}
        }

    @property
    def _compiling(self) -> Iterator[str]:
        """The names under which the file imports a function that is told where it is called."""
        return (local for local, full in self.names.functions.items() if full in self.vocabulary.calls)

    def _starting(self) -> Iterator[str]:
        """The names by which the file calls a class that starts a program, where they are not those of the class."""
        for local, full in self.names.functions.items():
            if not full.endswith(f".{local}") and self.vocabulary.started_by_call(full) is not None:
                yield f"{local}("
                yield f"{local}."

    def _named_lists(self) -> dict[str, set[str]]:
        """The file's own lists of names: ``BFLOAT_LIST = ["bf16", ...]`` -> what is in them."""
        lists: dict[str, set[str]] = {}
        for node, _ in self.nodes:
            if isinstance(node, ast.Assign) and isinstance(node.value, (ast.List, ast.Tuple, ast.Set)):
                values = self.conditions.values_in(node.value)
                if values and (name := last_name(node.targets[0])):
                    lists[name] = values
        return lists

    @cached_property
    def knows_scaler(self) -> bool:
        """Whether the file speaks of a gradient scaler anywhere."""
        text = self.source.text
        return "scal" in text.lower() and _SCALER.search(text) is not None

    def find(self) -> Iterator[Found]:
        """Every place, those of one statement in the order of the tree."""
        self._follow()
        for literal, above in self.flows.literals():
            yield from self.constant(literal, above)
        for node, ancestors in self.nodes:
            look = _LOOKS.get(type(node))
            if look is not None:
                yield from look(self, node, ancestors)

    # --- values that are given a name first --------------------------------------------------------------------

    def _follow(self) -> None:
        """Find out what the named values of the file are used for."""
        names = {name for node, ancestors in self.nodes for name in self._may_hold(node, ancestors)}
        self.flows.look_up(name for name in names if self.vocabulary.setting(name) is None)
        places = (place for place in (*self.nodes, *self.flows.places) if fold.is_composed(place[0]))
        composed = {id(node): (node, ancestors) for node, ancestors in places}
        for node, ancestors in composed.values():
            for each in (*self.composed(node, ancestors), *self.filled(node, ancestors)):
                given = self._taken.get(id(each.node))
                if given is not None:
                    self.flows.give(given, each.role)
        self.flows.take(self._use)

    def _may_hold(self, node: ast.AST, ancestors: Ancestors) -> Iterator[str]:
        """The names that may hold a value: given the name of a dtype, or used where a setting takes it."""
        parent = ancestors[-1] if ancestors else None
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            if self.vocabulary.is_looked_for(node.value.removeprefix("torch.")):
                yield from _names_given(node, ancestors)
        elif isinstance(node, (ast.Name, ast.Attribute)) and self._is_given_to_setting(parent, node, ancestors):
            yield node.id if isinstance(node, ast.Name) else node.attr

    def _is_given_to_setting(self, parent: ast.AST | None, node: ast.expr, ancestors: Ancestors) -> bool:
        """Whether a name is the value of a setting, or a part of a text that may be an override."""
        key = None
        if isinstance(parent, ast.keyword):
            key = parent.arg
            if fold.is_composed(ancestors[-2]):
                return True
        elif isinstance(parent, ast.Dict):
            at = self.tree.place_of(node, parent.values)
            key = string(parent.keys[at]) if at is not None else None
        elif isinstance(parent, ast.Assign):
            key = last_name(parent.targets[0]) if parent.value is node else None
        elif isinstance(parent, ast.FormattedValue):
            return True
        elif isinstance(parent, ast.Tuple) and len(ancestors) > 1:  # "a=%s b=%s" % (x, y)
            return fold.is_composed(ancestors[-2])
        elif isinstance(parent, (ast.BinOp, ast.Call)):
            return (
                parent.func is not node and fold.is_composed(parent)
                if isinstance(parent, ast.Call)
                else _adds_text(parent)
            )
        return self.vocabulary.setting(key) is not None or key in self.vocabulary.qualified

    def _use(self, node: ast.expr, ancestors: Ancestors) -> Role | None:
        """What a use of a named value says of it."""
        looked_up = self._looked_up(node, ancestors)
        if looked_up is not None:
            return looked_up
        literal = self.flows.literal(node, ancestors)
        asked = self._asked_of_table(node, ancestors, str(literal.value)) if literal is not None else None
        if asked is not None:
            return asked
        if isinstance(ancestors[-1], ast.Match) and self._answers_half(ancestors[-1], ancestors):
            return Role("value", last_name(node), allowed=self.conditions.names_in_match(ancestors[-1]))
        role = self.roles.of(node, ancestors)
        setting = self.vocabulary.setting(role.key)
        if role.name == "value" and setting is not None:
            is_told = NUMBER in setting.takes and literal is not None  # where it stands, and not where it is taken
            return role if is_told or not setting.unresolved else None
        if role.name == "value" and _CONVERTS.search(role.callee or ""):
            return role
        if role.name == "comparison" and role.test is not None and self._chooses_half(role.test, ancestors):
            return replace(role, name="value", key=last_name(node))
        return None

    def _as_object(self, call: ast.expr, ancestors: Ancestors) -> Role:
        """The role of a dtype whose name is looked up in torch."""
        role = self.roles.of(call, ancestors)
        return replace(role, facts=role.facts | {"object"})

    def _chooses_half(self, test: ast.Compare, ancestors: Ancestors) -> bool:
        """``if name == "bf16": dtype = torch.bfloat16``."""
        if "asks-bf16" not in self.conditions.asked_by(test).yes:
            return False
        branch = next((each for each in reversed(ancestors) if isinstance(each, (ast.If, ast.IfExp))), None)
        if branch is None or branch.test is not test:
            return False
        return self._holds_half(branch.body if isinstance(branch.body, list) else [branch.body], ancestors)

    def _answers_half(self, match: ast.Match, ancestors: Ancestors) -> bool:
        """``case "bf16": dtype = torch.bfloat16``."""
        cases = [each for each in match.cases if "bfloat16" in self.conditions.values_of_case(each)]
        return any(self._holds_half(each.body, ancestors) for each in cases)

    def _holds_half(self, body: list[ast.stmt] | list[ast.expr], ancestors: Ancestors) -> bool:
        """Whether torch's bfloat16 stands in one of these."""
        return any(
            self.vocabulary.torch_dtypes.get(each.attr) == "bfloat16" and self.names.is_torch(each.value, ancestors)
            for part in body
            for each in ast.walk(part)
            if isinstance(each, ast.Attribute)
        )

    # --- texts that are put together ---------------------------------------------------------------------------

    def composed(self, node: ast.AST, ancestors: Ancestors) -> Iterator[Found]:
        """A text that is put together: the name of a dtype, or an override."""
        if not fold.is_composed(node) or fold.is_inside(ancestors) or not isinstance(node, ast.expr):
            return
        above = (*ancestors, node)
        parts = fold.parts_of(node, lambda each: self.flows.literal(each, above))
        text = fold.text_of(parts) if parts and len(parts) < _MOST_PARTS else ""
        if not parts or not text:
            return
        match = _OVERRIDE.fullmatch(text.strip()) if len(text) < _MAX_OVERRIDE else None
        if match is not None:
            at = text.index(text.strip())
            start, end = match.span("value")
            found = self._at_part(node, ancestors, parts, match["value"], (start + at, end + at))
            found.form = spell.form_of(match["value"])
            part = fold.part_with(parts, start + at, end + at)
            if part is not None and part.node is None:
                found.form, found.word = forms.UNRESOLVED, ""
            self._override_role(found, match["key"])
            yield found
        elif self.vocabulary.is_looked_for(text.removeprefix("torch.")) and not self._is_getattr_name(node, ancestors):
            found = self._at_part(node, ancestors, parts, text, self._named_in(text))
            found.role = self._looked_up(node, ancestors) or found.role
            if found.node is node:
                found.role.facts.add("composed")
            yield found

    def filled(self, node: ast.AST, ancestors: Ancestors) -> Iterator[Found]:
        """The settings of a command that is put together, where their values are what fills it in."""
        if not fold.is_composed(node) or fold.is_inside(ancestors) or not isinstance(node, ast.expr):
            return
        above = (*ancestors, node)
        parts = fold.parts_of(node, lambda each: self.flows.literal(each, above)) or []
        if not 1 < len(parts) < _MOST_PARTS or not _is_filled(parts):
            return
        text = fold.text_of(parts)
        for word in (*settings_in(text, self.vocabulary), *self._names_set_in(text)):
            part = fold.part_with(parts, word.start, word.end)
            if part is None or part.node is None or part.text != word.value:
                continue
            found = self._at_part(node, ancestors, parts, word.value, (word.start, word.end))
            if found.node is not node and found.role.name not in _SPEAKS:
                found.form = word.form
                found.role = Role("value", word.key, word.path, facts={"override"})
                yield found

    def _names_set_in(self, text: str) -> Iterator[Word]:
        """The dtypes and implementations that a command names for a setting."""
        for match in islice(_IN_COMMAND.finditer(text), _MOST_PARTS):
            path = match[0][: match.start("value") - match.start()].strip(" \t=:'\"+-")
            key = path.rpartition(".")[2].replace("-", "_")
            if self.vocabulary.is_looked_for(match["value"]) and self.vocabulary.is_of(key, "precision", "attention"):
                yield Word(path, key, match["value"], forms.TEXT, match.start(), *match.span("value"), frozenset())

    def _named_in(self, text: str) -> tuple[int, int]:
        """Where the name of a dtype stands in a text that is its name, with the module before it or without."""
        return len(text) - len(text.removeprefix("torch.")), len(text)

    def _at_part(
        self, node: ast.expr, ancestors: Ancestors, parts: list[fold.Part], word: str, span: tuple[int, int]
    ) -> Found:
        """The place of a word of a text: the literal that says it, else the text as a whole."""
        found = self.at(forms.TEXT, word, node, ancestors)
        part = fold.part_with(parts, *span)
        literal = part.node if part is not None else None
        if literal is None:
            return found
        is_given = not _is_below(literal, node)
        if is_given:
            self._taken[id(literal)] = literal
        if is_given or not isinstance(node, ast.JoinedStr):
            found.node, found.start, found.end = literal, self.tree.start(literal), self.tree.end(literal)
        return found

    def _override_role(self, found: Found, key: str) -> None:
        """The role of the value of an override."""
        found.role.facts.add("override")
        if found.role.name in {"value", "lookup", "text"}:
            path = key.lstrip("-")
            found.role = replace(found.role, name="value", key=path.rpartition(".")[2], key_path=path)

    def site(self, found: Found) -> Site:
        """The place as grammar sees it, but for its scope and its setup."""
        role = found.role
        return Site(
            found.start,
            found.end,
            found.form,
            found.word,
            role.name,
            slot=self._slot(found),
            key=role.key,
            key_path=role.key_path,
            callee=role.callee,
            facts=frozenset(role.facts),
            allowed=role.allowed,
        )

    def setup(self, found: Found) -> int:
        """The class or the statement whose values are set together; what is added or assigned alone may go with any.

        What stands in one command in a string is set by that.
        """
        if "embedded" in found.role.facts:
            return self.tree.start(found.node) + 1
        ancestors = found.ancestors
        near = ancestors[-_MOST_AROUND:]
        at = next((at for at in range(len(near) - 1, -1, -1) if isinstance(near[at], ast.stmt)), None)
        if at is None:
            return 0
        statement, within = near[at], near[at + 1 :]
        if at and isinstance(near[at - 1], ast.ClassDef):
            return self.tree.start(near[at - 1]) + 1
        calls = [node for node in within if isinstance(node, ast.Call)]
        alone = isinstance(statement, ast.AugAssign) or not any(isinstance(node, _HOLDS_SEVERAL) for node in within)
        if alone or (calls and _adds(calls[0])):
            return 0
        return self.tree.start(statement) + 1

    def _slot(self, found: Found) -> forms.Slot | None:
        """The key with its place, where that matters: for a switch, and for a key that needs the one above it."""
        key = found.role.key
        if key is None or found.role.name not in ("value", "switch") or found.form not in (forms.TEXT, forms.BOOLEAN):
            return None
        if found.form == forms.BOOLEAN or key in self.vocabulary.qualified:
            return self.slots.of(found.node, found.ancestors)
        return None

    # --- what a node says --------------------------------------------------------------------------------------

    def at(self, form: str, word: str, node: ast.AST, ancestors: Ancestors, role: Role | None = None) -> Found:
        """The node as a place; its role is climbed for where it is not known."""
        role = (self._flowed(node, ancestors) or self.roles.of(node, ancestors)) if role is None else role
        return Found(form, word, self.tree.start(node), self.tree.end(node), role, node, ancestors)

    def _flowed(self, node: ast.AST, ancestors: Ancestors) -> Role | None:
        """The role of the literal of a definition, by its uses; what its own place says of it stays."""
        role = self.flows.roles.get(id(node))
        if role is None:
            return None
        own = self.roles.of(node, ancestors)
        return replace(role, facts=role.facts | own.facts - {"alias"}, allowed=own.allowed or role.allowed)

    def name(self, node: ast.Name, ancestors: Ancestors) -> Iterator[Found]:
        """An imported dtype; ``bfloat16`` from a star import or another module is not certain to be one."""
        imported = self.names.imported_dtype(node, ancestors)
        if imported:
            yield self.at(forms.OBJECT, imported.value, node, ancestors)
        elif self._may_be_dtype(node) and not self.names.is_shadowed(node.id, ancestors):
            found = self.at(forms.OBJECT, self._half_dtypes[node.id], node, ancestors)
            found.role.facts.add("unresolved")
            yield found
        elif self.names.functions.get(node.id) in self.vocabulary.calls and isinstance(node.ctx, ast.Load):
            if not self.names.is_shadowed(node.id, ancestors):
                yield from self._compiled(self.names.functions[node.id], node, ancestors)
        elif node.id in self._typed and not self.names.is_shadowed(node.id, ancestors):
            found = self.at(forms.TYPE, self._typed[node.id], node, ancestors)
            found.role.facts.add("unresolved")
            yield found
        yield from self._gate(node, ancestors)

    def _may_be_dtype(self, node: ast.Name) -> bool:
        return node.id in self._half_dtypes and isinstance(node.ctx, ast.Load)

    @cached_property
    def _half_dtypes(self) -> dict[str, str]:
        """The names of torch's dtypes that the rules look for and that are no ordinary words."""
        names = self.vocabulary.torch_dtypes.items()
        kept = self.vocabulary.quiet | self.vocabulary.ordinary
        return {name: value for name, value in names if value not in kept and name not in kept and value != "float16"}

    def attribute(self, node: ast.Attribute, ancestors: Ancestors) -> Iterator[Found]:
        """``torch.bfloat16``, ``x.bfloat16()``, ``torch.compile``, or a member of an enum."""
        value = self.vocabulary.torch_dtypes.get(node.attr)
        if value is not None and value not in self.vocabulary.quiet and self.names.is_torch(node.value, ancestors):
            yield self.at(forms.OBJECT, value, node, ancestors)
        elif node.attr in self.vocabulary.types and self._is_of_torch(node.value, ancestors):
            yield self.at(forms.TYPE, node.attr, node, ancestors)
        elif node.attr in self.vocabulary.methods and self._is_cast(node, ancestors):
            found = self.at(forms.METHOD, self.vocabulary.methods[node.attr], node, ancestors)
            found.start = self._dot_before(node)
            is_whole = _is_called(node, ancestors) and not _takes_arguments(ancestors[-1])
            found.end = self.tree.end(ancestors[-1]) if is_whole else self.tree.end(node)
            found.role = replace(found.role, name="method-cast", callee=None)
            yield found
        elif f"torch.{node.attr}" in self.vocabulary.calls and self.names.is_torch(node.value, ancestors):
            yield from self._compiled(f"torch.{node.attr}", node, ancestors)
        elif (method := self._compiles_module(node, ancestors)) is not None:
            yield from self._compiled(method, node, ancestors)
        elif _ENUM.fullmatch(last_name(node.value) or ""):
            yield from self._enum(node, ancestors)
        yield from self._gate(node, ancestors)

    def _is_of_torch(self, node: ast.expr, ancestors: Ancestors) -> bool:
        """``torch``, ``torch.cuda``, or a name of one of them."""
        if self.names.is_torch(node, ancestors):
            return True
        full = self.names.full_name(dotted(node)) or ""
        return full == "torch.cuda" and not self.names.is_shadowed((dotted(node) or "").partition(".")[0], ancestors)

    def _is_cast(self, node: ast.Attribute, ancestors: Ancestors) -> bool:
        """``x.bfloat16()`` or ``torch.Tensor.bfloat16``, not the dtype of another library such as ``tl.bfloat16``."""
        if _is_called(node, ancestors) and not _takes_arguments(ancestors[-1]):
            return True
        return (self.names.full_name(dotted(node.value)) or "").endswith(("torch.Tensor", "nn.Module"))

    def _dot_before(self, node: ast.Attribute) -> int:
        """Index of the dot of ``.name``: the last one before the name."""
        return self.source.text.rindex(".", 0, self.tree.end(node) - len(node.attr) + 1)

    def _compiled(self, name: str, node: ast.Attribute | ast.Name, ancestors: Ancestors) -> Iterator[Found]:
        """``torch.compile``, called or as a decorator; not with a backend that generates no code for the GPU."""
        if self._has_plain_backend(ancestors[-1] if _is_called(node, ancestors) else None):
            return
        role = Role("switch", key=name)
        word = name.rpartition(".")[2]
        tests = [parent.test for parent in ancestors if isinstance(parent, (ast.If, ast.IfExp))]
        if any(word in self.tree.text(test) for test in tests):
            role.facts.add("gated")
        yield self.at(forms.CALL, name, node, ancestors, role)

    def _has_plain_backend(self, call: ast.AST | None) -> bool:
        method = self.vocabulary.module_compile
        if not isinstance(call, ast.Call) or method is None:
            return False
        return any(string(word.value) in method.plain_backends for word in call.keywords if word.arg == method.chooses)

    def _compiles_module(self, node: ast.Attribute, ancestors: Ancestors) -> str | None:
        """What ``model.compile()`` and ``layer.compile(dynamic=True)`` stand for, in a file that knows torch."""
        method = self.vocabulary.module_compile
        if method is None or node.attr != method.method or not _is_called(node, ancestors):
            return None
        call = ancestors[-1]
        if not isinstance(call, ast.Call) or call.args or not self.names.knows_torch:
            return None
        words = {word.rstrip("s") for word in (last_name(node.value) or "").lower().split("_")}
        given = {word.arg for word in call.keywords if word.arg}
        is_module = given <= method.arguments if given else not method.owners.isdisjoint(words)
        return method.stands_for if is_module else None

    def _enum(self, node: ast.Attribute, ancestors: Ancestors) -> Iterator[Found]:
        """``attention_backend=AttnBackend.fused``: a named kernel by an enum."""
        role = self.roles.of(node, ancestors)
        owner = last_name(node.value)
        setting = self.vocabulary.setting(owner)
        if setting is not None and setting.tells(forms.CHOICE, node.attr):
            if role.name == "value" or self._is_only_kind(role.container, setting):
                role = replace(role, name="value", key=owner, key_path=None)
                found = self.at(forms.CHOICE, node.attr, node, ancestors, role)
                found.start = found.end - len(node.attr)
                yield found
        elif role.name == "value" and self._is_member(node, ancestors):
            found = self.at(forms.TEXT, node.attr, node, ancestors, replace(role, facts=role.facts | {"member"}))
            found.start = found.end - len(node.attr)
            yield found
        elif role.name == "value" and role.key:
            yield self.at(forms.CHOICE, node.attr, node, ancestors, role)

    def _is_only_kind(self, container: ast.AST | None, setting: Setting) -> bool:
        """Whether a list holds members of an enum that are told, and no other that would do as well."""
        if not isinstance(container, (ast.List, ast.Tuple, ast.Set)):
            return False
        return all(
            isinstance(each, ast.Attribute) and setting.tells(forms.CHOICE, each.attr) for each in container.elts
        )

    def _is_member(self, node: ast.Attribute, ancestors: Ancestors) -> bool:
        """``Precision.BF16``, which is no call and no file format's name of a dtype."""
        found = self.vocabulary.dtype_of(node.attr)
        owner = last_name(node.value) or ""
        is_format = any(name in owner.lower() for name in self.vocabulary.storage_formats)
        return found is not None and found[0] == "bfloat16" and not is_format and not _is_called(node, ancestors)

    @cached_property
    def _tables(self) -> dict[str, frozenset[str]]:
        """The file's own tables from names of dtypes to dtypes: the name of each with its keys."""
        tables: dict[str, frozenset[str]] = {}
        for node, ancestors in self.nodes:
            if isinstance(node, (ast.Assign, ast.AnnAssign)) and isinstance(node.value, ast.Dict):
                keys = [string(key) for key in node.value.keys[:_MOST_PARTS]]
                target = node.targets[0] if isinstance(node, ast.Assign) else node.target
                if any(self._is_dtype(value, ancestors) for value in node.value.values[:_MOST_PARTS]):
                    tables[last_name(target) or ""] = frozenset(key for key in keys if key)
        return tables

    def _keys_of(self, table: ast.expr, ancestors: Ancestors) -> frozenset[str] | None:
        """The keys of a table of dtypes: one of the file's own by its name, or one that is written on the spot."""
        if isinstance(table, (ast.Name, ast.Attribute)):
            name = last_name(table) or ""
            is_elsewhere = name not in self._tables and _TABLE.fullmatch(name) is not None
            return frozenset() if is_elsewhere else self._tables.get(name)
        if isinstance(table, ast.Dict):
            keys, values = [string(key) for key in table.keys[:_MOST_PARTS]], table.values[:_MOST_PARTS]
        elif isinstance(table, ast.Call) and dotted(table.func) == "dict":
            words = table.keywords[:_MOST_PARTS]
            keys, values = [word.arg for word in words], [word.value for word in words]
        else:
            return None
        if not any(self._is_dtype(value, ancestors) for value in values):
            return None
        return frozenset(key for key in keys if key)

    def _is_dtype(self, node: ast.expr, ancestors: Ancestors) -> bool:
        return (
            isinstance(node, ast.Attribute)
            and node.attr in self.vocabulary.torch_dtypes
            and self.names.is_torch(node.value, ancestors)
        )

    def _asked_of_table(self, node: ast.expr, ancestors: Ancestors, word: str) -> Role | None:
        """The role of ``TABLE["bf16"]`` and ``TABLE.get(given or "bf16")``, for the name that is asked for."""
        while ancestors and isinstance(ancestors[-1], ast.BoolOp):
            node, ancestors = ancestors[-1], ancestors[:-1]
        call = ancestors[-1] if ancestors else None
        if isinstance(call, ast.Subscript) and call.slice is node and isinstance(call.ctx, ast.Load):
            table, above = call.value, ancestors[:-1]
        elif isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr == "get":
            table, above = call.func.value, ancestors[:-1]
            if not call.args or call.args[0] is not node:
                return None
        else:
            return None
        keys = self._keys_of(table, ancestors)
        role = self.roles.of(call, above) if keys is not None else None
        if keys is None or role is None or role.name not in {"value", "autocast"}:
            return None
        spelled = self.vocabulary.dtype_of(word)
        known = [
            found for key in keys if (found := self.vocabulary.dtype_of(key)) and spelled and found[1] == spelled[1]
        ]
        allowed = tuple(sorted(value for value, _ in known))
        return replace(role, name="value", facts=role.facts | {"table-key"}, allowed=allowed)

    def _gate(self, node: ast.Name | ast.Attribute, ancestors: Ancestors) -> Iterator[Found]:
        """``if use_remove_padding or ...: Attention.forward = some_flash_attn_forward``: the name in the test."""
        name = last_name(node) or ""
        if not self.vocabulary.is_of(name, "packing"):
            return
        branch = statement_around(ancestors)
        if not isinstance(branch, ast.If) or not _is_in(branch.test, node, ancestors):
            return
        if any(imports.replaces_attention(self.vocabulary, each) for each in branch.body):
            role = Role("switch", key=name, facts={"patches-attention"})
            yield self.at(forms.UNRESOLVED, "gate", node, ancestors, role)

    def constant(self, node: ast.Constant, ancestors: Ancestors) -> Iterator[Found]:
        """A literal, and what stands inside a string."""
        if isinstance(node.value, bool):
            yield from self._literal(forms.BOOLEAN, str(node.value), node, ancestors)
        elif isinstance(node.value, int) and 0 <= node.value < 10**9:
            yield from self._literal(forms.NUMBER, str(node.value), node, ancestors)
        elif isinstance(node.value, str) and not any(isinstance(parent, ast.JoinedStr) for parent in ancestors[-2:]):
            yield from self._string(node, node.value, ancestors)

    def _literal(self, form: str, word: str, node: ast.Constant, ancestors: Ancestors) -> Iterator[Found]:
        """A boolean or a number under a key."""
        found = self.at(form, word, node, ancestors)
        if found.role.name == "value" and found.role.key:
            self._qualify(found)
            yield found

    def _string(self, node: ast.Constant, text: str, ancestors: Ancestors) -> Iterator[Found]:
        item = starts.by_item(node, ancestors, self.tree, self.vocabulary)
        yield from self._started_by_words(item or starts.by_text(text, ancestors, self.vocabulary), node, ancestors)
        if self.vocabulary.dtype_of(text) or self.vocabulary.attention_of(text):
            if not self._is_getattr_name(node, ancestors):
                role = self._looked_up(node, ancestors) if text.lower() not in self.vocabulary.ordinary else None
                role = role or self._asked_of_table(node, ancestors, text)
                found = self.at(forms.TEXT, text, node, ancestors, role)
                self._qualify(found)
                yield found
        elif (flag := _FLAG.fullmatch(text)) and not self.roles.declares_option(node, ancestors):
            role = replace(self.roles.of(node, ancestors), name="value", key=flag[1], facts={"cli-flag"})
            yield self.at(forms.BOOLEAN, "True", node, ancestors, role)
        elif "=" in text or " " in text or "\n" in text:
            yield from self._override(node, ancestors, text)
        elif text.isprintable() and text:
            if ":" in text:
                yield from self._override(node, ancestors, text)
            found = self.at(forms.TEXT, text, node, ancestors)
            if found.role.name == "value" and found.role.key:
                self._qualify(found)
                is_read = "override" in found.role.facts or self.roles.is_option(found.role)  # type=str2bool
                if spell.is_boolean(text) and is_read:
                    found.form = forms.BOOLEAN
                yield found

    def _qualify(self, found: Found) -> None:
        """What only matters under a key: whether it is the default of a class, or a variable of the environment."""
        if _is_class_default(found.ancestors):
            found.role.facts.add("class-default")
        setting = self.vocabulary.setting(found.role.key)
        if setting is not None and setting.variable and (found.role.key or "").isupper():
            found.role.facts.add("variable")

    def _looked_up(self, node: ast.AST, ancestors: Ancestors) -> Role | None:
        """The role of a name that torch is asked for: ``getattr(torch, given or "bfloat16")``, ``eval(name)``."""
        child = node
        for at in range(len(ancestors) - 1, -1, -1):
            parent = ancestors[at]
            if isinstance(parent, ast.Call):
                position = self.tree.place_of(child, parent.args)
                if position == 1 and self._is_getattr_torch(parent, ancestors[:at]):
                    return self._as_object(parent, ancestors[:at])
                if position == 0 and last_name(parent.func) == "eval":
                    return self._as_object(parent, ancestors[:at])
                if position == 0 and self._looks_up_in_torch(parent, ancestors[:at]):
                    return self._as_object(parent, ancestors[:at])
            if isinstance(parent, ast.Subscript) and child is parent.slice and isinstance(parent.ctx, ast.Load):
                is_torch = self._is_dict_of_torch(parent.value, ancestors[:at])
                return self._as_object(parent, ancestors[:at]) if is_torch else None
            if isinstance(parent, ast.Attribute) and parent.attr in _MAKES_OTHER:
                return None
            if not isinstance(parent, _LEADS_ON) or (isinstance(parent, ast.IfExp) and child is parent.test):
                return None
            child = parent
        return None

    def _looks_up_in_torch(self, call: ast.Call, ancestors: Ancestors) -> bool:
        """``torch.__dict__.get(name)``, ``torch.__getattribute__(name)``, ``attrgetter(name)``."""
        if last_name(call.func) == "attrgetter":
            return True
        if not isinstance(call.func, ast.Attribute):
            return False
        owner, method = call.func.value, call.func.attr
        if method in {"__getattribute__", "__getattr__"}:
            return self.names.is_torch(owner, ancestors)
        return method == "get" and self._is_dict_of_torch(owner, ancestors)

    def _is_dict_of_torch(self, node: ast.expr, ancestors: Ancestors) -> bool:
        """``vars(torch)``, ``torch.__dict__``."""
        if isinstance(node, ast.Call):
            return dotted(node.func) == "vars" and len(node.args) == 1 and self.names.is_torch(node.args[0], ancestors)
        return (
            isinstance(node, ast.Attribute) and node.attr == "__dict__" and self.names.is_torch(node.value, ancestors)
        )

    def _run_as_code(self, node: ast.Call, ancestors: Ancestors) -> Iterator[Found]:
        """``exec("dtype = torch.bfloat16")``: each name of a dtype in the code."""
        name = (dotted(node.func) or "").removeprefix("builtins.")
        code = node.args[0] if node.args and f"builtins.{name}" in _RUNS_CODE else None
        if not isinstance(code, (ast.Constant, ast.JoinedStr)):
            return
        text = self.tree.text(code)
        is_name = self.vocabulary.is_looked_for((string(code) or "").removeprefix("torch."))
        if is_name and name == "eval":  # told as the value that it gives
            return
        for match in islice(self.vocabulary.names_in(text), _MOST_PARTS):
            if self.vocabulary.is_looked_for(match[0].removeprefix("torch.")):
                role = Role("text", callee=name, facts={"embedded"})
                found = self.at(forms.TEXT, match[0], code, (*ancestors, node), role)
                found.end = found.start + match.end()
                found.start += match.start()
                yield found

    def _names_dtype(self, node: ast.expr) -> bool:
        """Whether an expression that gives a name speaks of dtypes, by its names or by a text in it."""
        if re.search(r"(?i)dtype|precision", self.tree.text(node)):
            return True
        texts = [text for each in islice(ast.walk(node), _MOST_PARTS) if (text := string(each))]
        texts = [text for text in texts if not self.vocabulary.is_looked_for(text)]  # told by itself
        return any(stem in text.lower() for text in texts for stem in self._stems)

    @cached_property
    def _stems(self) -> frozenset[str]:
        """How the names of torch's dtypes with digits in them begin."""
        names = self.vocabulary.torch_dtypes
        return frozenset(name.rstrip("0123456789") for name in names if name[-1].isdigit())

    def _evaluated(self, node: ast.Call, ancestors: Ancestors) -> Iterator[Found]:
        """``eval("torch." + name)``: a dtype that is only known at run time."""
        if dotted(node.func) not in {"eval", "builtins.eval"} or not node.args or string(node.args[0]) is not None:
            return
        argument = node.args[0]
        if self.flows.literal(argument, (*ancestors, node)) is not None or self._composed_name(argument):
            return
        if re.search(r"(?i)dtype|precision|[\"']torch\.", self.tree.text(argument)):
            found = self.at(forms.OBJECT, "dynamic", node, ancestors)
            found.role.facts.add("dynamic")
            yield found

    def _is_getattr_name(self, node: ast.expr, ancestors: Ancestors) -> bool:
        """The string of ``getattr(torch, "bfloat16")``: the call as a whole is the value."""
        call = ancestors[-1]
        return isinstance(call, ast.Call) and self._is_getattr_torch(call, ancestors) and call.args[1] is node

    def _is_getattr_torch(self, call: ast.Call, ancestors: Ancestors) -> bool:
        return dotted(call.func) == "getattr" and len(call.args) >= 2 and self.names.is_torch(call.args[0], ancestors)

    def call(self, node: ast.Call, ancestors: Ancestors) -> Iterator[Found]:
        """``getattr(torch, "bfloat16")`` is a dtype; with a name known at run time only, a person must look."""
        if isinstance(node.func, ast.Attribute) and node.func.attr in self.vocabulary.calls and not self.knows_scaler:
            role = Role("switch", key=node.func.attr, facts={"no-scaler"})
            yield self.at(forms.CALL, node.func.attr, node, ancestors, role)
        if fold.is_composed(node):
            yield from (each for each in self.composed(node, ancestors) if id(each.node) not in self._taken)
            yield from self._filled_here(node, ancestors)
        yield from self._evaluated(node, ancestors)
        yield from self._run_as_code(node, ancestors)
        yield from self._started_by_call(node, ancestors)
        module = imports.named_by_call(node, self.names.full_name(dotted(node.func)) or "")
        if module is not None and self.vocabulary.package_of(module) is not None:
            facts = imports.facts_of(self.tree, self.vocabulary, ancestors)
            yield self.at(forms.MODULE, module, node, ancestors, Role("import", facts=facts))
        if not self._is_getattr_torch(node, ancestors):
            return
        name = string(node.args[1]) or self._composed_name(node.args[1])
        if name is None:
            if self.flows.literal(node.args[1], (*ancestors, node)) is not None:
                return
            if self._names_dtype(node.args[1]) and not own_label.rebuilds(node, ancestors):
                found = self.at(forms.OBJECT, "dynamic", node, ancestors)
                found.role.facts.add("dynamic")
                yield found
        elif name in self.vocabulary.torch_dtypes:
            found = self.at(forms.TEXT, name, node, ancestors)
            found.start, found.end = self.tree.start(node.args[1]), self.tree.end(node.args[1])
            found.role.facts |= {"object", "composed"} if fold.is_composed(node.args[1]) else {"object"}
            yield found

    def _composed_name(self, node: ast.expr) -> str | None:
        """The text of an expression that puts it together from literals alone."""
        parts = fold.parts_of(node, lambda _: None) if fold.is_composed(node) else None
        return fold.text_of(parts) if parts and all(part.node is not None for part in parts) else None

    def keyword(self, node: ast.keyword, ancestors: Ancestors) -> Iterator[Found]:
        """``use_transformer_engine=use_te``: the switch is there, its value is known at run time."""
        yield from self._checked(node.arg, node.value, (*ancestors, node))
        yield from self._on_until_turned_off(node, ancestors)
        setting = self.vocabulary.setting(node.arg)
        if setting is None or not setting.unresolved or isinstance(node.value, ast.Constant):
            return
        if NUMBER in setting.takes:
            is_passed_on = last_name(node.value) == node.arg
            if is_passed_on or self.flows.literal(node.value, (*ancestors, node)) is not None:  # told where it stands
                return
        yield self.at(forms.UNRESOLVED, "", node.value, (*ancestors, node), Role("switch", key=node.arg))

    def _on_until_turned_off(self, node: ast.keyword, ancestors: Ancestors) -> Iterator[Found]:
        """``add_argument("--no-bf16", dest="bf16", action="store_false")``: on for whoever says nothing."""
        call = ancestors[-1] if ancestors else None
        if node.arg != "action" or string(node.value) != "store_false" or not isinstance(call, ast.Call):
            return
        key = option_key(call)
        if key is not None and all(word.arg != "default" for word in call.keywords):
            role = Role("value", key.lstrip("-").replace("-", "_"), callee=dotted(call.func), siblings=call)
            yield self.at(forms.BOOLEAN, "True", node.value, (*ancestors, node), role)

    def entries(self, node: ast.Dict, ancestors: Ancestors) -> Iterator[Found]:
        """``{"bf16": torch.cuda.is_bf16_supported()}``."""
        for key, value in zip(node.keys[:_MOST_PARTS], node.values, strict=False):
            yield from self._checked(string(key), value, (*ancestors, node))

    def assignment(self, node: ast.Assign, ancestors: Ancestors) -> Iterator[Found]:
        """``args.bf16 = torch.cuda.is_bf16_supported()``; a variable is told where it is used."""
        target = node.targets[0]
        is_unless = isinstance(node.value, ast.UnaryOp) and isinstance(target, ast.Name)
        if is_unless or isinstance(target, (ast.Attribute, ast.Subscript)):
            yield from self._checked(last_name(target), node.value, (*ancestors, node))

    def _checked(self, key: str | None, value: ast.expr, ancestors: Ancestors) -> Iterator[Found]:
        """A switch of bfloat16 that is on where a check says yes that counts emulation."""
        setting = self.vocabulary.setting(key)
        if key is None or setting is None or BOOLEAN not in setting.takes or isinstance(value, ast.Constant):
            return
        if not self.vocabulary.named_in(key, "bfloat16"):
            return
        for each in (value, *((value.body, value.orelse) if isinstance(value, ast.IfExp) else ())):
            if self._is_unless_twin(each, key):
                yield self.at(forms.UNRESOLVED, "unless-fp16", each, ancestors, Role("switch", key=key))
                return
        yes = self.conditions.asked_by(value).yes
        if "permissive-guard" in yes and yes.isdisjoint({"capability-guard", "strict-guard"}):
            role = replace(self.roles.of(value, ancestors), name="switch", key=key)
            role.facts.add("permissive-guard")
            yield self.at(forms.UNRESOLVED, "checked", value, ancestors, role)

    def _is_unless_twin(self, value: ast.expr, key: str) -> bool:
        """``not args.fp16``, for ``bf16``."""
        if not isinstance(value, ast.UnaryOp) or not isinstance(value.op, ast.Not):
            return False
        name = last_name(value.operand)
        return name is not None and name.lower() in {twin_of(key).lower(), twin_of(key.rpartition("_")[2]).lower()}

    def imported(self, node: ast.Import | ast.ImportFrom, ancestors: Ancestors) -> Iterator[Found]:
        """``import triton``, ``from flash_attn.bert_padding import unpad_input`` and the like."""
        for module, names in imports.modules_of(node):
            if self.vocabulary.package_of(module) is None:
                continue
            role = Role(
                "import", key=",".join(names) or None, facts=imports.facts_of(self.tree, self.vocabulary, ancestors)
            )
            if module in self.vocabulary.padding and isinstance(node, ast.ImportFrom):
                role.facts.add("padding")
            elif "guarded" in role.facts and self._is_called_untested(imports.falls_back_to_none(node, ancestors)):
                role.facts = role.facts - {"guarded"} | {"fallback-called"}
            yield self.at(forms.MODULE, module, node, ancestors, role)

    def _is_called_untested(self, optional: set[str]) -> bool:
        """Whether one of the names, which may be None, is called without a test; looked up once for each set."""
        names = frozenset(optional)
        if names not in self._untested and len(self._untested) < _MOST_FALLBACKS:
            self._untested[names] = imports.is_called_untested(self.tree, self.vocabulary, optional)
        return self._untested.get(names, False)

    # --- programs that are started -----------------------------------------------------------------------------

    def _started_by_call(self, node: ast.Call, ancestors: Ancestors) -> Iterator[Found]:
        """``LLM(...)`` of vLLM, ``sglang.Engine(...)``, ``AsyncLLMEngine.from_engine_args(...)``."""
        name = dotted(node.func)
        full = self.names.full_name(name) if name is not None else None
        program = self.vocabulary.started_by_call(full) if full is not None and "." in full else None
        if name is None or program is None or self.names.is_shadowed(name.partition(".")[0], ancestors):
            return
        role = Role("value", key=program.concept)
        yield self.at(forms.START, program.name, node.func, (*ancestors, node), role)

    def _started_by_words(self, program: Program | None, node: ast.AST, ancestors: Ancestors) -> Iterator[Found]:
        """A command, in a place that gives it to something and does not speak of it."""
        role = self.roles.of(node, ancestors) if program is not None else None
        if program is None or role is None or role.name not in {"value", "lookup", "text"}:
            return
        if isinstance(ancestors[-1], ast.Expr):  # a text that stands alone
            return
        yield self.at(forms.START, program.name, node, ancestors, Role("value", key=program.concept))

    # --- settings inside strings -------------------------------------------------------------------------------

    def _override(self, node: ast.AST, ancestors: Ancestors, text: str) -> Iterator[Found]:
        """A Hydra override in a string: ``"a.b.dtype=bfloat16"``, or one somewhere in a longer command."""
        match = _OVERRIDE.fullmatch(text.strip()) if len(text) < _MAX_OVERRIDE else None
        if match is not None:
            found = self.at(spell.form_of(match["value"]), match["value"], node, ancestors)
            self._override_role(found, match["key"])
            yield found
            return
        yield from self._named_in_command(node, ancestors, text)
        yield from self._set_in_command(node, ancestors, text)

    def _named_in_command(self, node: ast.AST, ancestors: Ancestors, text: str) -> Iterator[Found]:
        """The dtypes and implementations that a command, or a mapping, in a string names, each at its own place."""
        at = 0
        for embedded in islice(_IN_COMMAND.finditer(text), _MOST_PARTS):
            key = (embedded["key"] or embedded["option"] or embedded["pair"] or "").rpartition(".")[2].replace("-", "_")
            if key and not self.vocabulary.is_of(key, "precision", "attention"):
                continue
            if not self.vocabulary.is_looked_for(embedded["value"]):
                continue
            found = self.at(forms.TEXT, embedded["value"], node, ancestors)
            if found.role.name in _SPEAKS:
                return
            found.role.name = "text"
            found.role.facts.add("embedded")
            at = self._place_in(found, embedded[0], embedded["value"], at)
            yield found

    def _set_in_command(self, node: ast.AST, ancestors: Ancestors, text: str) -> Iterator[Found]:
        """The switches, choices and sizes that a command in a string sets, each at its own place."""
        for word in settings_in(text, self.vocabulary):
            if self.vocabulary.is_looked_for(word.value):
                continue
            found = self.at(word.form, word.value, node, ancestors)
            if found.role.name in _SPEAKS:
                return
            self._place_in(found, text[word.begin : word.end], text[word.start : word.end], 0)
            found.role = Role("value", word.key, word.path, facts=set(word.facts) | {"embedded"})
            yield found

    def _place_in(self, found: Found, written: str, word: str, at: int) -> int:
        """Put a place on a word of its string, as far as it is written there plainly; where to look for the next."""
        raw = self.tree.text(found.node)
        if (first := raw.find(written, at)) >= 0:
            found.end = found.start + first + len(written)
            found.start = found.end - len(word)
        return max(first, at)

    def f_string(self, node: ast.JoinedStr, ancestors: Ancestors) -> Iterator[Found]:
        """An f-string that is one override as a whole: ``f"a.dtype={'bf16'}"``, ``f"{p}.dtype=bfloat16"``."""
        if any(isinstance(parent, ast.JoinedStr) for parent in ancestors[-3:]):
            return
        text = "".join(map(_f_string_text, node.values))
        yield from self._started_by_words(starts.by_text(text, ancestors, self.vocabulary), node, ancestors)
        found = list(self.composed(node, ancestors))
        if found:
            yield from (each for each in found if id(each.node) not in self._taken)
            return
        yield from self._filled_here(node, ancestors)
        yield from self._override(node, ancestors, text)

    def _filled_here(self, node: ast.expr, ancestors: Ancestors) -> Iterator[Found]:
        """What fills in a command and stands in it; what is given a name first is told where it stands."""
        yield from (each for each in self.filled(node, ancestors) if id(each.node) not in self._taken)

    def operation(self, node: ast.BinOp, ancestors: Ancestors) -> Iterator[Found]:
        """``"bfloat" + "16"``, ``"a.dtype=%s" % name``."""
        yield from (each for each in self.composed(node, ancestors) if id(each.node) not in self._taken)
        yield from self._filled_here(node, ancestors)

    # --- what the conditions around a place add ----------------------------------------------------------------

    def take_conditions(self, found: Found, name: Name) -> None:
        """Add to the role of a place that says ``name`` what the conditions around it ask."""
        role = found.role
        if name.kind == "switch":
            role.name = "switch" if role.name == "value" else role.name
            role.key = name.key or role.key
        around = self.conditions.around(found.ancestors, found.node)
        role.facts |= around.all_facts()
        if self.other_device:
            role.facts.add("other-device")
        if name.kind == "attention":
            role.facts -= {"asks-bf16", "converter-else"}
        if self._promised:
            role.facts.add("promised")
        if name.kind == "dtype" and self.views.read(found.node, found.ancestors):
            role.facts.add("reinterpreted")
        self._take_calls_around(found)
        self._take_allowed(found, name, around.all_handled())
        if role.name == "value" and self._is_in_its_own_entry(found, name.value):
            role.name = "lookup"
            role.facts.add("in-call")
        if role.name in {"comparison", "allowed-values"} and role.test is not None:
            self._add_check(found, role.test)
        elif role.name == "allowed-values" and role.container is not None:
            role.allowed = tuple(sorted(self.conditions.values_in(role.container)))
            role.facts.add("check")

    def _take_allowed(self, found: Found, name: Name, handled: frozenset[str]) -> None:
        """What a converter or a function takes, for a place in it."""
        role, implementations = found.role, self.vocabulary.canonical_attention
        is_attention = name.kind == "attention"
        known = handled & implementations if is_attention else handled - implementations
        asked = {"asks-flash-attention"} if is_attention else {"asks-bf16", "converter-else"}
        if known and role.allowed is None and role.facts & asked:
            role.allowed = tuple(sorted(known))
        kinds = next((kinds for fact, kinds in _TAKERS.items() if fact in role.facts), None)
        if kinds is not None and isinstance(found.node, ast.Constant) and role.allowed is None:
            taker = next((node for node in reversed(found.ancestors) if isinstance(node, kinds)), None)
            is_asked = isinstance(taker, FUNCTIONS) or (taker and f".{role.key}" in self.tree.text(taker))
            role.allowed = self.conditions.names_known_to(taker, role.key) if taker and is_asked else None
        if len(known) > 1:
            role.facts.add("dispatch")

    def _take_calls_around(self, found: Found) -> None:
        """Whether a call around the value, in the same statement, is of a kernel whose name says what it takes."""
        below = found.node
        for node in reversed(found.ancestors):
            if isinstance(node, ast.stmt):
                return
            if isinstance(node, ast.Call) and node is not found.node and below is not node.func:
                name = (dotted(node.func) or "").rpartition(".")[2]
                named = self.vocabulary.named_in(name, "bfloat16") and name not in self.vocabulary.methods
                if named or name in self.vocabulary.bf16_operators:
                    found.role.facts.add("bf16-operand")
                full = (self.names.full_name(dotted(node.func)) or "").rpartition(".")[2]
                if self.vocabulary.is_flash_kernel(full):
                    found.role.facts.add("flash-operand")
            below = node

    def _is_in_its_own_entry(self, found: Found, value: str) -> bool:
        """``{torch.bfloat16: Buffer(n, torch.bfloat16)}``: a table entry that is made for its own key."""
        chain = [*found.ancestors, found.node]
        for node, child in pairwise(chain):
            at = self.tree.place_of(child, node.values) if isinstance(node, ast.Dict) else None
            if at is not None and isinstance(node, ast.Dict):
                key = node.keys[at]
                if key is not None and self.conditions.values_in(key) == {value}:
                    return True
        return False

    def _add_check(self, found: Found, test: ast.Compare) -> None:
        """Whether a failing comparison stops the program, and what it accepts."""
        role = found.role
        parent = statement_around(found.ancestors)
        accepts = isinstance(test.ops[0], (ast.Eq, ast.Is, ast.In))
        enforced = isinstance(parent, ast.Assert) if accepts else _raises(parent)
        if role.name == "allowed-values" and role.container is not None:
            role.allowed = tuple(sorted(self.conditions.values_in(role.container)))
            role.key = last_name(test.left)
            if enforced:
                role.facts.add("check")
        elif enforced:
            role.facts.add("demands")
            role.key = last_name(test.left)


_Look = Callable[[Finder, ast.AST, Ancestors], Iterator[Found]]

_LOOKS: dict[type[ast.AST], _Look] = {
    ast.Attribute: Finder.attribute,  # type: ignore[dict-item]
    ast.Name: Finder.name,  # type: ignore[dict-item]
    ast.Constant: Finder.constant,  # type: ignore[dict-item]
    ast.BinOp: Finder.operation,  # type: ignore[dict-item]
    ast.JoinedStr: Finder.f_string,  # type: ignore[dict-item]
    ast.Call: Finder.call,  # type: ignore[dict-item]
    ast.keyword: Finder.keyword,  # type: ignore[dict-item]
    ast.Dict: Finder.entries,  # type: ignore[dict-item]
    ast.Assign: Finder.assignment,  # type: ignore[dict-item]
    ast.Import: Finder.imported,  # type: ignore[dict-item]
    ast.ImportFrom: Finder.imported,  # type: ignore[dict-item]
}


def _is_class_default(ancestors: Ancestors) -> bool:
    """``name: type = value`` right in a class, or inside a ``field(default=value)`` there."""
    for at, parent in enumerate(ancestors):
        if isinstance(parent, ast.AnnAssign):
            return at > 0 and isinstance(ancestors[at - 1], ast.ClassDef)
    return False


def _f_string_text(part: ast.expr) -> str:
    """What a part of an f-string contributes; a field that is no literal counts as one word."""
    if isinstance(part, ast.FormattedValue):
        text = string(part.value)
        return text if text is not None else "x"
    return string(part) or ""


def _is_filled(parts: list[fold.Part]) -> bool:
    """Whether something fills in a text that may set something by it."""
    return any("=" in part.text or "--" in part.text for part in parts) and any(
        part.node is not None and part.text.replace("_", "").isalnum() for part in parts
    )


def _adds_text(node: ast.BinOp) -> bool:
    """``"a=" + b``, ``"a=%s" % b``."""
    left = node.left.right if isinstance(node.left, ast.BinOp) else node.left  # "a=" + b + " c=" + d
    return fold.is_composed(node) and string(left) is not None


def _is_below(node: ast.AST, top: ast.AST) -> bool:
    return any(each is node for each in ast.walk(top))


def _names_given(node: ast.AST, ancestors: Ancestors) -> Iterator[str]:
    """The names that a statement gives to what stands in it."""
    for parent in reversed(ancestors):
        if isinstance(parent, ast.arguments):
            yield from (each.arg for each in (*parent.posonlyargs, *parent.args, *parent.kwonlyargs))
            return
        if isinstance(parent, (ast.Assign, ast.AnnAssign)):
            targets = parent.targets if isinstance(parent, ast.Assign) else [parent.target]
            yield from (each.id for target in targets for each in ast.walk(target) if isinstance(each, ast.Name))
            return
        if isinstance(parent, ast.stmt):
            return


def _adds(call: ast.Call) -> bool:
    """Whether a call adds to something, or changes one value of it."""
    return last_name(call.func) in _ADDS


def _is_called(node: ast.AST, ancestors: Ancestors) -> bool:
    return bool(ancestors) and isinstance(ancestors[-1], ast.Call) and ancestors[-1].func is node


def _takes_arguments(call: ast.AST) -> bool:
    return isinstance(call, ast.Call) and bool(call.args or call.keywords)


def _is_in(test: ast.AST, node: ast.AST, ancestors: Ancestors) -> bool:
    return test is node or any(each is test for each in ancestors)


def statement_around(ancestors: Ancestors) -> ast.AST | None:
    """The statement that an expression is part of."""
    return next((node for node in reversed(ancestors) if isinstance(node, ast.stmt)), None)


def _raises(statement: ast.AST | None) -> bool:
    return isinstance(statement, ast.If) and isinstance(statement.body[-1], ast.Raise)
