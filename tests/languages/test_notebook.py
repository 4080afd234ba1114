"""The notebook reader: the code cells of a notebook as one module, and edits that stay inside their strings."""

from __future__ import annotations

import json
import time
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from patched import run
from readers import Reader

from precpatch.languages.base import Language, ReadError
from precpatch.languages.mention import KINDS, ROLES, Mention
from precpatch.languages.notebook import MAX_MAGICS, NotebookLanguage
from precpatch.languages.python import PythonLanguage
from precpatch.languages.source import SourceFile
from precpatch.patch.edits import Edit, PatchSet

READER = Reader(NotebookLanguage())
PYTHON = Reader(PythonLanguage())
REWRITES = {"bfloat16": "float32", "flash_attention_2": "eager"}
DECIDING = {"value", "autocast", "method-cast"}

NOTEBOOK = """\
{
 "cells": [
  {
   "cell_type": "markdown",
   "metadata": {},
   "source": ["Loads in `torch.bfloat16`.\\n", "import torch as th\\n"]
  },
  {
   "cell_type": "code",
   "execution_count": 1,
   "metadata": {"tags": ["bf16"]},
   "outputs": [
    {"name": "stdout", "output_type": "stream", "text": ["torch.bfloat16\\n", "x = torch.bfloat16\\n"]}
   ],
   "source": [
    "%pip install flash_attn\\n",
    "import torch as th\\n",
    "\\n",
    "show(\\"über\\", th.bfloat16)"
   ]
  },
  {
   "cell_type": "code",
   "execution_count": null,
   "metadata": {},
   "outputs": [],
   "source": "path = \\"a\\\\\\\\b\\" ; model = Auto.from_pretrained(path, torch_dtype=th.bfloat16,\\n  \
  attn_implementation=\\"flash_attention_2\\")\\n\
x = model.half().bfloat16()"
  }
 ],
 "metadata": {
  "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
  "language_info": {"name": "python", "version": "3.11.7"}
 },
 "nbformat": 4,
 "nbformat_minor": 5
}
"""


def notebook(*cells: str | list[str] | dict[str, Any], metadata: dict[str, Any] | None = None) -> str:
    """A notebook with these cells of code, as Jupyter writes it."""
    written = [
        {"cell_type": "code", "execution_count": None, "metadata": {}, "outputs": [], "source": cell}
        if isinstance(cell, (str, list))
        else cell
        for cell in cells
    ]
    tree = {"cells": written, "metadata": metadata or {}, "nbformat": 4, "nbformat_minor": 5}
    return json.dumps(tree, indent=1, ensure_ascii=False) + "\n"


def opened(text: str | bytes, path: str = "demo.ipynb") -> SourceFile:
    return READER.open(path, text if isinstance(text, bytes) else text.encode())


def read(text: str | bytes, prose: bool = False, path: str = "demo.ipynb") -> list[Mention]:
    source = opened(text, path)
    mentions = READER.read(source, prose)
    for mention in mentions:
        assert mention.language in {"python", "shell"}
        assert mention.kind in KINDS
        assert mention.role in ROLES
        assert source.data[mention.start : mention.end].decode(source.encoding) == mention.text
        assert source.line_text(mention.line)[mention.column - 1 :].startswith(mention.text.split("\n")[0].rstrip("\r"))
    return mentions


def only(text: str | bytes) -> Mention:
    (mention,) = read(text)
    return mention


def fixes(source: SourceFile) -> list[Edit]:
    wanted = [mention for mention in READER.read(source) if mention.role in DECIDING and mention.value in REWRITES]
    return [edit for mention in wanted for edit in READER.rewrite(source, mention, REWRITES[mention.value])]


def patched(text: str | bytes) -> bytes:
    source = opened(text)
    after = PatchSet.of(fixes(source), lambda _: source.data).apply_to(source.path, source.data)
    assert READER.check(source, after) is None
    return after


def code_of(data: str | bytes) -> list[str]:
    return ["".join(cell["source"]) for cell in json.loads(data)["cells"]]


def error_of(data: str | bytes) -> str:
    with pytest.raises(ReadError) as caught:
        read(data)
    return str(caught.value)


def test_is_a_language() -> None:
    reader: Language = READER.language
    assert reader.name == "notebook"
    assert reader.suffixes == (".ipynb",)


