"""From a log to what went wrong: known messages, first cause, unknown errors, health."""

from __future__ import annotations

import io
import random
from collections.abc import Iterable, Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from precpatch.doctor.diagnose import LogDiagnosis, diagnose_log
from precpatch.doctor.failures import Failure, load_failures
from precpatch.doctor.log import read_blocks

FAILURES = load_failures()
AMPERE = "RuntimeError: FlashAttention only supports Ampere GPUs or newer."
OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."
RAY = "(WorkerDict pid=4242, ip=10.0.0.7) "


def noise(lines: int, seed: int = 7) -> Iterator[str]:
    """The lines of a healthy run."""
    dice = random.Random(seed)  # noqa: S311 (no secret)
    for step in range(lines):
        yield dice.choice(
            [
                f"step:{step} - actor/entropy_loss:{dice.random():.6f} - actor/pg_loss:{dice.gauss(0, 1):.9f}"
                f" - actor/kl_loss:0.0 - actor/grad_norm:{dice.random():.6f} - lr:1e-06 - perf/actor_infer:0.3",
                f"{{'loss': {dice.random():.4f}, 'grad_norm': {dice.random():.4f}, 'epoch': 0.{step}}}",
                f"\x1b[36m(main_task pid={step})\x1b[0m INFO 12-01 10:00:00 [cuda.py:23] Using XFORMERS, inference on.",
                f"{RAY}Training Progress:  {step % 100}%|####    | {step}/9000 [00:10<01:00, 3.1s/it, loss=0.5]\r",
                f"2025-12-01 10:00:0{step % 10},123\tINFO worker.py:1234 -- Started a local Ray instance.",
                f"{RAY}WARNING:2025: no support was asked for; skipping nothing, gradient checkpointing: info: grad on",
                f"[prompt] Is an error in class {step} supported? [response] No, out of {step}. Exception made.",
                "export CUDA_DEVICE_ORDER=PCI_BUS_ID",
                "",
            ]
        )


def diagnosed(lines: Iterable[str], size: int = 1 << 20) -> LogDiagnosis:
    """The diagnosis of a log with these lines, read in blocks of ``size``."""
    text = "".join(f"{line}\n" for line in lines).encode()
    return diagnose_log(read_blocks(io.BytesIO(text), size))


def amid_noise(*lines: str) -> list[str]:
    """A log with 60 healthy lines before and behind."""
    return [*noise(60), *lines, *noise(60, seed=8)]


def ids(diagnosis: LogDiagnosis) -> list[str]:
    return [known.failure.id for known in diagnosis.known]


@pytest.mark.parametrize("failure", FAILURES, ids=lambda failure: failure.id)
@pytest.mark.parametrize(
    "dress",
    [
        "{}",
        RAY + "{}",
        "\x1b[36m" + RAY + "\x1b[0m\x1b[1;31m{}\x1b[0m",
        "(EngineCore_0 pid=9) ERROR 12-01 10:00:00 [core.py:700] {}",
        "2025-12-01T10:00:00.123Z [rank3]: {}\r",
        " 50%|#####     | 1/2 [00:01<00:01]\r100%|##########| 2/2 [00:02<00:00]\r{}",
    ],
)
def test_every_message_is_recognised_amid_noise(failure: Failure, dress: str) -> None:
    found = diagnosed(amid_noise(dress.format(failure.example)))
    assert ids(found) == [failure.id]
    assert [known.seen.line for known in found.known] == [61]
    assert found.known[0].seen.message.split()[-3:] == failure.example.split()[-3:]
    assert not found.unknown


def test_a_colour_code_inside_a_message_does_not_hide_it() -> None:
    found = diagnosed(
        amid_noise("RuntimeError: Flash\x1b[1;33mAttention\x1b[0m only supports \x1b[4mAmpere\x1b[0m GPUs or newer.")
    )
    assert ids(found) == ["fa-ampere"]


def test_a_clean_log_is_clean() -> None:
    found = diagnosed(noise(10_000))
    assert found.clean
    assert found.lines == 10_000


@pytest.mark.parametrize("size", [16, 61, 200, 1000, 4096])
def test_borders_of_blocks_do_not_matter(size: int) -> None:
    lines = amid_noise(AMPERE, "Traceback (most recent call last):", '  File "a.py", line 1', "odd.Thing: 7", OOM)
    lines += [f"step:{step} - train/loss:0.693" for step in range(25)]
    whole, cut = diagnosed(lines), diagnosed(lines, max(size, max(map(len, lines)) + 1))
    assert cut == whole
    assert [(known.failure.id, known.seen.line) for known in cut.known] == [("fa-ampere", 61), ("torch-oom", 65)]


