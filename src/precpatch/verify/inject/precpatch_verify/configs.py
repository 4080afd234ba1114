"""Composes a config as ``hydra.main`` would, resolves it, and builds the dataclasses that it names."""

from __future__ import annotations

import copy
import dataclasses
import importlib
import os
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from .failures import describe, one_line
from .refusals import refused_values

# What an interpolation may raise that says nothing about the checkout: a value that the user has to give, the
# environment, or what only exists while Hydra runs.
_LEANS_ON = ("InterpolationToMissingValueError", "MissingMandatoryValue")
_AT_RUN_TIME = ("hydra:", "oc.env:")


class _NamesNothingError(ImportError):
    """A ``_target_`` for which there is nothing in the module that is there."""


def do(job: dict[str, Any], request: dict[str, Any]) -> dict[str, Any]:
    """Compose the config of ``job``.

    Returns:
        ``absent``, where there is no such config; else ``problems``, a text each; ``failures``, how the import of each
        ``_target_`` that fails did, and ``lost``, those that name nothing; ``built``, how many dataclasses could be
        built, and ``unbuilt``, those that wait for the user's values.
    """
    try:
        config = _compose_anywhere(job, request["root"])
    except Exception as error:
        if "Cannot find primary config" in str(error):
            return {"absent": True}
        raise
    problems = [text for node, key in _leaves(config) for text in _unresolved(node, key)]
    failures: list[dict[str, Any]] = []
    built = 0
    unbuilt: list[str] = []
    lost: list[str] = []
    names: dict[str, Any] = {}
    for node, path in _targets(config):
        name = str(node["_target_"])
        if name not in names:
            names[name] = None
            try:
                names[name] = _object(name)
            except _NamesNothingError:
                lost.append(name)
            except BaseException as error:
                failures.append({"target": name, "failure": describe(error, request["root"])})
        if not _is_dataclass(names[name]):
            continue
        refusal, error_text = _build(config, path, names[name], request)
        problems += [f"{path or 'the config'}: {refusal}"] if refusal else []
        unbuilt += [f"{path or 'the config'}: {error_text}"] if error_text else []
        built += not error_text and not refusal
    return {
        "problems": list(dict.fromkeys(problems)),
        "lost": lost,
        "failures": failures,
        "built": built,
        "unbuilt": unbuilt,
    }


def _compose_anywhere(job: dict[str, Any], root: str) -> Any:
    """Compose as from the top of the checkout, or else as from the folder of the entry point.

    A search path such as ``file://verl/trainer/config`` counts from where the program is started.
    """
    try:
        return _compose(job)
    except Exception:
        os.chdir(job["started_in"])
        try:
            return _compose(job)
        except Exception:  # noqa: S110 (the first error is the one to tell)
            pass
        finally:
            os.chdir(root)
        raise


def _compose(job: dict[str, Any]) -> Any:
    hydra = importlib.import_module("hydra")
    importlib.import_module("hydra.core.global_hydra").GlobalHydra.instance().clear()
    version = {"version_base": job["version_base"]} if "version_base" in job else {}
    with hydra.initialize_config_dir(config_dir=job["folder"], **version):
        return hydra.compose(config_name=job["config"])


def _leaves(node: Any) -> Iterator[tuple[Any, Any]]:
    """Every container with each of its keys that holds a value or an interpolation."""
    omega = importlib.import_module("omegaconf")
    keys = range(len(node)) if isinstance(node, omega.ListConfig) else list(node.keys())
    for key in keys:
        inner = node._get_node(key)
        if isinstance(inner, (omega.DictConfig, omega.ListConfig)) and not _is_special(inner):
            yield from _leaves(inner)
        else:
            yield node, key


def _is_special(node: Any) -> bool:
    return bool(node._is_none() or node._is_missing() or node._is_interpolation())


def _unresolved(node: Any, key: Any) -> Iterator[str]:
    """What is wrong with the interpolation at a key, if there is one and something is."""
    inner = node._get_node(key)
    if inner is None or not inner._is_interpolation():
        return
    try:
        node[key]
    except Exception as error:
        text = str(inner._value())
        if type(error).__name__ not in _LEANS_ON and not any("${" + word in text for word in _AT_RUN_TIME):
            yield f"{inner._get_full_key(None)}: {text}: {one_line(error).partition(' full_key:')[0]}"


