"""What a value does where it stands: climb from it to the statement around it and say its role and its key.

The climb is one function a kind of parent. Each either passes on to the next parent ("transparent": an ``a if b else
c``, an ``or``, a lambda), or ends with a Role.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from precpatch.languages.python.names import Names
from precpatch.languages.python.slots import section_of
from precpatch.languages.python.tree import Ancestors, Tree, dotted, last_name, string
from precpatch.languages.site import TEXT
from precpatch.vocabulary import Vocabulary
from precpatch.vocabulary.words import ATTENTION, BOOLEAN

_MESSAGE_CALLS = re.compile(
    r"(?:.*\.)?(?:print|pprint|warn|warning|debug|info|error|critical|exception|log|rank_zero_\w+|log_\w+|"
    r"print_rank_0|warning_once|info_once|secho|echo|fail|skip)"
)
_TEXT_ARGUMENTS = frozenset({"help", "description", "metavar", "title", "doc", "message", "msg", "epilog", "reason"})
_SET_ARGUMENTS = frozenset({"choices", "choice", "allowed", "options", "candidates", "values", "supported"})
_CONTAINER_METHODS = frozenset({"append", "add", "insert", "extend", "remove", "discard", "index", "count", "update"})
_STRING_METHODS = frozenset(
    {"replace", "startswith", "endswith", "split", "rsplit", "strip", "lstrip", "rstrip", "removeprefix",
     "removesuffix", "join", "find", "partition", "rpartition", "count", "index", "encode"}
)  # fmt: skip
_SPLITS_COMMAND = "shlex.split"
"""It takes a command, where the methods of that name take what stands between two words."""

_REGISTERS = re.compile(r"_*(?:un)?register(?:_(?!buffer|parameter|module)\w+)?")
"""A function that gives something a name, or is told for which dtype it is."""

_NAMING_ARGUMENTS = frozenset({"name", "names", "key", "label", "alias", "aliases", "dtype_name", "dtype_str"})
_ASKS = re.compile(r"_*(?:is|has|supports?|can)_\w+")
_ASKS_BY_NAME = re.compile(r"_*(?:check|assert|validate|verify|require)_(?!\w*(?:adjust|set|load))\w+")
_LIMITS = "finfo"
_SIZES = frozenset({"bits", "dtype"})
_GRAINS = frozenset({"eps", "resolution"})
"""What a dtype's limits say of its size, and of how close two numbers of it may be."""

_LOOKUP_CALLS = frozenset({"iinfo", "isinstance", "issubclass", "itemsize", "hasattr", "is_bf16", "is_fp16"})
_OPTION_CALLS = frozenset({"add_argument", "Option", "Argument", "option", "argument", "add_option"})
_FIELD_CALLS = frozenset({"field", "Field", "ib", "attrib", "Factory"})
_MOST_ARGUMENTS = 50
"""A call of more arguments than this gives no dtype a name, and declares no option."""

_CLASS = re.compile(r"[A-Z]\w*[a-z]\w*")
_ASKS_FOR_VALUE = re.compile(r"(?<![\w.-])((?:--|\+{1,2})[\w.-]{1,200}(?=[= ])|[\w.]{1,200}(?==))[= ]['\"]?\Z")
"""What stands in a text before the value of a setting."""

_ENUM_BASES = re.compile(r"(?:\w+\.)?(?:Int|Str|Flag|Int)?(?:Enum|Flag)\w*")


@dataclass
class Role:
    """What a value does.

    Attributes:
        name: one of ``mention.ROLES``.
        key: the setting it is for, if one is known; key_path the dotted path to it.
        callee: dotted full name of the function it is an argument of.
        facts: further facts, see ``languages.python.reader``.
        siblings: the call or dict around it, for switches that stand beside it.
        container: the literal list, tuple or set around it.
        test: the comparison that it is in.
        allowed: canonical values that a Literal or choices beside it accept.
    """

    name: str
    key: str | None = None
    key_path: str | None = None
    callee: str | None = None
    facts: set[str] = field(default_factory=set)
    siblings: ast.AST | None = None
    container: ast.AST | None = None
    test: ast.Compare | None = None
    allowed: tuple[str, ...] | None = None


