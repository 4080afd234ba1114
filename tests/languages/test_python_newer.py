"""Files in syntax newer than the running Python: read with LibCST's help, and edited where they stand."""

from __future__ import annotations

import ast

import pytest

from precpatch.engine.finding import REWRITE
from precpatch.engine.policy import Policy
from precpatch.engine.rules import load_rules
from precpatch.gpu.resolve import resolve_target
from precpatch.languages.python.newer import as_older
from precpatch.languages.source import ReadError, SourceFile
from precpatch.patch.edits import PatchSet
from precpatch.session import file_findings

P40 = Policy(load_rules(), resolve_target("p40"))

NEWER = {
    "a type alias": "type Dtype = torch.dtype\nx = torch.bfloat16\n",
    "a generic type alias": "type Pair[T] = tuple[T, T]\nx = torch.bfloat16\n",
    "a generic function": "def f[T: int](x: T, dtype=torch.bfloat16) -> T:\n    return x.to(torch.bfloat16)\n",
    "a generic class": "class Config[T]:\n    dtype: str = 'bfloat16'\n    x = torch.bfloat16\n",
    "the same quotes inside an f-string": 'f(f"{cfg["dtype"]}", dtype=torch.bfloat16)\n',
    "a backslash inside an f-string": "f(f\"{'\\n'.join(names)}\", dtype=torch.bfloat16)\n",
    "except*": "try:\n    pass\nexcept* ValueError:\n    x = torch.bfloat16\n",
}


@pytest.mark.parametrize("code", NEWER.values(), ids=NEWER)
def test_older_syntax_of_the_same_length(code: str) -> None:
    older = as_older(SourceFile("m.py", code.encode()))
    assert older is not None
    assert len(older) == len(code)
    assert older.count("\n") == code.count("\n")
    ast.parse(older)


@pytest.mark.parametrize("line_end", ["\n", "\r\n"], ids=["lf", "crlf"])
@pytest.mark.parametrize("code", NEWER.values(), ids=NEWER)
def test_every_value_is_rewritten_where_it_stands(code: str, line_end: str) -> None:
    data = f"# é\nimport torch\n{code}".replace("\n", line_end).encode()
    edits = [edit for each in file_findings("m.py", data, P40) if each.verdict == REWRITE for edit in each.edits]
    patched = PatchSet.of(edits, lambda _: data).apply_to("m.py", data)
    assert patched == data.replace(b"torch.bfloat16", b"torch.float32").replace(b"'bfloat16'", b"'float32'")


def test_what_neither_reads_is_told() -> None:
    with pytest.raises(ReadError, match=r"line 2: .*not parsed, so left alone"):
        file_findings("m.py", b"import torch\nx = = torch.bfloat16\n", P40)


TOO_DEEP = {
    "lists": "x = " + "[" * 1600 + "torch.bfloat16" + "]" * 1600,
    "brackets that are never closed": "x = torch.bfloat16 + " + "(" * 1600,
    "brackets of every kind": "x = " + "f([{1: " * 700 + "torch.bfloat16" + "}])" * 700,
    "signs": "print 1\nx = torch.bfloat16, " + "-" * 20_000 + "1",
    "negations": "print 1\nx = torch.bfloat16, " + "not " * 20_000 + "1",
    "functions": "print 1\nx = torch.bfloat16, " + "lambda: " * 20_000 + "1",
    "attributes": "print 1\nx = torch.bfloat16, a" + ".b" * 20_000,
    "branches": "print 1\nx = torch.bfloat16\nif a: pass\n" + "elif a: pass\n" * 20_000,
}


@pytest.mark.parametrize("code", TOO_DEEP.values(), ids=TOO_DEEP)
def test_what_is_too_deep_to_read_is_told(code: str) -> None:
    with pytest.raises(ReadError, match="not parsed, so left alone"):
        file_findings("m.py", f"import torch\n{code}\n".encode(), P40)


def test_brackets_in_a_string_are_not_deep() -> None:
    data = f"import torch\ntype D = int\nx = '{'[' * 1600}'\ny = torch.bfloat16\n".encode()
    assert [each.verdict for each in file_findings("m.py", data, P40)] == [REWRITE]
