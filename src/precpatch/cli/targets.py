"""``precpatch targets``: the GPUs that --target knows by name."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from precpatch.cli import stream

if TYPE_CHECKING:
    from precpatch.gpu.catalog import CatalogGpu

COLUMNS = ("name", "cc", "memory", "bf16", "fp16", "shared", "default policy", "also called")

# Columns of a terminal that has room for the other names of a card.
_WIDE = 120


class TargetsFormat(str, Enum):
    """The formats of ``--format``."""

    TEXT = "text"
    JSON = "json"


def targets(
    output_format: Annotated[TargetsFormat, typer.Option("--format", help="How to print it.")] = TargetsFormat.TEXT,
) -> None:
    """List the GPUs that --target knows, and what would be done for each.

    cc is the compute capability; shared is the shared memory that one block can ask for.

    Examples:
      precpatch targets
      precpatch targets --format json
    """
    import json
    import sys

    import precpatch
    from precpatch.gpu.catalog import load_catalog

    gpus = load_catalog().gpus
    if output_format is TargetsFormat.JSON:
        document = {
            "version": 1,
            "tool": f"precpatch {precpatch.__version__}",
            "targets": [target_document(gpu) for gpu in gpus],
        }
        stream.write(f"{json.dumps(document, indent=2, ensure_ascii=False)}\n".encode())
    elif sys.stdout.isatty():
        _print_table([_row(gpu) for gpu in gpus])
    else:
        stream.write(f"{plain_table([COLUMNS, *(_row(gpu) for gpu in gpus)])}\n".encode())


def target_document(gpu: CatalogGpu) -> dict[str, Any]:
    """One card as plain JSON data; shared memory in bytes, memory in GiB for each variant."""
    from precpatch.gpu.capability import format_compute_capability
    from precpatch.gpu.target import make_target

    policy = make_target(gpu.capability(), gpu.id)
    return {
        "name": gpu.id,
        "card": gpu.name,
        "aliases": list(gpu.aliases),
        "compute_capability": format_compute_capability(gpu.compute_capability),
        "memory_gib": list(gpu.memory_gib),
        "bf16": gpu.bf16,
        "fp16": gpu.fp16,
        "tf32": gpu.tf32,
        "fp8": gpu.fp8,
        "shared_memory_per_block": gpu.shared_memory.per_block,
        "shared_memory_per_block_optin": gpu.shared_memory.per_block_optin,
        "shared_memory_per_sm": gpu.shared_memory.per_sm,
        "dtype": policy.dtype,
        "attention": policy.attention,
        "sources": list(gpu.sources),
    }


def plain_table(rows: list[tuple[str, ...]]) -> str:
    """``rows`` in columns of one width each, without trailing spaces."""
    widths = [max(len(cell) for cell in column) for column in zip(*rows, strict=True)]
    padded = ("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows)
    return "\n".join(padded)


def _row(gpu: CatalogGpu) -> tuple[str, ...]:
    card = target_document(gpu)
    return (
        card["name"],
        card["compute_capability"],
        f"{_sizes(gpu.memory_gib)} GiB",
        card["bf16"],
        card["fp16"],
        f"{gpu.shared_memory.per_block_optin // 1024} KiB",
        f"{card['dtype']}, {card['attention']}",
        ", ".join((gpu.name, *(alias for alias in gpu.aliases if not alias.endswith(gpu.name)))),
    )


def _sizes(gib: tuple[int, ...]) -> str:
    """The variants of one card: "24", "16/32", or "8-64" where they are many."""
    return f"{min(gib)}-{max(gib)}" if len(gib) > 2 else "/".join(str(size) for size in gib)


def _print_table(rows: list[tuple[str, ...]]) -> None:
    """The table for a terminal; a narrow one gets no other names. Cells are plain text, never markup."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console()
    shown = COLUMNS if console.width >= _WIDE else COLUMNS[:-1]
    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0))
    for column in shown:
        table.add_column(column, no_wrap=column not in COLUMNS[-2:], overflow="fold")
    for row in rows:
        table.add_row(*(Text(cell) for cell in row[: len(shown)]))
    console.print(table)
