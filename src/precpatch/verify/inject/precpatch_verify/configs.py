"""Composes a config as ``hydra.main`` would, resolves it, and builds the dataclasses that it names."""

from __future__ import annotations

import copy
import dataclasses
import importlib
import os
import re
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, Tuple  # noqa: UP035 (Python 3.8 runs this)

from . import modules
from .failures import describe, one_line
from .refusals import refused_values, row

Keys = Tuple[Any, ...]  # noqa: UP006

# What an interpolation may raise that says nothing about the checkout: a value that the user has to give, the
# environment, or what only exists while Hydra runs.
_LEANS_ON = ("InterpolationToMissingValueError", "MissingMandatoryValue")
_AT_RUN_TIME = re.compile(r"HydraConfig was not set|Environment variable '.*' not found|\$\{hydra:|\$\{oc\.env:")
_UNKNOWN_RESOLVER = re.compile(r"Unsupported interpolation type (\S+)")
_NO_CONFIG = re.compile("Cannot find primary config|Primary config directory not found")
_WAITS = re.compile("You must specify |Environment variable '.*' not found")


class _NamesNothingError(ImportError):
    """A ``_target_`` for which there is nothing in the module that is there."""


def do(job: dict[str, Any], request: dict[str, Any]) -> dict[str, Any]:
    """Compose the config of ``job``.

    Returns:
        ``absent``, where there is no such config; ``waits``, what the user has to choose or to set first; else
        ``problems``, a text each; ``failures``, how the import of each ``_target_`` that fails did, and ``lost``,
        those that name nothing; ``built``, how many dataclasses could be built, and ``unbuilt``, those that wait for
        the user's values; ``values``, what a run is given, with ``keys``, ``value`` and ``origin``.
    """
    modules.make_sure(job["entry"], request)  # it may register parts of the config, and resolvers
    try:
        config = _compose_anywhere(job, request["root"])
    except Exception as error:
        if _NO_CONFIG.search(str(error)):
            return {"absent": True}
        waits = next((each for each in _with_causes(error) if _WAITS.search(str(each))), None)
        if waits is None:
            raise
        return {"waits": one_line(waits)}
    problems = [text for node, key in _leaves(config) for text in _unresolved(node, key, job["resolvers"])]
    failures: list[dict[str, Any]] = []
    built = 0
    unbuilt: list[str] = []
    lost: list[str] = []
    names: dict[str, Any] = {}
    for node, keys in _targets(config):
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
        refusal, error_text = _build(config, keys, names[name], request)
        problems += [f"{_shown(keys)}: {refusal}"] if refusal else []
        unbuilt += [f"{_shown(keys)}: {error_text}"] if error_text else []
        built += not error_text and not refusal
    return {
        "problems": list(dict.fromkeys(problems)),
        "lost": lost,
        "failures": failures,
        "built": built,
        "unbuilt": unbuilt,
        "values": list(_values(config, {name: kind for name, kind in names.items() if _is_dataclass(kind)})),
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


def _unresolved(node: Any, key: Any, resolvers: list[str]) -> Iterator[str]:
    """What is wrong with the interpolation at a key, if there is one and something is.

    That one of ``resolvers`` is not there yet is nothing wrong: the program registers it later.
    """
    inner = node._get_node(key)
    if inner is None or not inner._is_interpolation():
        return
    try:
        node[key]
    except Exception as error:
        text = str(inner._value())
        unknown = _UNKNOWN_RESOLVER.search(str(error))
        is_later = _AT_RUN_TIME.search(f"{text} {error}") or (unknown and unknown[1] in resolvers)
        if type(error).__name__ not in _LEANS_ON and not is_later:
            yield f"{inner._get_full_key(None)}: {text}: {one_line(error).partition(' full_key:')[0]}"


def _values(node: Any, kinds: dict[str, Any], around: Keys = ()) -> Iterator[dict[str, Any]]:
    """Every plain value, interpolations resolved, and those that a node leaves to its dataclass, one of ``kinds``."""
    omega = importlib.import_module("omegaconf")
    is_list = isinstance(node, omega.ListConfig)
    keys = list(range(len(node)) if is_list else node.keys())
    for key in keys:
        inner = node._get_node(key)
        if isinstance(inner, (omega.DictConfig, omega.ListConfig)) and not _is_special(inner):
            yield from _values(inner, kinds, (*around, key))
            continue
        with suppress(Exception):  # what is missing or wrong is told elsewhere
            origin = str(inner._value()) if inner._is_interpolation() else ""
            yield from row((*around, key), node[key], origin)
    with suppress(Exception):
        kind: Any = None if is_list else kinds.get(str(node["_target_"]))
        for field in dataclasses.fields(kind) if kind else ():
            if field.name not in keys:
                yield from row((*around, field.name), field.default, f"the default of {kind.__name__}")


def _targets(node: Any, around: Keys = ()) -> Iterator[tuple[Any, Keys]]:
    """The nodes with a ``_target_``, inner ones first, and the keys that lead to each."""
    omega = importlib.import_module("omegaconf")
    is_list = isinstance(node, omega.ListConfig)
    for key in range(len(node)) if is_list else list(node.keys()):
        inner = node._get_node(key)
        if isinstance(inner, (omega.DictConfig, omega.ListConfig)) and not _is_special(inner):
            yield from _targets(inner, (*around, key))
    with suppress(Exception):
        if not is_list and "_target_" in node and isinstance(node["_target_"], str):
            yield node, around


def _shown(keys: Keys) -> str:
    text = "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in keys)
    return text.lstrip(".") or "the config"


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


def _build(config: Any, keys: Keys, kind: Any, request: dict[str, Any]) -> tuple[str, str]:
    """Build the dataclass at ``keys``.

    Returns:
        Why it refuses a value that the patch sets, "" where it does not; and why it could not be built for another
        reason, such as a value that the user has to give, else "".
    """
    words = request["words"]
    error = _instantiation_error(config, keys)
    if error is None:
        return "", ""
    refused = refused_values(kind, words, _given(_at(config, keys)))
    if refused:
        return refused[0], ""
    changed = copy.deepcopy(config)
    if not _set_back(_at(changed, keys), kind, words):
        return "", one_line(error)
    other = _instantiation_error(changed, keys)
    if other is None or _origin(other, request) != _origin(error, request):
        return _cause(error), ""
    return "", _cause(error)


def _at(config: Any, keys: Keys) -> Any:
    for key in keys:  # not by one text: a key may have a dot in it
        config = config._get_node(key)
    return config


def _given(node: Any) -> dict[str, Any]:
    """The values of a node that can be read."""
    values = {}
    for key in list(node.keys()):
        with suppress(Exception):
            values[str(key)] = node[key]
    return values


class _CallsError(Exception):
    """Something other than a dataclass would have to be called."""


def _instantiation_error(config: Any, keys: Keys) -> BaseException | None:
    """Why the node at ``keys`` cannot be built. What is in it is built with it, so it may name dataclasses only."""
    node = _at(config, keys)
    try:
        for name in _names_in(importlib.import_module("omegaconf").OmegaConf.to_container(node, resolve=True)):
            if not _is_dataclass(_object(name)):
                raise _CallsError(f"{name} is no dataclass, and is not called")
        importlib.import_module("hydra.utils").instantiate(node, _convert_="partial")
    except BaseException as error:
        return error
    return None


def _names_in(value: Any) -> Iterator[str]:
    """Every ``_target_`` in a plain value, interpolations resolved."""
    if isinstance(value, dict) and "_target_" in value:
        yield str(value["_target_"])
    for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from _names_in(inner)


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


def _with_causes(error: BaseException) -> list[BaseException]:
    """An error, and those that Hydra has wrapped in its own."""
    found = [error]
    while found[-1].__cause__ is not None:
        found.append(found[-1].__cause__)
    return found


def _first(error: BaseException) -> BaseException:
    return _with_causes(error)[-1]


def _cause(error: BaseException) -> str:
    return one_line(_first(error))
