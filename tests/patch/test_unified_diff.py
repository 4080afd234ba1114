"""The diff says what ``git apply`` needs, for any bytes and any name."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from precpatch.patch.diff import quote_path, unified_diff
from precpatch.patch.edits import Edit, NewFile, PatchSet

LINES = st.lists(
    st.sampled_from(
        [b"a\n", b"b\n", b"\n", b"c\r\n", b"d\re\n", b"\x0cf\n", b"\xe9\xff\n", b"\x00\n", b"- x\n", b"@@ y\n"]
    ),
    max_size=30,
)
FILES = st.builds(lambda bom, lines, end: bom + b"".join(lines) + end, st.sampled_from([b"", b"\xef\xbb\xbf"]), LINES,
                  st.sampled_from([b"", b"end", b"end\r"]))  # fmt: skip
NAMES = st.lists(st.sampled_from(["a", "b c", ' "x"', "naïve", "t\tb", "n\nl", "back\\slash", "\udce9", "-", " "]),
                 min_size=1, max_size=4).map("".join)  # fmt: skip


def git(folder: Path, *arguments: str, stdin: bytes = b"") -> None:
    environment = {key: value for key, value in os.environ.items() if not key.startswith("GIT_")}
    command = ["git", "-c", "core.autocrlf=false", *arguments]
    result = subprocess.run(command, cwd=folder, input=stdin, capture_output=True, env=environment, check=False)
    assert result.returncode == 0, result.stderr.decode(errors="replace") + repr(stdin)


@st.composite
def edited(draw: st.DrawFn) -> tuple[bytes, list[tuple[int, bytes, bytes]]]:
    """Bytes and disjoint edits of them: (start, old, new)."""
    data = draw(FILES)
    cuts = sorted(draw(st.lists(st.integers(0, len(data)), max_size=8)))
    new = st.sampled_from([b"", b"Z", b"Z\n", b"\n", b"\r", b"\xe9"])
    edits = {start: (start, data[start:end], draw(new)) for start, end in zip(cuts[::2], cuts[1::2], strict=False)}
    return data, list(edits.values())


def read(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.name != ".git"}


@pytest.mark.skipif(sys.platform != "linux", reason="other systems refuse some of these names")
@given(
    st.dictionaries(NAMES, st.one_of(edited(), edited(), FILES.map(lambda data: (None, data))), min_size=1, max_size=6)
)
@settings(max_examples=40)
def test_git_apply_makes_the_bytes_of_apply_to(
    tree: dict[str, tuple[bytes, list[tuple[int, bytes, bytes]]] | tuple[None, bytes]],
) -> None:
    """Each path is a file and its edits, or None and the bytes of a new file."""
    files: dict[str, bytes] = {}
    edits: list[Edit] = []
    new_files: list[NewFile] = []
    for path, (data, change) in tree.items():
        if isinstance(change, bytes):
            new_files.append(NewFile(path, change))
        else:
            files[path] = data
            edits += (Edit(path, *edit) for edit in change)
    patches = PatchSet.of(edits, files.__getitem__, new_files)
    after = {path: patches.apply_to(path, files.get(path)) for path in tree}
    diff = unified_diff((path, files.get(path), after[path]) for path in tree)
    assert bool(diff) == bool(patches)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for path, data in files.items():
            (folder / path).write_bytes(data)
        git(folder, "init", "-q")
        if diff:
            git(folder, "apply", "-p1", "--whitespace=nowarn", stdin=diff)
        assert read(folder) == after
        if diff:
            back = unified_diff((path, after[path], files.get(path)) for path in tree)
            git(folder, "apply", "-p1", "-R", "--check", "--whitespace=nowarn", stdin=diff)
            git(folder, "apply", "-p1", "--whitespace=nowarn", stdin=back)
        assert read(folder) == files


@pytest.mark.parametrize(
    ("name", "quoted"),
    [
        ("a b.py", b"a b.py"),
        ('naïve "x".py', b'"na\\303\\257ve \\"x\\".py"'),
        ("a\tb\nc\\d\x7f", b'"a\\tb\\nc\\\\d\\177"'),
    ],
)
def test_names_are_quoted_as_git_does(name: str, quoted: bytes) -> None:
    assert quote_path(name.encode()) == quoted


def test_the_text_is_that_of_git() -> None:
    before = b"".join(b"%d\n" % n for n in range(20)) + b"end"
    after = before.replace(b"3\n", b"three\n", 1).replace(b"end", b"END\n").replace(b"10\n", b"10\nten\n")
    diff = unified_diff([("a b/é.py", before, after)])
    assert diff == (
        b'diff --git "a/a b/\\303\\251.py" "b/a b/\\303\\251.py"\n'
        b'--- "a/a b/\\303\\251.py"\t\n+++ "b/a b/\\303\\251.py"\t\n'
        b"@@ -1,7 +1,7 @@\n 0\n 1\n 2\n-3\n+three\n 4\n 5\n 6\n"
        b"@@ -9,6 +9,7 @@\n 8\n 9\n 10\n+ten\n 11\n 12\n 13\n"
        b"@@ -18,4 +19,4 @@\n 17\n 18\n 19\n-end\n\\ No newline at end of file\n+END\n"
    )


def test_added_and_deleted_files_have_no_name_on_the_other_side() -> None:
    assert unified_diff([("a b", None, b"x\ny"), ("0", None, b"")]) == (
        b"diff --git a/0 b/0\nnew file mode 100644\n"
        b"diff --git a/a b b/a b\nnew file mode 100644\n--- /dev/null\n+++ b/a b\t\n"
        b"@@ -0,0 +1,2 @@\n+x\n+y\n\\ No newline at end of file\n"
    )
    assert unified_diff([("a", b"x\n", None)]) == (
        b"diff --git a/a b/a\ndeleted file mode 100644\n--- a/a\n+++ /dev/null\n@@ -1 +0,0 @@\n-x\n"
    )
    assert unified_diff([("a", None, None)]) == b""


@pytest.mark.parametrize(
    ("before", "after", "header"),
    [
        (b"", b"a\n", b"@@ -0,0 +1 @@"),
        (b"a\nb\n", b"", b"@@ -1,2 +0,0 @@"),
        (b"a\n", b"b\n", b"@@ -1 +1 @@"),
        (b"a\n", b"a\nb\n", b"@@ -1 +1,2 @@"),
        (b"a\n" * 5, b"b\n" + b"a\n" * 4, b"@@ -1,4 +1,4 @@"),
    ],
)
def test_ranges_of_no_line_and_of_one(before: bytes, after: bytes, header: bytes) -> None:
    assert header in unified_diff([("f", before, after)]).split(b"\n")


def test_files_are_ordered_and_unchanged_ones_left_out() -> None:
    diff = unified_diff([("b", b"1\n", b"2\n"), ("c", b"1\n", b"1\n"), ("a", b"1\n", b"2\n")])
    assert [line for line in diff.split(b"\n") if line.startswith(b"diff")] == [
        b"diff --git a/a b/a",
        b"diff --git a/b b/b",
    ]


def test_a_long_file_of_equal_lines_takes_no_time() -> None:
    body = b"same\n" * 50_000
    started = time.process_time()
    diff = unified_diff([("f", b"x\n" + body + b"y\n", b"z\n" + body + b"w\n")])
    assert time.process_time() - started < 3
    assert diff.startswith(b"diff --git")
