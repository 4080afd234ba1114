"""What code asks of the machine that it runs on: its compute capability, whether it has CUDA, its name.

Often the answer is kept under a name first: ``AMPERE = torch.cuda.get_device_capability()[0] >= 8``, and the branch
only asks for the name. The names of a file are looked up once.
"""

from __future__ import annotations

import ast
import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Generic, TypeVar

from precpatch.languages.python.tree import FUNCTIONS, Ancestors, Tree, last_name, string

Asked = TypeVar("Asked")
"""What a test asks, see ``conditions``."""

CAPABILITY = re.compile(r"(?i)capability|compute_cap|\bmajor\b|cuda_arch|sm_?version|device_arch")
"""What reads the compute capability, as it is written."""

_ASKS = (
    *("capability", "compute_cap", "cuda_arch", "sm_version", "smversion", "device_arch", "device_properties"),
    *("device_name", "hostname", "_available", "is_bf16", "bf16_supported", "is_cpu", "is_cuda", "torch.version."),
    *("platform", "'cpu'", '"cpu"'),
)
"""A line that may keep an answer of the machine under a name."""

_HAS_CUDA = re.compile(r"(?:.*\.)?(?:cuda\.is_available|is_cuda|is_(?:torch_)?cuda_available)")
_NAME_OF_MACHINE = re.compile(r"(?i)device_name|hostname|platform\.node|gpu_name")
_MODEL = re.compile(r"(?i)(?!cuda)(?=.*[a-z])(?=.*\d)[\w .-]+")
"""The name of a card or a machine, such as "A100"; "cuda:0" is none."""

_OF_A_DEVICE = re.compile(r"(?i).*device(?:_type|_name)?|type|platform|accelerator")
_HOST = "cpu"

_MOST_ANSWERS = 200
"""A file with more names that may hold an answer is a table that a program wrote."""


def is_host(word: str) -> bool:
    """Whether a word names the CPU."""
    return word.lower() == _HOST


def words_in(side: ast.expr) -> list[str]:
    """The texts that one side of a comparison names: ``"cpu"``, ``torch.device("cpu")``, ``("cpu", "mps")``."""
    if isinstance(side, (ast.Tuple, ast.List, ast.Set)):
        return [word for each in side.elts for word in words_in(each)]
    if isinstance(side, ast.Call) and last_name(side.func) == "device" and side.args:
        side = side.args[0]
    word = string(side)
    return [word] if word is not None else []


def asks_for_host(names: Iterable[str], words: list[str]) -> bool:
    """``device.type == "cpu"``: the name of a device is compared with the CPU's and with no other."""
    return bool(words) and all(map(is_host, words)) and any(_OF_A_DEVICE.fullmatch(name) for name in names)


def names_machine(test: str) -> bool:
    """``"A100" in torch.cuda.get_device_name()``: whether the name of the card or of the host is looked at."""
    return _NAME_OF_MACHINE.search(test) is not None


def are_models(words: list[str]) -> bool:
    """Whether all words, one at least, can be names of cards or machines."""
    return bool(words) and all(map(_MODEL.fullmatch, words))


def asks_for_cuda(name: str) -> bool:
    """``torch.cuda.is_available()``, ``x.is_cuda``: where it says no, the code runs on something else."""
    return _HAS_CUDA.fullmatch(name) is not None


