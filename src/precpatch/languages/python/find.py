"""Finding the values in a tree: which nodes name a dtype, an attention implementation or a switch, and their roles."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import PurePosixPath

from precpatch.languages.python import kernels
from precpatch.languages.python.conditions import conditions_around, is_other_device, names_known_to, values_in
from precpatch.languages.python.names import DTYPE_ATTRIBUTES, Names
from precpatch.languages.python.roles import Climb, Role
from precpatch.languages.python.tree import Ancestors, Tree, dotted, last_name, string
from precpatch.languages.source import SourceFile
from precpatch.languages.values import ATTENTION_NAMES, FLASH_ATTENTION, attention_of, dtype_of

WORDS = re.compile(r"16|lash_att|LASH_ATT|kernels-community|getattr\(|\.half\(|" + kernels.WORDS)
"""Lines without any of these hold no value of interest."""

_OVERRIDE = re.compile(r"(?:--)?[+~]{0,2}([A-Za-z_][\w./@-]*)=(['\"]?)([\w./-]+)\2")
_EMBEDDED = re.compile(
    r"(?<![\w.])(?:[+]{0,2}(?:[A-Za-z_]\w*\.)+[A-Za-z_]\w*=|\w*(?:dtype|attn_implementation)\s*:\s+|"
    r"--[\w.-]*(?:dtype|attn[_-]implementation)[ =])['\"]?"
    r"(bfloat16|bf16|flash_attention_[234])\b"
)
_NAMED_BF16 = re.compile(r"(?i)(?:^|_)(?:bf16|bfloat16)(?:_|$)")
_BF16_KERNELS = frozenset({"_grouped_mm", "grouped_mm", "_scaled_grouped_mm"})
_FLAG = re.compile(r"--(bf16|fp16|tf32|bf16_full_eval|fp16_full_eval|use_flash_attn|use_flash_attention_2)")

METHODS = {"bfloat16": "bfloat16", "half": "float16"}
"""Cast methods of tensors and modules -> the dtype they cast to."""


@dataclass
class Found:
    """A value in the tree before its place is turned into a Mention; ``start`` and ``end`` are character indexes."""

    kind: str
    value: str
    spelling: str
    start: int
    end: int
    role: Role
    node: ast.AST
    ancestors: Ancestors


class Finder:
    """Finds the values of one file."""

    def __init__(self, source: SourceFile) -> None:
        self.source = source
        self.tree = Tree(source)
        self.names = Names(self.tree)
        self.other_device = is_other_device(self.tree.module, source.path)
        self.nodes = list(self.tree.walk(self._lines()))
        self.lists = self._named_lists(self.nodes)

    def _lines(self) -> frozenset[int]:
        """The lines that can hold a value: those with a word of interest or the local name of an imported dtype."""
        lines = self.source.lines_with(WORDS)
        for local in self.names.dtypes:
            lines |= self.source.lines_with(re.compile(rf"\b{re.escape(local)}\b"))
        return lines

    def find(self) -> list[Found]:
        """Every value, in the order of the tree."""
        return [found for node, ancestors in self.nodes for found in self._at(node, ancestors)]

    @staticmethod
    def _named_lists(nodes: list[tuple[ast.AST, Ancestors]]) -> dict[str, set[str]]:
        """The file's own lists of names: ``BFLOAT_LIST = ["bf16", ...]`` -> what is in them."""
        lists: dict[str, set[str]] = {}
        for node, _ in nodes:
            if isinstance(node, ast.Assign) and isinstance(node.value, (ast.List, ast.Tuple, ast.Set)):
                values = values_in(node.value, {})
                if values and (name := last_name(node.targets[0])):
                    lists[name] = values
        return lists

    def _at(self, node: ast.AST, ancestors: Ancestors) -> Iterator[Found]:
        """The values that the node itself is."""
        if isinstance(node, ast.Attribute):
            yield from self._attribute(node, ancestors)
        elif isinstance(node, ast.Name):
            yield from self._name(node, ancestors)
        elif isinstance(node, ast.Constant):
            yield from self._constant(node, ancestors)
        elif isinstance(node, ast.JoinedStr):
            yield from self._f_string(node, ancestors)
        elif isinstance(node, ast.Call):
            yield from self._call(node, ancestors)
        for look in _KERNELS:
            yield from look(self, node, ancestors)

    def found_as(self, kind: str, value: str, node: ast.AST, ancestors: Ancestors, role: Role) -> Found:
        """A value whose role is known already; what its conditions ask is added."""
        found = Found(kind, value, "name", self.tree.start(node), self.tree.end(node), role, node, ancestors)
        self._add_conditions(found)
        return found

    def _name(self, node: ast.Name, ancestors: Ancestors) -> Iterator[Found]:
        """An imported dtype; ``bfloat16`` from a star import or another module is not certain to be one."""
        imported = self.names.imported_dtype(node, ancestors)
        if imported:
            yield self._found("dtype", imported.value, "torch", node, ancestors)
        elif (
            node.id == "bfloat16" and isinstance(node.ctx, ast.Load) and not self.names.is_shadowed(node.id, ancestors)
        ):
            found = self._found("dtype", "bfloat16", "torch", node, ancestors)
            found.role.facts.add("unresolved")
            yield found

    def _attribute(self, node: ast.Attribute, ancestors: Ancestors) -> Iterator[Found]:
        value = DTYPE_ATTRIBUTES.get(node.attr)
        if value in {"bfloat16", "float16"} and self.names.is_torch(node.value, ancestors):
            found = self._found("dtype", value, "torch", node, ancestors)
            if _reinterprets(found):
                found.role.facts.add("reinterpreted")
            yield found
        elif node.attr in METHODS and self._is_cast(node, ancestors):
            found = self._found("dtype", METHODS[node.attr], "method", node, ancestors)
            found.start = self._dot_before(node)
            found.end = self.tree.end(ancestors[-1]) if _is_called(node, ancestors) else self.tree.end(node)
            found.role = replace(found.role, name="method-cast", callee=None)
            yield found

    def _is_cast(self, node: ast.Attribute, ancestors: Ancestors) -> bool:
        """``x.bfloat16()`` or ``torch.Tensor.bfloat16``, not the dtype of another library such as ``tl.bfloat16``."""
        if _is_called(node, ancestors):
            call = ancestors[-1]
            return isinstance(call, ast.Call) and not call.args and not call.keywords
        return (self.names.full_name(dotted(node.value)) or "").endswith(("torch.Tensor", "nn.Module"))

    def _dot_before(self, node: ast.Attribute) -> int:
        """Index of the dot of ``.name``: the last one before the name."""
        return self.source.text.rindex(".", 0, self.tree.end(node) - len(node.attr) + 1)

    def _constant(self, node: ast.Constant, ancestors: Ancestors) -> Iterator[Found]:
        yield from kernels.switch(self, node, ancestors)
        if not isinstance(node.value, str) or any(isinstance(parent, ast.JoinedStr) for parent in ancestors[-2:]):
            return
        text = node.value
        dtype = dtype_of(text)
        if dtype and dtype[0] in {"bfloat16", "float16"} and text.lower() != "half":
            if not self._is_getattr_name(node, ancestors):
                yield self._found("dtype", dtype[0], dtype[1], node, ancestors)
        elif text == "auto":
            yield from self._auto(node, ancestors)
        elif (attention := attention_of(text)) in FLASH_ATTENTION:
            yield self._found("attention", attention, "name", node, ancestors)
        elif flag := _FLAG.fullmatch(text):
            found = self._found("switch", "true", "name", node, ancestors)
            yield replace(found, role=replace(found.role, name="switch", key=flag[1], facts={"cli-flag"}))
        else:
            yield from self._override(node, ancestors, text)

    def _auto(self, node: ast.Constant, ancestors: Ancestors) -> Iterator[Found]:
        """``torch_dtype="auto"``: the model's own config.json decides."""
        found = self._found("dtype", "auto", "long", node, ancestors)
        if found.role.name == "value" and found.role.key == "torch_dtype":
            yield found

    def _is_getattr_name(self, node: ast.Constant, ancestors: Ancestors) -> bool:
        """The string of ``getattr(torch, "bfloat16")``: the call as a whole is the value."""
        call = ancestors[-1]
        return isinstance(call, ast.Call) and self._is_getattr_torch(call, ancestors) and call.args[1] is node

    def _is_getattr_torch(self, call: ast.Call, ancestors: Ancestors) -> bool:
        return dotted(call.func) == "getattr" and len(call.args) >= 2 and self.names.is_torch(call.args[0], ancestors)

    def _call(self, node: ast.Call, ancestors: Ancestors) -> Iterator[Found]:
        """``getattr(torch, "bfloat16")`` is a dtype; with a name known at run time only, a person must look."""
        if not self._is_getattr_torch(node, ancestors):
            return
        name = string(node.args[1])
        if name is None:
            if _may_be_dtype(node.args[1]):
                found = self._found("dtype", "dynamic", "torch", node, ancestors)
                found.role.facts.add("dynamic")
                yield found
        elif (dtype := dtype_of(name)) and dtype[0] in {"bfloat16", "float16"}:
            found = self._found("dtype", dtype[0], dtype[1], node, ancestors)
            found.start, found.end = self.tree.start(node.args[1]), self.tree.end(node.args[1])
            found.role.facts.add("object")
            yield found

    def _override(self, node: ast.AST, ancestors: Ancestors, text: str) -> Iterator[Found]:
        """A Hydra override in a string: ``"a.b.dtype=bfloat16"``, or one somewhere in a longer command."""
        match = _OVERRIDE.fullmatch(text.strip())
        if match and (named := named_value(match[3])):
            found = self._found(*named, node, ancestors)
            found.role.facts.add("override")
            if found.role.name in {"value", "lookup", "text"}:
                found.role.name = "value"
                found.role.key, found.role.key_path = match[1].rpartition(".")[2].lstrip("-"), match[1].lstrip("-")
            yield found
        elif (embedded := _EMBEDDED.search(text)) and (named := named_value(embedded[1])):
            found = self._found(*named, node, ancestors)
            if found.role.name not in {"docstring", "message", "comparison", "key"}:
                found.role.name = "text"
                found.role.facts.add("embedded")
                yield found

    def _f_string(self, node: ast.JoinedStr, ancestors: Ancestors) -> Iterator[Found]:
        """An f-string that is one override as a whole: ``f"a.dtype={'bf16'}"``, ``f"{p}.dtype=bfloat16"``."""
        text = "".join(_f_string_text(part) for part in node.values)
        if node in ancestors or any(isinstance(parent, ast.JoinedStr) for parent in ancestors):
            return
        yield from self._override(node, ancestors, text)

    def _found(self, kind: str, value: str, spelling: str, node: ast.AST, ancestors: Ancestors) -> Found:
        role = Climb(self.names, node, ancestors).run()
        found = Found(kind, value, spelling, self.tree.start(node), self.tree.end(node), role, node, ancestors)
        self._add_conditions(found)
        return found

    def _add_conditions(self, found: Found) -> None:
        role = found.role
        conditions = conditions_around(found.ancestors, found.node, self.lists)
        role.facts |= conditions.facts
        if self.other_device:
            role.facts.add("other-device")
        if found.kind == "attention":
            role.facts -= {"asks-bf16", "converter-else"}
        known = (
            conditions.handled & ATTENTION_NAMES if found.kind == "attention" else conditions.handled - ATTENTION_NAMES
        )
        asked = {"asks-flash-attention"} if found.kind == "attention" else {"asks-bf16", "converter-else"}
        if known and role.allowed is None and role.facts & asked:
            role.allowed = tuple(sorted(known))
        if "parameter-default" in role.facts and isinstance(found.node, ast.Constant) and role.allowed is None:
            role.allowed = names_known_to(found.ancestors[-2], role.key, self.lists)
        if any(map(_promises_bf16, found.ancestors)) or _NAMED_BF16.search(PurePosixPath(self.source.path).stem):
            role.facts.add("promised")
        if _is_operand_of_bf16_kernel(found):
            role.facts.add("bf16-operand")
        if role.name == "value" and self._is_in_its_own_entry(found):
            role.name = "lookup"
            role.facts.add("in-call")
        if role.name in {"comparison", "allowed-values"} and role.test is not None:
            self._add_check(found, role.test)
        elif role.name == "allowed-values" and role.container is not None:
            role.allowed = tuple(sorted(values_in(role.container, self.lists)))
            role.facts.add("check")
        if len(known) > 1:
            role.facts.add("dispatch")

    def _is_in_its_own_entry(self, found: Found) -> bool:
        """``{torch.bfloat16: Buffer(n, torch.bfloat16)}``: a table entry that is made for its own key."""
        chain = [*found.ancestors, found.node]
        for node, child in pairwise(chain):
            if isinstance(node, ast.Dict) and child in node.values:
                key = node.keys[node.values.index(child)]
                if key is not None and values_in(key, self.lists) == {found.value}:
                    return True
        return False

    def _add_check(self, found: Found, test: ast.Compare) -> None:
        """Whether a failing comparison stops the program, and what it accepts."""
        role = found.role
        parent = statement_around(found.ancestors)
        accepts = isinstance(test.ops[0], (ast.Eq, ast.Is, ast.In))
        enforced = isinstance(parent, ast.Assert) if accepts else _raises(parent)
        if role.name == "allowed-values" and role.container is not None:
            role.allowed = tuple(sorted(values_in(role.container, self.lists)))
            role.key = last_name(test.left)
            if enforced:
                role.facts.add("check")
        elif enforced:
            role.facts.add("demands")
            role.key = last_name(test.left)