# Reading.


def test_only_code_is_read() -> None:
    assert [(m.line, m.role, m.text) for m in read(NOTEBOOK) if m.value != "float16"] == [
        (16, "import", "flash_attn"),
        (19, "value", "th.bfloat16"),
        (27, "value", "th.bfloat16"),
        (27, "value", '\\"flash_attention_2\\"'),
        (27, "method-cast", ".bfloat16()"),
    ]


def test_positions_are_those_of_the_file() -> None:
    _, first, *_ = read(NOTEBOOK)
    assert (first.line, first.column, first.end_line, first.end_column) == (19, 21, 19, 32)
    assert NOTEBOOK.encode()[first.start : first.end] == b"th.bfloat16"


def test_the_context_is_that_of_the_python_reader() -> None:
    _, _, dtype, attention, *_ = read(NOTEBOOK)
    assert (dtype.key, dtype.callee, dtype.spelling) == ("torch_dtype", "Auto.from_pretrained", "torch")
    assert (attention.kind, attention.key) == ("attention", "attn_implementation")


def test_only_the_values_change() -> None:
    after = NOTEBOOK.replace("th.bfloat16", "th.float32").replace("flash_attention_2", "eager")
    assert patched(NOTEBOOK).decode() == after.replace(".bfloat16()", ".float()")


def test_names_hold_from_cell_to_cell() -> None:
    text = notebook("import torch as th", ["from torch import bfloat16 as bf\n"], "a = th.bfloat16", "b.to(bf)")
    imported, first, second = read(text)
    assert (imported.role, imported.follows) == ("import", (second.start,))
    assert (first.text, second.text) == ("th.bfloat16", "bf")
    assert only(notebook("import thing as th", "a = th.bfloat16\nc = torch.bfloat16")).text == "torch.bfloat16"


def test_words_that_decide_nothing() -> None:
    text = notebook(["# bf16 first\n", "x = 1\n"], {"cell_type": "raw", "metadata": {}, "source": "bf16"})
    assert read(text) == []
    (comment,) = read(text, prose=True)
    assert (comment.role, comment.text) == ("comment", "bf16")


def test_a_notebook_without_code() -> None:
    assert read(notebook()) == read("[]") == read("1") == read('{"cells": {"bf16": 1}}') == []
    odd: list[Any] = [1, None, {"cell_type": "code"}, {"cell_type": "code", "source": 1}, {"source": "torch.bfloat16"}]
    assert read(json.dumps({"cells": odd})) == []


@pytest.mark.parametrize(
    ("metadata", "count"),
    [
        ({}, 1),
        ({"kernelspec": {"name": "my-env"}}, 1),
        ({"kernelspec": {"language": "Python"}}, 1),
        ({"language_info": {"name": "ipython"}}, 1),
        ({"kernelspec": {"language": "R"}}, 0),
        ({"language_info": {"name": "julia"}}, 0),
        ({"kernelspec": {"name": "ir"}, "language_info": {"name": "R"}}, 0),
    ],
)
def test_the_language_of_the_kernel(metadata: dict[str, Any], count: int) -> None:
    assert len(read(notebook("x = torch.bfloat16", metadata=metadata))) == count


def test_a_cell_in_another_language() -> None:
    shell = {"cell_type": "code", "metadata": {"vscode": {"languageId": "shellscript"}}, "source": "torch.bfloat16 ("}
    assert read(notebook(shell)) == []


def test_notebooks_of_format_3() -> None:
    cell = {"cell_type": "code", "language": "python", "input": ["import torch as t\n", "x = t.bfloat16"]}
    text = json.dumps({"metadata": {"name": ""}, "nbformat": 3, "worksheets": [{"cells": [cell]}]})
    assert patched(text).decode() == text.replace("t.bfloat16", "t.float32")


def test_other_devices() -> None:
    assert "other-device" in only(notebook("import torch_npu", "x = torch.bfloat16")).facts


# What IPython understands.


