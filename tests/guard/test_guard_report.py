"""From the journals of the processes to sites, findings and text; no process is run here."""

from __future__ import annotations

import json
from array import array
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from precpatch.config import Settings
from precpatch.gpu.resolve import resolve_target
from precpatch.guard.findings import Mender
from precpatch.guard.handled import is_handled
from precpatch.guard.order import make_order
from precpatch.guard.record import Frame, Record, Site, read_record
from precpatch.guard.report import Outcome, render
from precpatch.session import plan

Write = Callable[..., None]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Write the journal of a process: its rows, and the counter of each unless it has none."""

    def journal(pid: int, *rows: dict[str, object], counts: list[int] | None = None, rest: str = "") -> None:
        head = {"pid": pid, "program": "train.py", "torch": "2.13.0"}
        text = "".join(json.dumps(row) + "\n" for row in (head, *rows))
        (tmp_path / f"{pid}-1.rows").write_text(text + rest)
        if counts is not None:
            (tmp_path / f"{pid}-1.counts").write_bytes(array("Q", [*counts, 0, 0]).tobytes())

    return journal


OPERATORS, LOADS = {"tally": "operators", "name": ""}, {"tally": "loads", "name": ""}


def trip(operator: str, site: tuple[object, ...] | None, time: float, **more: object) -> dict[str, object]:
    """A row of a journal."""
    usual = {"kind": "compute", "dtype": "bfloat16", "phase": "forward", "caller": None, "compiled": None}
    stack = [each for each in (site, more.get("caller")) if each]
    return {**usual, "operator": operator, "site": site, "time": time, "stack": stack, **more}


def test_processes_are_put_together_by_line_in_the_order_of_time(write: Write, tmp_path: Path) -> None:
    line, other = ("a.py", 3, "step"), ("b.py", 9, "load")
    write(1, OPERATORS, LOADS, trip("aten::mm", line, 2.0), counts=[10, 2, 4])
    write(2, OPERATORS, LOADS, trip("aten::mul", line, 3.0), trip("aten::add", other, 1.0), counts=[7, 0, 1, 5])
    record = read_record(tmp_path)
    assert [(site.frame, site.count, len(site.processes)) for site in record.sites] == [(other, 5, 1), (line, 5, 2)]
    assert record.sites[1].operators == Counter({"aten::mm": 4, "aten::mul": 1})
    assert (record.trips, sum(process.operators for process in record.processes)) == (10, 17)


def test_a_killed_process_leaves_what_it_wrote(write: Write, tmp_path: Path) -> None:
    write(1, trip("aten::mm", ("a.py", 3, "step"), 1.0), rest='{"kind": "comp')
    write(2, trip("aten::mm", ("a.py", 3, "step"), 1.0), counts=[])
    (tmp_path / "3-1.rows").write_text('{"pid')
    record = read_record(tmp_path)
    assert (record.trips, len(record.processes)) == (2, 2)


def test_what_the_processes_computed_in_is_added_up(write: Write, tmp_path: Path) -> None:
    kernel = "aten::_scaled_dot_product_flash_attention_for_cpu"
    names = ("matmuls", "float32"), ("matmuls", "bfloat16"), ("attention", kernel), ("compiled_calls", "")
    tallies = [{"tally": group, "name": name} for group, name in names]
    write(1, *tallies, counts=[4, 0, 2, 3])
    write(2, *tallies, counts=[1, 7, 1, 0])
    write(3, *tallies)  # its disk was full
    record = read_record(tmp_path)
    outcome = Outcome(make_order(resolve_target("v100")), ("python", "train.py"), 0, record)
    summary = json.loads(render("json", outcome))["summary"]
    assert summary["matmuls"] == {"float32": 5, "bfloat16": 7}
    assert (summary["attention"], summary["compiled_calls"]) == ({kernel: 3}, 3)
    said = f"Matrix products: 7 bfloat16, 5 float32. Attention: 3 {kernel}. Calls of compiled functions: 3.\n"
    assert said in render("text", outcome).decode()


def test_attention_without_a_kernel_is_eager(write: Write, tmp_path: Path) -> None:
    write(1, {"tally": "matmuls", "name": "float32"}, counts=[444])
    outcome = Outcome(make_order(resolve_target("p40")), ("python", "train.py"), 0, read_record(tmp_path))
    said = "Matrix products: 444 float32. Attention: eager (no attention kernel).\n"
    assert said in render("text", outcome).decode()


@pytest.mark.parametrize(
    ("source", "handled"),
    [
        ("try:\n    import x\nexcept ImportError:\n    pass", True),
        ("try:\n    import x\nexcept (OSError, ModuleNotFoundError):\n    pass", True),
        ("try:\n    import x\nexcept Exception:\n    pass", True),
        ("try:\n    import x\nexcept:\n    pass", True),
        ("with contextlib.suppress(ImportError):\n    import x", True),
        ("try:\n    import x\nexcept OSError:\n    pass", False),
        ("try:\n    import x\nfinally:\n    pass", False),
        ("with open(name):\n    import x", False),
        ("if True:\n    import x", False),
        ("not python(\nimport x", False),
    ],
)
def test_an_import_that_the_program_expects_to_fail(source: str, handled: bool, tmp_path: Path) -> None:
    path = tmp_path / "module.py"
    path.write_text(source)
    assert is_handled([(str(path), 2, "<module>")]) is handled


def test_only_a_handler_of_import_errors_counts_further_out(tmp_path: Path) -> None:
    narrow, wide = tmp_path / "narrow.py", tmp_path / "wide.py"
    narrow.write_text("try:\n    import inner\nexcept ImportError:\n    pass")
    wide.write_text("try:\n    import inner\nexcept Exception:\n    pass")
    inner = (str(tmp_path / "inner.py"), 1, "<module>")
    assert is_handled([inner, (str(narrow), 2, "<module>")])
    assert not is_handled([inner, (str(wide), 2, "<module>")])


CHECKOUT = b"""import torch

