"""Coverage-guided fuzzing of every reader: mutate what reached new lines, and look at every property of the result.

    python tests/fuzz/fuzz.py                      all readers, a minute of CPU each
    python tests/fuzz/fuzz.py --seconds 300 .py    one reader for five minutes
    python tests/fuzz/fuzz.py --seed 7 --keep /tmp/found

Prints each broken property once, with the smallest file that breaks it, and the number of executions. One in
``_TRACED`` of the runs is traced; a file that reaches a line which none reached before is mutated further.
"""

from __future__ import annotations

import argparse
import hashlib
import random
import re
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from types import FrameType

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parent))

from properties import TARGETS, BrokenProperty, check
from seeds import seeds

_TRACED = 5
_MOST_BYTES = 3_000
_WORDS = [
    *("bfloat16", "bf16", "float16", "fp16", "float32", "torch.bfloat16", "torch", "dtype", "flash_attention_2"),
    *("attn_implementation", "sdpa", "eager", "true", "false", "True", "False", "None", "use_remove_padding"),
    *(
        "import",
        "from torch import bfloat16",
        "as",
        "if",
        "else",
        "def f():",
        "return",
        "in",
        "==",
        "is",
        "not",
        "lambda",
    ),
    *(
        "# precpatch: ignore",
        "#",
        "'",
        '"',
        '"""',
        "\\",
        "\n",
        "\r\n",
        "\t",
        " ",
        "  ",
        "    ",
        ":",
        ",",
        ";",
        "=",
        "+",
    ),
    *(
        "(",
        ")",
        "[",
        "]",
        "{",
        "}",
        "&&",
        "||",
        "|",
        ">",
        ">-",
        "<<EOF\n",
        "EOF\n",
        "$",
        "${X:-",
        "$(",
        "`",
        "*",
        "&a ",
    ),
    *("*a", "!!str ", "? ", "- ", "--dtype", "--bf16", "é", "ﬂ", "\u2028", "\x85", "\ufeff", "\x0c", "\x00", "😀", "~"),
    *(
        "python train.py ",
        "a.dtype=bfloat16",
        "export ",
        "%%bash\\n",
        "!python x.py --dtype bfloat16",
        "\\n",
        "\\u0062",
    ),
    *(
        "then\n",
        "fi\n",
        "do\n",
        "done\n",
        "esac\n",
        "case $X in\n",
        "for x in ",
        "f'",
        "r'",
        "b'",
        "rb'",
        "-*- coding: latin-1 -*-",
    ),
]
_TOKEN = re.compile(rb"\w+|\s+|[^\w\s]")


class Lines:
    """The lines of the package that were reached so far."""

    def __init__(self) -> None:
        self.seen: set[tuple[int, int]] = set()
        self.new = 0

    def run(self, job: Callable[[], object]) -> None:
        """Run a job traced; ``new`` says how many lines it was the first to reach."""
        self.new = 0
        sys.settrace(self._call)
        try:
            job()
        finally:
            sys.settrace(None)

    def _call(self, frame: FrameType, event: str, argument: object) -> object:
        return (
            self._line if "/languages/" in frame.f_code.co_filename or "/engine/" in frame.f_code.co_filename else None
        )

    def _line(self, frame: FrameType, event: str, argument: object) -> object:
        key = id(frame.f_code), frame.f_lineno
        if key not in self.seen:
            self.seen.add(key)
            self.new += 1
        return self._line