class Roles:
    """The roles of the values of one file; what is true of a whole dict is found out once."""

    def __init__(self, tree: Tree, names: Names, vocabulary: Vocabulary) -> None:
        self.tree = tree
        self.names = names
        self.vocabulary = vocabulary
        self._tables: dict[int, bool] = {}

    def of(self, node: ast.AST, ancestors: Ancestors) -> Role:
        """What a value does."""
        return Climb(self, node, ancestors).run()

    @cached_property
    def enums(self) -> frozenset[str]:
        """The enums that the file defines at its top."""
        return frozenset(
            node.name for node in self.tree.module.body if isinstance(node, ast.ClassDef) and _is_enum(node)
        )

    def declares_option(self, node: ast.AST, ancestors: Ancestors) -> bool:
        """Whether a text is the name of an option that is declared: ``add_argument("--bf16", ...)``."""
        call = ancestors[-1] if ancestors else None
        if not isinstance(call, ast.Call) or self.tree.place_of(node, call.args) is None:
            return False
        name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
        return name in _OPTION_CALLS

    def is_option(self, role: Role) -> bool:
        """Whether a value is the default of an option that is declared."""
        return isinstance(role.siblings, ast.Call) and last_name(role.siblings.func) in _OPTION_CALLS

    def lists_abilities(self, table: ast.Dict) -> bool:
        """Whether a dict says of several dtypes that something is so: ``{"bf16": True, "fp32": True}``."""
        if len(table.keys) > _MOST_ARGUMENTS:
            return True
        pairs = zip(map(string, table.keys), table.values, strict=True)
        true = [key for key, value in pairs if key and isinstance(value, ast.Constant) and value.value is True]
        return len([key for key in true if self.vocabulary.dtype_of(key)]) > 1

    def maps_implementations(self, table: ast.Dict) -> bool:
        """Whether every value of a dict is the name of an attention implementation."""
        if id(table) not in self._tables:
            known = self.vocabulary.attention
            values = [string(value) for value in table.values]
            self._tables[id(table)] = len(values) > 1 and all(value in known for value in values)
        return self._tables[id(table)]


