"""A remark on one file or folder, as the reports show it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class FileNote:
    """What a person should know about a file: why it was not read, not read in full, or not written.

    Attributes:
        path: relative to the root of the run, with ``/``.
        message: one sentence.
    """

    path: str
    message: str
