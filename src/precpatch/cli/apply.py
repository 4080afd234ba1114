"""``precpatch apply``: the plan, written."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from precpatch.cli import options, stream
from precpatch.cli.request import read_request

if TYPE_CHECKING:
    from precpatch.patch.transaction import Applied
    from precpatch.plan import Plan

ExitNonZero = Annotated[
    bool,
    typer.Option(
        "--exit-non-zero-on-fix",
        help="Exit with 1 if a file was changed, as a hook has to.",
        rich_help_panel="Output",
    ),
]


def apply(
    paths: options.Paths = None,
    *,
    target: options.TargetName = None,
    dtype: options.Dtype = None,
    attention: options.Attention = None,
    unsafe: options.Unsafe = False,
    select: options.Select = None,
    ignore: options.Ignore = None,
    include: options.Include = None,
    exclude: options.Exclude = None,
    rules: options.RuleFolders = None,
    config: options.ConfigFile = None,
    report: options.Reports = None,
    exit_non_zero_on_fix: ExitNonZero = False,
    quiet: options.Quiet = False,
) -> None:
    """Make the change for a GPU, and say what is left for a person.

    Every file is written or none; `precpatch revert` takes the change back.

    Examples:
      precpatch apply verl --target p40
      precpatch apply verl --target p40 --report changes.md --report changes.patch
      precpatch apply verl --target t4 --dtype float16 --attention sdpa --unsafe

    Exit codes: 0 everything is done, 1 something is left for a person or could
    not be written, 2 a file could not be read or the request is bad.
    """
    from precpatch.patch import transaction
    from precpatch.report import write
    from precpatch.report.applied import applied_lines, recovered_lines

    formats = {path: write.format_of(path) for path in report or ()}
    for path in formats:
        stream.check_writable(path)
    request = read_request(
        paths,
        target=target,
        dtype=dtype,
        attention=attention,
        select=select,
        ignore=ignore,
        include=include,
        exclude=exclude,
        rules=rules,
        config=config,
        unsafe=unsafe,
    )
    recovered = transaction.recover(request.root)
    if not quiet:
        stream.show(recovered_lines(recovered))
    plan = request.plan(twice=True)
    reports = {path: write.render(name, plan) for path, name in formats.items()}  # while the old bytes are there
    applied = transaction.apply(plan.root, plan.patches)
    with stream.after(_done(applied, request.undo())):
        for path, data in reports.items():
            stream.save(path, data)
        if not quiet:
            stream.show(applied_lines(plan, applied, request.undo()))
    raise typer.Exit(_exit_code(plan, applied, exit_non_zero_on_fix))


def _done(applied: Applied, undo: str) -> str:
    """What has happened by the time the outcome is told, for the case that the telling fails."""
    from precpatch.report.line import plural

    if not applied.files:
        return "nothing had to be changed."
    return f"the change is made, in {plural(len(applied.files), 'file')}; `{undo}` takes it back."


def _exit_code(plan: Plan, applied: Applied, non_zero_on_fix: bool) -> int:
    if plan.errors:
        return 2
    left = plan.of("report") or len(applied.files) < len(plan.patches.paths)
    return 1 if left or (non_zero_on_fix and applied.files) else 0
