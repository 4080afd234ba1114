"""What there is to import in a checkout, read from the syntax alone: entry points, and the modules that they reach.

An entry point is a module with a function under ``@hydra.main(...)``; where a checkout has none, one with an
``if __name__ == "__main__"`` in a package that is named for a trainer; where it has none of these either, every module
of its packages is looked at as if an entry point had reached it.
"""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path, PurePosixPath

_DOTTED = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+", re.ASCII)
_HYDRA_MAIN = "hydra.main"
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
_TRAINERS = re.compile(r"(?:^|_)(?:trainers?|training)(?:_|$)")


@dataclass(frozen=True)
class Config:
    """The config that an entry point is run with.

    Attributes:
        path: the entry point's file.
        line: the line of its ``@hydra.main``.
        folder: where the config is, relative to the root; None where only the running program knows.
        name: the name of the config; None as for ``folder``.
        version: ``version_base``, where it is given; else ``...``.
    """

    path: str
    line: int
    folder: str | None
    name: str | None
    version: object


@dataclass
class Module:
    """A Python file of the checkout.

    Attributes:
        path: relative to the root.
        name: the name to import it by.
        base: the folder that ``name`` counts from, relative to the root.
        is_packaged: its folder is a regular package; else it may be run as a script from its own folder.
        tree: its syntax; None where it does not parse.
    """

    path: str
    name: str
    base: str
    is_packaged: bool
    tree: ast.Module | None = None
    configs: list[Config] = field(default_factory=list)

    @property
    def package(self) -> str:
        """The package that its relative imports count from."""
        return self.name if self.path.endswith("__init__.py") else self.name.rpartition(".")[0]

    @cached_property
    def is_relative(self) -> bool:
        """It has a relative import, and so has to be imported by its name."""
        nodes = ast.walk(self.tree) if self.tree else ()
        return any(isinstance(node, ast.ImportFrom) and node.level > 0 for node in nodes)


