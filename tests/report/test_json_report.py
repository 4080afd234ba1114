"""The JSON report keeps to its contract."""

from __future__ import annotations

import json
from collections.abc import Callable

from handmade import Site

from precpatch import __version__
from precpatch.plan import Plan
from precpatch.report import json as json_report


def test_the_whole_object(plan: Plan) -> None:
    report = json.loads(json_report.render(plan))
    findings = report.pop("findings")
    assert report == {
        "version": 1,
        "tool": f"precpatch {__version__}",
        "root": ".",
        "target": {"name": "p40", "compute_capability": "6.1", "dtype": "float32", "attention": "eager"},
        "errors": [{"path": "pkg/bad.py", "message": "line 3: invalid syntax"}],
        "added_files": [],
        "skipped": [{"path": "link.py", "message": "a link that leaves the folder"}],
        "summary": {
            "files_scanned": 7,
            "files_with_findings": 1,
            "rewrite": 1,
            "report": 2,
            "keep": 1,
            "suppressed": 1,
        },
    }
    assert [finding["action"] for finding in findings] == ["rewrite", "report", "report"]
    assert findings[0] == {
        "path": "pkg/a.py",
        "line": 2,
        "column": 5,
        "end_line": 2,
        "end_column": 19,
        "rule": "torch-dtype",
        "kind": "dtype",
        "role": "value",
        "action": "rewrite",
        "severity": "error",
        "before": "torch.bfloat16",
        "after": "torch.float32",
        "message": "The GPU has no bfloat16 instructions.",
        "override": None,
    }


def test_kept_sites_only_when_asked(plan: Plan) -> None:
    actions = [finding["action"] for finding in json.loads(json_report.render(plan, show_kept=True))["findings"]]
    assert actions == ["rewrite", "report", "report", "keep", "keep"]


def test_any_text_comes_back(plan_of: Callable[..., Plan]) -> None:
    odd = Site("é\udce9\x1b[31m\u2028", 1, 1, "report", path="caf\udce9/ü.py")
    data = json_report.render(plan_of(odd))
    assert data.isascii()
    found = json.loads(data)["findings"][0]
    assert (found["before"], found["path"]) == (odd.text, odd.path)


def test_two_runs_give_the_same_bytes(plan: Plan) -> None:
    assert json_report.render(plan) == json_report.render(plan)