@pytest.mark.parametrize(
    "line",
    [
        "%matplotlib inline",
        "%pip install einops==0.7 # it's (",
        "!pip install 'verl",
        "!echo '''",
        "  !ls (",
        "files = !ls",
        "t = %timeit -o f()",
        "?torch.bfloat16",
        "torch.bfloat16?",
        "torch.bfloat16??  ",
        "!python -m verl.trainer.main_ppo \\\\\n  actor.dtype=float32 \\\\\n  trainer.n=8".replace("\\\\", "\\"),
        "!a\n!b\n%c",
        "if x:\n    !a\nelse:\n    %b",
    ],
)
def test_lines_for_ipython(line: str) -> None:
    line = line.lstrip()
    text = notebook(f"{line}\nx = torch.bfloat16\n", f"x = torch.bfloat16\n{line}", f"x = torch.bfloat16\r\n{line}\r\n")
    assert [mention.text for mention in read(text)] == ["torch.bfloat16"] * 3
    assert patched(text).decode() == text.replace("= torch.bfloat16", "= torch.float32")


@pytest.mark.parametrize(
    ("cell", "count"),
    [
        ("%%time\nx = torch.bfloat16", 1),
        ("\n%%capture out\n!ls\nx = torch.bfloat16", 1),
        ("%%timeit -n 1\nx = torch.bfloat16", 1),
        ("%%bash\npython train.py --dtype torch.bfloat16", 1),
        ("%%sh\npython train.py --dtype torch.bfloat16", 1),
        ("%%html\n<b>torch.bfloat16</b>", 0),
        ("%%writefile train.py\nx = torch.bfloat16", 1),
        ("%%writefile notes.md\nx = torch.bfloat16", 0),
        ("%%script /bin/bash --bg\npython train.py --dtype torch.bfloat16", 1),
        ("%%capture\n!python train.py --dtype torch.bfloat16", 1),
        ("%%\ntorch.bfloat16", 0),
    ],
)
def test_cell_magics(cell: str, count: int) -> None:
    assert len(read(notebook(cell))) == count


def test_commands_of_the_shell() -> None:
    command = "!python train.py a.dtype=bfloat16 \\\n  --reduce_dtype bf16"
    after = command.replace("bfloat16", "float32").replace("bf16", "fp32")
    cells = "s = 'é'\n{}\nx = 1", "if s:\n    {}\nelse:\n    t = '''\n!run dtype=bfloat16\n'''\n"
    text = notebook(*(cell.format(command) for cell in cells))
    assert patched(text).decode() == notebook(*(cell.format(after) for cell in cells))
    bash = notebook(f"%%bash\n{command[1:]}")
    assert patched(bash).decode() == notebook(f"%%bash\n{after[1:]}")
    assert {mention.language for mention in read(text)} == {"shell"}


@pytest.mark.parametrize(
    "line",
    [
        "%env WANTED={}",
        "%env WANTED {}",
        "%set_env WANTED = {}",
        "%env WANTED={}  ",
        "if 1:\n    %env WANTED={}",
    ],
)
def test_variables_that_magic_sets_are_those_of_the_commands(line: str) -> None:
    before, after = (
        notebook(f"x = 'é'\n{line.format(word)}\n%env RUN=run-bf16", "!python t.py --dtype $WANTED")
        for word in ("bfloat16", "float32")
    )
    outcome = run("n.ipynb", before)
    assert outcome.text == after
    assert ("dtype",) in outcome.used_by.values()


@pytest.mark.parametrize(
    "line",
    [
        "%pip install flash-attn",
        "!pip install flash-attn",
        "%uv pip install flash-attn",
        "out = !pip install flash-attn",
    ],
)
def test_installations_in_every_kind_of_line(line: str) -> None:
    assert [rule for _, rule in run("n.ipynb", notebook(f"%%capture\n{line}", line)).reports] == [
        "flash-attn-install",
        "flash-attn-install",
    ]


FILES = {
    "c.yaml": 'model:\n  dtype: {}  # é\nrun: |\n  python t.py \\\n    --dtype {} --name "bf16"\n',
    "'my run.sh'": 'set -x\nD={}\npython t.py --dtype "$D"\n',
    "sub/t.py": 'import torch\nload("x", torch_dtype=torch.{})\n',
    "-a ds.json": '{"model_type": "x", "torch_dtype": "{}"}',
}


