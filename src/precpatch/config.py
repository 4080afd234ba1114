"""Settings of a run: ``precpatch.toml`` or ``[tool.precpatch]`` of ``pyproject.toml``, and the command line on top."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from precpatch.errors import UserError
from precpatch.files import read_limited
from precpatch.gpu.target import ATTENTION_CHOICES, DTYPE_CHOICES

OWN_FILE = "precpatch.toml"
PROJECT_FILE = "pyproject.toml"


@dataclass(frozen=True)
class Settings:
    """What a user can decide about a run.

    Attributes:
        target: name of a GPU, a compute capability, a file, or "auto" for the GPU of this machine.
        dtype: what bfloat16 becomes where it is not native: one of ``DTYPE_CHOICES``.
        attention: what FlashAttention becomes where it does not run: one of ``ATTENTION_CHOICES``.
        select: ids of the rules to use, or globs of ids; all where empty.
        ignore: ids of the rules to leave out, or globs of ids.
        include: globs of files to look at in the folders that are left alone unless asked for: tests and docs.
        exclude: globs of the files to leave out.
        rules: folders with more rule files.
        unsafe: also make the fixes that a person should review.
    """

    target: str = "auto"
    dtype: str = "auto"
    attention: str = "auto"
    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    rules: tuple[Path, ...] = ()
    unsafe: bool = False


def load_settings(root: Path, overrides: Mapping[str, Any], config: Path | None = None) -> Settings:
    """The settings of a run on ``root``.

    Args:
        root: folder whose ``precpatch.toml`` or ``pyproject.toml`` is read.
        overrides: values from the command line; None stands for "not given".
        config: a settings file to read in place of those of ``root``.

    Raises:
        UserError: a settings file cannot be read, or holds an unknown key or a wrong value.
    """
    values = _read_file(config, required=True) if config else _read_root(root)
    values |= {key: value for key, value in overrides.items() if value is not None}
    return Settings(**values)


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """A sentence that names the known word nearest to ``word``, to be put after an error; "" where none is near."""
    from difflib import get_close_matches

    near = get_close_matches(word, list(known), n=1, cutoff=0.5)
    return f" Did you mean {near[0]!r}?" if near else ""


def check_choice(name: str, value: str, known: Iterable[str]) -> None:
    """Refuse a ``value`` that is not among ``known``.

    Raises:
        UserError: it is not; the text names the option, the choices and the nearest one.
    """
    choices = list(known)
    if value not in choices:
        raise UserError(f"{name}: {value!r} is not one of {', '.join(choices)}.{did_you_mean(value, choices)}")


def _read_root(root: Path) -> dict[str, Any]:
    """The settings nearest to ``root``: its own, or those of a folder above it in the same git checkout.

    In one folder ``precpatch.toml`` wins over ``pyproject.toml``.
    """
    for folder in _up_to_the_checkout(root.resolve()):
        own = folder / OWN_FILE
        found = _read_file(own) if own.is_file() else _read_file(folder / PROJECT_FILE)
        if found or own.is_file():
            return found
    return {}


def _up_to_the_checkout(folder: Path) -> list[Path]:
    """The folder and those above it up to the top of its git checkout; the folder alone outside of one."""
    around = [folder, *folder.parents]
    top = next((at for at, each in enumerate(around) if (each / ".git").exists()), 0)
    return around[: top + 1]


def _read_file(path: Path, required: bool = False) -> dict[str, Any]:
    """The checked settings of one file; none where it is not there and not ``required``."""
    if not required and not path.is_file():
        return {}
    try:
        data = read_limited(path)
    except OSError as error:
        raise UserError(f"{path}: cannot read the settings: {error.strerror or error}.") from error
    except ValueError as error:
        raise UserError(f"{path}: cannot read the settings: {error}.") from error
    is_project = path.name == PROJECT_FILE
    if is_project and b"precpatch" not in data:
        return {}
    table = _parse(path, data)
    if is_project:
        tool = table.get("tool")
        table = tool.get("precpatch", {}) if isinstance(tool, dict) else {}
    return _check(path, table)


def _parse(path: Path, data: bytes) -> dict[str, Any]:
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib

    try:
        return tomllib.loads(data.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        column = error.start - (data.rfind(b"\n", 0, error.start) + 1) + 1
        raise UserError(f"{path}: not UTF-8 text (at line {line}, column {column}).") from error
    except (ValueError, RecursionError) as error:  # also a number of too many digits, and brackets too deep
        raise UserError(f"{path}: not valid TOML: {error}.") from error


def _check(path: Path, table: object) -> dict[str, Any]:
    """The values of a settings table in the types of ``Settings``."""
    if not isinstance(table, dict):
        raise UserError(f"{path}: 'tool.precpatch' must be a table.")
    known = [field.name for field in fields(Settings)]
    values: dict[str, Any] = {}
    for key, value in table.items():
        if key not in known:
            raise UserError(f"{path}: unknown key {key!r}.{did_you_mean(key, known)} Known keys: {', '.join(known)}.")
        values[key] = _READERS[key](path, key, value)
    return values


def _text(path: Path, key: str, value: object) -> str:
    if not isinstance(value, str):
        raise _wrong_type(path, key, "a string", value)
    return value


def _flag(path: Path, key: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise _wrong_type(path, key, "true or false", value)
    return value


def _texts(path: Path, key: str, value: object) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise _wrong_type(path, key, "a list of strings", value)
    return tuple(value)


def _folders(path: Path, key: str, value: object) -> tuple[Path, ...]:
    return tuple(path.parent / item for item in _texts(path, key, value))


def _choice(known: tuple[str, ...]) -> Callable[[Path, str, object], str]:
    def read(path: Path, key: str, value: object) -> str:
        text = _text(path, key, value)
        check_choice(f"{path}: {key}", text, known)
        return text

    return read


def _wrong_type(path: Path, key: str, wanted: str, value: object) -> UserError:
    return UserError(f"{path}: {key!r} must be {wanted}, not {value!r}.")


_READERS: Mapping[str, Callable[[Path, str, object], Any]] = {
    "target": _text,
    "dtype": _choice(DTYPE_CHOICES),
    "attention": _choice(ATTENTION_CHOICES),
    "select": _texts,
    "ignore": _texts,
    "include": _texts,
    "exclude": _texts,
    "rules": _folders,
    "unsafe": _flag,
}
