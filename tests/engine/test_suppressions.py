"""Comments that suppress: by id, by glob, by line and by file; those that name no rule, and those that do nothing."""

from __future__ import annotations

import pytest

from precpatch.config import Settings
from precpatch.gpu.resolve import resolve_target
from precpatch.session import file_findings, policy_for

P40 = policy_for(Settings(), resolve_target("p40"))
V100 = policy_for(Settings(), resolve_target("v100", "float16", "sdpa"))

FILES = {
    "python": ("m.py", "import torch\nx = torch.bfloat16  # {}\n"),
    "yaml": ("c.yaml", "dtype: bfloat16  # {}\n"),
    "shell": ("r.sh", "python3 train.py a.dtype=bfloat16  # {}\n"),
}


def told(path: str, text: str, policy: object = P40) -> list[tuple[str, str]]:
    return [(each.rule, each.verdict) for each in file_findings(path, text.encode(), policy)]  # type: ignore[arg-type]


@pytest.mark.parametrize(("path", "text"), FILES.values(), ids=FILES)
@pytest.mark.parametrize("comment", ["ignore", "ignore[dtype-*]", "ignore[bf16-switch, dtype-*]", "ignore[*]"])
def test_it_suppresses(path: str, text: str, comment: str) -> None:
    found = told(path, text.format(f"precpatch: {comment}"))
    assert found[0][1] == "suppressed"
    assert not {"rewrite", "suppression-unknown"} & {word for row in found for word in row}


@pytest.mark.parametrize(("path", "text"), FILES.values(), ids=FILES)
def test_one_for_another_rule_does_not_and_is_told(path: str, text: str) -> None:
    found = told(path, text.format("precpatch: ignore[attention-setting]"))
    assert [verdict for _, verdict in found] == ["rewrite", "report"]
    assert found[1][0] == "suppression-unused"


@pytest.mark.parametrize("name", ["nope", "dtyp-*", "attention_setting"])
def test_a_name_that_is_no_rule_is_told_with_the_nearest(name: str) -> None:
    found = file_findings("m.py", f"import torch\nx = torch.bfloat16  # precpatch: ignore[{name}]\n".encode(), P40)
    assert [each.verdict for each in found] == ["rewrite", "report"]
    assert found[1].rule == "suppression-unknown"
    assert f"suppresses nothing: no rule is called {name!r}" in found[1].message
    assert (found[1].mention.line, found[1].mention.column) == (2, 21)


def test_the_nearest_rule_is_named() -> None:
    found = file_findings("m.py", b"import torch\nx = torch.bfloat16  # precpatch: ignore[dtype-valeu]\n", P40)
    assert "did you mean 'dtype-value'?" in found[1].message


def test_a_line_with_nothing_to_suppress_is_told() -> None:
    text = "import torch\nx = torch.bfloat16\ny = 1  # precpatch: ignore\n"
    assert told("m.py", text) == [("dtype-value", "rewrite"), ("suppression-unused", "report")]


def test_what_another_target_needs_is_not_called_unused() -> None:
    text = "import torch\nz = torch.bfloat16\nf = torch.compile(g)  # precpatch: ignore[torch-compile-call]\n"
    assert ("torch-compile-call", "suppressed") in told("m.py", text)
    assert [rule for rule, _ in told("m.py", text, V100)] == ["dtype-value"]


def test_a_rule_that_is_left_out_is_known_all_the_same() -> None:
    policy = policy_for(Settings(ignore=("dtype-value",)), resolve_target("p40"))
    text = "import torch\nx = f(dtype='bf16')\ny = torch.bfloat16  # precpatch: ignore[dtype-value]\n"
    assert ("suppression-unknown", "report") not in told("m.py", text, policy)
    assert ("suppression-unused", "report") not in told("m.py", text, policy)


def test_a_whole_file() -> None:
    text = "# precpatch: ignore-file\nimport torch\nx = torch.bfloat16\n"
    assert told("m.py", text) == [("dtype-value", "suppressed")]


def test_in_python_only_a_comment_counts() -> None:
    text = 'import torch\nx = f(torch.bfloat16, "# precpatch: ignore")\n'
    assert told("m.py", text) == [("dtype-value", "rewrite")]


def test_other_words_are_no_suppression() -> None:
    assert told("m.py", "import torch\nx = torch.bfloat16  # precpatch: ignored, ignore-this\n")[0][1] == "rewrite"
