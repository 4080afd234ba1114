"""Files to start from: the examples of every rule, a little of each generated shape, and what fuzzing found before."""

from __future__ import annotations

from pathlib import Path

from shapes import SHAPES

from precpatch.engine.rules import load_rules

SUFFIX = {"python": ".py", "yaml": ".yaml", "shell": ".sh", "json": ".json", "notebook": ".ipynb"}
CORPUS = Path(__file__).parent / "corpus"


def seeds() -> dict[str, list[bytes]]:
    """Suffix of a file -> what to begin with."""
    found: dict[str, list[bytes]] = {suffix: [] for suffix in SUFFIX.values()}
    for rule in load_rules():
        for example in rule.examples:
            found[SUFFIX[example.language]] += [example.before.encode(), example.after.encode()]
    for path, shapes in SHAPES.items():
        suffix = Path(path).suffix
        if suffix in found:
            found[suffix] += [shape(400).encode() for shape in shapes.values()]
    for path in corpus():
        found[path.suffix].append(path.read_bytes())
    return {suffix: list(dict.fromkeys(each)) for suffix, each in found.items()}


def corpus() -> list[Path]:
    """The files that broke a property once."""
    return sorted(path for path in CORPUS.iterdir() if path.suffix in SUFFIX.values())