class Answers(Generic[Asked]):
    """The names of one file under which an answer of the machine is kept.

    Attributes:
        known: name of a variable, an attribute or a function -> what a test of it asks.
        measures: the names that hold a compute capability itself.
        names: the names that hold the name of the card or of the host.
    """

    def __init__(self) -> None:
        self.known: dict[str, Asked] = {}
        self.measures: set[str] = set()
        self.names: set[str] = set()

    def find(self, tree: Tree, asked_by: Callable[[ast.expr], Asked | None]) -> None:
        """Look through the lines that ask the machine, then through those that ask what was measured there.

        A name that is given more than one value holds no answer.
        """
        self._take(tree, _ASKS, asked_by)
        if held := self.measures | self.names:
            words = sorted({name.lower() for name in held})
            self._take(tree, words, asked_by, lambda value: _speaks_of(value, held))

    def _take(
        self,
        tree: Tree,
        words: Iterable[str],
        asked_by: Callable[[ast.expr], Asked | None],
        counts: Callable[[ast.expr], bool] = lambda value: True,
    ) -> None:
        """Take the answers that are kept on the lines with one of the words, of the values that count."""
        new = (each for each in _kept(tree, words) if each[0] not in self.known and counts(each[1]))
        kept = list(islice(new, _MOST_ANSWERS))
        once = _bound_once(tree, {name for name, _ in kept}) if kept else set()
        for name, value in kept:
            if name not in once:
                continue
            if _is_name(value):
                self.names.add(name)
            elif _measures(tree, value, self.measures):
                self.measures.add(name)
            elif (asked := asked_by(value)) is not None:
                self.known[name] = asked


def _speaks_of(value: ast.expr, names: set[str]) -> bool:
    """Whether one of the names stands in an expression."""
    return any(isinstance(node, (ast.Name, ast.Attribute)) and last_name(node) in names for node in ast.walk(value))


def _is_name(value: ast.expr) -> bool:
    """Whether an expression is the name of the card or of the host."""
    if isinstance(value, ast.Call):
        value = value.func
    return isinstance(value, (ast.Name, ast.Attribute)) and names_machine(last_name(value) or "")


def _measures(tree: Tree, value: ast.expr, measures: set[str]) -> bool:
    """Whether an expression is a compute capability, and no test of one."""
    if isinstance(value, (ast.Compare, ast.BoolOp, ast.UnaryOp, ast.IfExp)):
        return False
    return CAPABILITY.search(tree.text(value)) is not None or last_name(value) in measures


def _kept(tree: Tree, words: Iterable[str]) -> Iterator[tuple[str, ast.expr]]:
    """Each name that is given a value on a line with one of the words, and each function that does nothing but ask."""
    for node, ancestors in tree.walk(_lines_with(tree, words)):
        if isinstance(node, (ast.Assign, ast.AnnAssign, ast.NamedExpr)) and node.value is not None:
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            for target in targets:
                each = target.elts if isinstance(target, (ast.Tuple, ast.List)) else [target]
                yield from ((name, node.value) for part in each if (name := last_name(part)) not in (None, "_"))
        elif isinstance(node, ast.Return) and node.value is not None and (name := _only_returns(node, ancestors)):
            yield name, node.value


def _lines_with(tree: Tree, words: Iterable[str]) -> list[int]:
    """The lines on which one of the words, in lower case, stands."""
    text, starts = tree.source.text.lower(), tree.source.line_starts
    found = set()
    for word in words:
        at = text.find(word)
        while at >= 0:
            found.add(bisect_right(starts, at))
            at = text.find(word, at + len(word))
    return sorted(found)


def _only_returns(statement: ast.Return, ancestors: Ancestors) -> str | None:
    """The name of the function that does nothing but return, documentation aside."""
    function = next((node for node in reversed(ancestors) if isinstance(node, FUNCTIONS)), None)
    if not isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef)) or ancestors[-1] is not function:
        return None
    body = [each for each in function.body if not (isinstance(each, ast.Expr) and string(each.value) is not None)]
    return function.name if body == [statement] else None


def _bound_once(tree: Tree, names: set[str]) -> set[str]:
    """The names that are given a value in one place of the file only."""
    bound: Counter[str] = Counter()
    for node, _ in tree.walk(_lines_with(tree, {name.lower() for name in names})):
        if isinstance(node, (ast.Name, ast.Attribute)) and isinstance(node.ctx, ast.Store):
            bound[node.id if isinstance(node, ast.Name) else node.attr] += 1
        elif isinstance(node, ast.arg):
            bound[node.arg] += 1
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            bound[node.name] += 1
        elif isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store) and (name := string(node.slice)):
            bound[name] += 1
    return {name for name in names if bound[name] == 1}
