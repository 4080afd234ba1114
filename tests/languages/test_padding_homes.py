"""Where imports of flash_attn's padding helpers go: to the checkout's own fallback, else to the shim."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from precpatch.config import Settings
from precpatch.gpu.resolve import resolve_target
from precpatch.patch.transaction import apply, revert
from precpatch.plan import Plan
from precpatch.session import plan

WORKER = "import verl\nfrom flash_attn.bert_padding import pad_input, unpad_input  # padding\n\n\ndef run(): ...\n"
FALLBACK = "def unpad_input(x, m):\n    return x\n\n\ndef pad_input(x):\n    return x\n\n\nindex_first_axis = max\n"


def tree(root: Path, **files: str) -> Path:
    for name, text in files.items():
        path = root / (name.replace("__in__", "/") + ".py")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def package(root: Path, **files: str) -> Path:
    for folder in ("verl", "verl/utils", "verl/workers"):
        (root / folder).mkdir()
        (root / folder / "__init__.py").touch()
    return tree(root, **files)


def run(root: Path) -> Plan:
    return plan(root, (), resolve_target("p40"), Settings())


def test_the_checkouts_own_fallback_is_taken(tmp_path: Path) -> None:
    package(tmp_path, verl__in__utils__in__attention=FALLBACK, verl__in__workers__in__actor=WORKER)
    planned = run(tmp_path)
    apply(tmp_path, planned.patches)
    assert planned.patches.new_files == ()
    text = (tmp_path / "verl/workers/actor.py").read_text()
    assert text == WORKER.replace("flash_attn.bert_padding", "verl.utils.attention")


@pytest.mark.parametrize(
    "not_one",
    [
        "def unpad_input(x):\n    from flash_attn.bert_padding import unpad_input as f\n    return f(x)\n" + FALLBACK,
        "import torch_npu\nfrom torch_npu import x\n" + FALLBACK,
        "def unpad_input(x):\n    return x\n",
        FALLBACK.replace("index_first_axis", "other"),
    ],
    ids=["needs flash_attn itself", "needs an NPU", "has not all of them", "has not what others import"],
)
def test_a_shim_is_added_where_nothing_serves_and_revert_takes_it_away(tmp_path: Path, not_one: str) -> None:
    package(tmp_path, verl__in__utils__in__attention=not_one, verl__in__workers__in__actor=WORKER)
    before = {path: path.read_bytes() for path in tmp_path.rglob("*.py")}
    planned = run(tmp_path)
    assert [each.path for each in planned.patches.new_files] == ["verl/utils/precpatch_padding.py"]

    apply(tmp_path, planned.patches)
    assert (
        "from verl.utils.precpatch_padding import pad_input, unpad_input  # padding"
        in (tmp_path / "verl/workers/actor.py").read_text()
    )
    assert not run(tmp_path).patches, "a second run finds something"

    revert(tmp_path)
    assert {path: path.read_bytes() for path in tmp_path.rglob("*.py")} == before


def test_the_added_module_can_be_imported_as_what_the_import_says(tmp_path: Path) -> None:
    package(tmp_path, verl__in__workers__in__actor=WORKER)
    apply(tmp_path, run(tmp_path).patches)
    code = "import ast, sys; ast.parse(open('verl/utils/precpatch_padding.py').read())"
    assert subprocess.run([sys.executable, "-c", code], cwd=tmp_path, check=False).returncode == 0


def test_outside_a_package_a_person_must_look(tmp_path: Path) -> None:
    tree(tmp_path, script=WORKER)
    planned = run(tmp_path)
    assert not planned.patches
    assert [finding.rule for finding in planned.of("report")] == ["flash-attn-padding"]


def test_other_names_of_the_module_are_not_promised(tmp_path: Path) -> None:
    package(tmp_path, verl__in__workers__in__a="from flash_attn.bert_padding import unpad_input_for_concatenated\n")
    assert not run(tmp_path).patches


def test_a_part_of_the_checkout_gets_the_same_import_as_the_whole(tmp_path: Path) -> None:
    """The package and its fallback are looked up on disk, not among the files that were named."""
    package(tmp_path, verl__in__utils__in__attention=FALLBACK, verl__in__workers__in__actor=WORKER)
    whole = run(tmp_path)
    part = plan(tmp_path, (tmp_path / "verl/workers/actor.py",), resolve_target("p40"), Settings())
    assert part.patches == whole.patches
    assert part.patches.paths == ("verl/workers/actor.py",)


def test_inside_a_package_its_own_name_is_not_known(tmp_path: Path) -> None:
    package(tmp_path, verl__in__workers__in__actor=WORKER)
    planned = run(tmp_path / "verl")
    assert not planned.patches
    assert [finding.rule for finding in planned.of("report")] == ["flash-attn-padding"]


def test_a_package_below_another_folder_is_imported_relatively(tmp_path: Path) -> None:
    """``recipe/prime`` may be imported as ``recipe.prime`` or as ``prime``."""
    (tmp_path / "recipe/prime").mkdir(parents=True)
    (tmp_path / "recipe/prime/__init__.py").touch()
    tree(tmp_path, recipe__in__prime__in__rm=WORKER)
    planned = run(tmp_path)
    apply(tmp_path, planned.patches)
    assert "from .precpatch_padding import pad_input, unpad_input" in (tmp_path / "recipe/prime/rm.py").read_text()
    assert [each.path for each in planned.patches.new_files] == ["recipe/prime/precpatch_padding.py"]


@pytest.mark.parametrize("folder", ["recipe/prime", "prime", "src/prime"])
def test_the_name_of_a_folder_proves_no_package(tmp_path: Path, folder: str) -> None:
    """A checkout that is a package inside another one is imported by a name that stands nowhere in it."""
    (tmp_path / folder / "utils").mkdir(parents=True)
    for each in (folder, f"{folder}/utils"):
        (tmp_path / each / "__init__.py").touch()
    bare = WORKER.replace("import verl\n", "")
    (tmp_path / folder / "bare.py").write_text(bare)
    (tmp_path / folder / "main.py").write_text(bare + 'if __name__ == "__main__":\n    run()\n')
    planned = run(tmp_path)
    assert [each.after for each in planned.of("rewrite")] == [
        "from .utils.precpatch_padding import pad_input, unpad_input"
    ]
    assert [each.mention.path for each in planned.of("report")] == [f"{folder}/main.py"], "is run by itself"

    (tmp_path / folder / "other.py").write_text("from prime.utils import x\n")
    by_name = "from prime.utils.precpatch_padding import pad_input, unpad_input"
    assert [each.after for each in run(tmp_path).of("rewrite")] == [by_name, by_name]


def test_a_guard_without_a_fallback_is_none(tmp_path: Path) -> None:
    guarded = "import verl\ntry:\n    from flash_attn.bert_padding import unpad_input\nexcept ImportError:\n    pass\n"
    package(tmp_path, verl__in__workers__in__actor=guarded)
    assert "verl.utils.precpatch_padding" in run(tmp_path).of("rewrite")[0].after
