"""Which finding of a scan would have mended a trip."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import PurePath

from precpatch.engine.finding import REPORT, REWRITE, Finding
from precpatch.guard.record import Frame, Site
from precpatch.plan import Plan

_KINDS = {"import": {"import", "attention"}, "kernel": {"switch", "import"}}


@dataclass(frozen=True)
class Mend:
    """Findings that bear on a site.

    Attributes:
        nearness: "line" (on a line of the stack), "function" (in a function of the stack), or "file" (a rewrite in a
            file of the stack).
        findings: they, of one file; never empty.
    """

    nearness: str
    findings: tuple[Finding, ...]


class Mender:
    """Looks findings up by place."""

    def __init__(self, plan: Plan) -> None:
        """``plan`` is the scan of the checkout that the command runs."""
        self._root = plan.root.resolve()
        self._by_path: dict[str, list[Finding]] = {}
        for finding in plan.of(REWRITE, REPORT):
            self._by_path.setdefault(finding.mention.path, []).append(finding)

    def mend(self, site: Site) -> Mend | None:
        """The findings nearest to a site: those of its line, else of its function, else of its file.

        Each is looked for along the stack, innermost frame first: an autocast region lies further out than the
        operator that it casts for.
        """
        kinds = set[str]().union(*(_KINDS.get(kind, {"dtype"}) for kind in site.kinds))
        stack = site.stack or tuple(frame for frame in (site.frame, site.caller) if frame)
        if site.compiled:
            stack = (site.compiled, *stack)
        places = [(frame, found) for frame in stack if (found := self._in_file(frame, kinds))]
        return next(_nearest(places), None)

    def _in_file(self, frame: Frame, kinds: set[str]) -> list[Finding]:
        findings = self._by_path.get(self._path_of(frame), ())
        return [finding for finding in findings if finding.mention.kind in kinds]

    def _path_of(self, frame: Frame) -> str:
        """The path of a frame's file in the checkout, also where a copy of it runs: installed, or sent by Ray."""
        path = PurePath(frame.path)
        if path.is_relative_to(self._root):
            return path.relative_to(self._root).as_posix()
        parts = path.parts
        tails = ("/".join(parts[start:]) for start in range(1, len(parts) - 1))
        return next((tail for tail in tails if tail in self._by_path), "")


def _nearest(places: Sequence[tuple[Frame, list[Finding]]]) -> Iterator[Mend]:
    for frame, findings in places:
        on_line = [each for each in findings if each.mention.line <= frame.line <= each.mention.end_line]
        if on_line:
            yield Mend("line", tuple(on_line))
    for frame, findings in places:
        inside = [each for each in findings if each.mention.scope.rpartition(".")[2] == frame.function]
        if inside:
            yield Mend("function", tuple(inside))
    for _, findings in places:
        rewrites = [each for each in findings if each.verdict == REWRITE]
        if rewrites:
            yield Mend("file", tuple(rewrites))
