"""What the conditions around a place ask: has somebody asked for bfloat16, can the card do it, is it another device?

``if dtype == "bf16": return torch.bfloat16`` is a converter: its bfloat16 is only reached when somebody asks for it.
``if major >= 8`` asks the card. ``torch.cuda.is_bf16_supported()`` does neither: it is True on a Tesla P40, V100 and
T4 since torch 2.3 because it counts emulation (torch/cuda/__init__.py; pytorch PR 129288 added
``including_emulation=False``).
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from precpatch.languages.python import machine
from precpatch.languages.python.branches import answering
from precpatch.languages.python.tree import BLOCKS, FUNCTIONS, SCOPES, Ancestors, Tree, dotted, last_name, string
from precpatch.vocabulary import Vocabulary

_CAPABILITY = machine.CAPABILITY
_NATIVE_BF16 = (8, 0)
_ASKING = re.compile(r"^(?:use|is|enable|enabled|with|do|train)_|_enabled$")
"""What a flag has around the name of what it asks for."""

_LEAVES = (ast.Return, ast.Raise, ast.Continue)

_OF_THE_MACHINE = frozenset({"capability-guard", "strict-guard", "other-device"})
"""What a test asks of the machine: under ``a or b`` only certain where both ask it."""


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


@dataclass(frozen=True)
class Around:
    """What all conditions around a place ask together.

    Attributes:
        facts: facts of the branches that the place is in; ``converter-else`` where it is what a chain of tests on
            other names falls back to, ``promised`` inside a function that says bf16 by its name.
        handled: canonical values that the chains of tests around it name or answer with: what a converter knows.
        before: facts of what must hold to come this far in the blocks of the same function.
        handled_before: canonical values that the branches before it handle.
    """

    facts: frozenset[str] = frozenset()
    handled: frozenset[str] = frozenset()
    before: frozenset[str] = frozenset()
    handled_before: frozenset[str] = frozenset()

    def all_facts(self) -> frozenset[str]:
        """The facts of both kinds."""
        return self.facts | self.before

    def all_handled(self) -> frozenset[str]:
        """The values of both kinds."""
        return self.handled | self.handled_before


@dataclass(frozen=True)
class _Reached:
    """What must hold for a statement to be reached in its block, and what the branches after it handle."""

    facts: frozenset[str]
    values: frozenset[str]
    asks_other: bool


class Conditions:
    """The conditions of one file; every test, chain and block is looked at once."""

    def __init__(self, tree: Tree, vocabulary: Vocabulary, lists: dict[str, set[str]]) -> None:
        self.tree = tree
        self.vocabulary = vocabulary
        self.lists = lists
        self._asked: dict[int, Asked] = {}
        self._handled: dict[int, frozenset[str]] = {}
        self._reached: dict[int, list[_Reached]] = {}
        self._around: dict[int, Around] = {}
        self._chains: dict[int, list[Asked]] = {}
        self._known: dict[tuple[int, str | None], tuple[str, ...] | None] = {}
        self._answers: machine.Answers[Asked] | None = None

    # --- what a test asks --------------------------------------------------------------------------------------

    def asked_by(self, test: ast.AST) -> Asked:
        """What a condition asks."""
        if id(test) not in self._asked:
            self._asked[id(test)] = self._ask(test)
        return self._asked[id(test)]

    def _ask(self, test: ast.AST) -> Asked:
        if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
            return self.asked_by(test.operand).flipped()
        if isinstance(test, ast.BoolOp):
            return self._asked_together(test)
        if isinstance(test, ast.NamedExpr):
            return self.asked_by(test.value)
        if isinstance(test, ast.Compare):
            return self._asked_by_compare(test)
        if isinstance(test, ast.Call):
            return self._asked_by_call(test)
        return self._asked_by_name(last_name(test) or "")

    def _asked_together(self, test: ast.BoolOp) -> Asked:
        asked = Asked()
        operands = [self.asked_by(operand) for operand in test.values]
        for operand in operands:
            asked.add(operand)
        is_or = isinstance(test.op, ast.Or)
        one_is_enough = [each.yes if is_or else each.no for each in operands]
        for fact in {"flash-only", *_OF_THE_MACHINE}:
            if not all(fact in facts for facts in one_is_enough):
                (asked.yes if is_or else asked.no).discard(fact)
        return asked

    @property
    def answers(self) -> machine.Answers[Asked]:
        """The names of the file that hold an answer of the machine: ``AMPERE = get_capability()[0] >= 8``."""
        if self._answers is None:
            self._answers = machine.Answers()
            self._answers.find(self.tree, self._answer)
        return self._answers

    def _answer(self, value: ast.expr) -> Asked | None:
        """What an expression asks, where it asks nothing but the machine."""
        asked = self._ask(value)
        facts = asked.yes | asked.no
        machines = _OF_THE_MACHINE | {"permissive-guard"}
        return asked if facts and facts <= machines and not asked.values else None

    def _asked_by_compare(self, test: ast.Compare) -> Asked:
        asked = Asked()
        positive = isinstance(test.ops[0], (ast.Eq, ast.Is, ast.In))
        negative = isinstance(test.ops[0], (ast.NotEq, ast.IsNot, ast.NotIn))
        sides = (test.left, *test.comparators)
        for side in sides:
            values = self.values_in(side)
            asked.values |= values
            if positive:
                asked.yes |= self._facts_of(values)
            elif negative:
                asked.no |= self._facts_of(values)
        if _CAPABILITY.search(self.tree.text(test)) or any(last_name(side) in self.answers.measures for side in sides):
            _take_capability(asked, test)
        if _is_none(test.comparators[0]):
            self._take_whether_none(asked, test, positive)
        elif (positive or negative) and self._is_elsewhere(test, sides):
            (asked.yes if positive else asked.no).add("other-device")
        return asked

    def _take_whether_none(self, asked: Asked, test: ast.Compare, is_none: bool) -> None:
        """``torch.version.hip is not None`` asks what ``torch.version.hip`` does."""
        name = last_name(test.left) if isinstance(test.left, (ast.Name, ast.Attribute)) else None
        found = self._asked_by_name(name) if name else Asked()
        found = found.flipped() if is_none else found
        asked.yes |= found.yes & _OF_THE_MACHINE
        asked.no |= found.no & _OF_THE_MACHINE

    def _is_elsewhere(self, test: ast.Compare, sides: Sequence[ast.expr]) -> bool:
        """Whether a test for equality asks for another device, for the CPU, or for a machine by its name."""
        words = [word for side in sides for word in machine.words_in(side)]
        if any(map(self.vocabulary.names_other_device, words)):
            return all(self.vocabulary.names_other_device(word) or machine.is_host(word) for word in words)
        names = [name for side in sides if (name := last_name(side))]
        is_name = not self.answers.names.isdisjoint(names) or machine.names_machine(self.tree.text(test))
        return machine.asks_for_host(names, words) or (is_name and machine.are_models(words))

    def _asked_by_call(self, test: ast.Call) -> Asked:
        name, full = last_name(test.func) or "", dotted(test.func) or ""
        if name in self.vocabulary.permissive_checks:
            return Asked({"strict-guard" if _is_strict(test) else "permissive-guard"})
        if machine.asks_for_cuda(full):
            return Asked(set(), {"other-device"})
        if self.vocabulary.names_other_device(full):
            return Asked({"other-device"})
        first = string(test.args[0]) if test.args else None
        if name == "startswith" and first and self._is_name_of_machine(test.func) and machine.are_models([first]):
            return Asked({"other-device"})
        if name == "get" and first:
            return self._asked_by_name(first)
        if name in {"startswith", "endswith"} and first and self._begins_bf16(first):
            return Asked({"asks-bf16"}, set(), {"bfloat16"})
        if name == "hasattr" and len(test.args) == 2 and (attribute := string(test.args[1])):
            return self._asked_by_name(attribute)
        return self._asked_by_name(name)

    def _is_name_of_machine(self, method: ast.expr) -> bool:
        """Whether a method is one of the name of the card or of the host."""
        owner = last_name(method.value) if isinstance(method, ast.Attribute) else None
        return owner in self.answers.names or machine.names_machine(self.tree.text(method))

    def _begins_bf16(self, start: str) -> bool:
        """Whether all names of dtypes that begin like this are bfloat16's."""
        lowered = start.lower()
        names = self.vocabulary.dtypes.items()
        begun = {value for name, (value, _) in names if name.startswith(lowered) or lowered.startswith(name)}
        return begun == {"bfloat16"}

    def _asked_by_name(self, name: str) -> Asked:
        if name in self.answers.known:
            return self.answers.known[name]
        bare = _ASKING.sub("", name.lower())
        dtype = self.vocabulary.dtype_of(bare)
        if dtype is not None and dtype[0] == "bfloat16":
            return Asked({"asks-bf16"}, set(), {"bfloat16"})
        if _CAPABILITY.search(name):
            return Asked({"capability-guard"})
        if machine.asks_for_cuda(name):
            return Asked(set(), {"other-device"})
        if name == "is_cpu":
            return Asked({"other-device"})
        if self.vocabulary.hints_at(name, "packing", "sequence parallel"):
            return Asked({"asks-packing"})
        if bare in self.vocabulary.flash_aliases or bare in self.vocabulary.flash:
            return Asked({"asks-flash-flag"})
        return Asked({"other-device"}) if self.vocabulary.names_other_device(name) else Asked()

    def _facts_of(self, values: set[str]) -> set[str]:
        facts = set()
        if "bfloat16" in values:
            facts.add("asks-bf16")
        if values & self.vocabulary.flash:
            facts.add("asks-flash-attention")
        if values and values <= self.vocabulary.flash:
            facts.add("flash-only")
        if values - self.vocabulary.canonical_attention and not facts:
            facts.add("asks-other")
        return facts

    def values_in(self, node: ast.AST) -> set[str]:
        """Canonical values that an expression names: a literal, a dtype, a list of them, or a known list's name."""
        if isinstance(node, (ast.Tuple, ast.List, ast.Set)):
            key = id(node)
            if key not in self._handled:
                self._handled[key] = frozenset().union(*map(self.values_in, node.elts))
            return set(self._handled[key])
        text = string(node)
        if text is not None:
            return self._values_of_word(text)
        name = dotted(node)
        if name is None:
            return set()
        last = name.rpartition(".")[2]
        if last in self.lists:
            return self.lists[last]
        found = self.vocabulary.dtype_of(last) if isinstance(node, ast.Attribute) else None
        if found:
            return {found[0]}
        return {"bfloat16"} if self._is_list_of_bf16(last) else set()

    def _values_of_word(self, text: str) -> set[str]:
        if attention := self.vocabulary.attention_of(text):
            return {attention}
        if found := self.vocabulary.dtype_of(text):
            return {found[0]}
        return {min(self.vocabulary.flash)} if text in self.vocabulary.flash_aliases else set()

    def _is_list_of_bf16(self, name: str) -> bool:
        """``BFLOAT_LIST``, ``bf16_names``: a name of several words, the first of which is bfloat16's."""
        first, _, rest = name.lower().partition("_")
        names = [name for name, (value, _) in self.vocabulary.dtypes.items() if value == "bfloat16"]
        return bool(rest) and first.rstrip("s") in {*names, *(name.rstrip("0123456789") for name in names)}

    # --- what stands around a place ----------------------------------------------------------------------------

    def around(self, ancestors: Ancestors, node: ast.AST) -> Around:
        """What is asked by every condition that the place ``node`` stands under."""
        path = (*ancestors, node)
        known = next((at for at in range(len(path) - 1, 0, -1) if id(path[at]) in self._around), 0)
        around = self._around[id(path[known])] if known else Around()
        for at in range(known + 1, len(path)):
            around = self._around[id(path[at])] = self._step(around, path[at - 1], path[at])
        return around

    def _step(self, around: Around, parent: ast.AST, below: ast.AST) -> Around:
        """What is asked around ``below``, which stands right under ``parent``."""
        facts, handled = set(around.facts), around.handled
        for asked, branch in self._conditions(parent, below):
            facts |= asked.yes if branch == "yes" else asked.no
            if branch == "no" and "asks-other" in asked.yes:
                facts.add("converter-else")
            if asked.values or "asks-bf16" in asked.yes | asked.no:
                handled |= self.handled_by(parent)
        if isinstance(parent, ast.match_case):
            values = self.values_of_case(parent)
            facts |= self._facts_of(values)
            handled |= values
        if isinstance(parent, SCOPES) and self._is_for_other_device(parent):
            facts.add("other-device")
        if isinstance(below, (ast.FunctionDef, ast.AsyncFunctionDef)) and self.vocabulary.named_in(
            below.name, "bfloat16"
        ):
            facts.add("promised")
        if isinstance(below, FUNCTIONS):
            return Around(frozenset(facts), handled)
        if not isinstance(below, ast.stmt) or isinstance(parent, ast.Module):
            return Around(frozenset(facts), handled, around.before, around.handled_before)
        before, handled_before = self._before(around, parent, below)
        return Around(frozenset(facts), handled, before, handled_before)

    def _conditions(self, parent: ast.AST, below: ast.AST) -> Iterator[tuple[Asked, str]]:
        """What ``parent`` asks before ``below`` is reached, and whether that must be so, "yes", or must not, "no"."""
        if isinstance(parent, ast.IfExp) and below is not parent.test:
            yield self.asked_by(parent.test), "yes" if below is parent.body else "no"
        elif isinstance(parent, (ast.If, ast.While)) and below is not parent.test:
            yield self.asked_by(parent.test), "no" if self.tree.place_of(below, parent.body) is None else "yes"
        elif isinstance(parent, ast.BoolOp) and isinstance(parent.op, ast.And):
            yield self._asked_before(parent)[self.tree.place_of(below, parent.values) or 0], "yes"

    def _asked_before(self, chain: ast.BoolOp) -> list[Asked]:
        """For each operand of ``a and b and c``, what those before it ask together."""
        if id(chain) not in self._chains:
            asked = [Asked()]
            for operand in chain.values[:-1]:
                asked.append(Asked(set(asked[-1].yes), set(asked[-1].no), set(asked[-1].values)))
                asked[-1].add(self.asked_by(operand))
            self._chains[id(chain)] = asked
        return self._chains[id(chain)]

    def _before(self, around: Around, block: ast.AST, statement: ast.stmt) -> tuple[frozenset[str], frozenset[str]]:
        """``before`` and ``handled_before`` of a statement in its block."""
        reached = self._reached_in(block, statement)
        facts, handled = around.before | reached.facts, around.handled_before
        if isinstance(statement, ast.Return) and reached.values:
            handled |= reached.values | self.handled_by(statement)
            facts |= {"converter-else"} if reached.asks_other else set()
        if isinstance(statement, ast.If) and self.asked_by(statement.test).values:
            handled |= self._handled_after(block, statement)
        return facts, handled

    def _reached_in(self, block: ast.AST, statement: ast.stmt) -> _Reached:
        """What must hold for a statement to be reached: asserts before it, and branches that leave.

        A check that allows bfloat16 among others asks for nothing.
        """
        for name in BLOCKS:
            statements = getattr(block, name, None)
            at = self.tree.place_of(statement, statements) if isinstance(statements, list) else None
            if at is not None and statements is not None:
                if id(statements) not in self._reached:
                    self._reached[id(statements)] = self._reach(statements)
                return self._reached[id(statements)][at]
        return _Reached(frozenset(), frozenset(), False)

    def _reach(self, statements: Sequence[ast.stmt]) -> list[_Reached]:
        reached = [_Reached(frozenset(), frozenset(), False)]
        for each in statements[:-1]:
            last = reached[-1]
            if isinstance(each, ast.Assert):
                asked = self.asked_by(each.test)
                if asked.values <= {"bfloat16"}:
                    last = _Reached(last.facts | asked.yes, last.values, last.asks_other)
            elif isinstance(each, ast.If) and isinstance(each.body[-1], _LEAVES):
                asked = self.asked_by(each.test)
                facts = last.facts | asked.no if asked.values <= {"bfloat16"} else last.facts
                values = last.values | self.handled_by(each) if asked.values else last.values
                asks_other = last.asks_other or bool(asked.values and "asks-other" in asked.yes)
                last = _Reached(facts, values, asks_other)
            reached.append(last)
        return reached

    def handled_by(self, chain: ast.AST) -> frozenset[str]:
        """Every dtype and implementation that a chain of branches tests for or answers with."""
        links = [chain]
        while id(links[-1]) not in self._handled and (following := _else_branch(links[-1])) is not None:
            links.append(following)
        for link in reversed(links):
            if id(link) not in self._handled:
                self._handled[id(link)] = self._handle(link)
        return self._handled[id(chain)]

    def _handle(self, chain: ast.AST) -> frozenset[str]:
        found: set[str] = set()
        stack: list[ast.AST] = [chain]
        while stack:
            node = stack.pop()
            if node is not chain and id(node) in self._handled:
                found |= self._handled[id(node)]
                continue
            if isinstance(node, (ast.Attribute, ast.Constant, ast.Name)):
                found |= self.values_in(node)
            stack.extend(ast.iter_child_nodes(node))
        return frozenset(found)

    def _handled_after(self, block: ast.AST, statement: ast.AST) -> frozenset[str]:
        """What the statements after a branch that returns its answer handle: they are its ``elif`` and ``else``."""
        if not isinstance(statement, ast.If) or statement.orelse or not isinstance(statement.body[-1], ast.Return):
            return frozenset()
        handled: frozenset[str] = frozenset()
        for each in self._statements_after(block, statement):
            if isinstance(each, (ast.Return, ast.If)):
                handled |= self.handled_by(each)
            if not isinstance(each, ast.If) or not isinstance(each.body[-1], ast.Return):
                break
        return handled

    def _statements_after(self, block: ast.AST, statement: ast.AST) -> Iterator[ast.stmt]:
        for name in BLOCKS:
            statements = getattr(block, name, None)
            at = self.tree.place_of(statement, statements) if isinstance(statements, list) else None
            if at is not None and statements is not None:
                yield from statements[at + 1 : at + 1 + _MOST_AFTER]

    # --- what a function takes ---------------------------------------------------------------------------------

    def names_known_to(self, function: ast.AST, parameter: str | None) -> tuple[str, ...] | None:
        """The names that a function compares a parameter with or looks it up by, where it fails for all others.

        A membership test is not among them: a list of allowed names can grow with the default. Nor is a chain of
        branches that gets one more. An error that is raised for another reason says nothing about the parameter.
        """
        key = id(function), parameter
        if key not in self._known:
            self._known[key] = None if self._grows(function, parameter) else self._known_names(function, parameter)
        return self._known[key]

    def _known_names(self, function: ast.AST, parameter: str | None) -> tuple[str, ...] | None:
        known: set[str] = set()
        fails = False
        for node in ast.walk(function):
            if isinstance(node, ast.Compare) and last_name(node.left) == parameter:
                if isinstance(node.ops[0], (ast.Eq, ast.Is)):
                    known |= self.values_in(node.comparators[0])
            elif _looks_up(node, parameter):
                fails = True
                known |= set().union(*(self.values_in(key) for key in node.value.keys if key is not None))  # type: ignore[attr-defined]
            elif isinstance(node, ast.Match) and last_name(node.subject) == parameter:
                fails |= _can_raise(node) or not _takes_all(node)
                known |= set().union(*map(self.values_of_case, node.cases))
            fails = fails or _refuses_others(node, parameter)
        return tuple(sorted(known)) if known and fails else None

    def _grows(self, function: ast.AST, parameter: str | None) -> bool:
        """Whether a function turns names, which a parameter has, into dtypes by a chain that takes one more branch."""
        return any(
            isinstance(chain, ast.If)
            and _asks_for(chain.test, parameter)
            and any(
                isinstance(each, ast.If) and answering(self.vocabulary, each) is not None for each in ast.walk(chain)
            )
            and len(self.handled_by(chain) | self._handled_after(block, chain)) > 1
            for block in ast.walk(function)
            for chain in ast.iter_child_nodes(block)
        )

    def names_in_match(self, match: ast.Match) -> tuple[str, ...] | None:
        """The names that the cases of a ``match`` have, where it does nothing or fails for all others."""
        known = set().union(*map(self.values_of_case, match.cases))
        return tuple(sorted(known)) if _can_raise(match) or not _takes_all(match) else None

    def values_of_case(self, case: ast.match_case) -> set[str]:
        """The canonical values that a ``case`` names."""
        patterns = [node.value for node in ast.walk(case.pattern) if isinstance(node, ast.MatchValue)]
        return set().union(*map(self.values_in, patterns)) if patterns else set()

    # --- devices -----------------------------------------------------------------------------------------------

    def _is_for_other_device(self, scope: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> bool:
        """Whether a class or function is for another device: by its name, or registered with ``device="npu"``."""
        if self.vocabulary.names_other_device(scope.name):
            return True
        return any(
            keyword.arg == "device" and self.vocabulary.is_other_device(string(keyword.value) or "")
            for decorator in scope.decorator_list
            if isinstance(decorator, ast.Call)
            for keyword in decorator.keywords
        )

    def is_other_device(self) -> bool:
        """Whether the whole file is for a device that is not CUDA: by its path, its imports or a guard at its top.

        An unguarded ``import torch_npu`` fails on any other machine, and so does ``if not is_npu_available(): raise``.
        """
        if self.vocabulary.is_path_of_other_device(self.tree.source.path):
            return True
        packages = self.vocabulary.device_packages
        for statement in self.tree.module.body:
            if isinstance(statement, ast.Import) and any(_top(alias.name) in packages for alias in statement.names):
                return True
            if isinstance(statement, ast.ImportFrom) and (
                _top(statement.module or "") in packages or any(alias.name in packages for alias in statement.names)
            ):
                return True
            if (
                isinstance(statement, ast.If)
                and isinstance(statement.body[-1], ast.Raise)
                and "other-device" in self.asked_by(statement.test).no
            ):
                return True
        return False


_MOST_AFTER = 200
"""So many branches after one that returns its answer count as its ``elif``."""


def _takes_all(match: ast.Match) -> bool:
    """Whether a ``match`` ends with a case for everything else."""
    last = match.cases[-1]
    return last.guard is None and isinstance(last.pattern, ast.MatchAs) and last.pattern.pattern is None


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def _top(module: str) -> str:
    return module.partition(".")[0]


def _is_strict(check: ast.Call) -> bool:
    """``is_bf16_supported(including_emulation=False)``."""
    return any(
        keyword.arg == "including_emulation"
        and isinstance(keyword.value, ast.Constant)
        and keyword.value.value is False
        for keyword in check.keywords
    )


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
        if not 0 <= node.value < 1000:
            return None
        tenths = round(node.value * 10) if node.value < 30 else round(node.value)
        return divmod(tenths, 10)
    return None


def _else_branch(chain: ast.AST) -> ast.AST | None:
    """The next branch of a chain of ``elif``, or of ``a if b else c if d else e``."""
    if isinstance(chain, ast.IfExp):
        return chain.orelse if isinstance(chain.orelse, ast.IfExp) else None
    if isinstance(chain, ast.If) and len(chain.orelse) == 1 and isinstance(chain.orelse[0], ast.If):
        return chain.orelse[0]
    return None


def _looks_up(node: ast.AST, parameter: str | None) -> bool:
    """``{"bf16": ...}[parameter]``."""
    return isinstance(node, ast.Subscript) and isinstance(node.value, ast.Dict) and last_name(node.slice) == parameter


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
    while isinstance(following := _else_branch(chain), ast.If):
        chain = following
    return chain.orelse


def _can_raise(node: ast.AST) -> bool:
    return any(isinstance(each, ast.Raise) for each in ast.walk(node))
