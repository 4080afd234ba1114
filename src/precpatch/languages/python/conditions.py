"""What the conditions around a place ask: has somebody asked for bfloat16, can the card do it, is it another device?

``if dtype == "bf16": return torch.bfloat16`` is a converter: its bfloat16 is only reached when somebody asks for it.
``if major >= 8`` asks the card. ``torch.cuda.is_bf16_supported()`` does neither: it is True on a Tesla P40, V100 and
T4 since torch 2.3 because it counts emulation (torch/cuda/__init__.py; pytorch PR 129288 added
``including_emulation=False``).
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise

from precpatch.languages.python.branches import answering
from precpatch.languages.python.tree import FUNCTIONS, SCOPES, Ancestors, dotted, last_name, string
from precpatch.languages.settings import DEVICE_WORDS, OTHER_DEVICES
from precpatch.languages.values import ATTENTION_NAMES, FLASH_ATTENTION, attention_of, dtype_of

_FLAG = re.compile(r"(?:use_|is_|enable_|enabled_|with_|do_|train_)?(bf16|bfloat16|brain_?float16)(?:_enabled)?")
_BF16_LIST = re.compile(r"(?i)b(rain)?_?float(16)?s?_.*|bf16s?_.*|brain_names")
_CAPABILITY = re.compile(r"(?i)capability|compute_cap|\bmajor\b|cuda_arch|sm_?version|device_arch")
_NATIVE_BF16 = (8, 0)
_BF16_START = re.compile(r"(?i)bf|bfloat")
_FLASH_ALIASES = frozenset(
    {"fa2", "fa3", "fa4", "flash-attn", "flash_attn", "flash_attn_2", "flash_attn_3", "flashattn", "flashattn2"}
)
_FLASH_FLAG = re.compile(r"(?i)(?:use_|enable_|with_)?flash_?att(?:n|ention)?(?:_?[234])?")
_PACKING = re.compile(r"(?i)packing|padding_free|remove_padding|ulysses|varlen|sequence_parallel")
_PERMISSIVE = frozenset({"is_bf16_supported", "is_torch_bf16_gpu_available", "is_bf16_available"})
_OTHER_DEVICE = re.compile(r"(?i)(^|[^a-z])(npu|ascend|hccl|hpu|hccs|xpu|mlu|musa|mps)([^a-z]|$)")

_DEVICE_NAME = re.compile(
    r"(?<![A-Z])(?:NPU|HCCL|XLA)(?![A-Z])|Npu|Hccl|[Aa]scend|[Mm]ind[Ss]peed|(?:^|_)(?:npu|hccl|xla)(?:_|$)"
)


@dataclass
class Asked:
    """What a test asks when it is true (``yes``) and when it is false (``no``), and the values it names.

    The facts: ``asks-bf16``, ``asks-flash-attention``, ``flash-only`` (for FlashAttention and nothing else),
    ``asks-other`` (another dtype or implementation by name), ``capability-guard``, ``permissive-guard``,
    ``strict-guard``, ``other-device``.
    """

    yes: set[str] = field(default_factory=set)
    no: set[str] = field(default_factory=set)
    values: set[str] = field(default_factory=set)

    def add(self, other: Asked) -> None:
        """Take over what another test asks."""
        self.yes |= other.yes
        self.no |= other.no
        self.values |= other.values

    def flipped(self) -> Asked:
        """What ``not test`` asks."""
        return Asked(self.no, self.yes, self.values)


def asked_by(test: ast.AST, lists: dict[str, set[str]]) -> Asked:
    """What a condition asks; ``lists`` maps the file's own lists of names to the values in them."""
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        return asked_by(test.operand, lists).flipped()
    if isinstance(test, ast.BoolOp):
        asked = Asked()
        operands = [asked_by(operand, lists) for operand in test.values]
        for operand in operands:
            asked.add(operand)
        one_is_enough = [each.yes if isinstance(test.op, ast.Or) else each.no for each in operands]
        if not all("flash-only" in facts for facts in one_is_enough):
            (asked.yes if isinstance(test.op, ast.Or) else asked.no).discard("flash-only")
        return asked
    if isinstance(test, ast.NamedExpr):
        return asked_by(test.value, lists)
    if isinstance(test, ast.Compare):
        return _asked_by_compare(test, lists)
    if isinstance(test, ast.Call):
        return _asked_by_call(test)
    return _asked_by_name(last_name(test) or "")


