"""Sites that change together or not at all, in one file and over the whole tree."""

from __future__ import annotations

from pathlib import Path

from precpatch.config import Settings
from precpatch.gpu.resolve import resolve_target
from precpatch.plan import Plan
from precpatch.session import plan

SHARD = """\
import torch


def get_per_tensor_param_shard(p):
    return p.to(torch.bfloat16){}
"""


def run(root: Path, **settings: tuple[str, ...]) -> Plan:
    return plan(root, (), resolve_target("p40"), Settings(**settings))


def decided(planned: Plan) -> list[tuple[str, str, str]]:
    return [(each.mention.path, each.action, each.rule) for each in planned.of("rewrite", "report")]


def test_the_wire_changes_in_every_file(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text(SHARD.format(""))
    (tmp_path / "b.py").write_text(SHARD.format(""))
    assert decided(run(tmp_path)) == [("a.py", "rewrite", "dtype-value"), ("b.py", "rewrite", "dtype-value")]


def test_one_file_that_stays_holds_the_others(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text(SHARD.format(""))
    (tmp_path / "b.py").write_text(SHARD.format("  # precpatch: ignore"))
    planned = run(tmp_path)
    assert decided(planned) == [("a.py", "report", "group-weight-wire")]
    assert "b.py:5 stays" in planned.of("report")[0].message
    assert not planned.patches


def test_an_ignored_rule_holds_its_group(tmp_path: Path) -> None:
    (tmp_path / "merge.py").write_text(
        "import torch\nx = t.bfloat16()\nm = Auto.from_pretrained(p, torch_dtype=torch.bfloat16)\n"
    )
    assert len(run(tmp_path).of("rewrite")) == 2
    assert decided(run(tmp_path, ignore=("dtype-method-cast",))) == [("merge.py", "report", "group-converted-weights")]


def test_a_check_and_its_default_are_one_group(tmp_path: Path) -> None:
    """Ignoring the rule that extends the check leaves the default, which the check would refuse."""
    (tmp_path / "config.py").write_text(
        'class C:\n    dtype: str = "bfloat16"\n\n    def check(self):\n        assert self.dtype in ["bfloat16"]\n'
    )
    (tmp_path / "other.py").write_text('dtype = "bfloat16"\n')
    assert [each.rule for each in run(tmp_path).of("rewrite")] == ["dtype-setting", "allowed-values", "dtype-setting"]
    alone = run(tmp_path, ignore=("allowed-values",))
    assert [each.mention.path for each in alone.of("rewrite")] == ["other.py"]


def test_groups_that_share_a_member_are_one(tmp_path: Path) -> None:
    """A check before the default that it guards, and one after it."""
    check = "    def check_{}(self):\n        assert self.dtype in {}\n\n"
    text = check.format("a", ["bfloat16"]) + '    dtype: str = "bfloat16"\n\n' + check.format("b", ["bfloat16", "auto"])
    (tmp_path / "config.py").write_text(f"class C:\n{text}")
    found = run(tmp_path).of("rewrite")
    assert len(found) == 3
    assert len({each.group for each in found}) == 1
