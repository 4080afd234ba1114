"""``precpatch rules``: what the rules are."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from precpatch.cli import options, stream

if TYPE_CHECKING:
    from precpatch.engine.rules import Rule
    from precpatch.report.line import Line

FORMATS = ("text", "json")

Format = Annotated[str, typer.Option("--format", metavar="|".join(FORMATS), help="How to print it.")]


def rules(
    *,
    folders: options.RuleFolders = None,
    config: options.ConfigFile = None,
    output_format: Format = "text",
) -> None:
    """List the rules in the order in which they are asked: id, how safe the fix is, and what it does.

    Examples:
      precpatch rules
      precpatch rules --rules my-rules      with a folder of your own
      precpatch explain dtype-value          all about one of them
    """
    from precpatch.config import check_choice

    check_choice("--format", output_format, FORMATS)
    found = load(folders, config)
    if output_format == "json":
        stream.write(_json(found))
    else:
        stream.show(_lines(found))


def load(folders: Sequence[Path] | None, config: Path | None) -> tuple[Rule, ...]:
    """The built-in rules and those of the folders that the command line or the settings here name."""
    from precpatch.config import load_settings
    from precpatch.engine.rules import load_rules

    settings = load_settings(Path(), {"rules": tuple(folders or ()) or None}, config)
    return load_rules(settings.rules)


def _lines(rules: Sequence[Rule]) -> Iterator[Line]:
    from precpatch.report.line import first_sentence, line, visible

    id_width = max((len(rule.id) for rule in rules), default=0)
    safety_width = max((len(rule.safety) for rule in rules), default=0)
    for rule in rules:
        summary = visible(first_sentence(rule.what))
        yield line((f"{rule.id:<{id_width}}", "cyan"), f"  {rule.safety:<{safety_width}}  {summary}")


def _json(rules: Sequence[Rule]) -> bytes:
    import json

    from precpatch import __version__

    document = {"version": 1, "tool": f"precpatch {__version__}", "rules": [_document(rule) for rule in rules]}
    return json.dumps(document, indent=2).encode("ascii") + b"\n"


def _document(rule: Rule) -> dict[str, object]:
    return {
        "id": rule.id,
        "name": rule.name,
        "safety": rule.safety,
        "severity": rule.severity,
        "band": rule.band,
        "action": rule.action,
        "what": rule.what,
        "why": rule.why,
        "when": dict(rule.when),
        "references": [{"title": reference.title, "url": reference.url} for reference in rule.references],
    }
