"""The plan as one unified diff, byte for byte what ``apply`` would write."""

from __future__ import annotations

from collections.abc import Iterator

from precpatch.errors import UserError
from precpatch.patch.diff import unified_diff
from precpatch.plan import Plan


def render(plan: Plan, show_kept: bool = False) -> bytes:
    """The patch; what stays as it is has no place in one."""
    return unified_diff(_changes(plan))


def _changes(plan: Plan) -> Iterator[tuple[str, bytes | None, bytes]]:
    for patch in plan.patches.files:
        before = None if patch.sha256 is None else _read(plan, patch.path)
        yield patch.path, before, patch.apply_to(before)


def _read(plan: Plan, path: str) -> bytes:
    try:
        return (plan.root / path).read_bytes()
    except OSError as error:
        raise UserError(f"{path}: changed since it was read: {error.strerror}; run again") from None
