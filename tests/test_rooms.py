"""The rooms of the program: no module needs itself in a circle, and data goes one way."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import precpatch

ROOT = Path(precpatch.__file__).parent

REACHES = {
    "gpu": {"engine", "languages", "session", "cli", "report", "vocabulary"},
    "patch": {"engine", "languages", "session", "cli", "report", "gpu"},
    "vocabulary": {"engine", "languages", "session", "cli", "report", "gpu", "patch"},
    "languages": {"engine", "session", "cli", "report", "gpu", "discover"},
    "engine": {"session", "cli", "report", "discover"},
    "report": {"session", "cli"},
    "doctor": {"session", "cli"},
    "guard": {"session", "cli"},
    "verify": {"session", "cli"},
    "session": {"cli"},
}
"""Room -> the rooms that it must not use."""


def modules() -> dict[str, Path]:
    """Name of each module -> its file."""
    names = {path: path.relative_to(ROOT.parent).with_suffix("").parts for path in ROOT.rglob("*.py")}
    return {".".join(parts).removesuffix(".__init__"): path for path, parts in names.items()}


def imports(name: str, path: Path, known: set[str]) -> Iterator[str]:
    """The modules that a module imports anywhere, for type checking too."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in known)
        elif isinstance(node, ast.ImportFrom):
            package = name if path.name == "__init__.py" else name.rpartition(".")[0]
            above = package.rsplit(".", node.level - 1)[0] if node.level else ""
            module = ".".join(filter(None, (above, node.module)))
            inner = [f"{module}.{alias.name}" for alias in node.names]
            yield from (each for each in inner if each in known)
            if module in known and not all(each in known for each in inner):
                yield module


GRAPH = {name: set(imports(name, path, set(modules()))) - {name} for name, path in modules().items()}


def room(name: str) -> str:
    """The room of a module; of the package itself, ""."""
    return name.partition(".")[2].partition(".")[0]


def circles(graph: dict[str, set[str]]) -> list[tuple[str, ...]]:
    """The ways that lead back to where they begin."""
    done: set[str] = set()

    def from_here(name: str, path: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
        if name in path:
            yield (*path[path.index(name) :], name)
        elif name not in done:
            for other in sorted(graph[name]):
                yield from from_here(other, (*path, name))
            done.add(name)

    return [circle for name in sorted(graph) for circle in from_here(name, ())]


def test_no_module_needs_itself() -> None:
    assert circles(GRAPH) == []


def test_no_room_needs_itself() -> None:
    rooms: dict[str, set[str]] = {room(name): set() for name in GRAPH}
    for name, used in GRAPH.items():
        rooms[room(name)] |= {room(other) for other in used} - {room(name)}
    assert circles(rooms) == []


def test_no_room_reaches_back() -> None:
    wrong = [
        f"{name} uses {other}"
        for name, used in GRAPH.items()
        for other in used
        if room(other) in REACHES.get(room(name), ())
    ]
    assert wrong == []
