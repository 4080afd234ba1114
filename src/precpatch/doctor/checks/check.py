"""A Check: one verdict on the environment."""

from __future__ import annotations

from dataclasses import dataclass

from precpatch.doctor.facts import Source


@dataclass(frozen=True, kw_only=True, slots=True)
class Check:
    """One verdict.

    Attributes:
        id: its name, "flash-attn".
        title: what it is about.
        status: "ok", "warn", "fail" or "unknown".
        seen: what was found.
        why: why it matters.
        fix: the command or setting that mends it; None where there is none, or nothing to mend.
        doubt: why the verdict may be wrong ("not verified", "inferred from 0.9.2"); "" where it was checked.
        sources: where the facts behind it were read.
    """

    id: str
    title: str
    status: str
    seen: str
    why: str
    fix: str | None = None
    doubt: str = ""
    sources: tuple[Source, ...] = ()