def cast(values):
    return values.to(torch.bfloat16)

def train(model, values):
    with torch.autocast("cuda", dtype=torch.bfloat16):
        loss = model(values)
        return loss

def other(values):
    return values * 2
"""


def site(*stack: tuple[str, int, str], kind: str = "compute") -> Site:
    """A site with this stack."""
    frames = tuple(Frame(*each) for each in stack)
    return Site(frames[0] if frames else None, None, None, frames, Counter([kind]), Counter(["forward"]))


@pytest.fixture
def mender(tmp_path: Path) -> Mender:
    """The scan of a small checkout for a P40."""
    (tmp_path / "verl").mkdir()
    (tmp_path / "verl" / "model.py").write_bytes(CHECKOUT)
    return Mender(plan(tmp_path, (), resolve_target("p40"), Settings()))


@pytest.mark.parametrize(
    ("stack", "expected"),
    [
        ([("{}/verl/model.py", 4, "cast")], ("line", 4)),
        ([("/lib/site-packages/x/y.py", 4, "z"), ("{}/verl/model.py", 8, "train")], ("function", 7)),
        ([("{}/verl/model.py", 12, "other")], ("file", 4)),
        ([("/ray/session/verl/model.py", 4, "cast")], ("line", 4)),
        ([("{}/verl/model.py", 12, "other"), ("{}/verl/model.py", 8, "train")], ("function", 7)),
        ([("{}/elsewhere.py", 4, "cast")], None),
        ([], None),
    ],
)
def test_the_nearest_finding_along_the_stack(
    mender: Mender, tmp_path: Path, stack: list[tuple[str, int, str]], expected: tuple[str, int] | None
) -> None:
    mend = mender.mend(site(*[(path.format(tmp_path), line, function) for path, line, function in stack]))
    assert (mend and (mend.nearness, mend.findings[0].mention.line)) == expected


def test_a_dtype_does_not_mend_a_kernel(mender: Mender, tmp_path: Path) -> None:
    assert mender.mend(site((f"{tmp_path}/verl/model.py", 4, "cast"), kind="kernel")) is None


def test_the_text_report(write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    own, library = (f"{tmp_path}/model.py", 8, "train"), ("/x/site-packages/transformers/m.py", 5, "forward")
    write(
        1,
        trip("aten::mm", library, 1.0, caller=own),
        trip("aten::mul", None, 2.0, phase="backward"),
        OPERATORS,
        LOADS,
        counts=[6, 2, 90, 1],
    )
    outcome = Outcome(make_order(resolve_target("p40")), ("python", "train.py"), 0, read_record(tmp_path))
    text = render("text", outcome).decode()
    for words in [
        "Forbidden: bfloat16. Not importable: flash_attn, vllm, sglang. Not launched: torch.compile, triton.",
        "model.py:8 train  6 trips, bfloat16\n  forward: aten::mm\n  in transformers/m.py:5\n",
        "the backward pass (no Python frame)  2 trips, bfloat16\n  backward: aten::mul\n",
        "The first trip: aten::mm\n  model.py:8 train\n  transformers/m.py:5 forward\n",
        "8 trips at 2 places; 90 operators in 1 process with torch; 1 load of forbidden tensors let through.",
    ]:
        assert words in text


def test_nothing_watched_is_not_nothing_found() -> None:
    empty = Record((), (), ())
    watched = Outcome(make_order(resolve_target("p40")), ("true",), 0, empty)
    assert b"no process imported torch under the guard" in render("text", watched)
    idle = Outcome(make_order(resolve_target("h100")), ("true",), 0, empty)
    assert b"Nothing is forbidden on this target: the command ran without the guard." in render("text", idle)


@pytest.mark.parametrize(
    ("target", "forbid", "block", "kernels"),
    [
        ("p40", ("bfloat16",), ("flash_attn", "vllm", "sglang"), ("torch.compile", "triton")),
        ("v100", ("bfloat16",), ("flash_attn", "sglang"), ()),
        ("t4", ("bfloat16",), ("flash_attn",), ()),
        ("a100", (), (), ()),
    ],
)
def test_what_trips_follows_from_the_target(
    target: str, forbid: tuple[str, ...], block: tuple[str, ...], kernels: tuple[str, ...]
) -> None:
    order = make_order(resolve_target(target))
    assert (order.forbid, order.block, order.kernels) == (forbid, block, kernels)
    assert order.is_idle is (target == "a100")
