"""``precpatch diff``: the plan as one patch."""

from __future__ import annotations

import typer

from precpatch.cli import options, stream
from precpatch.cli.request import read_request


def diff(
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
    output: options.Output = None,
) -> None:
    """Print the change for a GPU as one patch.

    Nothing is written in the checkout.

    Examples:
      precpatch diff verl --target p40
      precpatch diff verl --target p40 > p40.patch; git -C verl apply ../p40.patch
      precpatch diff verl --target p40 --output p40.patch

    Exit codes: 0 nothing to change, 1 a patch, 2 a file could not be read (the
    patch for the others is still printed) or the request is bad.
    """
    from precpatch.report.line import visible
    from precpatch.report.patch import render

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
    plan = request.plan(twice=True)
    patch = render(plan)
    stream.put_patch(patch, output)
    for note in plan.errors:
        stream.complain(f"precpatch: {visible(note.path)}: {visible(note.message)}")
    if plan.errors:
        raise typer.Exit(2)
    raise typer.Exit(1 if patch else 0)
