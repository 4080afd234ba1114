"""``precpatch guard``: run a command as if on the target."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from precpatch.cli import options, stream

if TYPE_CHECKING:
    from precpatch.config import Settings
    from precpatch.gpu.target import Target
    from precpatch.guard.findings import Mender

FORMATS = ("text", "json")

_WATCH = "What trips"

Command = Annotated[
    list[str],
    typer.Argument(
        metavar="COMMAND...", help="The command to run, with its arguments, after a --.", show_default=False
    ),
]

Mode = Annotated[
    str,
    typer.Option(
        metavar="record|raise",
        help="Write every trip down and go on, or raise an error in the program at the first.",
        rich_help_panel=_WATCH,
    ),
]

Forbid = Annotated[
    list[str] | None,
    typer.Option(
        metavar="DTYPE,...",
        help="Also trip on float16, float8_e4m3fn or float8_e5m2; bfloat16 trips wherever it is not native.",
        rich_help_panel=_WATCH,
    ),
]

Block = Annotated[
    list[str] | None,
    typer.Option(
        metavar="PACKAGE,...",
        help="Also make these unimportable. Those that do not run on the target are: flash_attn, vllm, sglang.",
        rich_help_panel=_WATCH,
    ),
]

Allow = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME,...",
        help="Let these be: a package, a dtype, torch.compile or triton. With no dtype and no kernel left to watch for,"
        " operators are not looked at, and functions compile as they do on the target.",
        rich_help_panel=_WATCH,
    ),
]

Strict = Annotated[
    bool,
    typer.Option(
        "--strict",
        help="Also trip where a bf16 tensor is only viewed or cast up, as in reading a checkpoint.",
        rich_help_panel=_WATCH,
    ),
]

Pretend = Annotated[
    bool,
    typer.Option(
        "--pretend",
        help="Let torch.cuda report the target's name and compute capability.",
        rich_help_panel="Target",
    ),
]

Checkout = Annotated[
    Path | None,
    typer.Option(
        metavar="PATH",
        help="The checkout that the command runs: name the scan finding that would have mended each trip.",
        rich_help_panel="Output",
    ),
]

Format = Annotated[
    str,
    typer.Option("--format", metavar="|".join(FORMATS), help="How to print it.", rich_help_panel="Output"),
]

Output = Annotated[
    Path | None,
    typer.Option("--output", "-o", metavar="FILE", help="Write to FILE, not to stderr.", rich_help_panel="Output"),
]


def guard(
    command: Command,
    *,
    target: options.TargetName = None,
    pretend: Pretend = False,
    mode: Mode = "record",
    forbid: Forbid = None,
    block: Block = None,
    allow: Allow = None,
    strict: Strict = False,
    checkout: Checkout = None,
    config: options.ConfigFile = None,
    output_format: Format = "text",
    output: Output = None,
) -> None:
    """Run a command and record, or stop at, what a GPU cannot do.

    Looks at every PyTorch operator of every Python process below the command:
    forward, backward, optimizer, autocast, FSDP casts, collectives. A GPU is not
    needed. Functions given to torch.compile run eagerly under the guard. Reading a
    bf16 checkpoint is counted and does not trip.

    Not seen: C++ and CUDA extensions that bypass PyTorch's dispatcher (Triton
    launches are seen), what Inductor would generate, Python started with -I, -E, -S
    or an environment of its own, other hosts, a Ray cluster that was already
    running, what daemons do after the command has ended. A step of a tiny model
    takes up to 5 times as long, of a large one at most 1.2 times.

    Examples:
      precpatch guard --target p40 -- python train.py
      precpatch guard --target p40 --mode raise -- torchrun --nproc-per-node 2 train.py
      precpatch guard -t v100 --checkout verl -- python -m verl.trainer.sft_trainer
      precpatch guard -t p40 --pretend --format json -o trips.json -- bash run.sh

    Exit codes: 1 something tripped, 2 the request is bad, else the command's own
    (128 + n where signal n ended it).
    """
    from tempfile import TemporaryDirectory

    from precpatch.config import check_choice, load_settings
    from precpatch.gpu.resolve import resolve_target
    from precpatch.guard.order import DTYPES, MODES, make_order
    from precpatch.guard.record import read_record
    from precpatch.guard.run import run_guarded

    check_choice("--format", output_format, FORMATS)
    check_choice("--mode", mode, MODES)
    for dtype in options.names_in(forbid):
        check_choice("--forbid", dtype, DTYPES)
    if output is not None:
        stream.check_writable(output)
    root = _root(checkout)
    settings = load_settings(root or Path(), {"target": target}, config)
    chosen = resolve_target(settings.target, settings.dtype, settings.attention)
    order = make_order(
        chosen,
        mode=mode,
        forbid=options.names_in(forbid),
        block=options.names_in(block),
        allow=options.names_in(allow),
        strict=strict,
        pretend=pretend,
    )
    with TemporaryDirectory(prefix="precpatch-guard-", ignore_cleanup_errors=True) as folder:
        code = run_guarded(command, order, Path(folder), checkout)
        _check_kept(Path(folder))
        record = read_record(Path(folder))
    from precpatch.guard.report import Outcome, render

    mender = _mender(root, checkout, chosen, settings) if record.sites and root and checkout else None
    report = render(output_format, Outcome(order, tuple(command), code, record, mender))
    _put(report, output)
    raise typer.Exit(1 if record.trips else code)


def _check_kept(folder: Path) -> None:
    """Without the journals nothing is known, which must not look like a clean run."""
    from precpatch.errors import UserError

    if not folder.is_dir():
        raise UserError(
            f"the command deleted {folder}, where the guard keeps its journal; set TMPDIR to another folder"
        )


def _root(checkout: Path | None) -> Path | None:
    from precpatch.discover import find_root

    return find_root([checkout]) if checkout else None


def _mender(root: Path, checkout: Path, target: Target, settings: Settings) -> Mender:
    from precpatch.guard.findings import Mender
    from precpatch.session import plan

    return Mender(plan(root, (checkout,), target, settings))


def _put(report: bytes, output: Path | None) -> None:
    """Write the report to a file or to standard error: standard output belongs to the command."""
    import sys

    if output is not None:
        stream.save(output, report)
    else:
        sys.stderr.flush()
        sys.stderr.buffer.write(report)
        sys.stderr.buffer.flush()
