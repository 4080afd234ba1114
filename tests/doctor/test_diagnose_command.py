"""``precpatch diagnose``: what it prints, its exit codes, and logs that it cannot read."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from pathlib import Path

import pytest

from precpatch import __version__

LOG = b"""\
(WorkerDict pid=1) step:1 - actor/pg_loss:0.25 - actor/grad_norm:nan
(WorkerDict pid=1) RuntimeError: FlashAttention only supports Ampere GPUs or newer.
Traceback (most recent call last):
  File "main.py", line 1, in <module>
odd.Thing: caf\xe9 \x1b[31m7\x1b[0m
ray.exceptions.RayTaskError(RuntimeError): ray::WorkerDict.update_actor() (pid=1)
"""


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "train.log"
    path.write_bytes(LOG)
    return path


def diagnose(*words: object, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-m", "precpatch", "diagnose", *map(str, words)]
    return subprocess.run(command, input=stdin, capture_output=True, check=False)


def test_text_tells_the_first_cause_first(log: Path) -> None:
    done = diagnose(log, "--target", "p40")
    assert (done.returncode, done.stderr) == (1, b"")
    text = done.stdout.decode()
    parts = [
        f"{log}: 6 lines, 2 known messages, 1 unknown error, 1 sign of bad health\n",
        "First cause\n  line 2  error  fa-ampere (flash-attn)\n",
        "    message  RuntimeError: FlashAttention only supports Ampere GPUs or newer.\n",
        "    cause    FA2 has no kernels below sm_80\n",
        "    fix      attn_implementation sdpa",
        "    command  precpatch apply --target p40\n",
        "    source   csrc/flash_attn/flash_api.cpp (text read in the source repository)\n",
        "Echoes of an earlier error\n  line 6  echo  ray-task-error (ray)\n",
        "Unknown errors (precpatch does not know what causes them)\n  line 5  odd.Thing: caf\ufffd 7\n",
        "Health of the run\n  line 1, step 1  actor/grad_norm is nan (1 step)\n",
    ]
    places = [text.find(part) for part in parts]
    assert places == sorted(places)
    assert -1 not in places


def test_json_has_stable_fields(log: Path) -> None:
    done = diagnose(log, "--format", "json")
    document = json.loads(done.stdout)
    assert done.returncode == 1
    assert {key: document[key] for key in ("version", "tool", "log", "lines", "bytes")} == {
        "version": 1,
        "tool": f"precpatch {__version__}",
        "log": str(log),
        "lines": 6,
        "bytes": len(LOG),
    }
    first, echo = document["failures"]
    assert first == {
        "id": "fa-ampere",
        "line": 2,
        "count": 1,
        "severity": "error",
        "first_cause": True,
        "echo": False,
        "message": "RuntimeError: FlashAttention only supports Ampere GPUs or newer.",
        "cause": "FA2 has no kernels below sm_80",
        "fix": first["fix"],
        "command": "precpatch apply --target YOUR-GPU",
        "software": "flash-attn",
        "verified": "repo",
        "sources": ["csrc/flash_attn/flash_api.cpp"],
    }
    assert (echo["id"], echo["echo"], echo["first_cause"]) == ("ray-task-error", True, False)
    assert document["unknown"] == [{"line": 5, "count": 1, "message": "odd.Thing: caf\ufffd 7"}]
    assert document["unknown_unlisted"] == 0
    assert document["health"] == [
        {
            "kind": "non-finite-gradients",
            "metric": "actor/grad_norm",
            "line": 1,
            "step": 1,
            "count": 1,
            "value": "nan",
        }
    ]


def test_what_was_not_checked_is_said_to_be_unverified(log: Path) -> None:
    log.write_text("RuntimeError: CUDA error: CUBLAS_STATUS_ARCH_MISMATCH when calling cublasCreate(handle)\n")
    assert b"(unverified)" in diagnose(log).stdout


def test_echoes_alone_point_elsewhere(log: Path) -> None:
    log.write_bytes(LOG.splitlines(keepends=True)[-1])
    assert b"not in this log" in diagnose(log).stdout


def test_an_unknown_error_before_the_first_cause_is_pointed_out(log: Path) -> None:
    log.write_bytes(b"ValueError: odd\n" + b"\n" * 9 + LOG)
    assert b"line 1, before the first cause  ValueError: odd" in diagnose(log).stdout


def test_a_clean_log_is_0(log: Path) -> None:
    log.write_bytes(b"step:1 - actor/pg_loss:0.25\n" * 3)
    done = diagnose(log)
    assert (done.returncode, done.stdout) == (0, f"{log}: 3 lines, nothing known was found\n".encode())


def test_standard_input_is_the_same(log: Path) -> None:
    piped = json.loads(diagnose("-", "--format", "json", stdin=LOG).stdout)
    read = json.loads(diagnose(log, "--format", "json").stdout)
    assert piped == {**read, "log": "-"}


def test_gzip_is_unpacked(log: Path) -> None:
    packed = gzip.compress(LOG)
    log.write_bytes(packed)
    assert json.loads(diagnose(log, "--format", "json").stdout)["bytes"] == len(LOG)
    assert diagnose("-", stdin=packed).returncode == 1
    log.write_bytes(packed[:-12])
    done = diagnose(log)
    assert done.returncode == 2
    assert done.stderr.startswith(f"precpatch: error: {log}: cannot be read: ".encode())


def test_the_output_can_be_a_file(log: Path, tmp_path: Path) -> None:
    done = diagnose(log, "--output", tmp_path / "out.txt")
    assert (done.returncode, done.stdout) == (1, b"")
    assert b"First cause" in (tmp_path / "out.txt").read_bytes()


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"", "is empty."),
        (gzip.compress(b""), "is empty."),
        (b"\x7fELF\x02\x01\x00\x00 some words\n", "is not a text log: it holds binary data."),
        (bytes(range(1, 256)) * 9, "is not a text log: it holds binary data."),
        (None, "cannot be read: No such file or directory."),
    ],
    ids=["empty", "compressed and empty", "a program", "bytes", "missing"],
)
def test_what_is_not_a_log_is_one_line(content: bytes | None, told: str, log: Path) -> None:
    log.unlink()
    if content is not None:
        log.write_bytes(content)
    done = diagnose(log)
    assert (done.returncode, done.stdout) == (2, b"")
    assert done.stderr.decode() == f"precpatch: error: {log}: {told}\n"


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ([], b"LOG"),
        (["-"], b"standard input: is empty."),
        (["."], b".: cannot be read: "),
        (["-", "--target", "p4000"], b"unknown target 'p4000'"),
        (["-", "--format", "xml"], b"'xml' is not one of text, json"),
    ],
)
def test_a_wrong_request_is_one_line(words: list[str], told: bytes) -> None:
    done = diagnose(*words)
    assert (done.returncode, done.stdout) == (2, b"")
    assert told in done.stderr
    assert done.stderr.count(b"\n") == 1


def test_a_reader_that_goes_away_is_no_error(log: Path) -> None:
    log.write_text("".join(f"ValueError: no {word}\n" for word in range(9)))
    with subprocess.Popen(
        [sys.executable, "-m", "precpatch", "diagnose", str(log)], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout
        assert process.stderr
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 1
