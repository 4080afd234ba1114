"""Plans made by hand."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from handmade import P40, SITES, SOURCE, Site, finding

from precpatch.notes import FileNote
from precpatch.patch.edits import Edit, NewFile, PatchSet
from precpatch.plan import Plan


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    """One rewrite, two sites for a person, one kept, one suppressed, one unreadable file and one link."""
    file = tmp_path / "pkg" / "a.py"
    file.parent.mkdir()
    file.write_bytes(SOURCE)
    edit = Edit("pkg/a.py", SOURCE.index(b"torch.bfloat16"), b"torch.bfloat16", b"torch.float32")
    return Plan(
        root=tmp_path,
        target=P40,
        findings=tuple(finding(site) for site in SITES),
        patches=PatchSet.of([edit], lambda path: (tmp_path / path).read_bytes()),
        errors=(FileNote("pkg/bad.py", "line 3: invalid syntax"),),
        skipped=(FileNote("link.py", "a link that leaves the folder"),),
        files_scanned=7,
    )


@pytest.fixture
def adding_plan(plan: Plan) -> Plan:
    """The same Plan with two files to add."""
    new_files = [NewFile("pkg/added.py", b"import torch"), NewFile("empty", b"")]
    patches = PatchSet.of(plan.patches.edits, lambda path: (plan.root / path).read_bytes(), new_files)
    return replace(plan, patches=patches)


@pytest.fixture
def plan_of(plan: Plan) -> Callable[..., Plan]:
    """The same Plan with other sites and nothing else to say."""

    def make(*sites: Site, **changes: object) -> Plan:
        quiet = replace(
            plan, findings=tuple(finding(site) for site in sites), errors=(), skipped=(), patches=PatchSet()
        )
        return replace(quiet, **changes)  # type: ignore[arg-type]

    return make