class Modules:
    """The Python files of a checkout by name and by path."""

    def __init__(self, root: Path, files: Sequence[str]) -> None:
        """``files`` are the Python files below ``root``."""
        self._root = root
        packages = {str(PurePosixPath(path).parent) for path in files if PurePosixPath(path).name == "__init__.py"}
        bases = {_base(folder, packages) for folder in packages} | {"."}
        self.by_path = {path: _module(path, packages, bases) for path in files}
        self.by_name: dict[str, Module] = {}
        for module in self.by_path.values():
            self.by_name.setdefault(module.name, module)
        self._names: dict[tuple[str, bool], tuple[str, ...]] = {}

    def tree(self, module: Module) -> ast.Module | None:
        """The syntax of a module, parsed once."""
        if module.tree is None:
            module.tree = _parse(self._root / module.path)
        return module.tree

    def statements(self, module: Module, line: int) -> list[ast.stmt]:
        """The statements of a module that stand at a line, outer ones first."""
        found: list[ast.stmt] = []
        waiting: list[ast.AST] = [tree] if (tree := self.tree(module)) else []
        for node in waiting:
            first, last = getattr(node, "lineno", line), getattr(node, "end_lineno", line)
            if first <= line <= last:
                found += [node] if isinstance(node, ast.stmt) else []
                waiting += ast.iter_child_nodes(node)
        return found

    def entries(self, files: Iterable[str]) -> list[Module]:
        """The entry points among ``files``; each is told its configs."""
        found = [self.by_path[path] for path in files if path in self.by_path and self._mentions(path, b"hydra")]
        for module in found:
            tree = self.tree(module)
            module.configs = list(_configs(module.path, tree)) if tree else []
        with_hydra = [module for module in found if module.configs]
        return with_hydra or [self.by_path[path] for path in files if path in self.by_path and self._is_program(path)]

    def reached(self, entries: Sequence[Module], *, lazily: bool = True) -> list[Module]:
        """The modules that ``entries`` reach by imports, nearest first, without them.

        With ``lazily`` by any import, also inside functions and by a dotted name in a text.
        """
        seen = {module.path: module for module in entries}
        waiting = list(entries)
        for module in waiting:
            for name in self._named(module, lazily=lazily):
                found = self.by_name.get(name)
                if found is not None and found.path not in seen:
                    seen[found.path] = found
                    waiting.append(found)
        return waiting[len(entries) :]

    def holding(self, dotted: str) -> Module | None:
        """The module that a dotted name such as ``verl.workers.config.ActorConfig`` is, or is in."""
        parts = dotted.split(".")
        names = (".".join(parts[:length]) for length in range(len(parts), 0, -1))
        return next((self.by_name[name] for name in names if name in self.by_name), None)

    def owns(self, name: str) -> bool:
        """Whether a module name belongs to the checkout."""
        return name.partition(".")[0] in self._tops

    @cached_property
    def _tops(self) -> frozenset[str]:
        return frozenset(name.partition(".")[0] for name in self.by_name)

    def uses_at_once(self, entry: Module, package: str) -> bool:
        """Whether the import of an entry point leads to that of a package."""
        chosen = [entry, *self.reached([entry], lazily=False)]
        return any(name == package for each in chosen for name in self._named(each, lazily=False))

    def lost(self, modules: Iterable[Module]) -> Iterator[tuple[Module, int, str]]:
        """Imports, also inside functions, of modules of the checkout that are not there and that nothing handles."""
        for module in modules:
            tree = self.tree(module)
            for node in unhandled(tree, lazily=True) if tree else ():
                for name in _modules_of(node, module.package):
                    if not self._is_there(name):
                        yield module, node.lineno, name  # type: ignore[attr-defined]

    def _is_there(self, name: str) -> bool:
        """Whether a module can be found, as far as it is the checkout's: a file, a folder, or a compiled module."""
        top = self.by_name.get(name.partition(".")[0])
        if name in self.by_name or top is None or not top.path.endswith("__init__.py"):
            return True
        place = self._root / top.base / name.replace(".", "/")
        return place.is_dir() or any(place.parent.glob(f"{place.name}.*"))

    def foreign_to(self, modules: Iterable[Module]) -> set[str]:
        """The packages outside the checkout that modules may import."""
        return {name for each in modules for name in self._named(each) if "." not in name and not self.owns(name)}

    def resolvers(self, modules: Iterable[Module]) -> set[str]:
        """The names under which modules register resolvers for interpolations, also in functions."""
        nodes = (node for each in modules if (tree := self.tree(each)) for node in ast.walk(tree))
        return {name for node in nodes if isinstance(node, ast.Call) for name in _resolver(node)}

    def _named(self, module: Module, *, lazily: bool = True) -> tuple[str, ...]:
        """The names that a module may import, with the packages around them."""
        if (module.path, lazily) not in self._names:
            tree = self.tree(module)
            names = _imports(tree, module.package, lazily=lazily) if tree else ()
            around = (_around(name) for name in names)
            self._names[module.path, lazily] = tuple(dict.fromkeys(each for some in around for each in some))
        return self._names[module.path, lazily]

    def _mentions(self, path: str, word: bytes) -> bool:
        try:
            return word in (self._root / path).read_bytes()
        except OSError:
            return False

    def _is_program(self, path: str) -> bool:
        folders = PurePosixPath(path).parts[:-1]
        if not any(_TRAINERS.search(name) for name in folders) or not self._mentions(path, b"__main__"):
            return False
        tree = self.tree(self.by_path[path])
        return tree is not None and any(map(_asks_for_main, tree.body))


def _base(folder: str, packages: set[str]) -> str:
    """The folder around the outermost package that ``folder`` is or is in, also by way of a folder that is none."""
    pure = PurePosixPath(folder)
    return str(next(each for each in (*reversed(pure.parents), pure) if str(each) in packages).parent)


def _module(path: str, packages: set[str], bases: set[str]) -> Module:
    pure = PurePosixPath(path)
    folder = str(pure.parent)
    base = next(str(each) for each in pure.parents if str(each) in bases)
    parts = pure.with_suffix("").relative_to(base).parts
    parts = parts[:-1] if parts[-1] == "__init__" and len(parts) > 1 else parts
    return Module(path, ".".join(parts), base, folder in packages)


def _parse(path: Path) -> ast.Module | None:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(path.read_bytes())
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _around(name: str) -> list[str]:
    """``a``, ``a.b`` and ``a.b.c`` for ``a.b.c``."""
    parts = name.split(".")
    return [".".join(parts[:length]) for length in range(1, len(parts) + 1)]