class Climb:
    """One climb from a value to its role."""

    def __init__(self, roles: Roles, node: ast.AST, ancestors: Ancestors) -> None:
        self.roles = roles
        self.tree = roles.tree
        self.names = roles.names
        self.vocabulary = roles.vocabulary
        self.node = node
        self.ancestors = ancestors
        self.role = Role("text")
        self._at = 0
        self._filled: str | None = None

    def run(self) -> Role:
        """Climb until a parent ends it; what no parent knows stays "text"."""
        child = self.node
        for at in range(len(self.ancestors) - 1, -1, -1):
            self._at = at
            parent = self.ancestors[at]
            step = _STEPS.get(type(parent))
            if step is not None and step(self, parent, child):
                break
            child = parent
        if self.role.container is not None and self.role.name == "value" and "argv" not in self.role.facts:
            self.role.name = "lookup"
        if self._filled and self.role.name in {"value", "lookup", "text"}:
            path = self._filled.lstrip("-+~").replace("-", "_")
            facts = self.role.facts - {"collected", "in-call", "in-f-string"} | {"override"}
            return replace(self.role, name="value", key=path.rpartition(".")[2], key_path=path, facts=facts)
        return self.role

    def above(self, parent: ast.AST) -> Ancestors:
        """The ancestors of ``parent``, the current one."""
        return self.ancestors[: self._at]

    def end(self, name: str, key: str | None = None) -> bool:
        """End the climb with role ``name``; the first key found on the way wins."""
        self.role.name = name
        if key is not None and self.role.key is None:
            self.role.key = key.lstrip("-").replace("-", "_") if key.startswith("-") else key.rpartition(".")[2]
            if "." in key:
                self.role.key_path = key
        return True

    # --- expressions -------------------------------------------------------------------------------------------

    def compare(self, parent: ast.Compare, child: ast.AST) -> bool:
        """``x == v`` compares; ``x in [v, ...]`` says which values are allowed."""
        self.role.test = parent
        return self.end("allowed-values" if self.role.container is not None else "comparison")

    def container(self, parent: ast.AST, child: ast.AST) -> bool:
        """A list, tuple or set: remember it, and take ``["--dtype", "bfloat16"]`` and ``a, b = v, w`` apart."""
        elements: list[ast.expr] = parent.elts  # type: ignore[attr-defined]
        position = self.tree.place_of(child, elements) or 0
        option = string(elements[position - 1]) if position else None
        if option and option.startswith("--") and "=" not in option:
            self.role.facts.add("argv")
            return self.end("value", option)
        if position == 1 and len(elements) == 2 and self._is_pair(parent, string(elements[0])):
            return self.end("value", string(elements[0]))
        target = self._unpacked_target(parent, position)
        if target is not None:
            return self.end("value", last_name(target) or "")
        if self.role.container is None and not self._is_asked_by_flag(parent):
            self.role.container = parent
        return False

    def _is_asked_by_flag(self, parent: ast.AST) -> bool:
        """``(v, w)[flag]``, ``{True: v, False: w}[flag]``: one of two, where the flag does not ask for it by name."""
        above = self.ancestors[self._at - 1] if self._at else None
        if not isinstance(above, ast.Subscript) or above.value is not parent or isinstance(self.node, ast.Constant):
            return False
        return not any(
            isinstance(each, (ast.Name, ast.Attribute)) and self._names_half(last_name(each) or "")
            for each in ast.walk(above.slice)
        )

    def _is_pair(self, parent: ast.AST, path: str | None) -> bool:
        """``[("actor.dtype", "bfloat16"), ...]``: a list of settings, each by its path."""
        above = self.ancestors[self._at - 1] if self._at else None
        if not path or "." not in path or not isinstance(above, (ast.List, ast.Tuple)):
            return False
        section, _, key = path.rpartition(".")
        return self.vocabulary.setting(key, section.rpartition(".")[2]) is not None

    def _unpacked_target(self, parent: ast.AST, position: int) -> ast.AST | None:
        above = self.ancestors[self._at - 1] if self._at else None
        if isinstance(above, ast.Assign) and isinstance(parent, ast.Tuple):
            targets = above.targets[0]
            if isinstance(targets, (ast.Tuple, ast.List)) and len(targets.elts) == len(parent.elts):
                return targets.elts[position]
        return None

    def dictionary(self, parent: ast.Dict, child: ast.AST) -> bool:
        """A key names something; a value is a setting where its key is a plain name, else part of a table."""
        position = self.tree.place_of(child, parent.values)
        if position is None:
            return self.end("key")
        key = string(parent.keys[position])
        if isinstance(getattr(parent.keys[position], "value", None), bool) and self._is_asked_by_flag(parent):
            return False
        self.role.siblings = parent
        if key in _TEXT_ARGUMENTS:
            return self.end("message")
        if self.vocabulary.attention_of(string(self.node) or "") and (whole := self._attention_of_parts(parent)):
            return self.end("value", whole)
        if self.role.container is not None or key is None or self._is_table(parent, key):
            self.role.facts.add("table")
            return self.end("lookup", key)
        self.role.facts.add("dict-value")
        if isinstance(self.node, ast.Constant) and self.node.value is True and self.roles.lists_abilities(parent):
            self.role.facts.add("abilities")
        if any(string(each) in self.vocabulary.storage_keys for each in parent.keys[:_MOST_ARGUMENTS]):
            self.role.facts.add("stored")
        return self.end("value", key)

    def _attention_of_parts(self, parent: ast.Dict) -> str | None:
        """``attn_implementation={"text_config": v, "vision_config": w}``: one implementation for each part."""
        above = self.ancestors[self._at - 1] if self._at else None
        name = above.arg if isinstance(above, ast.keyword) else None
        setting = self.vocabulary.setting(name)
        return name if setting is not None and ATTENTION in setting.takes else None

    def _is_table(self, parent: ast.Dict, key: str) -> bool:
        """Whether a dict maps names of dtypes or implementations to others, rather than settings to values."""
        if isinstance(self.node, ast.Constant) and isinstance(self.node.value, bool):
            return False
        if self._is_setting(key):
            return False
        if self.vocabulary.dtype_of(key) or self._names_half(key):
            return True
        if self.vocabulary.begins_with_attention(key):
            return True
        return self.roles.maps_implementations(parent)

    def _is_setting(self, key: str) -> bool:
        """Whether the text that is looked at says something of the setting ``key``."""
        setting, text = self.vocabulary.setting(key), string(self.node)
        if setting is None or text is None:
            return False
        return setting.tells(TEXT, text) or (setting.variable and key.isupper())

    def _names_half(self, identifier: str) -> bool:
        """Whether an identifier has the name of a dtype of two bytes in it."""
        return self.vocabulary.named_in(identifier, "bfloat16", "float16")

    def dict_comprehension(self, parent: ast.AST, child: ast.AST) -> bool:
        """A comprehension builds a table."""
        return self.end("lookup")

    def keyword(self, parent: ast.keyword, child: ast.AST) -> bool:
        """``f(name=v)``: the call decides, so only remember the name."""
        call = self.ancestors[self._at - 1]
        name = parent.arg
        if not isinstance(call, ast.Call):
            return self.end("value", name)
        function = self._callee(call)
        short = function.rpartition(".")[2]
        if _is_message(function) or name in _TEXT_ARGUMENTS:
            return self.end("message")
        if name in _SET_ARGUMENTS and self.role.container is not None:
            self.role.siblings = call
            return self.end("allowed-values", option_key(call))
        if name == "dest" and short in _OPTION_CALLS:
            return self.end("key")
        if name == "default" and short in _OPTION_CALLS:
            self.role.siblings, self.role.callee = call, function
            return self.end("value", option_key(call) or name)
        if name in {"default", "default_factory"} and (short in _FIELD_CALLS or option_key(call) is None):
            self.role.facts |= set() if short in _FIELD_CALLS else {"fallback"}
            return False
        if name == "default":
            self.role.facts.add("fallback")
            return self.end("value", _key_before(call, len(call.args)))
        if name == "dtype" and _is_autocast(function):
            return self._autocast(call, name)
        if name in _NAMING_ARGUMENTS and _REGISTERS.fullmatch(short):
            return self.end("key")
        return self._argument(call, name)

    def call(self, parent: ast.Call, child: ast.AST) -> bool:
        """A positional argument; keywords have ended or passed on before."""
        function = self._callee(parent)
        short = function.rpartition(".")[2]
        if child is parent.func:
            return False
        if isinstance(child, ast.keyword):
            return False
        if _is_message(function):
            return self.end("message")
        if short in _LOOKUP_CALLS or (short == _LIMITS and self._asks_size()):
            return self.end("lookup")
        if short == _LIMITS:
            return False
        if short == "Choice" and self.role.container is not None:
            return self._choices()
        if len(parent.args) == 1 and not parent.keywords and child is self.node and self._names_member(function):
            self.role.facts.add("member")
            return False
        if short in _FIELD_CALLS or (short in {"Option", "Argument"} and parent.args[:1] == [child]):
            return False
        if _is_autocast(function):
            return self._autocast(parent, "dtype")
        return self._positional(parent, child, function, short)

    def _asks_size(self) -> bool:
        """Whether ``finfo(v)`` is asked for no limit that a value takes: ``.bits``; ``.eps`` is remembered."""
        above = self.ancestors[self._at - 1] if self._at else None
        asked = above.attr if isinstance(above, ast.Attribute) else ""
        if asked in _GRAINS:
            self.role.facts.add("grain")
        return asked in _SIZES

    def _choices(self) -> bool:
        """``type=click.Choice([v, ...])``: the choices of the option around it."""
        for node in reversed(self.ancestors[: self._at]):
            if isinstance(node, ast.Call) and (key := option_key(node)):
                self.role.siblings = node
                return self.end("allowed-values", key)
        return self.end("lookup")

    def _positional(self, call: ast.Call, child: ast.AST, function: str, short: str) -> bool:
        position = self.tree.place_of(child, call.args)
        position = -1 if position is None else position
        key = _key_before(call, position)
        if self.role.container is not None:
            self.role.facts.add("in-call")
            self.role.callee = function
            return self.end("lookup")
        if short in _OPTION_CALLS and isinstance(self.node, ast.Constant):  # a name of the option
            return self.end("key")
        before = string(call.args[position - 1]) if position > 0 else None
        if before and before.startswith("--") and "=" not in before:  # sh.python("t.py", "--dtype", "bfloat16")
            self.role.facts.add("argv")
            return self.end("value", before)
        if short in _STRING_METHODS and isinstance(self.node, ast.Constant) and function != _SPLITS_COMMAND:
            return self.end("comparison")
        if short in _CONTAINER_METHODS and key is None:
            self.role.facts.add("collected")
            return self.end("lookup")
        if short in {"get", "pop", "getattr", "setdefault", "getenv"} and position == 0:
            return self.end("key")
        if short in {"get", "pop", "getattr", "getenv"} and key is not None:
            self.role.facts.add("fallback")
        if _REGISTERS.fullmatch(short):
            return self.end("key" if isinstance(self.node, ast.Constant) else "lookup")
        if _ASKS.fullmatch(short) or (
            self.vocabulary.attention_of(string(self.node) or "") and _ASKS_BY_NAME.fullmatch(short)
        ):
            return self.end("comparison")
        if short in {"getattr", "setattr"} and position == 1:
            return self.end("key")
        return self._argument(call, key)

    def _argument(self, call: ast.Call, key: str | None) -> bool:
        if self.role.container is not None:
            self.role.facts.add("in-call")
            return self.end("lookup", key)
        if key is None and self._turns(call):
            key = last_name(call.func)
        if self._is_named_beside(call, key):
            self.role.facts.add("table")
            return self.end("lookup", key)
        self.role.siblings = call
        self.role.callee = self._callee(call)
        return self.end("value", key)

    def _turns(self, call: ast.Call) -> bool:
        """``enable_math_sdp(False)``: a function by whose name a switch is turned, with nothing but the value."""
        is_alone = len(call.args) == 1 and not call.keywords and call.args[0] is self.node
        if not is_alone or not isinstance(getattr(self.node, "value", None), bool):
            return False
        setting = self.vocabulary.setting(last_name(call.func))
        return setting is not None and BOOLEAN in setting.takes

    def _is_named_beside(self, call: ast.Call, key: str | None) -> bool:
        """``register("bf16", torch.bfloat16)``: the call gives the dtype a name, and that name must stay true."""
        if isinstance(self.node, ast.Constant) or len(call.args) + len(call.keywords) > _MOST_ARGUMENTS:
            return False
        names = [string(argument) for argument in call.args]
        names += [string(word.value) for word in call.keywords if word.arg in _NAMING_ARGUMENTS]
        names += [key, *(word.arg for word in call.keywords if word.value is self.node)]
        return any(name and (found := self.vocabulary.dtype_of(name)) and found[0] == "bfloat16" for name in names)

    def _autocast(self, call: ast.Call, key: str) -> bool:
        self.role.siblings = call
        self.role.callee = self._callee(call)
        device = string(call.args[0]) if call.args else None
        for keyword in call.keywords:
            if keyword.arg == "device_type":
                device = string(keyword.value)
        if (device and device != "cuda") or ".cpu." in self.role.callee:
            self.role.facts.add("other-device")
        return self.end("autocast", key)

    def _callee(self, call: ast.Call) -> str:
        return self.names.full_name(dotted(call.func)) or ""

    def boolean(self, parent: ast.BoolOp, child: ast.AST) -> bool:
        """``cfg.dtype or v``: the fallback of what the first operand names."""
        if isinstance(parent.op, ast.Or) and parent.values[0] is not child and self.role.key is None:
            self.role.key = last_name(parent.values[0])
        return False

    def choice(self, parent: ast.IfExp, child: ast.AST) -> bool:
        """The condition of ``a if c else b`` only tests; its branches go on."""
        return child is parent.test and self.end("comparison")

    def attribute(self, parent: ast.Attribute, child: ast.AST) -> bool:
        """``torch.bfloat16.itemsize`` asks for a fact about the dtype."""
        return child is self.node and not isinstance(child, ast.Constant) and self.end("lookup")

    def subscript(self, parent: ast.Subscript, child: ast.AST) -> bool:
        """``table[v]`` looks up; ``Literal[v]`` annotates."""
        if child is not parent.slice:
            return False
        base = dotted(parent.value) or ""
        if self._names_member(base) and isinstance(parent.ctx, ast.Load):
            self.role.facts.add("member")
            return False
        return self.end("annotation" if base.rpartition(".")[2] in {"Literal", "Annotated", "Union"} else "key")

    def _names_member(self, owner: str) -> bool:
        """``Precision["bf16"]``, ``Precision("bf16")``: an enum that is asked for one of its members."""
        word = string(self.node)
        if word is None or not self.vocabulary.is_looked_for(word) or self.vocabulary.attention_of(word):
            return False
        name = owner.rpartition(".")[2]
        if not _CLASS.fullmatch(name):
            return False
        return name in self.roles.enums or self.vocabulary.is_of(section_of(name), "precision")

    def formatted(self, parent: ast.AST, child: ast.AST) -> bool:
        """A dtype object in an f-string is only printed; of strings the reader looks at the whole."""
        self.role.facts.add("in-f-string")
        at = self.tree.place_of(child, parent.values) if isinstance(parent, ast.JoinedStr) else None
        if at and isinstance(parent, ast.JoinedStr):
            self._fills(parent.values[at - 1])
        return isinstance(self.node, (ast.Attribute, ast.Name)) and self.end("text")

    def joined(self, parent: ast.BinOp, child: ast.AST) -> bool:
        """``"--dtype=" + v``: the text before it may name what it is for."""
        if child is parent.right and isinstance(parent.op, ast.Add):
            self._fills(parent.left.right if isinstance(parent.left, ast.BinOp) else parent.left)
        return False

    def _fills(self, before: ast.expr) -> None:
        """Remember the setting that a text ends with, if it does, for what is put behind it."""
        found = _ASKS_FOR_VALUE.search(string(before) or "") if isinstance(self.node, ast.Constant) else None
        if found is not None and not self._filled:
            self._filled = found[1]

    # --- statements --------------------------------------------------------------------------------------------

    def assign(self, parent: ast.Assign, child: ast.AST) -> bool:
        """``x = v``."""
        if child in parent.targets:
            return self.end("key")
        return self._assigned(parent.targets[0])

    def annotated_assign(self, parent: ast.AnnAssign, child: ast.AST) -> bool:
        """``x: str = v``, which is also a dataclass default; a Literal beside it says what it accepts."""
        if child is parent.annotation:
            return self.end("annotation")
        if child is parent.target:
            return self.end("key")
        self.role.allowed = self._literal_values(parent.annotation)
        return self._assigned(parent.target)

    def augmented_assign(self, parent: ast.AugAssign, child: ast.AST) -> bool:
        """``x += v``."""
        return self._assigned(parent.target)

    def named(self, parent: ast.NamedExpr, child: ast.AST) -> bool:
        """``(x := v)``."""
        return self._assigned(parent.target)

    def _assigned(self, target: ast.AST) -> bool:
        name = last_name(target) or ""
        if (
            self.role.key is None
            and not isinstance(getattr(self.node, "value", None), bool)
            and self._names_half(name)
            and not self._is_setting(name)
        ):
            self.role.facts.add("alias")
            return self.end("lookup", name)
        if any(isinstance(node, ast.ClassDef) and _is_enum(node) for node in self.ancestors[-3:]):
            return self.end("lookup", name)
        self.end("value", name)
        self.role.key_path = self.role.key_path or dotted(target)
        return True

    def returned(self, parent: ast.AST, child: ast.AST) -> bool:
        """``return v``: the function's name is its key."""
        for node in reversed(self.ancestors[: self._at]):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                self.role.facts.add("returned")
                return self.end("value", node.name)
        return self.end("value")

    def expression(self, parent: ast.Expr, child: ast.AST) -> bool:
        """A bare string is documentation."""
        return child is self.node and self.end("docstring")

    def arguments(self, parent: ast.arguments, child: ast.AST) -> bool:
        """``def f(x=v)``: the default of a parameter."""
        argument = self._argument_of(parent, child)
        if argument is None:
            return False
        self.role.facts.add("parameter-default")
        self.role.allowed = self._literal_values(argument.annotation)
        return self.end("value", argument.arg)

    def _argument_of(self, parent: ast.arguments, default: ast.AST) -> ast.arg | None:
        """The parameter that a default is for."""
        at = self.tree.place_of(default, parent.kw_defaults)
        if at is not None:
            return parent.kwonlyargs[at]
        at = self.tree.place_of(default, parent.defaults)
        if at is None:
            return None
        at += len(parent.posonlyargs) + len(parent.args) - len(parent.defaults)
        named = at - len(parent.posonlyargs)
        return parent.args[named] if named >= 0 else parent.posonlyargs[at]

    def _literal_values(self, annotation: ast.AST | None) -> tuple[str, ...] | None:
        """Canonical values of a ``Literal[...]`` in an annotation, if there is one."""
        for node in ast.walk(annotation) if annotation is not None else ():
            if isinstance(node, ast.Subscript) and (dotted(node.value) or "").rpartition(".")[2] == "Literal":
                texts = [text for part in ast.walk(node.slice) if (text := string(part))]
                found = [dtype for text in texts if (dtype := self.vocabulary.dtype_of(text))]
                return tuple(value for value, _ in found) or tuple(texts) or None
        return None

    def annotation(self, parent: ast.arg, child: ast.AST) -> bool:
        """``def f(x: v)``."""
        return self.end("annotation")

    def function(self, parent: ast.AST, child: ast.AST) -> bool:
        """``def f() -> v``."""
        return child is getattr(parent, "returns", None) and self.end("annotation")

    def lambda_body(self, parent: ast.Lambda, child: ast.AST) -> bool:
        """``lambda: v`` goes on to whoever takes the lambda."""
        return False

    def asserted(self, parent: ast.Assert, child: ast.AST) -> bool:
        """``assert test, message``."""
        return self.end("comparison" if child is parent.test else "message")

    def raised(self, parent: ast.Raise, child: ast.AST) -> bool:
        """``raise Error(...)``."""
        return self.end("message")

    def pattern(self, parent: ast.MatchValue, child: ast.AST) -> bool:
        """``case v:``."""
        return self.end("comparison")

    def loop(self, parent: ast.AST, child: ast.AST) -> bool:
        """``for x in [v, w]`` goes through values."""
        return self.end("lookup")

    def condition(self, parent: ast.AST, child: ast.AST) -> bool:
        """A value as a condition of its own."""
        return child is getattr(parent, "test", None) and self.end("comparison")


