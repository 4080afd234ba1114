"""``precpatch scan``: the plan, and nothing written."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from precpatch.cli import options, stream
from precpatch.cli.request import read_request

if TYPE_CHECKING:
    from precpatch.plan import Plan

FORMATS = ("text", "json", "markdown")

Format = Annotated[
    str,
    typer.Option("--format", metavar="|".join(FORMATS), help="How to print it.", rich_help_panel="Output"),
]


def scan(
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
    output_format: Format = "text",
    output: options.Output = None,
    show_kept: options.ShowKept = False,
    full: options.Full = False,
) -> None:
    """Show what would change for a GPU, and what needs a person.

    Nothing is written in the checkout. More than 40 places are folded to a row a
    rule; --full lists each.

    Examples:
      precpatch scan verl --target p40
      precpatch scan verl --target v100 --dtype float16 --attention sdpa
      precpatch scan verl --target p40 --format json --output plan.json
      precpatch scan a.py conf.yaml --target 7.5     only these files
      precpatch scan verl --target p40 --select 'dtype-*' --exclude 'tests/*'

    Exit codes: 0 nothing to do, 1 findings, 2 a file could not be read or the
    request is bad.
    """
    from precpatch.config import check_choice

    check_choice("--format", output_format, FORMATS)
    if output is not None:
        stream.check_writable(output)
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
    plan = request.plan(show_text=show_kept)
    if output_format == "text":
        from precpatch.report.text import render as render_text
        from precpatch.report.text import scan_lines

        if output is None:
            stream.show(scan_lines(plan, show_kept, request.command("apply"), full))
        else:
            stream.put(render_text(plan, show_kept, full), output)
    else:
        from precpatch.report.write import render

        stream.put(render(output_format, plan, show_kept), output)
    raise typer.Exit(exit_code(plan))


def exit_code(plan: Plan) -> int:
    """0 nothing to do, 1 findings, 2 a file could not be read."""
    if plan.errors:
        return 2
    return 1 if plan.of("rewrite", "report") else 0