_KERNELS = (
    kernels.imports,
    kernels.compiled,
    kernels.patched_attention,
    kernels.backward,
    kernels.enum_backend,
    kernels.variable_switch,
)


def named_value(word: str) -> tuple[str, str, str] | None:
    """Kind, value and spelling of a name of interest."""
    if (attention := attention_of(word)) in FLASH_ATTENTION:
        return "attention", attention, "name"
    dtype = dtype_of(word)
    return ("dtype", *dtype) if dtype and dtype[0] in {"bfloat16", "float16"} else None


def _reinterprets(found: Found) -> bool:
    """``x.to(torch.bfloat16).view(torch.int16)``: the cast makes bytes that are read as something else."""
    if len(found.ancestors) < 3:
        return False
    cast, attribute, view = found.ancestors[-1], found.ancestors[-2], found.ancestors[-3]
    if not (isinstance(cast, ast.Call) and isinstance(attribute, ast.Attribute) and isinstance(view, ast.Call)):
        return False
    return attribute.attr == "view" and any(re.search(r"\.u?int\d+$", dotted(each) or "") for each in view.args)


def _promises_bf16(node: ast.AST) -> bool:
    """Whether a function says by its name that it makes bfloat16."""
    return isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and _NAMED_BF16.search(node.name) is not None


