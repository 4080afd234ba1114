"""A branch for one more dtype in a converter: after ``if name == "bf16": return torch.bfloat16`` one for "fp32".

Only where the branch is a line of its own that tests for names of bfloat16 and does one thing. The lines that are there
stay as they are: an ``elif`` is put after them.
"""

from __future__ import annotations

import ast

from precpatch.languages.python.spans import replace_name
from precpatch.languages.python.tree import Ancestors, Tree, dotted, string
from precpatch.vocabulary import Vocabulary

Replacement = tuple[int, int, str]
"""Index of the first character and after the last one, and the text that takes their place."""


def added(vocabulary: Vocabulary, tree: Tree, node: ast.AST, ancestors: Ancestors, dtype: str) -> Replacement | None:
    """What puts ``elif name == "fp32"`` after the branch that answers with ``node``, where that is sure."""
    branch = next((parent for parent in reversed(ancestors) if isinstance(parent, ast.If)), None)
    statement = answering(vocabulary, branch) if branch is not None else None
    if branch is None or statement is None or statement.value is not node:
        return None
    source = tree.source
    head, body = source.line_text(branch.lineno), source.line_text(statement.lineno)
    start = tree.start(statement.value)
    stop = source.line_starts[statement.lineno - 1] + len(body)
    newline = "\r\n" if source.text.startswith("\r\n", stop) else "\n"
    condition = _replaced(vocabulary, tree, branch.test, dtype)
    answer = source.text[tree.start(statement) : start] + replace_name(tree.text(node), dtype)
    old = source.text[start:stop]
    return start, stop, f"{old}{newline}{_indent(head)}elif {condition}:{newline}{_indent(body)}{answer}"


def answering(vocabulary: Vocabulary, branch: ast.If) -> ast.Return | ast.Assign | None:
    """What a branch does that answers a name of bfloat16 with the dtype; None where it has another shape."""
    statement = branch.body[0]
    if (
        not _names_in(vocabulary, branch.test)
        or not _is_two_lines(branch)
        or not isinstance(statement, (ast.Return, ast.Assign))
    ):
        return None
    return statement if isinstance(statement.value, ast.Attribute) and _dtype(vocabulary, statement.value) else None


def _is_two_lines(branch: ast.If) -> bool:
    """Whether the test is one line, and the next one all that is done."""
    last = branch.body[-1].end_lineno
    return len(branch.body) == 1 and branch.test.end_lineno == branch.lineno and last == branch.lineno + 1


def _names_in(vocabulary: Vocabulary, test: ast.expr) -> list[ast.expr]:
    """The names of bfloat16 that a test compares with; none where it asks for anything else as well."""
    if not isinstance(test, ast.Compare) or len(test.ops) != 1 or not isinstance(test.ops[0], (ast.Eq, ast.In)):
        return []
    right = test.comparators[0]
    names = right.elts if isinstance(right, (ast.Tuple, ast.List, ast.Set)) else [right]
    known = [_dtype(vocabulary, name) for name in names]
    return names if all(found is not None and found[0] == "bfloat16" for found in known) else []


def _dtype(vocabulary: Vocabulary, name: ast.expr) -> tuple[str, str] | None:
    text = string(name)
    if text is not None:
        return vocabulary.dtype_of(text)
    found = vocabulary.dtype_of((dotted(name) or "").rpartition(".")[2]) if isinstance(name, ast.Attribute) else None
    return (found[0], "torch") if found else None


def _replaced(vocabulary: Vocabulary, tree: Tree, test: ast.expr, dtype: str) -> str:
    """The test with each name of bfloat16 replaced by that of ``dtype``, in its own spelling."""
    first = tree.start(test)
    text = tree.text(test)
    for name in reversed(_names_in(vocabulary, test)):
        start, end = tree.start(name) - first, tree.end(name) - first
        text = text[:start] + _respelled(vocabulary, text[start:end], name, dtype) + text[end:]
    return text


def _respelled(vocabulary: Vocabulary, text: str, name: ast.expr, dtype: str) -> str:
    written = string(name)
    if written is None:
        return replace_name(text, dtype)
    found = vocabulary.dtype_of(written)
    return text.replace(written, vocabulary.spell(dtype, found[1] if found else "long", written))


def _indent(line: str) -> str:
    return line[: len(line) - len(line.lstrip())]