def _asked_by_compare(test: ast.Compare, lists: dict[str, set[str]]) -> Asked:
    asked = Asked()
    positive = isinstance(test.ops[0], (ast.Eq, ast.Is, ast.In))
    negative = isinstance(test.ops[0], (ast.NotEq, ast.IsNot, ast.NotIn))
    for side in (test.left, *test.comparators):
        values = values_in(side, lists)
        asked.values |= values
        facts = _facts_of(values)
        if positive:
            asked.yes |= facts
        elif negative:
            asked.no |= facts
    if _CAPABILITY.search(ast.unparse(test)):
        _take_capability(asked, test)
    for side in (test.left, *test.comparators):
        word = string(side)
        if word is not None and _OTHER_DEVICE.search(word):
            (asked.yes if positive else asked.no).add("other-device")
    return asked


def _take_capability(asked: Asked, test: ast.Compare) -> None:
    """``major >= 8`` guards what is under it, ``major < 8`` what is not; ``major >= 7`` guards nothing from a V100."""
    threshold = next((value for side in (*test.comparators, test.left) if (value := _capability(side))), None)
    if threshold is not None and threshold < _NATIVE_BF16:
        return
    below = isinstance(test.ops[0], (ast.Lt, ast.LtE, ast.NotEq, ast.NotIn))
    (asked.no if below else asked.yes).add("capability-guard")


def _capability(node: ast.AST) -> tuple[int, int] | None:
    """The compute capability that a literal says: ``8``, ``8.0``, ``80``, ``(8, 0)``."""
    if isinstance(node, ast.Tuple):
        parts = [part.value for part in node.elts if isinstance(part, ast.Constant) and isinstance(part.value, int)]
        return (parts[0], parts[1] if len(parts) > 1 else 0) if parts else None
    if isinstance(node, ast.Constant) and isinstance(node.value, (int, float)) and not isinstance(node.value, bool):
        tenths = round(node.value * 10) if node.value < 30 else round(node.value)
        return divmod(tenths, 10)
    return None


def _facts_of(values: set[str]) -> set[str]:
    facts = set()
    if "bfloat16" in values:
        facts.add("asks-bf16")
    if values & FLASH_ATTENTION:
        facts.add("asks-flash-attention")
    if values and values <= FLASH_ATTENTION:
        facts.add("flash-only")
    if values - ATTENTION_NAMES and not facts:
        facts.add("asks-other")
    return facts


def values_in(node: ast.AST, lists: dict[str, set[str]]) -> set[str]:
    """Canonical values that an expression names: a literal, a dtype object, a list of them, or a known list's name."""
    if isinstance(node, (ast.Tuple, ast.List, ast.Set)):
        return set().union(*(values_in(element, lists) for element in node.elts)) if node.elts else set()
    text = string(node)
    if text in _FLASH_ALIASES:
        return {"flash_attention_2"}
    if text is not None:
        if attention := attention_of(text):
            return {attention}
        return {found[0]} if (found := dtype_of(text)) else set()
    name = dotted(node)
    if name is None:
        return set()
    last = name.rpartition(".")[2]
    if last in lists:
        return lists[last]
    found = dtype_of(last) if isinstance(node, ast.Attribute) else None
    if found:
        return {found[0]}
    return {"bfloat16"} if _BF16_LIST.fullmatch(last) else set()


def _asked_by_call(test: ast.Call) -> Asked:
    name = last_name(test.func) or ""
    if name in _PERMISSIVE:
        strict = any(
            keyword.arg == "including_emulation"
            and isinstance(keyword.value, ast.Constant)
            and keyword.value.value is False
            for keyword in test.keywords
        )
        return Asked({"strict-guard" if strict else "permissive-guard"})
    if name == "get" and test.args and (key := string(test.args[0])):
        return _asked_by_name(key)
    if name in {"startswith", "endswith"} and test.args and _BF16_START.match(string(test.args[0]) or ""):
        return Asked({"asks-bf16"}, set(), {"bfloat16"})
    if name == "hasattr" and len(test.args) == 2 and (attribute := string(test.args[1])):
        return _asked_by_name(attribute)
    return _asked_by_name(name)


def _asked_by_name(name: str) -> Asked:
    if _FLAG.fullmatch(name.lower()):
        return Asked({"asks-bf16"}, set(), {"bfloat16"})
    if _CAPABILITY.search(name):
        return Asked({"capability-guard"})
    if _PACKING.search(name):
        return Asked({"asks-packing"})
    if _FLASH_FLAG.fullmatch(name):
        return Asked({"asks-flash-flag"})
    return Asked({"other-device"}) if _OTHER_DEVICE.search(name) else Asked()


@dataclass
class Conditions:
    """What all conditions around a place ask together.

    Attributes:
        facts: facts of the branches that the place is in; ``converter-else`` where it is what a chain of tests on
            other names falls back to.
        handled: canonical values that the innermost chain of tests names or answers with: what a converter knows.
    """

    facts: set[str] = field(default_factory=set)
    handled: set[str] = field(default_factory=set)


