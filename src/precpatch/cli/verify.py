"""``precpatch verify``: after apply, is the checkout whole and fit for the target."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated

import typer

from precpatch.cli import options, stream
from precpatch.cli.request import read_request

FORMATS = ("text", "json")

_STEPS = "Steps"
_ENVIRONMENT = "Environment"
_LONGEST = 24 * 3600.0

Place = Annotated[
    Path | None,
    typer.Argument(
        parser=options.path_of,
        metavar="PATH",
        help="The checkout; the current folder if not given.",
        show_default=False,
    ),
]

Only = Annotated[
    list[str] | None,
    typer.Option(metavar="STEP,...", help="Do only these: parse, scan, imports, configs.", rich_help_panel=_STEPS),
]

Skip = Annotated[
    list[str] | None,
    typer.Option(metavar="STEP,...", help="Leave these steps out.", rich_help_panel=_STEPS),
]

Entry = Annotated[
    list[str] | None,
    typer.Option(
        metavar="MODULE,...",
        help="These entry points have to start, by name or path; if not given, one that uses torch has to.",
        rich_help_panel=_STEPS,
    ),
]

Python = Annotated[
    str | None,
    typer.Option(
        "--python",
        metavar="PATH",
        help="The interpreter that will run verl; the one that runs precpatch if not given.",
        rich_help_panel=_ENVIRONMENT,
    ),
]

Block = Annotated[
    list[str] | None,
    typer.Option(
        metavar="PACKAGE,...",
        help="Also make these unimportable. Those that do not run on the target are: flash_attn, vllm, sglang.",
        rich_help_panel=_ENVIRONMENT,
    ),
]

Allow = Annotated[
    list[str] | None,
    typer.Option(metavar="PACKAGE,...", help="Let these be imported.", rich_help_panel=_ENVIRONMENT),
]

Timeout = Annotated[
    float,
    typer.Option(
        metavar="SECONDS",
        help="How long one module may take to import.",
        min=1,
        max=_LONGEST,
        rich_help_panel=_ENVIRONMENT,
    ),
]

Format = Annotated[
    str,
    typer.Option("--format", metavar="|".join(FORMATS), help="How to print it.", rich_help_panel="Output"),
]


def verify(
    path: Place = None,
    *,
    target: options.TargetName = None,
    dtype: options.Dtype = None,
    attention: options.Attention = None,
    unsafe: options.Unsafe = False,
    only: Only = None,
    skip: Skip = None,
    entry: Entry = None,
    python: Python = None,
    block: Block = None,
    allow: Allow = None,
    timeout: Timeout = 300.0,
    select: options.Select = None,
    ignore: options.Ignore = None,
    include: options.Include = None,
    exclude: options.Exclude = None,
    rules: options.RuleFolders = None,
    config: options.ConfigFile = None,
    output_format: Format = "text",
    output: options.Output = None,
) -> None:
    """After apply: prove that the checkout is whole and fit for a GPU.

    Needs no GPU. Four steps, each ok or with what failed:
      parse    every file that a scan looks at parses
      scan     nothing is left to rewrite; what needs a person is counted
      imports  the functions under @hydra.main, and the modules that they reach,
               import without the packages that do not run on the GPU
      configs  their configs compose, their dataclasses take the new values, and no
               model is given packing or a sequence parallelism above 1

    The steps imports and configs import modules of the checkout, in processes of
    their own: unlike scan and apply, this runs the code at the top of those
    modules. They need the packages that verl needs: name the interpreter that
    has them with --python. Leave them out with --only parse,scan.

    Examples:
      precpatch verify verl --target p40 --python /opt/verl/bin/python
      precpatch verify verl --target p40 --only parse,scan
      precpatch verify verl -t v100 --dtype float16 --entry verl.trainer.main_ppo
      precpatch verify verl --target p40 --format json --output verify.json

    Exit codes: 0 every step is ok, 1 something failed, 2 the request is bad.
    """
    from precpatch.config import check_choice
    from precpatch.errors import UserError
    from precpatch.gpu.resolve import resolve_target
    from precpatch.session import plan, policy_for
    from precpatch.verify.processes import find_python
    from precpatch.verify.report import Outcome, render, report_lines
    from precpatch.verify.run import Order, files_of
    from precpatch.verify.run import verify as run_steps

    check_choice("--format", output_format, FORMATS)
    steps = _steps(only, skip)
    if path is not None and path.is_file():
        raise UserError(f"{path}: is a file; name the folder of the checkout")
    if math.isnan(timeout):
        raise UserError("--timeout: not a number")
    if output is not None:
        stream.check_writable(output)
    request = read_request(
        [path] if path else None,
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
    interpreter, settings = find_python(python), request.settings
    chosen = resolve_target(settings.target, settings.dtype, settings.attention)
    order = Order(
        root=request.root.resolve(),
        target=chosen,
        make_policy=lambda: policy_for(settings, chosen),
        make_plan=lambda: plan(request.root, request.paths, chosen, settings),
        files=files_of(request.root, request.paths, settings),
        steps=steps,
        mend=request.command("apply"),
        python=interpreter,
        block=tuple(options.names_in(block)),
        allow=tuple(options.names_in(allow)),
        required=tuple(options.names_in(entry)),
        seconds=timeout,
    )
    outcome = Outcome(chosen, interpreter, run_steps(order))
    if output is None and output_format == "text":
        stream.show(report_lines(outcome))
    else:
        stream.put(render(output_format, outcome), output)
    raise typer.Exit(outcome.exit_code)


def _steps(only: list[str] | None, skip: list[str] | None) -> frozenset[str]:
    """The steps to do.

    Raises:
        UserError: one of the names is that of no step, or no step is left.
    """
    from precpatch.config import check_choice
    from precpatch.errors import UserError
    from precpatch.verify.outcome import STEPS

    for option, names in (("--only", options.names_in(only)), ("--skip", options.names_in(skip))):
        for name in names:
            check_choice(option, name, STEPS)
    steps = frozenset(options.names_in(only) if only else STEPS) - frozenset(options.names_in(skip))
    if not steps:
        raise UserError("no step is left: see --only and --skip")
    return steps
