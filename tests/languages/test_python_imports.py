"""Imports of kernels in Python: by a call, behind a guard that stops all the same, with None in their place."""

from __future__ import annotations

import pytest

from precpatch.engine.finding import REPORT
from precpatch.engine.policy import Policy
from precpatch.engine.rules import load_rules
from precpatch.gpu.resolve import resolve_target
from precpatch.session import file_findings

P40 = Policy(load_rules(), resolve_target("p40"))


def reported(code: str) -> list[str]:
    return [each.rule for each in file_findings("m.py", code.encode(), P40) if each.verdict == REPORT]


CALLS = [
    'import importlib\nm = importlib.import_module("flash_attn")',
    'import importlib as il\nm = il.import_module("flash_attn.layers")',
    'from importlib import import_module\nm = import_module(name="flash_attn")',
    'from importlib import import_module as im\nm = im("flash_attn").flash_attn_func',
    'import importlib\nm = importlib.import_module(".bert_padding", package="flash_attn")',
    'import importlib\nm = importlib.import_module(f"flash_attn.{part}")',
    'import importlib\nm = importlib.import_module("flash_attn." + part)',
    'm = __import__("flash_attn")',
    'def f():\n    return __import__("flash_attn")',
]


@pytest.mark.parametrize("code", CALLS)
def test_an_import_by_a_call_is_one(code: str) -> None:
    assert reported(code) == ["flash-attn-import"]


def test_a_module_that_only_a_call_names_makes_the_file_be_read() -> None:
    assert reported('import importlib\nm = importlib.import_module("triton")') == ["triton-import"]
    assert reported('m = __import__("transformer_engine.pytorch")') == ["transformer-engine"]


NO_IMPORTS = [
    'import importlib\nm = importlib.import_module("json")',
    'import importlib.util\nhas = importlib.util.find_spec("flash_attn")',
    'import importlib\ntry:\n    m = importlib.import_module("flash_attn")\nexcept ImportError:\n    m = other',
    'import importlib\nif importlib.util.find_spec("flash_attn"):\n    m = importlib.import_module("flash_attn")',
    'import pytest\npytest.importorskip("flash_attn")',
    'm.import_module("flash_attn")',
]


@pytest.mark.parametrize("code", NO_IMPORTS)
def test_what_only_asks_for_the_module_is_none(code: str) -> None:
    assert reported(code) == []


STOPS = [
    *(
        "raise",
        'raise ImportError("install it") from error',
        "log.error(error)\n    raise",
        "sys.exit(1)",
        "os._exit(1)",
    ),
    *("assert False", "raise SystemExit(1)", "if strict:\n        raise\n    else:\n        sys.exit(1)", "pass"),
]
GOES_ON = [
    "flash_attn = other",
    "from mine import f",
    "if strict:\n        raise\n    flash_attn = other",
    "HAS = False",
]


@pytest.mark.parametrize("kind", ["ImportError as error", "(ImportError, OSError) as error", "Exception as error"])
def test_a_guard_whose_handler_stops_is_none(kind: str) -> None:
    for body in STOPS:
        code = f"try:\n    import flash_attn\nexcept {kind}:\n    {body}"
        assert reported(code) == ["flash-attn-import"], code
    for body in GOES_ON:
        assert reported(f"try:\n    import flash_attn\nexcept {kind}:\n    {body}") == [], body


def test_one_handler_that_goes_on_is_enough() -> None:
    code = "try:\n    import flash_attn\nexcept OSError:\n    raise\nexcept ImportError:\n    flash_attn = other"
    assert reported(code) == []


FALLBACKS = {
    "one": ("from flash_attn import f", "f = None", "f"),
    "several": ("from flash_attn import e, f", "e, f = None, None", "f"),
    "chained": ("from flash_attn import e, f", "e = f = None", "f"),
    "renamed": ("from flash_attn import a as f", "f = None", "f"),
    "module": ("import flash_attn", "flash_attn = None", "flash_attn.f"),
    "module renamed": ("import flash_attn as fa", "fa = None", "fa.ops.f"),
}
UNTESTED = [
    *(
        "y = {f}(q)",
        "def g(q):\n    return {f}(q)",
        "g = lambda q: {f}(q)",
        "def g(q):\n    return [{f}(x) for x in q]",
    ),
    "class A:\n    def g(self, q, more):\n        if more:\n            return {f}(q)",
]
TESTED = [
    *("if {n} is not None:\n    y = {f}(q)", "y = {f}(q) if {n} else q", "y = {n} and {f}(q)"),
    "def g(q):\n    if {n} is None:\n        return q\n    return {f}(q)",
    "def g(q):\n    assert {n} is not None\n    return {f}(q)",
    "class A:\n    def __init__(self):\n        if not {n}:\n            raise OSError\n    def g(q):\n        {f}(q)",
    "HAS = {n} is not None\ndef g(q):\n    if HAS:\n        return {f}(q)",
    'def g(q):\n    if cfg._attn_implementation == "flash_attention_2":\n        return {f}(q)',
    "def flash_attn_forward(q):\n    return {f}(q)",
    "g = {f}",
]


@pytest.mark.parametrize("fallback", FALLBACKS.values(), ids=FALLBACKS)
def test_none_in_place_of_an_import_must_be_tested(fallback: tuple[str, str, str]) -> None:
    statement, instead, function = fallback
    head = f"try:\n    {statement}\nexcept ImportError:\n    {instead}\n"
    names = {"f": function, "n": function.partition(".")[0]}
    for use in UNTESTED:
        assert reported(head + use.format(**names)) == ["flash-attn-fallback"], use
    for use in TESTED:
        assert reported(head + use.format(**names)) == [], use
