"""What the processes of a guarded command wrote down, put together: sites, processes and totals."""

from __future__ import annotations

import json
from array import array
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from precpatch.guard.handled import is_handled


class Frame(NamedTuple):
    """A line that ran: file, line and function."""

    path: str
    line: int
    function: str


MORE = Frame("<more>", 0, "<more>")
"""Stands for all places that a process reached after it had told thousands of them apart."""


@dataclass
class Site:
    """One place in the program that trips.

    Attributes:
        frame: the innermost frame outside torch; None for a backward pass that has no Python frame.
        caller: the innermost frame of the user's own code, where ``frame`` belongs to another package.
        compiled: where a function was handed to ``torch.compile``, for a call of it.
        stack: the frames of the first trip, innermost first.
        kinds, phases, operators, dtypes: how often each occurred.
        processes: the processes in which it trips.
    """

    frame: Frame | None
    caller: Frame | None
    compiled: Frame | None
    stack: tuple[Frame, ...]
    kinds: Counter[str] = field(default_factory=Counter)
    phases: Counter[str] = field(default_factory=Counter)
    operators: Counter[str] = field(default_factory=Counter)
    dtypes: Counter[str] = field(default_factory=Counter)
    processes: set[str] = field(default_factory=set)

    @property
    def count(self) -> int:
        """The number of trips."""
        return self.kinds.total()

    @property
    def own(self) -> Frame | None:
        """The user's line where there is one, else the innermost frame."""
        return self.caller or self.frame

    @property
    def is_handled_import(self) -> bool:
        """It imports a package that is missing, and the program is written for that."""
        return "import" in self.kinds and is_handled(self.stack)

    def add(self, row: dict[str, Any], count: int, process: str) -> None:
        """Add the trips of one row."""
        self.kinds[row["kind"]] += count
        self.operators[row["operator"]] += count
        self.processes.add(process)
        if row["kind"] != "import":
            self.phases[row["phase"]] += count
        if row["dtype"]:
            self.dtypes[row["dtype"]] += count


@dataclass(frozen=True)
class Process:
    """A process of the guarded command.

    Attributes:
        pid: its number.
        program: the name of its script.
        torch: the version of torch that it imported, None for none.
        operators: how many operators were looked at.
        loads: how many views and up-casts of forbidden tensors were let through.
        matmuls: how many matrix products ran in each dtype.
        attention: how often each attention kernel was called.
        compiled_calls: how often functions handed to ``torch.compile`` were called.
    """

    pid: int
    program: str
    torch: str | None
    operators: int
    loads: int
    matmuls: Counter[str] = field(default_factory=Counter)
    attention: Counter[str] = field(default_factory=Counter)
    compiled_calls: int = 0


@dataclass(frozen=True)
class Record:
    """Everything that one guarded run left.

    Attributes:
        sites: what trips, in the order of the first time.
        handled: imports of missing packages that the program expects to fail; no trips.
        processes: the processes that imported torch or tripped.
    """

    sites: tuple[Site, ...]
    handled: tuple[Site, ...]
    processes: tuple[Process, ...]

    @property
    def trips(self) -> int:
        """The number of trips of all processes."""
        return sum(site.count for site in self.sites)

    @property
    def matmuls(self) -> Counter[str]:
        """The matrix products of all processes by dtype."""
        return sum((process.matmuls for process in self.processes), Counter())

    @property
    def attention(self) -> Counter[str]:
        """The calls of attention kernels of all processes by name."""
        return sum((process.attention for process in self.processes), Counter())

    @property
    def compiled_calls(self) -> int:
        """The calls of compiled functions of all processes."""
        return sum(process.compiled_calls for process in self.processes)


def read_record(folder: Path) -> Record:
    """Put the journals in ``folder`` together; the last row of a killed process may be cut."""
    processes: list[Process] = []
    found: list[tuple[dict[str, Any], int, str]] = []
    for path in sorted(folder.glob("*.rows")):
        rows = list(_rows(path))
        if not rows:
            continue
        head, *rest = rows
        counts = _counts(path.with_suffix(".counts")) + array("Q", bytes(8 * len(rest)))
        counted = list(zip(rest, counts, strict=False))
        processes.append(_process(head, counted))
        found += [(row, max(count, 1), path.stem) for row, count in counted if "tally" not in row]
    sites = _group(sorted(found, key=lambda each: float(each[0]["time"])))
    handled = [site for site in sites if site.is_handled_import]
    return Record(
        sites=tuple(site for site in sites if site not in handled),
        handled=tuple(handled),
        processes=tuple(processes),
    )


def _rows(path: Path) -> Iterator[dict[str, Any]]:
    for text in path.read_text().splitlines():
        try:
            yield json.loads(text)
        except ValueError:
            return


def _counts(path: Path) -> array[int]:
    """The counters of a process; none where its disk was full."""
    counts = array("Q")
    try:
        content = path.read_bytes()
    except OSError:
        return counts
    counts.frombytes(content[: len(content) // counts.itemsize * counts.itemsize])
    return counts


def _process(head: dict[str, Any], counted: list[tuple[dict[str, Any], int]]) -> Process:
    tallies: dict[str, Counter[str]] = {}
    for row, count in counted:
        if "tally" in row and count:
            tallies.setdefault(row["tally"], Counter())[row["name"]] += count
    return Process(
        **head,
        operators=tallies.get("operators", Counter()).total(),
        loads=tallies.get("loads", Counter()).total(),
        compiled_calls=tallies.get("compiled_calls", Counter()).total(),
        matmuls=tallies.get("matmuls", Counter()),
        attention=tallies.get("attention", Counter()),
    )


def _group(found: list[tuple[dict[str, Any], int, str]]) -> list[Site]:
    """One Site for all trips of the same line, called from the same line."""
    sites: dict[tuple[Any, ...], Site] = {}
    for row, count, process in found:
        frame, caller, compiled = (_frame(row[name]) for name in ("site", "caller", "compiled"))
        if row.get("more"):
            frame, caller, compiled = MORE, None, None
        about = row["kind"] if row["kind"] in ("import", "kernel") else "dtype"
        key = (frame, caller, compiled, about)
        if key not in sites:
            sites[key] = Site(frame, caller, compiled, tuple(Frame(*each) for each in row["stack"] if frame != MORE))
        sites[key].add(row, count, process)
    return list(sites.values())


def _frame(row: list[Any] | None) -> Frame | None:
    return Frame(*row) if row else None
