"""An import of a dtype and its uses are one group in every scope: changed together, or left together."""

from __future__ import annotations

import pytest
from unbound import unbound

from precpatch.config import Settings
from precpatch.engine.finding import REWRITE, Finding
from precpatch.gpu.resolve import resolve_target
from precpatch.patch.edits import PatchSet
from precpatch.session import file_findings, policy_for

P40 = resolve_target("p40")


def patched(code: str, settings: Settings | None = None) -> str:
    data = code.encode()
    found = file_findings("m.py", data, policy_for(settings or Settings(), P40))
    edits = [edit for each in found if each.verdict == REWRITE for edit in each.edits]
    return PatchSet.of(edits, lambda _: data).apply_to("m.py", data).decode() if edits else code


def findings(code: str) -> list[Finding]:
    return file_findings("m.py", code.encode(), policy_for(Settings(), P40))


IMPORTS = [
    "from torch import bfloat16",
    "from torch import bfloat16 as bfloat16",
    "from torch import float16, bfloat16",
]
USE = "f(dtype=bfloat16)"
ALL_CHANGE = {
    "at the top": "{i}\nx = {u}\n",
    "in a function": "def g(f):\n    {i}\n    return {u}\n",
    "in each of two functions": "def g(f):\n    {i}\n    return {u}\ndef h(f):\n    {i}\n    return {u}\n",
    "seen from a function inside": "def g(f):\n    {i}\n    def h():\n        return {u}\n    return h\n",
    "in a class": "class A:\n    {i}\n    x = {u}\n",
    "past a class that binds the name": "{i}\nclass A:\n    bfloat16 = 1\n    def g(self, f):\n        return {u}\n",
    "in two branches": "if a:\n    {i}\nelse:\n    {i}\nx = {u}\n",
    "beside one of another package": "{i}\ndef g(f):\n    from jax import bfloat16\n    return 1\nx = {u}\n",
    "as a default": "{i}\ndef g(bfloat16={u}):\n    return 1\n",
}


@pytest.mark.parametrize("imported", IMPORTS)
@pytest.mark.parametrize("shape", ALL_CHANGE)
def test_every_import_of_a_scope_changes_with_its_uses(shape: str, imported: str) -> None:
    code = ALL_CHANGE[shape].format(i=imported, u=USE)
    after = patched(code)
    assert after != code
    assert unbound(after) <= unbound(code)
    assert patched(after) == after


STAY = {
    "suppressed": "from torch import bfloat16  # precpatch: ignore\nx = f(dtype=bfloat16)\n",
    "suppressed under another name": "from torch import bfloat16 as b  # precpatch: ignore\nx = f(dtype=b)\n",
    "suppressed in a function": "def g(f):\n    from torch import bfloat16  # precpatch: ignore\n"
    "    return f(dtype=bfloat16)\n",
    "one branch suppressed": "if a:\n    from torch import bfloat16\nelse:\n"
    "    from torch import bfloat16  # precpatch: ignore\nx = f(dtype=bfloat16)\n",
    "another value where it fails": "try:\n    from torch import bfloat16\nexcept ImportError:\n    bfloat16 = None\n"
    "x = f(dtype=bfloat16)\n",
    "another package where it fails": "try:\n    from torch import bfloat16\nexcept ImportError:\n"
    "    from jax.numpy import bfloat16\nx = f(dtype=bfloat16)\n",
    "set for the module by a function": "def g():\n    global bfloat16\n    from torch import bfloat16\n"
    "x = f(dtype=bfloat16)\n",
    "from another package in a function": "def g(f):\n    from jax.numpy import bfloat16\n"
    "    return f(dtype=bfloat16)\n",
    "the new name is another's": "from numpy import float32\nfrom torch import bfloat16\nx = f(dtype=bfloat16)\n",
    "the new name is another's elsewhere": "from numpy import float32\ndef g():\n    from torch import float32\n"
    "def h(f):\n    from torch import bfloat16\n    return f(dtype=bfloat16)\n",
    "the new name means another dtype": "from torch import bfloat16, float16 as float32\nx = f(dtype=bfloat16)\n",
}


@pytest.mark.parametrize("shape", STAY)
def test_where_the_import_has_to_stay_its_uses_stay_and_are_reported(shape: str) -> None:
    assert patched(STAY[shape]) == STAY[shape]
    uses = [each for each in findings(STAY[shape]) if each.mention.role == "value"]
    assert uses
    assert all(each.verdict != REWRITE for each in uses)


CHOICES = [
    Settings(select=("dtype-value",)),
    Settings(ignore=("dtype-import",)),
    Settings(select=("dtype-import",)),
    Settings(ignore=("dtype-value",)),
]


@pytest.mark.parametrize("settings", CHOICES)
@pytest.mark.parametrize("imported", [*IMPORTS, "from torch import bfloat16 as bf"])
def test_a_choice_of_rules_leaves_both_or_none(settings: Settings, imported: str) -> None:
    code = f"{imported}\nx = f(dtype={imported.rsplit(maxsplit=1)[-1]})\n"
    assert patched(code, settings) == code


GIVEN_ON = ['from torch import bfloat16\n__all__ = ["bfloat16"]\nx = f(dtype=bfloat16)\n']


@pytest.mark.parametrize("code", GIVEN_ON)
def test_a_name_that_others_may_import_stays_beside_the_new_one(code: str) -> None:
    assert "from torch import bfloat16, float32\n" in patched(code)
    assert "f(dtype=float32)" in patched(code)
