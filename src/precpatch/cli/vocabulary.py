"""``precpatch vocabulary``: the words that every reader knows, and what they mean."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from precpatch.cli import options, stream
from precpatch.cli.rules import FORMATS, Format, load

if TYPE_CHECKING:
    from precpatch.report.line import Line
    from precpatch.vocabulary import Setting, Vocabulary


def vocabulary(
    word: Annotated[str | None, typer.Argument(metavar="[WORD]", help="A word, to say what it means.")] = None,
    *,
    folders: options.RuleFolders = None,
    config: options.ConfigFile = None,
    output_format: Format = "text",
) -> None:
    """List the words that every reader knows by concept, or say what one word means.

    Examples:
      precpatch vocabulary
      precpatch vocabulary use_remove_padding
      precpatch vocabulary rollout.name --format json
      precpatch vocabulary my_switch --rules my-rules     with the words of your own rules
    """
    from precpatch.config import check_choice, did_you_mean
    from precpatch.engine.words import vocabulary_for
    from precpatch.errors import UserError
    from precpatch.vocabulary import builtin_vocabulary

    check_choice("--format", output_format, FORMATS)
    words = vocabulary_for(load(folders, config), builtin_vocabulary())
    meanings = _meanings(words)
    if word is not None:
        meanings = [meaning for meaning in _about(words, word) if meaning]
        if not meanings:
            near = did_you_mean(word, {each["name"] for each in _meanings(words)})
            raise UserError(f"no reader knows {word!r}.{near} `precpatch vocabulary` lists all words.")
    if output_format == "json":
        stream.write(_json(meanings))
    else:
        stream.show(_lines(meanings))


def _meanings(words: Vocabulary) -> list[dict[str, str]]:
    """Every word, grouped by concept."""
    rows = [
        {"concept": "dtype", "name": name, "says": f"{value}, spelling {spelling}"}
        for name, (value, spelling) in words.dtypes.items()
    ]
    rows += [
        {"concept": "attention implementation", "name": name, "says": _attention(words, value)}
        for name, value in words.attention.items()
    ]
    settings = sorted(words.all_settings, key=lambda each: (each.concept, each.name.lower()))
    rows += [{"concept": each.concept, "name": each.name, "says": _setting(each)} for each in settings]
    rows += [
        {"concept": "other device", "name": word, "says": f"{device.name}, which is no NVIDIA GPU"}
        for device in words.devices
        for word in sorted(device.words | device.packages)
    ]
    rows += [
        {"concept": "package", "name": each.name, "says": f"installed as {', '.join(each.installs) or each.name}"}
        for each in words.packages
    ]
    rows += [
        {"concept": "program", "name": name, "says": f"starts {each.name}, told as {each.concept}"}
        for each in words.programs
        for name in each.names
    ]
    rows += [
        {"concept": "file form", "name": each.fact, "says": f"known in {', '.join(sorted(each.languages))} by its keys"}
        for each in words.forms
    ]
    return rows


def _attention(words: Vocabulary, value: str) -> str:
    return f"{value}, which is FlashAttention" if value in words.flash else f"{value}, which runs everywhere"


def _setting(setting: Setting) -> str:
    parts = [f"takes {', '.join(sorted(setting.takes))}"]
    if setting.choices:
        parts.append(f"told for {', '.join(sorted(setting.choices))}")
    if setting.variable:
        parts.append("a variable of the environment")
    stacks = [stack for stack in setting.stacks if stack != "any"]
    return "; ".join(parts) + (f" ({', '.join(stacks)})" if stacks else "")


def _about(words: Vocabulary, word: str) -> list[dict[str, str]]:
    """All that a word means: by its name, and by a pattern or a setting with a star that it fits."""
    above, _, key = word.rpartition(".")
    setting = words.setting(key, above or None)
    rows = [row for row in _meanings(words) if row["name"].lower() == word.lower()]
    if setting is not None:  # with what the settings with a star add to it
        rows = [row for row in rows if row["concept"] != setting.concept]
        rows.append({"concept": setting.concept, "name": setting.name, "says": _setting(setting)})
    dtype, attention = words.dtype_of(word), words.attention_of(word)
    if not rows and dtype is not None:
        rows.append({"concept": "dtype", "name": word, "says": f"{dtype[0]}, spelling {dtype[1]}"})
    if not rows and attention is not None:
        rows.append({"concept": "attention implementation", "name": word, "says": _attention(words, attention)})
    return rows


def _lines(meanings: list[dict[str, str]]) -> Iterator[Line]:
    from precpatch.report.line import line, visible

    width = max(len(row["name"]) for row in meanings)
    concept = None
    for row in meanings:
        if row["concept"] != concept:
            if concept is not None:
                yield line()
            concept = row["concept"]
            yield line((visible(concept), "bold"))
        yield line("  ", (f"{visible(row['name']):<{width}}", "cyan"), f"  {visible(row['says'])}")


def _json(meanings: list[dict[str, str]]) -> bytes:
    import json

    from precpatch import __version__

    document = {"version": 1, "tool": f"precpatch {__version__}", "words": meanings}
    return json.dumps(document, indent=2).encode("ascii") + b"\n"