@pytest.mark.parametrize("length", [10_000, 3_000_000])
def test_a_very_long_line_is_read_to_its_end(length: int) -> None:
    found = diagnosed(["word " * (length // 5) + AMPERE + " word" * (length // 5), OOM], size=1 << 18)
    assert {(known.failure.id, known.seen.line, known.seen.count) for known in found.known} == {
        ("fa-ampere", 1, 1),
        ("torch-oom", 2, 1),
    }
    assert found.lines == 2


def test_the_first_cause_comes_before_its_echoes_and_before_warnings() -> None:
    found = diagnosed(
        amid_noise(
            "Tesla P40 with CUDA capability sm_61 is not compatible with the current PyTorch installation.",
            "[rank1]: Watchdog caught collective operation timeout: WorkNCCL(SeqNum=1)",
            f"{RAY}{AMPERE}",
            OOM,
            "ray.exceptions.RayTaskError(RuntimeError): ray::WorkerDict.update_actor() (pid=1)",
            "ray.exceptions.ActorDiedError: The actor died unexpectedly before finishing this task.",
        )
    )
    assert found.first_cause
    assert found.first_cause.failure.id == "fa-ampere"
    assert ids(found) == [
        "fa-ampere",
        "torch-oom",
        "torch-sm-incompatible",
        "nccl-timeout",
        "ray-task-error",
        "ray-actor-died",
    ]
    assert not found.unknown


def test_an_echo_is_never_the_first_cause() -> None:
    found = diagnosed(amid_noise("ray.exceptions.RayTaskError(RuntimeError): ray::WorkerDict.update_actor() (pid=1)"))
    assert found.first_cause is None
    assert not found.clean


def test_the_same_message_of_many_workers_is_one() -> None:
    workers = [f"(WorkerDict pid={pid}) {AMPERE}" for pid in range(8)]
    found = diagnosed(amid_noise(*workers, f"{RAY}{AMPERE} [repeated 7x across cluster] (Ray deduplicates logs ...)"))
    (only,) = found.known
    assert (only.seen.line, only.seen.count, only.seen.message) == (61, 15, AMPERE)


def test_source_lines_of_a_traceback_do_not_count() -> None:
    found = diagnosed(
        [
            "Traceback (most recent call last):",
            '  File "worker.py", line 3, in check',
            '    raise RuntimeError("FlashAttention only supports Ampere GPUs or newer.")',
            AMPERE,
        ]
    )
    assert [(known.seen.line, known.seen.count) for known in found.known] == [(4, 1)]


PIECES = st.sampled_from(
    [
        AMPERE,
        OOM,
        RAY,
        "\n",
        "\r",
        "\x1b[31m",
        "\x1b[",
        " ",
        "step:",
        "loss: ",
        "grad_norm:",
        "nan",
        "1.2.3",
        "1e",
        "-",
        "{'",
    ]
)


@given(st.lists(PIECES | st.text(max_size=5), max_size=40).map("".join), st.sampled_from([7, 64, 4096]))
def test_any_text_can_be_read(text: str, size: int) -> None:
    data = text.encode("utf-8", "replace")
    found = diagnose_log(read_blocks(io.BytesIO(data), size))
    assert found.size == len(data)
    assert found.lines == data.count(b"\n") + (not data.endswith(b"\n") and bool(data))


class TestUnknown:
    """Exceptions that no entry recognises are said to be unknown."""

    def test_the_last_line_of_a_traceback(self) -> None:
        found = diagnosed(
            amid_noise(
                "Traceback (most recent call last):", '  File "a.py", line 1, in f', "    f()", "odd.Thing: 7 is odd"
            )
        )
        assert [(seen.line, seen.count, seen.message) for seen in found.unknown] == [(64, 1, "odd.Thing: 7 is odd")]
        assert not found.known

    def test_tracebacks_of_two_workers_that_are_mixed(self) -> None:
        found = diagnosed(
            [
                "(WorkerDict pid=1) Traceback (most recent call last):",
                "(WorkerDict pid=2) Traceback (most recent call last):",
                '(WorkerDict pid=1)   File "a.py", line 1, in f',
                '(WorkerDict pid=2)   File "b.py", line 1, in g',
                "(WorkerDict pid=2) KeyboardInterrupt",
                "(main_task pid=3) Progress: 10%",
                "(WorkerDict pid=1) a.b.OddThing",
            ]
        )
        assert [(seen.line, seen.message) for seen in found.unknown] == [(5, "KeyboardInterrupt"), (7, "a.b.OddThing")]

    def test_chained_exceptions(self) -> None:
        found = diagnosed(
            [
                "Traceback (most recent call last):",
                '  File "a.py", line 1, in f',
                "KeyError: 'x'",
                "",
                "The above exception was the direct cause of the following exception:",
                "",
                "Traceback (most recent call last):",
                '  File "a.py", line 3, in g',
                AMPERE,
            ]
        )
        assert ids(found) == ["fa-ampere"]
        assert [(seen.line, seen.message) for seen in found.unknown] == [(3, "KeyError: 'x'")]

    def test_a_bare_exception_line(self) -> None:
        found = diagnosed(
            amid_noise(
                f"{RAY}ValueError: batch 17 at 0x7f01 does not fit", "ValueError: batch 18 at 0x7f02 does not fit"
            )
        )
        assert [(seen.line, seen.count) for seen in found.unknown] == [(61, 2)]

    @pytest.mark.parametrize(
        "line",
        ["Fatal Python error: Aborted", "Segmentation fault (core dumped)", "run.sh: line 3: 17 Aborted (core dumped)"],
    )
    def test_a_crash_without_an_exception(self, line: str) -> None:
        assert [seen.message for seen in diagnosed(amid_noise(line)).unknown] == [line]

    def test_a_message_that_goes_on_in_the_next_line(self) -> None:
        found = diagnosed(
            [
                "Traceback (most recent call last):",
                '  File "a.py", line 1, in f',
                "torch._dynamo.exc.BackendCompilerFailed: backend='inductor' raised:",
                "RuntimeError: Cannot find a working triton installation.",
            ]
        )
        assert ids(found) == ["inductor-no-triton"]
        assert not found.unknown

    def test_many_kinds_are_kept_in_bounds(self) -> None:
        words = [f"{a}{b}" for a in "abcdefghijklmnop" for b in "abcdefghijklmnop"]
        found = diagnosed(f"ValueError: no {word}" for word in words)
        assert len(found.unknown) + found.unlisted == 256
        assert found.unlisted == 156


class TestHealth:
    """What is wrong with a run that goes on."""

    @staticmethod
    def found(*lines: str, size: int = 1 << 20) -> list[tuple[str, str, int, int | None, int]]:
        diagnosis = diagnosed([*noise(20), *lines, *noise(20, seed=8)], size)
        return [(each.kind, each.metric, each.line, each.step, each.count) for each in diagnosis.ailments]

    @pytest.mark.parametrize("value", ["nan", "inf", "-inf", "NaN", "np.float64(nan)", "tensor(nan)"])
    def test_a_loss_or_a_gradient_that_is_not_finite(self, value: str) -> None:
        lines = (
            f"step:3 - actor/pg_loss:{value} - x:1",
            f"step:4 - actor/pg_loss:{value} - actor/grad_norm:{value} - x:1",
        )
        assert self.found(*lines) == [
            ("non-finite-loss", "actor/pg_loss", 21, 3, 2),
            ("non-finite-gradients", "actor/grad_norm", 22, 4, 1),
        ]

    @pytest.mark.parametrize("line", ["{'loss': nan, 'epoch': 1.0}", '{"loss": NaN}', "loss=nan", "loss: -inf"])
    def test_other_ways_to_write_it(self, line: str) -> None:
        assert self.found(line) == [("non-finite-loss", "loss", 21, None, 1)]

    @pytest.mark.parametrize(
        "line",
        [
            "Gradient overflow.  Skipping step, loss scaler 0 reducing loss scale to 32768.0",
            "[deepspeed] OVERFLOW! Rank 0 Skipping step. Attempted loss scale: 65536, reducing to 32768",
            "gradient overflow detected, ignoring gradient, setting loss scale to: 64.0",
            "found_inf: 1.0",
            f"{RAY}WARN: rank 0 grad_norm is not finite: nan",
        ],
    )
    def test_a_skipped_step(self, line: str) -> None:
        assert self.found(line, line) == [("skipped-steps", "", 21, None, 2)]

    @pytest.mark.parametrize(
        "line", ["found_inf: 0.0", "the loss: 1.2.3.", "loss scale: 65536.0", "Skipping import of cpp extensions"]
    )
    def test_no_skipped_step(self, line: str) -> None:
        assert self.found(line) == []

    @pytest.mark.parametrize("size", [300, 700, 1 << 20])
    @pytest.mark.parametrize("before", range(3))
    def test_a_loss_that_stands_still(self, size: int, before: int) -> None:
        moving = [f"step:{step} - train/loss:0.{step + 100}" for step in range(before)]
        still = [f"step:{step} - train/loss:0.693147 - train/lr:1e-05" for step in range(100, 120)]
        expected = [("constant-loss", "train/loss", 21 + before, 100, 20)]
        assert self.found(*moving, *still, size=size) == expected
        assert self.found(*moving, *still[1:], size=size) == []

    def test_the_same_step_printed_twice_is_one(self) -> None:
        assert self.found(*[f"step:{step // 2} - train/loss:0.5" for step in range(38)]) == []

    def test_a_part_of_the_loss_that_is_switched_off(self) -> None:
        lines = [f"step:{step} - actor/kl_loss:0.0 - actor/pg_loss:0.0" for step in range(30)]
        assert self.found(*lines) == [("constant-loss", "actor/pg_loss", 21, 0, 30)]

    def test_a_progress_bar_that_repeats_itself(self) -> None:
        assert self.found(*["10%|# | 1/10 [00:01, loss=0.5]"] * 30) == []

    def test_a_stand_still_after_very_many_steps(self) -> None:
        moving = [f"step:{step} - train/loss:0.{step + 10**6}" for step in range(30_000)]
        still = [f"step:{step} - train/loss:0.5" for step in range(30_000, 33_000)]
        expected = [("constant-loss", "train/loss", 30_021, 30_000, 3000)]
        assert self.found(*moving, *still, size=8192) == expected