def _is_operand_of_bf16_kernel(found: Found) -> bool:
    """Whether a call around the value, in the same statement, is one whose name says bfloat16."""
    for node in reversed(found.ancestors):
        if isinstance(node, ast.stmt):
            return False
        if isinstance(node, ast.Call) and node is not found.node:
            name = (dotted(node.func) or "").rpartition(".")[2]
            if name in _BF16_KERNELS or (_NAMED_BF16.search(name) and name not in METHODS):
                return True
    return False


def _f_string_text(part: ast.expr) -> str:
    """What a part of an f-string contributes; a field that is no literal counts as one word."""
    if isinstance(part, ast.FormattedValue):
        text = string(part.value)
        return text if text is not None else "x"
    return string(part) or ""


def _is_called(node: ast.AST, ancestors: Ancestors) -> bool:
    return bool(ancestors) and isinstance(ancestors[-1], ast.Call) and ancestors[-1].func is node


def _may_be_dtype(node: ast.AST) -> bool:
    """Whether the run-time name of ``getattr(torch, name)`` is likely to be a dtype's."""
    return re.search(r"(?i)dtype|precision", ast.unparse(node)) is not None


def statement_around(ancestors: Ancestors) -> ast.AST | None:
    """The statement that an expression is part of."""
    return next((node for node in reversed(ancestors) if isinstance(node, ast.stmt)), None)


def _raises(statement: ast.AST | None) -> bool:
    return isinstance(statement, ast.If) and isinstance(statement.body[-1], ast.Raise)