class Mutator:
    """Makes files from files."""

    def __init__(self, chance: random.Random, pool: list[bytes]) -> None:
        self.chance = chance
        self.pool = pool

    def make(self) -> bytes:
        """A file like one of the pool, changed in a few places."""
        data = self.chance.choice(self.pool)
        for _ in range(self.chance.choice((1, 1, 2, 3, 5))):
            data = self.chance.choice(self._ways())(data)
        return data[:_MOST_BYTES]

    def _ways(self) -> list[Callable[[bytes], bytes]]:
        return [
            self._lines,
            self._lines,
            self._splice,
            self._word,
            self._word,
            self._swap,
            self._cut,
            self._ends,
            self._indent,
        ]

    def _word(self, data: bytes) -> bytes:
        tokens = _TOKEN.findall(data) or [b""]
        at, word = self.chance.randrange(len(tokens)), self.chance.choice(_WORDS).encode()
        new = [word] if self.chance.random() < 0.5 else [word, tokens[at]]
        return b"".join([*tokens[:at], *new, *tokens[at + 1 :]])

    def _swap(self, data: bytes) -> bytes:
        tokens = _TOKEN.findall(data) or [b""]
        one, other = self.chance.randrange(len(tokens)), self.chance.randrange(len(tokens))
        tokens[one], tokens[other] = tokens[other], tokens[one]
        return b"".join(tokens)

    def _cut(self, data: bytes) -> bytes:
        tokens = _TOKEN.findall(data) or [b""]
        at = self.chance.randrange(len(tokens))
        return b"".join([*tokens[:at], *tokens[at + self.chance.randint(1, 4) :]])

    def _lines(self, data: bytes) -> bytes:
        lines, others = data.splitlines(keepends=True), self.chance.choice(self.pool).splitlines(keepends=True)
        at = self.chance.randrange(len(lines) + 1)
        start = self.chance.randrange(len(others) + 1)
        return b"".join([*lines[:at], *others[start : start + self.chance.randint(1, 6)], *lines[at:]])

    def _splice(self, data: bytes) -> bytes:
        other = self.chance.choice(self.pool)
        join = b"" if data.endswith(b"\n") else b"\n"
        return data + join + other

    def _ends(self, data: bytes) -> bytes:
        end = self.chance.choice((b"\n", b"\r\n", b"\r"))
        return data.replace(b"\r\n", b"\n").replace(b"\n", end)

    def _indent(self, data: bytes) -> bytes:
        lines = data.splitlines(keepends=True) or [b""]
        at = self.chance.randrange(len(lines))
        to = at + self.chance.randint(1, 5)
        return b"".join([*lines[:at], *(b"  " + line for line in lines[at:to]), *lines[to:]])


def broken(path: str, data: bytes, target: str) -> str | None:
    """What does not hold for a file, in words that are the same for the same fault."""
    try:
        check(path, data, target)
    except BrokenProperty as error:
        return re.sub(r"\d+(\.\d+)?", "N", str(error).partition(":")[0])
    except Exception as error:
        last = traceback.extract_tb(error.__traceback__)[-1]
        return f"{type(error).__name__} in {Path(last.filename).name}:{last.lineno}"
    return None


def smaller(path: str, data: bytes, target: str, fault: str, seconds: float = 15) -> bytes:
    """A shorter file with the same fault: lines and then tokens are left out as long as it stays."""
    until = time.process_time() + seconds
    for split in (lambda text: text.splitlines(keepends=True), _TOKEN.findall):
        step = max(len(split(data)) // 2, 1)
        while step and time.process_time() < until:
            at, parts = 0, split(data)
            while at < len(parts) and time.process_time() < until:
                shorter = b"".join([*parts[:at], *parts[at + step :]])
                if broken(path, shorter, target) == fault:
                    data, parts = shorter, split(shorter)
                else:
                    at += step
            step //= 2
    return data


def _append_fault(faults: list[str | None], path: str, data: bytes, target: str) -> None:
    faults.append(broken(path, data, target))


def fuzz(suffix: str, seconds: float, seed: int, keep: Path | None) -> Iterator[str]:
    """Fuzz one reader; yields what to print."""
    chance, lines, path = random.Random(seed), Lines(), f"file{suffix}"  # noqa: S311
    pool, faults, count = seeds()[suffix], set(), 0
    mutator, until = Mutator(chance, pool), time.process_time() + seconds
    first = list(pool)
    while time.process_time() < until:
        data = first.pop() if first else mutator.make()
        target = chance.choice(list(TARGETS))
        count += 1
        fault: list[str | None] = []
        if count % _TRACED == 0 or first:
            lines.run(partial(_append_fault, fault, path, data, target))
            if lines.new and not fault[0]:
                pool.append(data)
        else:
            fault.append(broken(path, data, target))
        what = fault[0]
        if what is not None and what not in faults and not (what.startswith("took") and count % _TRACED == 0):
            faults.add(what)
            least = smaller(path, data, target, what)
            yield f"BROKEN {suffix} {target}: {what}\n    {least!r}"
            if keep is not None:
                name = hashlib.sha256(least).hexdigest()[:8]
                (keep / f"{name}{suffix}").write_bytes(least)
    yield f"{suffix}: {count} executions, {len(lines.seen)} lines reached, {len(faults)} kinds of fault"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("suffixes", nargs="*", default=[".py", ".yaml", ".sh", ".json", ".ipynb"])
    parser.add_argument("--seconds", type=float, default=60, help="CPU seconds for each reader")
    parser.add_argument("--seed", type=int, default=None, help="where chance begins; another one each time without it")
    parser.add_argument("--keep", type=Path, help="a folder for the files that break something")
    options = parser.parse_args()
    seed = options.seed if options.seed is not None else random.SystemRandom().randrange(10**6)
    print(f"seed {seed}", flush=True)
    found = False
    for suffix in options.suffixes:
        for line in fuzz(suffix, options.seconds, seed, options.keep):
            found |= line.startswith("BROKEN")
            print(line, flush=True)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