@pytest.mark.parametrize("end", ["\n", "\r\n"], ids=["lf", "crlf"])
@pytest.mark.parametrize("name", FILES)
def test_a_file_that_a_cell_writes_is_read_as_what_it_is(name: str, end: str) -> None:
    def cells(word: str) -> str:
        cell = f"%%writefile {name}\n{FILES[name].replace('{}', word)}".replace("\n", end)
        return notebook(cell, cell.splitlines(keepends=True), "x = 1\n")

    assert run("n.ipynb", cells("bfloat16")).text == cells("float32")


@pytest.mark.parametrize(
    ("name", "body", "rules"),
    [
        ("requirements.txt", "torch\nflash-attn\n", ["flash-attn-install"]),
        ("c.toml", '[model]\ndtype = "bfloat16"\nname = "bf16"\n', ["dtype-setting"]),
        (
            "Dockerfile",
            "RUN pip install flash-attn\nENV TORCH_DTYPE=bfloat16\n",
            ["dtype-setting", "flash-attn-install"],
        ),
        ("README.md", "python t.py --dtype bfloat16\n", []),
    ],
)
def test_a_written_file_of_another_kind_is_told_place_by_place(name: str, body: str, rules: list[str]) -> None:
    text = notebook(f"%%writefile {name}\n{body}")
    outcome = run("n.ipynb", text)
    assert (outcome.text, [rule for _, rule in outcome.reports]) == (text, rules)


def test_a_written_file_that_does_not_parse_is_told() -> None:
    text = notebook("x = 1", "%%writefile c.yaml\ndtype: bfloat16\n a: [")
    assert error_of(text).startswith("cell 2, line 15: c.yaml, which it writes: line 2")
    assert read(notebook("%%writefile c.yaml\nname: x\n a: [", "x = torch.bfloat16")) != []


def test_python_that_only_looks_like_magic() -> None:
    text = notebook("x = f(a\n  % b,\n  dtype=torch.bfloat16,\n  c=d\n  != e)\nnote = '''\n!pip install x\nwhy?\n'''\n")
    assert patched(text).decode() == text.replace("torch.bfloat16", "torch.float32")
    assert only(notebook("x = await f(torch.bfloat16)")).callee == "f"


def test_a_cell_with_too_many_magics() -> None:
    lines = "!ls\n1\n" * MAX_MAGICS
    assert read(notebook(lines[: -len("!ls\n1\n")], "x = torch.bfloat16")) != []
    assert error_of(notebook(lines + "torch.bfloat16")) == (
        "cell 1, line 8: more than 100 lines for IPython: not parsed, so left alone"
    )


# Cells that do not parse.


def test_a_broken_cell_without_a_needle_is_left_out() -> None:
    text = notebook("import torch as th", "print 'x'", "x = th.bfloat16")
    assert patched(text).decode() == text.replace("th.bfloat16", "th.float32")


def test_a_broken_cell_with_a_needle_is_told() -> None:
    markdown = {"cell_type": "markdown", "metadata": {}, "source": ""}
    message = error_of(notebook(markdown, "y = 1", ["x = 1\n", "\n", "z = torch.bfloat16 (\n"]))
    assert message.startswith("cell 3, line 23: ")
    assert message.endswith(": not parsed, so left alone")
    for cell in ("x = (torch.bfloat16", "x = 'torch.bfloat16\0'", "torch.bfloat16\\\n"):
        assert error_of(notebook(cell)).startswith("cell 1, line 8: ")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"cells": ["torch.bfloat16" }', "line 1, column 29: "),
        ('{"cells": []}\n{"x": "bf16"}', "line 2, column 1: more than one JSON value"),
    ],
)
def test_files_that_are_not_json(text: str, message: str) -> None:
    assert error_of(text).startswith(message)


def test_files_that_are_not_text() -> None:
    assert error_of(b'{"cells": "bf16 \xff"}') == "not text: byte 0xff at offset 16 is not UTF-8"


# Rewriting.


def test_escapes_around_a_value() -> None:
    text = notebook('s = "\t\\n"; é = "🙂\u2028"; x = {"dtype": torch.bfloat16, "a": "b/c"} # 🙂\n')
    for written in (text, text.replace("🙂", "\\ud83d\\ude00").replace("/", "\\/").replace("é", "\\u00e9")):
        after = patched(written).decode()
        assert after == written.replace("torch.bfloat16", "torch.float32")


