"""``precpatch diagnose``: what a training log says went wrong."""

from __future__ import annotations

from typing import Annotated

import typer

from precpatch.cli import options, stream

FORMATS = ("text", "json")

Log = Annotated[
    str,
    typer.Argument(metavar="LOG", help="A log, plain or gzip; - is standard input.", show_default=False),
]

Target = Annotated[
    str | None,
    typer.Option(
        "--target",
        "-t",
        metavar="NAME|CAPABILITY|FILE|auto",
        help="The GPU to name in the commands that mend a failure.",
        rich_help_panel="Output",
    ),
]

Format = Annotated[
    str,
    typer.Option("--format", metavar="|".join(FORMATS), help="How to print it.", rich_help_panel="Output"),
]


def diagnose(
    log: Log,
    *,
    target: Target = None,
    output_format: Format = "text",
    output: options.Output = None,
) -> None:
    """Say what a training log means: the first cause, its fix, and the command that mends it.

    Finds the failures that precpatch knows, the first cause rather than its last
    echo, and says of other errors that they are unknown. Also finds losses and
    gradients that are not finite, skipped steps, and a loss that stands still.
    Colours, Ray's prefixes and progress bars do not matter; a log of any size is
    read in little memory.

    Examples:
      precpatch diagnose train.log
      precpatch diagnose train.log.gz --target p40
      kubectl logs trainer | precpatch diagnose -
      precpatch diagnose train.log --format json --output failures.json

    Exit codes: 0 nothing found, 1 failures or bad health found, 2 the log could
    not be read or the request is bad.
    """
    from precpatch.config import check_choice
    from precpatch.doctor.diagnose import diagnose_log
    from precpatch.doctor.log import open_log, read_blocks, title_of
    from precpatch.doctor.log_report import diagnosis_document, diagnosis_lines

    check_choice("--format", output_format, FORMATS)
    if output is not None:
        stream.check_writable(output)
    named = _target_word(target)
    with open_log(log) as opened:
        diagnosis = diagnose_log(read_blocks(opened))
    if output_format == "json":
        import json

        text = json.dumps(diagnosis_document(diagnosis, log, named), indent=2)
        stream.put(f"{text}\n".encode(), output)
    elif output is None:
        stream.show(diagnosis_lines(diagnosis, title_of(log), named))
    else:
        from precpatch.report.line import plain

        stream.put(plain(diagnosis_lines(diagnosis, title_of(log), named)), output)
    raise typer.Exit(0 if diagnosis.clean else 1)


def _target_word(target: str | None) -> str:
    """The target as a word of a shell command; one that precpatch does not know is refused."""
    import shlex

    if target is None:
        return "YOUR-GPU"
    if target.strip().lower() != "auto":
        from precpatch.gpu.resolve import resolve_target

        resolve_target(target)
    return shlex.quote(target)