_Step = Callable[[Climb, Any, ast.AST], bool]

_STEPS: dict[type[ast.AST], _Step] = {
    ast.Compare: Climb.compare,
    ast.Tuple: Climb.container,
    ast.List: Climb.container,
    ast.Set: Climb.container,
    ast.Dict: Climb.dictionary,
    ast.DictComp: Climb.dict_comprehension,
    ast.keyword: Climb.keyword,
    ast.Call: Climb.call,
    ast.BoolOp: Climb.boolean,
    ast.IfExp: Climb.choice,
    ast.Attribute: Climb.attribute,
    ast.Subscript: Climb.subscript,
    ast.JoinedStr: Climb.formatted,
    ast.BinOp: Climb.joined,
    ast.Assign: Climb.assign,
    ast.AnnAssign: Climb.annotated_assign,
    ast.AugAssign: Climb.augmented_assign,
    ast.NamedExpr: Climb.named,
    ast.Return: Climb.returned,
    ast.Yield: Climb.returned,
    ast.Expr: Climb.expression,
    ast.arguments: Climb.arguments,
    ast.arg: Climb.annotation,
    ast.FunctionDef: Climb.function,
    ast.AsyncFunctionDef: Climb.function,
    ast.Lambda: Climb.lambda_body,
    ast.Assert: Climb.asserted,
    ast.Raise: Climb.raised,
    ast.MatchValue: Climb.pattern,
    ast.For: Climb.loop,
    ast.AsyncFor: Climb.loop,
    ast.comprehension: Climb.loop,
    ast.If: Climb.condition,
    ast.While: Climb.condition,
}