def test_escapes_inside_a_value() -> None:
    text = notebook("x = torch.bfloat16").replace("bfloat16", "b\\u0066loat\\u0031\\u0036")
    assert READER.mentions(text.encode())
    assert only(text).text == "torch.b\\u0066loat\\u0031\\u0036"
    assert code_of(patched(text)) == ["x = torch.float32"]


def test_text_that_is_not_ascii_stays_as_it_is_written() -> None:
    text = notebook('h = ["é.dtype=bfloat16", "é"]\nif d in ["bfloat16", "é"]: pass\n')
    source = opened(text)
    allowed = [mention for mention in READER.read(source) if mention.role == "allowed-values"]
    (edit,) = READER.extend(source, allowed[0], "float32")
    assert edit.new.decode() == '[\\"bfloat16\\", \\"é\\", \\"float32\\"]'
    escaped = opened(text.replace("é", "\\u00e9"))
    (edit,) = READER.extend(escaped, READER.read(escaped)[-1], "float32")
    assert edit.new.decode() == '[\\"bfloat16\\", \\"\\u00e9\\", \\"float32\\"]'


def test_an_edit_never_crosses_the_strings_of_a_cell() -> None:
    cell = ['assert x.dtype in ["bfloat16",\n', '  "float16"]\n']
    for code, count in ((cell, 0), ("".join(cell), 1)):
        source = opened(notebook(code))
        mention = READER.read(source)[0]
        assert mention.role == "allowed-values"
        assert len(READER.extend(source, mention, "float32")) == count
        assert READER.rewrite(source, mention, "float32") != ()


def test_a_mention_may_cross_the_strings_of_a_cell() -> None:
    split = opened(notebook(["x = f(torch.\n", "bfloat16)", "\n"], ["y = (torch\n", " .bfloat16)"]))
    for mention in READER.read(split):
        assert mention.end_line == mention.line + 1
        assert READER.rewrite(split, mention, "float32") == ()


def test_text_that_was_put_out_is_never_written() -> None:
    text = notebook("!ls\nx = f'''\n'''\ny = torch. \\\n  bfloat16\n").replace("bfloat16", "bfloat16 # \\ud800")
    assert code_of(patched(text))[0].endswith("  float32 # \ud800\n")


def test_half_of_a_character_is_never_written() -> None:
    source = opened(notebook('x = """\n? a.b.dtype=bfloat16"""').replace("?", "\\ud83d"))
    (mention,) = READER.read(source)
    assert mention.text == "bfloat16"
    assert READER.rewrite(source, mention, "float32") == ()


def test_switches_and_their_twins() -> None:
    source = opened(notebook("a = Args(bf16=True, fp16=False)\n", ["b = dict(bf16=True)"]))
    switches = [mention for mention in READER.read(source) if mention.key == "bf16"]
    edits = [edit for mention in switches for edit in READER.rewrite(source, mention, "float16")]
    after = PatchSet.of(edits, lambda _: source.data).apply_to(source.path, source.data)
    assert code_of(after) == ["a = Args(bf16=False, fp16=True)\n", "b = dict(fp16=True)"]


def test_an_import_with_uses_that_stay() -> None:
    source = opened(notebook(["from torch import bfloat16\n"], "x = bfloat16"))
    imported = READER.read(source)[0]
    mixed = Mention(**{**as_dict(imported), "facts": frozenset({"mixed-import"})})
    (edit,) = READER.rewrite(source, mixed, "float32")
    assert edit.new == b"bfloat16, float32"


def as_dict(mention: Mention) -> dict[str, Any]:
    return {name: getattr(mention, name) for name in Mention.__dataclass_fields__}


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-32"])
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_encodings_and_line_ends(encoding: str, end: str) -> None:
    data = NOTEBOOK.replace("\n", end).encode(encoding)
    assert READER.mentions(data)
    assert patched(data) == patched(NOTEBOOK).decode().replace("\n", end).encode(encoding)


def test_check_finds_what_broke() -> None:
    before = opened(notebook("x = 1", "print 'x'"))
    assert READER.check(before, notebook("x = 2", "print 'y'").encode()) is None
    assert (READER.check(before, notebook("x = (", "print 'x'").encode()) or "").startswith("cell 1, line 8: ")
    assert (READER.check(before, b'{"cells": [}') or "").startswith("line 1, column 12: ")


