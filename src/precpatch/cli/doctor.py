"""``precpatch doctor``: is the environment that will run verl fit for the GPU."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from precpatch.cli import options, stream

FORMATS = ("text", "json")

Place = Annotated[
    Path | None,
    typer.Argument(metavar="PATH", help="A verl checkout, whose version and configs count too.", show_default=False),
]

Python = Annotated[
    str | None,
    typer.Option(
        "--python",
        metavar="PATH",
        help="The interpreter that will run verl; the one that runs precpatch if not given.",
        rich_help_panel="Environment",
    ),
]

Format = Annotated[
    str,
    typer.Option("--format", metavar="|".join(FORMATS), help="How to print it.", rich_help_panel="Output"),
]


def doctor(
    path: Place = None,
    *,
    python: Python = None,
    target: options.TargetName = None,
    dtype: options.Dtype = None,
    attention: options.Attention = None,
    config: options.ConfigFile = None,
    output_format: Format = "text",
    output: options.Output = None,
) -> None:
    """Check whether the installed software is fit for a GPU.

    Looks at torch and its build, CUDA and the driver, Triton, flash-attn, vLLM,
    SGLang, transformers and others, and at a checkout where one is named. Each
    check says what was seen, why it matters, how to mend it, and the source.
    Packages are read from their metadata; only torch is asked, in a process of
    its own. No code of the checkout is run.

    Examples:
      precpatch doctor --target p40
      precpatch doctor verl --target v100 --python /opt/verl/bin/python
      precpatch doctor verl --target t4 --dtype float16 --format json

    Exit codes: 0 no check warns or fails, 1 some do, 2 it could not be done (no
    such interpreter, no such checkout, no GPU and no --target).
    """
    from precpatch.config import check_choice, load_settings
    from precpatch.doctor.checkout import read_checkout
    from precpatch.doctor.checks import examine
    from precpatch.doctor.environment import read_environment
    from precpatch.doctor.facts import load_facts
    from precpatch.doctor.report import Diagnosis, render, report_lines
    from precpatch.gpu.resolve import resolve_target

    check_choice("--format", output_format, FORMATS)
    if output is not None:
        stream.check_writable(output)
    root = _folder(path)
    settings = load_settings(root or Path(), {"target": target, "dtype": dtype, "attention": attention}, config)
    chosen = resolve_target(settings.target, settings.dtype, settings.attention)
    facts = load_facts()
    environment = read_environment(python, facts.package_names())
    checkout = read_checkout(root) if root else None
    diagnosis = Diagnosis(chosen, environment, checkout, examine(facts, environment, chosen, checkout))
    if output is None and output_format == "text":
        stream.show(report_lines(diagnosis))
    else:
        stream.put(render(output_format, diagnosis), output)
    raise typer.Exit(diagnosis.exit_code)


def _folder(path: Path | None) -> Path | None:
    """The folder of the checkout that the user named."""
    from precpatch.discover import find_root
    from precpatch.errors import UserError

    if path is None:
        return None
    if path.is_file():
        raise UserError(f"{path}: is a file; name the folder of the checkout")
    return find_root([path])