def _is_message(function: str) -> bool:
    return _MESSAGE_CALLS.fullmatch(function) is not None or function.endswith(("Error", "Exception", "Warning"))


def _is_autocast(function: str) -> bool:
    return function.rpartition(".")[2] in {"autocast", "autocast_mode", "custom_fwd"} or "autocast(" in function


def _is_enum(node: ast.ClassDef) -> bool:
    return any(_ENUM_BASES.fullmatch(dotted(base) or "") for base in node.bases)


def option_key(call: ast.Call) -> str | None:
    """``--dtype`` of ``add_argument("-d", "--dtype", ...)``, or what it is kept under: ``dest="dtype"``."""
    texts = [text for text in map(string, call.args[:_MOST_ARGUMENTS]) if text]
    options = [text for text in texts if text.startswith("-")]
    long_ones = [option.partition("/")[0] for option in options if option.startswith("--")]  # --bf16/--no-bf16
    named = next((string(word.value) for word in call.keywords[:_MOST_ARGUMENTS] if word.arg == "dest"), None)
    named = named or next((text for text in texts if text.isidentifier()), None)  # click's own name for it
    if options and named:
        return f"--{named}"
    return next(iter(long_ones or options), None)


def _key_before(call: ast.Call, position: int) -> str | None:
    """The string that stands right before an argument and names it: ``f(cfg, "a.dtype", v)``."""
    if 0 < position <= len(call.args):
        text = string(call.args[position - 1])
        if text and not text.startswith("-") and " " not in text:
            return text
    return None
