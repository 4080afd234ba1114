"""What a guarded run did that the target cannot, as text for a person and as JSON."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Any

from precpatch import __version__
from precpatch.engine.finding import Finding
from precpatch.guard.findings import Mend, Mender
from precpatch.guard.order import Order
from precpatch.guard.record import MORE, Frame, Process, Record, Site
from precpatch.report.line import Line, line, plain, plural, visible
from precpatch.report.text import headline
from precpatch.report.words import change

_MOST_PLACES = 20
_MOST_INSIDE = 3
_MOST_FINDINGS = 3
_DEEPEST_STACK = 12
_PACKAGES = ("site-packages", "dist-packages")
_MORE = "more places than the guard tells apart"
_IN_BACKWARD = "the backward pass (no Python frame)"


@dataclass(frozen=True)
class Outcome:
    """Everything that a report shows.

    Attributes:
        order: what was watched for.
        command: what ran.
        exit_code: the command's own.
        record: what its processes wrote down.
        mender: the scan of the checkout; None where none was given.
    """

    order: Order
    command: tuple[str, ...]
    exit_code: int
    record: Record
    mender: Mender | None = None

    def mend(self, site: Site) -> Mend | None:
        """The findings that would have mended a site."""
        return self.mender.mend(site) if self.mender else None


def render(name: str, outcome: Outcome) -> bytes:
    """The report in the format "text" or "json"."""
    return _json(outcome) if name == "json" else plain(report_lines(outcome))


def report_lines(outcome: Outcome) -> Iterator[Line]:
    """The whole report for a person."""
    record = outcome.record
    yield headline(outcome.order.target)
    yield line((_watched_for(outcome.order), "dim"))
    yield line()
    places = _by_place(record.sites)
    for place, sites in places[:_MOST_PLACES]:
        yield from _place_lines(place, sites, outcome)
    if len(places) > _MOST_PLACES:
        yield from (line(f"and {len(places) - _MOST_PLACES} more places (all of them with --format json)"), line())
    if record.sites:
        yield from _stack_lines(record.sites[0])
    for site in record.handled:
        yield line(f"{_asked(site)}, which the program expects: no trip")
    computed = _computed(record)
    if computed:
        yield line(computed)
    yield line((_summary(outcome), "bold"))


def _watched_for(order: Order) -> str:
    if order.is_idle:
        return "Nothing is forbidden on this target: the command ran without the guard."
    parts = {"Forbidden": order.forbid, "Not importable": order.block, "Not launched": order.kernels}
    said = [f"{title}: {', '.join(names)}." for title, names in parts.items() if names]
    said += [f"torch.cuda pretends to be {order.target.capability.name}."] if order.pretend else []
    return visible(" ".join(said))


def _by_place(sites: Sequence[Site]) -> list[tuple[Frame | None, list[Site]]]:
    """The sites by the user's own line that leads to them."""
    places: dict[Frame | None, list[Site]] = {}
    for site in sites:
        places.setdefault(site.own, []).append(site)
    return list(places.items())


def _place_lines(place: Frame | None, sites: list[Site], outcome: Outcome) -> Iterator[Line]:
    """A block a place: where, how often, what, through which packages, and the findings that would have mended it."""
    total = sum(site.count for site in sites)
    dtypes = ", ".join(sum((site.dtypes for site in sites), Counter()))
    where = _MORE if place == MORE else f"{_shown(place)} {place.function}" if place else _IN_BACKWARD
    yield line((visible(where), "bold"), f"  {plural(total, 'trip')}{f', {dtypes}' if dtypes else ''}", _in(sites))
    operators = sum((site.operators for site in sites), Counter())
    yield line(f"  {_words(sum((site.phases for site in sites), Counter()))}: {_words(operators)}")
    inside = [site.frame for site in sites if site.caller and site.frame]
    if inside:
        more = f" and {len(inside) - _MOST_INSIDE} more" if len(inside) > _MOST_INSIDE else ""
        yield line((visible(f"  in {', '.join(map(_shown, inside[:_MOST_INSIDE]))}{more}"), "dim"))
    for compiled in dict.fromkeys(site.compiled for site in sites if site.compiled):
        yield line((visible(f"  handed to torch.compile at {_shown(compiled)}"), "dim"))
    yield from _mend_lines(next(filter(None, map(outcome.mend, sites)), None))
    yield line()


def _in(sites: list[Site]) -> str:
    processes = set[str]().union(*(site.processes for site in sites))
    return f" in {len(processes)} processes" if len(processes) > 1 else ""


def _words(counts: Counter[str]) -> str:
    """The most frequent words of a count."""
    named = [word for word, _ in counts.most_common(_MOST_INSIDE)]
    more = f" and {len(counts) - len(named)} more" if len(counts) > len(named) else ""
    return visible(", ".join(named) + more) if named else "import"


def _mend_lines(mend: Mend | None) -> Iterator[Line]:
    if mend is None:
        return
    said = "mended by" if mend.nearness == "line" else f"mended by, in the same {mend.nearness}"
    for finding in mend.findings[:_MOST_FINDINGS]:
        mention = finding.mention
        place = visible(f"{mention.path}:{mention.line}:{mention.column}")
        yield line((f"  {said}: ", "green"), f"{place} {change(finding)} ", (finding.rule, "cyan"))
    if len(mend.findings) > _MOST_FINDINGS:
        yield line((f"  and {len(mend.findings) - _MOST_FINDINGS} more findings there", "dim"))