def conditions_around(ancestors: Ancestors, node: ast.AST, lists: dict[str, set[str]]) -> Conditions:
    """Collect what is asked by every condition that the place ``node`` stands under."""
    conditions = Conditions()
    below = node
    in_function = False
    for parent in reversed(ancestors):
        for test, branch, chain in _conditions(parent, below):
            _take(conditions, asked_by(test, lists), branch, chain, lists)
        if isinstance(parent, ast.match_case):
            _take_case(conditions, parent, lists)
        in_function |= isinstance(below, FUNCTIONS)
        if isinstance(below, ast.stmt) and not in_function and not isinstance(parent, ast.Module):
            _take_statements_before(conditions, parent, below, lists)
            if isinstance(below, ast.If) and asked_by(below.test, lists).values:
                conditions.handled |= _handled_after(parent, below, lists)
        if isinstance(parent, SCOPES) and is_for_other_device(parent):
            conditions.facts.add("other-device")
        if isinstance(parent, (ast.FunctionDef, ast.AsyncFunctionDef)) and below in parent.args.defaults:
            break
        below = parent
    return conditions


def _conditions(parent: ast.AST, below: ast.AST) -> Iterator[tuple[ast.AST, str, ast.AST]]:
    """The condition of ``parent`` that decides whether ``below`` is reached: (test, "yes" or "no", whole chain)."""
    if isinstance(parent, ast.IfExp) and below is not parent.test:
        yield parent.test, "yes" if below is parent.body else "no", parent
    elif isinstance(parent, (ast.If, ast.While)) and below is not parent.test:
        yield parent.test, "yes" if below in parent.body else "no", parent
    elif isinstance(parent, ast.BoolOp) and isinstance(parent.op, ast.And):
        for operand in parent.values[: parent.values.index(below)] if below in parent.values else ():
            yield operand, "yes", parent


def _take(conditions: Conditions, asked: Asked, branch: str, chain: ast.AST, lists: dict[str, set[str]]) -> None:
    conditions.facts |= asked.yes if branch == "yes" else asked.no
    if branch == "no" and "asks-other" in asked.yes:
        conditions.facts.add("converter-else")
    if asked.values or "asks-bf16" in asked.yes | asked.no:
        conditions.handled |= _handled(chain, lists)


def _handled(chain: ast.AST, lists: dict[str, set[str]]) -> set[str]:
    """Every dtype and implementation that a chain of branches tests for or answers with."""
    found: set[str] = set()
    for node in ast.walk(chain):
        if isinstance(node, (ast.Attribute, ast.Constant, ast.Name)):
            found |= values_in(node, lists)
    return found


def _take_case(conditions: Conditions, case: ast.match_case, lists: dict[str, set[str]]) -> None:
    values = _values_of_case(case, lists)
    conditions.facts |= _facts_of(values)
    conditions.handled |= values


def _take_statements_before(
    conditions: Conditions, block: ast.AST, statement: ast.stmt, lists: dict[str, set[str]]
) -> None:
    """What must hold for ``statement`` to be reached in its block: asserts before it, and branches that leave.

    A check that allows bfloat16 among others asks for nothing.
    """
    for before in _statements_before(block, statement):
        if isinstance(before, ast.Assert):
            asked = asked_by(before.test, lists)
            conditions.facts |= asked.yes if asked.values <= {"bfloat16"} else set()
        elif isinstance(before, ast.If) and isinstance(before.body[-1], (ast.Return, ast.Raise, ast.Continue)):
            asked = asked_by(before.test, lists)
            conditions.facts |= asked.no if asked.values <= {"bfloat16"} else set()
            if isinstance(statement, ast.Return) and asked.values:
                conditions.handled |= _handled(before, lists) | _handled(statement, lists)
                if "asks-other" in asked.yes:
                    conditions.facts.add("converter-else")


def _handled_after(block: ast.AST, statement: ast.AST, lists: dict[str, set[str]]) -> set[str]:
    """What the statements after a branch that returns its answer handle: they are its ``elif`` and ``else``."""
    if not isinstance(statement, ast.If) or statement.orelse or not isinstance(statement.body[-1], ast.Return):
        return set()
    handled: set[str] = set()
    for each in _statements_after(block, statement):
        if isinstance(each, (ast.Return, ast.If)):
            handled |= _handled(each, lists)
        if not isinstance(each, ast.If) or not isinstance(each.body[-1], ast.Return):
            break
    return handled


def _statements_after(block: ast.AST, statement: ast.AST) -> list[ast.stmt]:
    for name in ("body", "orelse", "finalbody"):
        statements = getattr(block, name, None)
        if isinstance(statements, list) and statement in statements:
            return statements[statements.index(statement) + 1 :]
    return []


def _statements_before(block: ast.AST, statement: ast.stmt) -> list[ast.stmt]:
    for name in ("body", "orelse", "finalbody"):
        statements = getattr(block, name, None)
        if isinstance(statements, list) and statement in statements:
            return statements[: statements.index(statement)]
    return []


