"""Rewrites of Python that change more than a name: a list that grows, an import from another module."""

from __future__ import annotations

import subprocess
import sys

import pytest
from readers import Reader

from precpatch.languages.python import PythonLanguage
from precpatch.languages.python.structure import replace_import, replace_module

READER = Reader(PythonLanguage())

GROWN = [
    ('["bf16", "fp16"]', '["bf16", "fp16", "fp32"]'),
    ('["bf16","fp16",]', '["bf16","fp16","fp32",]'),
    ('("bf16", "fp16")', '("bf16", "fp16", "fp32")'),
    ('{"fp16" , "bf16" }', '{"fp16" , "bf16" , "fp32" }'),
    ('[\n    "bf16",\n    "fp16",\n]', '[\n    "bf16",\n    "fp16",\n    "fp32",\n]'),
    ('[\r\n    "bf16",\r\n    "fp16"\r\n]', '[\r\n    "bf16",\r\n    "fp16",\r\n    "fp32"\r\n]'),
    ('["bf16"]', '["bf16", "fp32"]'),
    ('["bf16",]', '["bf16", "fp32"]'),
    ('("bf16",)', '("bf16", "fp32")'),
    ('["bf16" # why\n  ,]', '["bf16" # why\n  , "fp32"]'),
    ('(("bf16"),)', '(("bf16"), "fp32")'),
    ('[("fp16"), (("bf16")), ]', '[("fp16"), (("bf16")), "fp32", ]'),
    ('["bf16", ("fp16", 1)[0] ]', '["bf16", ("fp16", 1)[0], "fp32" ]'),
    ('["fp16", # one, (two)\n "bf16" # )\n]', '["fp16", # one, (two)\n "bf16",\n "fp32" # )\n]'),
]


@pytest.mark.parametrize(("before", "after"), GROWN)
def test_a_list_grows_by_one_in_its_own_layout(before: str, after: str) -> None:
    source = READER.open("m.py", f"é = 1\nassert x in {before}, x\n".encode())
    mention = next(each for each in READER.read(source) if each.text == '"bf16"')
    (edit,) = READER.extend(source, mention, "float32")
    assert (edit.old.decode(), edit.new.decode()) == (before, after)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("from flash_attn.bert_padding import pad_input", "from verl.x import pad_input"),
        ("from  flash_attn \\\n import (\n  a, # b\n  b,\n)", "from  verl.x \\\n import (\n  a, # b\n  b,\n)"),
        ("from a.b import(c)", "from verl.x import(c)"),
    ],
)
def test_an_import_from_another_module_stays_as_it_is_written(before: str, after: str) -> None:
    assert replace_module(before, "verl.x") == after
    assert replace_module(before, "..x") == after.replace("verl.x", "..x")


@pytest.mark.parametrize(("statement", "module"), [("import a", "b"), ("x = 1", "b"), ("from a import b", "my-b")])
def test_what_is_no_import_or_no_module_is_refused(statement: str, module: str) -> None:
    with pytest.raises(ValueError, match="not a"):
        replace_module(statement, module)
    with pytest.raises(ValueError, match="not a"):
        replace_module("from a import b", "class")


@pytest.mark.parametrize("alias", ["bfloat16", "bfloat16 as bf", "bfloat16  as \\\n b"])
def test_an_imported_name_keeps_its_alias(alias: str) -> None:
    assert replace_import(alias, "bfloat16", "float32") == "float32" + alias.removeprefix("bfloat16")


def test_a_list_grows_without_libcst() -> None:
    code = (
        "import sys; from precpatch.gpu.resolve import resolve_target; from precpatch.config import Settings;"
        "from precpatch.session import file_findings, policy_for;"
        'data = b\'def f(dtype="bf16"):\\n    assert dtype in ["bf16", "fp16"]\\n\';'
        "found = file_findings('m.py', data, policy_for(Settings(), resolve_target('p40')));"
        "print([each.after for each in found if each.after], 'libcst' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == """['"fp32"', '["bf16", "fp16", "fp32"]'] False\n"""
