"""A Finding: what becomes of one mention, by which rule, and why."""

from __future__ import annotations

from dataclasses import dataclass, replace

from precpatch.languages.mention import Mention
from precpatch.patch.edits import Edit, NewFile

VERDICTS = ("rewrite", "unsafe-rewrite", "report", "keep", "suppressed")

REWRITE, UNSAFE, REPORT, KEEP, SUPPRESSED = VERDICTS

BLOCKER = "blocker"
"""The severity of what no edit of the checkout mends; a report says it first, and once."""


@dataclass(frozen=True, slots=True)
class Finding:
    """The verdict on one Mention.

    Attributes:
        rule: id of the rule that decided; "" where no rule claims the mention.
        mention: the place.
        verdict: one of ``VERDICTS``. "unsafe-rewrite" is a fix that is only made with ``--unsafe``.
        severity: "blocker" (no edit of the checkout mends it), "error" (stops or corrupts a run), "warning" or
            "info".
        message: why, in one sentence for a person.
        after: the source text that replaces ``mention.text``, for a rewrite.
        edits: the fix, all or nothing, in one or more places.
        override: the Hydra override that would do the same, where a key reaches it.
        new_file: a file that the fix adds to the checkout.
        group: findings with the same group change together or not at all.
        waits: whether its edits depend on the rest of the checkout and are made last.
    """

    rule: str
    mention: Mention
    verdict: str
    severity: str
    message: str
    after: str | None = None
    edits: tuple[Edit, ...] = ()
    override: str | None = None
    new_file: NewFile | None = None
    group: str | None = None
    waits: bool = False

    @property
    def action(self) -> str:
        """The word of the JSON contract: "rewrite", "report" or "keep"."""
        if self.verdict == UNSAFE:
            return REPORT
        return KEEP if self.verdict == SUPPRESSED else self.verdict

    @property
    def together(self) -> str:
        """The name of what changes together with it: its group, or itself alone."""
        return self.group or f"{self.mention.path}:{self.mention.start}"

    def lowered(self, message: str, rule: str | None = None) -> Finding:
        """The finding as a report that says why its rewrite is not made; any other finding as it is."""
        if self.verdict != REWRITE:
            return self
        return replace(
            self,
            rule=self.rule if rule is None else rule,
            verdict=REPORT,
            message=message,
            edits=(),
            new_file=None,
            after=None,
            override=None,
            waits=False,
        )

    def refused(self, reason: str) -> Finding:
        """The finding as a report, ``reason`` after its own message."""
        return self.lowered(f"{self.message}; not rewritten: {reason}")


def file_report(path: str, rule: str, message: str) -> Finding:
    """A report about a file as a whole, told at its first line."""
    mention = Mention(
        path=path, language="", kind="file", value="", spelling="", role="text",
        start=0, end=0, text="", line=1, column=1, end_line=1, end_column=1,
    )  # fmt: skip
    return Finding(rule, mention, REPORT, "warning", message)