def test_filter() -> None:
    assert READER.mentions(NOTEBOOK.encode())
    assert not READER.mentions(notebook("x = 1", "y = 'caf\u00e9'").encode())
    assert not READER.mentions(b"")


@pytest.mark.parametrize(
    "cell",
    [
        "!x\n1\n" * 20_000 + "torch.bfloat16",
        "x = [" + "torch.bfloat16, 'é\\\\', " * 2_000 + "]",
        "(" * 50_000 + "torch.bfloat16",
        ["x = torch.bfloat16 # é\n"] * 2_000,
    ],
)
def test_hostile_cells_are_cheap(cell: str | list[str]) -> None:
    started = time.process_time()
    with suppress(ReadError):
        read(notebook(cell))
    assert time.process_time() - started < 20


# Properties.


LINES = (
    "x = torch.bfloat16",
    "y = f(dtype=th.bfloat16, a='é🙂\\\\')",
    'z = Auto.from_pretrained(p, attn_implementation="flash_attention_2")',
    'cfg.dtype = "bfloat16"  # "bf16" \t',
    "w = model.bfloat16()",
    "if x == torch.bfloat16: pass",
    "import torch as th",
    "%pip install x",
    "!echo 'bf16",
    "def f(a,\n      dtype=torch.bfloat16):\n    return '''\nbf16'''",
    "",
)


@st.composite
def notebooks(draw: st.DrawFn) -> bytes:
    cells: list[str | list[str] | dict[str, Any]] = []
    for _ in range(draw(st.integers(1, 4))):
        code = "\n".join(draw(st.lists(st.sampled_from(LINES), max_size=4)))
        cells.append(code.splitlines(keepends=True) if draw(st.booleans()) else code)
        if draw(st.booleans()):
            cells.append({"cell_type": "markdown", "metadata": {}, "source": [draw(st.sampled_from(LINES))]})
    text = notebook(*cells)
    if draw(st.booleans()):
        text = json.dumps(json.loads(text), indent=draw(st.sampled_from([None, 2])))
    return text.encode(draw(st.sampled_from(["utf-8", "utf-8-sig", "utf-16"])))


@given(notebooks())
@settings(max_examples=150)
def test_rewriting_is_what_the_python_reader_does(data: bytes) -> None:
    source = opened(data)
    edits = sorted(fixes(source), key=lambda edit: edit.start)
    assert not edits or READER.mentions(data)
    after = patched(data)
    kept, shift, done = [], 0, 0
    for edit in edits:
        kept.append((data[done : edit.start], after[done + shift : edit.start + shift]))
        shift, done = shift + len(edit.new) - len(edit.old), edit.end
    assert all(old == new for old, new in [*kept, (data[done:], after[done + shift :])])
    assert fixes(opened(after)) == []
    old, new = json.loads(source.text), json.loads(opened(after).text)
    for before_cell, after_cell in zip(old["cells"], new["cells"], strict=True):
        code, changed = before_cell.pop("source"), after_cell.pop("source")
        assert type(code) is type(changed)
        assert len(code) == len(changed) or isinstance(code, str)
        if before_cell["cell_type"] == "markdown":
            assert code == changed
    assert old == new


@given(st.lists(st.sampled_from(LINES), max_size=5))
@settings(max_examples=100)
def test_one_cell_reads_like_a_file(lines: list[str]) -> None:
    code = "\n".join(line for line in lines if line[:1] not in ("%", "!")) + "\n"
    expected = [(m.role, m.value, m.key, m.callee, m.text) for m in PYTHON.read(PYTHON.open("x.py", code.encode()))]
    found = read(notebook(code))
    assert [(m.role, m.value, m.key, m.callee, json.loads(f'"{m.text}"')) for m in found] == expected


@given(st.text(st.sampled_from("%!?\\'\"(): \n\r=xbf16\ufeffé🙂"), max_size=40))
@settings(max_examples=300)
def test_any_cell_is_read_or_refused(cell: str) -> None:
    refusal = ""
    try:
        read(notebook(cell))
    except ReadError as error:
        refusal = str(error)
    assert "\n" not in refusal
