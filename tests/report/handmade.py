"""Findings made by hand: one of everything that a report has to show."""

from __future__ import annotations

from dataclasses import dataclass

from precpatch.engine.finding import KEEP, REPORT, REWRITE, SUPPRESSED, UNSAFE, Finding
from precpatch.gpu.capability import derive
from precpatch.gpu.target import make_target
from precpatch.languages.mention import Mention

SOURCE = b"""import torch
x = torch.bfloat16
use_remove_padding = True
assert dtype in ["bfloat16"]  # ```` | `a`
"""

P40 = make_target(derive("Tesla P40", (6, 1), source="catalog"), "p40")


@dataclass(frozen=True)
class Site:
    """What a test says about one finding."""

    text: str
    line: int
    column: int
    verdict: str
    after: str | None = None
    role: str = "value"
    message: str = "The GPU has no bfloat16 instructions."
    path: str = "pkg/a.py"


SITES = (
    Site("torch.bfloat16", 2, 5, REWRITE, "torch.float32"),
    Site("use_remove_padding = True", 3, 1, REPORT, None, "switch", "Packed samples attend to each other."),
    Site('["bfloat16"]', 4, 17, UNSAFE, '["bfloat16", "float32"]', "allowed-values", "The check refuses `float32`."),
    Site("bfloat16", 4, 18, KEEP, None, "comparison", "kept: compared with something, not chosen"),
    Site("bf16", 4, 40, SUPPRESSED, None, "comment", "suppressed by a comment"),
)


def finding(site: Site) -> Finding:
    """The Finding for one Site, its byte offsets left at 0."""
    mention = Mention(
        path=site.path,
        language="python",
        kind="dtype",
        value="bfloat16",
        spelling="torch",
        role=site.role,
        start=0,
        end=0,
        text=site.text,
        line=site.line,
        column=site.column,
        end_line=site.line,
        end_column=site.column + len(site.text),
    )
    return Finding("torch-dtype", mention, site.verdict, "error", site.message, after=site.after)