def names_known_to(function: ast.AST, parameter: str | None, lists: dict[str, set[str]]) -> tuple[str, ...] | None:
    """The names that a function compares a parameter with or looks it up by, where it fails for all others.

    A membership test is not among them: a list of allowed names can grow with the default. Nor is a chain of branches
    that gets one more. An error that is raised for another reason says nothing about the parameter.
    """
    if _grows(function, parameter, lists):
        return None
    known: set[str] = set()
    fails = False
    for node in ast.walk(function):
        if isinstance(node, ast.Compare) and last_name(node.left) == parameter:
            if isinstance(node.ops[0], (ast.Eq, ast.Is)):
                known |= values_in(node.comparators[0], lists)
        elif (
            isinstance(node, ast.Subscript) and last_name(node.slice) == parameter and isinstance(node.value, ast.Dict)
        ):
            fails = True
            known |= set().union(*(values_in(key, lists) for key in node.value.keys if key is not None))
        elif isinstance(node, ast.Match) and last_name(node.subject) == parameter:
            fails |= _can_raise(node)
            known |= set().union(*(_values_of_case(case, lists) for case in node.cases))
        fails = fails or _refuses_others(node, parameter)
    return tuple(sorted(known)) if known and fails else None


def _grows(function: ast.AST, parameter: str | None, lists: dict[str, set[str]]) -> bool:
    """Whether a function turns names, which a parameter has, into dtypes by a chain that takes one more branch."""
    return any(
        isinstance(chain, ast.If)
        and _asks_for(chain.test, parameter)
        and any(isinstance(each, ast.If) and answering(each) is not None for each in ast.walk(chain))
        and len(_handled(chain, lists) | _handled_after(block, chain, lists)) > 1
        for block in ast.walk(function)
        for chain in ast.iter_child_nodes(block)
    )


def _refuses_others(block: ast.AST, parameter: str | None) -> bool:
    """Whether a chain of ``if parameter == ...`` in a block ends in an error, in its ``else`` or right after it."""
    for name in ("body", "orelse", "finalbody"):
        statements = getattr(block, name, None)
        for statement, after in pairwise([*statements, None]) if isinstance(statements, list) else ():
            if isinstance(statement, ast.If) and _asks_for(statement.test, parameter):
                rest = _else_of(statement)
                if any(map(_can_raise, rest)) or (not rest and isinstance(after, ast.Raise)):
                    return True
    return False


def _asks_for(test: ast.AST, parameter: str | None) -> bool:
    return any(isinstance(node, ast.Compare) and last_name(node.left) == parameter for node in ast.walk(test))


def _else_of(chain: ast.If) -> list[ast.stmt]:
    """What a chain of ``if`` and ``elif`` does when no test holds."""
    while len(chain.orelse) == 1 and isinstance(chain.orelse[0], ast.If):
        chain = chain.orelse[0]
    return chain.orelse


def _can_raise(node: ast.AST) -> bool:
    return any(isinstance(each, ast.Raise) for each in ast.walk(node))


def _values_of_case(case: ast.match_case, lists: dict[str, set[str]]) -> set[str]:
    patterns = [node.value for node in ast.walk(case.pattern) if isinstance(node, ast.MatchValue)]
    return set().union(*(values_in(pattern, lists) for pattern in patterns)) if patterns else set()


def is_for_other_device(scope: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> bool:
    """Whether a class or function is for another device: by its name, or as it is registered with ``device="npu"``."""
    if _DEVICE_NAME.search(scope.name):
        return True
    return any(
        keyword.arg == "device" and string(keyword.value) in OTHER_DEVICES
        for decorator in scope.decorator_list
        if isinstance(decorator, ast.Call)
        for keyword in decorator.keywords
    )


def is_other_device(module: ast.Module, path: str) -> bool:
    """Whether the whole file is for a device that is not CUDA: by its imports, a guard at its top, or its path's words.

    An unguarded ``import torch_npu`` fails on any other machine, and so does ``if not is_npu_available(): raise``.
    """
    if not DEVICE_WORDS.isdisjoint(re.split(r"[/_.\-]", path.lower())):
        return True
    for statement in module.body:
        if isinstance(statement, ast.Import) and any(_device_module(alias.name) for alias in statement.names):
            return True
        if isinstance(statement, ast.ImportFrom) and (
            _device_module(statement.module or "") or any(alias.name == "XLAAccelerator" for alias in statement.names)
        ):
            return True
        if isinstance(statement, ast.If) and isinstance(statement.body[-1], ast.Raise):
            asked = asked_by(statement.test, {})
            if "other-device" in asked.no:
                return True
    return False


def _device_module(name: str) -> bool:
    return name.partition(".")[0] in {"torch_npu", "vllm_ascend", "mindspeed", "torch_xla", "habana_frameworks", "jax"}
