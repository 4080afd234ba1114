"""What a verl checkout says about itself: its version, its rollout engines, whether it packs samples. Text only."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from precpatch.languages.mention import Mention

UNSET = "???"
"""The value of rollout.name in a release that leaves the engine to the launch command."""

VERSION_FILES = ("verl/version/version", "version/version")

_MOST_VERSION_TEXT = 200
_VERSION = re.compile(r"\d[\w.+!-]*", re.ASCII)
_PROJECT_NAME = re.compile(r"""^name\s*=\s*["']verl["']""", re.M)
_PROJECT_VERSION = re.compile(r"""^version\s*=\s*["']([^"']+)["']""", re.M)
_ENGINE, _PACKING = "rollout.name", "use_remove_padding"
_NOT_THE_TRAINER = frozenset({"generated", "megatron", "other-device"})


@dataclass(frozen=True)
class Checkout:
    """What is known of a checkout.

    Attributes:
        version: the version of verl; None where no file says it.
        engines: where each value of rollout.name stands first, as "path:line"; that of a reward model comes last.
        packing: whether use_remove_padding is on anywhere: "true", "false", or "unknown" where no config says it.
    """

    version: str | None = None
    engines: dict[str, str] = field(default_factory=dict)
    packing: str = "unknown"


def read_checkout(root: Path) -> Checkout:
    """What the folder ``root`` says. Its YAML files are read, nothing in it is run.

    Mirrors of other configs and settings for Megatron or other devices do not count.

    Raises:
        UserError: the folder cannot be read.
    """
    engines: dict[str, str] = {}
    packs = set()
    for mention in sorted(_switches(root), key=_is_of_reward_model):
        if mention.key == _ENGINE:
            engines.setdefault(mention.value, f"{mention.path}:{mention.line}")
        elif mention.key == _PACKING:
            packs.add(mention.value)
    packing = "true" if "true" in packs else "false" if packs else "unknown"
    return Checkout(verl_version(root), engines, packing)


def verl_version(root: Path) -> str | None:
    """The version of the verl in ``root``, from its version file or its pyproject.toml."""
    for name in VERSION_FILES:
        match = _VERSION.match(_text(root / name)[:_MOST_VERSION_TEXT].strip())
        if match:
            return match[0]
    project = _text(root / "pyproject.toml")
    match = _PROJECT_VERSION.search(project) if _PROJECT_NAME.search(project) else None
    return match[1] if match else None


def _switches(root: Path) -> Iterator[Mention]:
    """The switches in the YAML files of the trainer."""
    from precpatch.discover import discover
    from precpatch.languages.source import ReadError
    from precpatch.languages.yaml import YamlLanguage
    from precpatch.vocabulary import builtin_vocabulary
    from precpatch.vocabulary.needles import Wanted, needles_for

    language, vocabulary = YamlLanguage(), builtin_vocabulary()
    needles = needles_for(vocabulary, [Wanted(kinds=("switch",), keys=(_ENGINE, _PACKING))])
    for path in discover(root, suffixes=language.suffixes).files:
        try:
            data = (root / path).read_bytes()
            if not needles.stand_in(data):
                continue
            found = language.read(language.open(path, data), vocabulary).mentions
        except (OSError, ReadError):
            continue  # `precpatch scan` tells which files cannot be read
        yield from (each for each in found if each.kind == "switch" and not each.facts & _NOT_THE_TRAINER)


def _is_of_reward_model(mention: Mention) -> bool:
    """Whether the setting is for the reward model, whose engine is another one than that of the samples."""
    return "reward" in f"{mention.path} {mention.key_path}"


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