def _stack_lines(site: Site) -> Iterator[Line]:
    """The stack of the first trip without torch's own frames, the innermost last, as in a traceback."""
    frames = [frame for frame in site.stack if not _shown(frame).startswith("torch/")]
    if frames:
        yield line(("The first trip:", "bold"), visible(f" {next(iter(site.operators))}"))
        for frame in reversed(frames[:_DEEPEST_STACK]):
            yield line((visible(f"  {_shown(frame)} {frame.function}"), "dim"))
        yield line()


def _asked(site: Site) -> str:
    where = f" at {_shown(site.own)}" if site.own else ""
    return visible(f"{', '.join(site.operators)}{where}")


def _computed(record: Record) -> str:
    """What the run multiplied and attended in; "" where it multiplied nothing, as then nothing was shown."""
    if not record.matmuls:
        return ""
    products = ", ".join(f"{count} {dtype}" for dtype, count in record.matmuls.most_common())
    kernels = ", ".join(f"{count} {name}" for name, count in record.attention.most_common())
    compiled = f" Calls of compiled functions: {record.compiled_calls}." if record.compiled_calls else ""
    attention = kernels or "eager (no attention kernel)"
    return visible(f"Matrix products: {products}. Attention: {attention}.{compiled}")


def _summary(outcome: Outcome) -> str:
    """One sentence; it says so where nothing was watched, which is not the same as nothing found."""
    record = outcome.record
    watched = [process for process in record.processes if process.torch]
    operators = sum(process.operators for process in watched)
    seen = f"{plural(operators, 'operator')} in {plural(len(watched), 'process', 'processes')} with torch"
    if not outcome.order.watches_operators:
        seen = "operators were not looked at"
    elif not watched:
        seen = "no process imported torch under the guard, so no operator was looked at"
    loads = sum(process.loads for process in record.processes)
    let_through = f"; {plural(loads, 'load')} of forbidden tensors let through" if loads else ""
    trips = f"{plural(record.trips, 'trip')} at {plural(len(_by_place(record.sites)), 'place')}"
    found = trips if record.trips else "No trips"
    return f"{found}; {seen}{let_through}. The command's exit code was {outcome.exit_code}."


def _shown(frame: Frame) -> str:
    """Path and line: relative to the current folder, or to the folder of installed packages."""
    path = PurePath(frame.path)
    for folder in _PACKAGES:
        if folder in path.parts:
            path = PurePath(*path.parts[path.parts.index(folder) + 1 :])
    if path.is_relative_to(Path.cwd()):
        path = path.relative_to(Path.cwd())
    return f"{path.as_posix()}:{frame.line}"


def _json(outcome: Outcome) -> bytes:
    order, record = outcome.order, outcome.record
    document = {
        "version": 1,
        "tool": f"precpatch {__version__}",
        "target": order.target.describe(),
        "command": list(outcome.command),
        "exit_code": outcome.exit_code,
        "mode": order.mode,
        "strict": order.strict,
        "pretend": order.pretend,
        "forbidden": list(order.forbid),
        "blocked": list(order.block),
        "kernels": list(order.kernels),
        "sites": [{**_site(site), "mended_by": _mend(outcome.mend(site))} for site in record.sites],
        "handled_imports": [_site(site) for site in record.handled],
        "processes": [_process(process) for process in record.processes],
        "summary": _totals(record),
    }
    return json.dumps(document, indent=2).encode("ascii") + b"\n"


def _site(site: Site) -> dict[str, Any]:
    return {
        **(_frame(site.frame) or dict.fromkeys(("path", "line", "function"))),
        "caller": _frame(site.caller),
        "compiled_at": _frame(site.compiled),
        "count": site.count,
        "processes": len(site.processes),
        "kinds": dict(site.kinds),
        "phases": dict(site.phases),
        "operators": dict(site.operators),
        "dtypes": dict(site.dtypes),
        "stack": [f"{_shown(frame)} {frame.function}" for frame in site.stack],
    }


def _frame(frame: Frame | None) -> dict[str, Any] | None:
    if frame is None:
        return None
    path, _, number = _shown(frame).rpartition(":")
    return {"path": path, "line": int(number), "function": frame.function}


def _mend(mend: Mend | None) -> dict[str, Any] | None:
    if mend is None:
        return None
    return {"nearness": mend.nearness, "findings": [_finding(finding) for finding in mend.findings]}


def _finding(finding: Finding) -> dict[str, Any]:
    mention = finding.mention
    return {
        "path": mention.path,
        "line": mention.line,
        "column": mention.column,
        "rule": finding.rule,
        "action": finding.action,
        "before": mention.text,
        "after": finding.after,
    }


def _process(process: Process) -> dict[str, Any]:
    return {
        "pid": process.pid,
        "program": process.program,
        "torch": process.torch,
        "operators": process.operators,
        "loads": process.loads,
        "matmuls": dict(process.matmuls),
        "attention": dict(process.attention),
        "compiled_calls": process.compiled_calls,
    }


def _totals(record: Record) -> dict[str, Any]:
    return {
        "trips": record.trips,
        "sites": len(record.sites),
        "by_kind": dict(sum((site.kinds for site in record.sites), Counter())),
        "by_dtype": dict(sum((site.dtypes for site in record.sites), Counter())),
        "loads": sum(process.loads for process in record.processes),
        "operators": sum(process.operators for process in record.processes),
        "processes": len(record.processes),
        "matmuls": dict(record.matmuls),
        "attention": dict(record.attention),
        "compiled_calls": record.compiled_calls,
    }