def _targets(node: Any, path: str = "") -> Iterator[tuple[Any, str]]:
    """The nodes with a ``_target_``, inner ones first, and the path of each."""
    omega = importlib.import_module("omegaconf")
    is_list = isinstance(node, omega.ListConfig)
    for key in range(len(node)) if is_list else list(node.keys()):
        inner = node._get_node(key)
        if isinstance(inner, (omega.DictConfig, omega.ListConfig)) and not _is_special(inner):
            step = f"[{key}]" if is_list else f".{key}" if path else str(key)
            yield from _targets(inner, path + step)
    with suppress(Exception):
        if not is_list and "_target_" in node and isinstance(node["_target_"], str):
            yield node, path


def _object(name: str) -> Any:
    """What a dotted name stands for.

    Raises:
        _NamesNothingError: it stands for nothing.
        ImportError: its module cannot be imported.
    """
    parts = name.split(".")
    for length in range(len(parts) - 1, 0, -1):
        module = ".".join(parts[:length])
        try:
            found = importlib.import_module(module)
        except ModuleNotFoundError as error:
            if length > 1 and error.name and (module == error.name or module.startswith(error.name + ".")):
                continue
            raise
        for part in parts[length:]:
            if not hasattr(found, part):
                raise _NamesNothingError(f"{module} has no {'.'.join(parts[length:])}")
            found = getattr(found, part)
        return found
    raise _NamesNothingError(f"{name!r} names no module")


def _is_dataclass(found: Any) -> bool:
    return isinstance(found, type) and dataclasses.is_dataclass(found)


def _build(config: Any, path: str, kind: Any, request: dict[str, Any]) -> tuple[str, str]:
    """Build the dataclass at ``path``.

    Returns:
        Why it refuses a value that the patch sets, "" where it does not; and why it could not be built for another
        reason, such as a value that the user has to give, else "".
    """
    words = request["words"]
    error = _instantiation_error(config, path)
    if error is None:
        return "", ""
    refused = refused_values(kind, words, _given(_at(config, path)))
    if refused:
        return refused[0], ""
    changed = copy.deepcopy(config)
    if not _set_back(_at(changed, path), kind, words):
        return "", one_line(error)
    other = _instantiation_error(changed, path)
    if other is None or _origin(other, request) != _origin(error, request):
        return _cause(error), ""
    return "", _cause(error)


def _at(config: Any, path: str) -> Any:
    omega = importlib.import_module("omegaconf")
    return omega.OmegaConf.select(config, path) if path else config


def _given(node: Any) -> dict[str, Any]:
    """The values of a node that can be read."""
    values = {}
    for key in list(node.keys()):
        with suppress(Exception):
            values[str(key)] = node[key]
    return values


def _instantiation_error(config: Any, path: str) -> Exception | None:
    """Why the node at ``path`` cannot be built."""
    instantiate = importlib.import_module("hydra.utils").instantiate
    try:
        instantiate(_at(config, path), _convert_="partial")
    except Exception as error:
        return error
    return None


def _set_back(node: Any, kind: Any, words: dict[str, str]) -> bool:
    """Put the words that the patch replaced back into a node, and into the defaults that it leaves to the class."""
    omega = importlib.import_module("omegaconf").OmegaConf
    omega.set_struct(node, False)
    omega.set_readonly(node, False)
    given = _given(node)
    values = {field.name: given.get(field.name, field.default) for field in dataclasses.fields(kind)}
    replaced = {name: words[value] for name, value in values.items() if isinstance(value, str) and value in words}
    for name, value in replaced.items():
        node[name] = value
    return bool(replaced)


def _origin(error: BaseException, request: dict[str, Any]) -> tuple[str, Any]:
    """What kind of error came from where; its text may hold the value itself."""
    first = _first(error)
    frames: list[tuple[str, int]] = describe(first, request["root"])["frames"]
    return type(first).__name__, frames[0] if frames else str(first)


def _first(error: BaseException) -> BaseException:
    """The error that Hydra has wrapped in its own."""
    while error.__cause__ is not None:
        error = error.__cause__
    return error


def _cause(error: BaseException) -> str:
    return one_line(_first(error))
