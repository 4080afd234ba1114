"""``precpatch explain``: all about one rule."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from precpatch.cli import options, rules, stream

if TYPE_CHECKING:
    from precpatch.engine.rules import Example, Match, Rule
    from precpatch.report.line import Line

SAFETIES = {
    "safe": "safe: `precpatch apply` makes the fix.",
    "unsafe": "unsafe: the fix should be reviewed; it is made only with --unsafe.",
    "report": "report: nothing is rewritten, a person has to decide.",
    "keep": "keep: nothing is rewritten, the code is right as it is.",
}


def explain(
    rule: Annotated[str, typer.Argument(metavar="RULE", help="The id of a rule; `precpatch rules` lists them.")],
    *,
    folders: options.RuleFolders = None,
    config: options.ConfigFile = None,
) -> None:
    """Explain a rule: what it does, why, what it claims and in which order it is asked, an example, its sources.

    Examples:
      precpatch explain dtype-value
      precpatch explain my-rule --rules my-rules
    """
    from precpatch.config import did_you_mean
    from precpatch.errors import UserError

    known = {each.id: each for each in rules.load(folders, config)}
    if rule not in known:
        raise UserError(f"no rule {rule!r}.{did_you_mean(rule, known)} `precpatch rules` lists them all.")
    stream.show(_lines(known[rule]))


def _lines(rule: Rule) -> Iterator[Line]:
    from precpatch.report.line import line

    yield line((rule.id, "bold cyan"), f": {rule.name}")
    yield from _section("What it does", rule.what)
    yield from _section("Why", rule.why)
    yield from _section("When", _conditions(rule))
    yield from _section("Claims", "\n".join(_claims(rule)))
    yield from _section("Then", _then(rule))
    yield from _section("Asked", _asked(rule))
    yield from _section("Safety", SAFETIES[rule.safety])
    yield from _examples(rule)
    sources = [f"{reference.title} {reference.url or ''}" for reference in rule.references]
    yield from _section("Sources", "\n".join(sources))
    yield from _section("Rule file", str(rule.source))


def _section(title: str, text: str) -> Iterator[Line]:
    """A heading and the text under it; nothing where there is no text."""
    from precpatch.report.line import line, visible

    if text:
        yield line()
        yield line((title, "bold"))
        for row in text.rstrip().split("\n"):
            yield line(f"  {visible(row)}")


def _conditions(rule: Rule) -> str:
    from precpatch.gpu.target import QUESTIONS

    if not rule.when:
        return "For every target."
    asked = [f"{'yes' if answer else 'no '}  {QUESTIONS[question]}" for question, answer in rule.when]
    return "\n".join(["For a target of which this is true:", *asked])


def _claims(rule: Rule) -> Iterator[str]:
    """Each alternative of ``match``, the fields below one another."""
    for number, match in enumerate(rule.matches):
        yield "A place of which this is true:" if number == 0 else "or:"
        conditions = list(_conditions_of(match))
        width = max(len(name) for name, _ in conditions)
        yield from (f"  {name:<{width}}  {text}" for name, text in conditions)


def _conditions_of(match: Match) -> Iterator[tuple[str, str]]:
    """Name and text of each condition of an alternative."""
    from precpatch.vocabulary.facts import load_facts

    facts = load_facts()
    yield from ((name, ", ".join(globs)) for name, globs in match.globs)
    yield from (("fact", f"{name}: {facts[name].says}") for name in sorted(match.facts))
    yield from (("no fact", f"{name}: {facts[name].says}") for name in sorted(match.without))
    if match.allows_target is not None:
        yield "allowed", f"values that {'include' if match.allows_target else 'lack'} the target's"


def _then(rule: Rule) -> str:
    """What becomes of a place that the rule claims, and what is said of it."""
    written = {
        "dtype": "the target's dtype, in its own spelling",
        "attention": "the target's attention implementation",
        "padding": "a module that has the padding helpers in plain PyTorch",
    }.get(rule.to, f'"{rule.to}"')
    texts = {
        "rewrite": f"It is rewritten to {written}.",
        "extend": f"It is extended by {written}.",
        "report": "A person is told.",
        "keep": "It stays as it is.",
        "group": f"All such places of {'a file' if rule.scope == 'file' else 'the checkout'} change, or none.",
    }
    rows = [texts[rule.action]]
    if rule.follows:
        otherwise = "it stays" if rule.otherwise == "keep" else "a person is told"
        rows.append(f"Only together with what it follows; where that does not change, {otherwise}.")
    if rule.alongside:
        rows.append("Beside what another rule decides, where that one rewrites.")
    return "\n".join([*rows, f"Message: {' '.join(rule.message.split())}"])


def _asked(rule: Rule) -> str:
    """The band of the rule, and where it stands among the others."""
    from precpatch.engine.bands import BANDS

    number = list(BANDS).index(rule.band) + 1
    return f"Band {rule.band!r}, {number} of {len(BANDS)}: {BANDS[rule.band]}."


def _examples(rule: Rule) -> Iterator[Line]:
    """The first example that changes and the first that stays."""
    changing = [example for example in rule.examples if example.after != example.before][:1]
    staying = [example for example in rule.examples if example.after == example.before][:1]
    for example in changing:
        yield from _section(f"Example: {_caption(example)}", example.before)
        yield from _section("Becomes", example.after)
    for example in staying:
        yield from _section(f"Stays as it is: {_caption(example)}", example.before)


def _caption(example: Example) -> str:
    return f"{example.title} ({example.language}, target {example.target})"