def _imports(tree: ast.Module, package: str, *, lazily: bool) -> Iterator[str]:
    """The names of modules that are imported; with ``lazily`` also inside functions, and what a text names."""
    stack: list[ast.AST] = [tree]
    while stack:
        node = stack.pop()
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from _from(node, package)
        elif isinstance(node, ast.Constant):
            if lazily and isinstance(node.value, str) and _DOTTED.fullmatch(node.value):
                yield node.value
        elif isinstance(node, ast.If) and _is_type_checking(node.test):
            stack += node.orelse
        elif lazily or not isinstance(node, FUNCTIONS):
            stack += ast.iter_child_nodes(node)


def _from(node: ast.ImportFrom, package: str) -> Iterator[str]:
    base = node.module or ""
    if node.level:
        parts = package.split(".")
        if node.level > len(parts):  # beyond the top: an error when it is imported
            return
        above = parts[: len(parts) - node.level + 1]
        base = ".".join([*above, *([node.module] if node.module else [])])
    if base:
        yield base
        yield from (f"{base}.{alias.name}" for alias in node.names if alias.name != "*")


def unhandled(tree: ast.Module, *, lazily: bool) -> Iterator[ast.AST]:
    """The nodes that run outside of blocks whose errors are handled, those for type checkers left out.

    With ``lazily`` also those in functions.
    """
    stack: list[ast.AST] = [tree]
    while stack:
        node = stack.pop()
        yield node
        if isinstance(node, ast.Try) and node.handlers:
            stack += [*node.orelse, *node.finalbody]
        elif isinstance(node, ast.If) and _is_type_checking(node.test):
            stack += node.orelse
        elif not _suppresses(node) and (lazily or not isinstance(node, FUNCTIONS)):
            stack += ast.iter_child_nodes(node)


def _suppresses(node: ast.AST) -> bool:
    """``with suppress(...):``."""
    return isinstance(node, ast.With) and any("suppress" in ast.unparse(item.context_expr) for item in node.items)


def _modules_of(node: ast.AST, package: str) -> list[str]:
    """The modules that an import statement needs."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    return list(_from(node, package))[:1] if isinstance(node, ast.ImportFrom) else []


def _resolver(call: ast.Call) -> list[str]:
    """The name in ``OmegaConf.register_new_resolver("name", ...)``."""
    called = getattr(call.func, "attr", None) or getattr(call.func, "id", None)
    if called not in {"register_new_resolver", "register_resolver"}:
        return []
    given = [*call.args[:1], *(keyword.value for keyword in call.keywords if keyword.arg == "name")]
    return [text for each in given if (text := _text(each))]


def _is_type_checking(test: ast.expr) -> bool:
    return (isinstance(test, ast.Name) and test.id == "TYPE_CHECKING") or (
        isinstance(test, ast.Attribute) and test.attr == "TYPE_CHECKING"
    )


def _asks_for_main(statement: ast.stmt) -> bool:
    """``if __name__ == "__main__":``."""
    if not isinstance(statement, ast.If):
        return False
    words = {getattr(node, "id", None) or getattr(node, "value", None) for node in ast.walk(statement.test)}
    return {"__name__", "__main__"} <= words


def _configs(path: str, tree: ast.Module) -> Iterator[Config]:
    """The configs of the functions under ``@hydra.main``, whatever the names under which it is imported."""
    names = _names_of_hydra_main(tree)
    for node in ast.walk(tree):
        for decorator in getattr(node, "decorator_list", ()):
            if isinstance(decorator, ast.Call) and ast.unparse(decorator.func) in names:
                yield _config(path, decorator)


def _names_of_hydra_main(tree: ast.Module) -> set[str]:
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {f"{alias.asname or alias.name}.main" for alias in node.names if alias.name == "hydra"}
        elif isinstance(node, ast.ImportFrom) and node.module in {"hydra", _HYDRA_MAIN}:
            found |= {alias.asname or alias.name for alias in node.names if alias.name == "main"}
    return found


def _config(path: str, call: ast.Call) -> Config:
    given: dict[str, ast.expr] = dict(zip(("config_path", "config_name", "version_base"), call.args, strict=False))
    given |= {keyword.arg: keyword.value for keyword in call.keywords if keyword.arg}
    folder, name = _text(given.get("config_path")), _text(given.get("config_name"))
    if folder is not None and "://" not in folder:
        folder = str(PurePosixPath(path).parent / folder)
    version = given.get("version_base")
    known = version.value if isinstance(version, ast.Constant) else ...
    return Config(path, call.lineno, folder, name, known)


def _text(node: ast.expr | None) -> str | None:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None
