"""Comments that suppress: by id, by glob, by line and by file; those that name no rule, and those that do nothing."""

from __future__ import annotations

from time import process_time

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


@pytest.mark.parametrize("line", ["y = 1  # bfloat16 ", 'print("in bfloat16")  ', '"""About bfloat16."""  '])
def test_a_line_that_only_speaks_of_a_precision_has_nothing_to_suppress(line: str) -> None:
    text = f"x = f(dtype='bf16')\n{line}# precpatch: ignore\n"
    assert ("suppression-unused", "report") in told("m.py", text)


def test_a_line_with_a_precision_that_is_fine_is_not_called_unused() -> None:
    text = "import torch\nx = torch.bfloat16\ny = torch.float16  # precpatch: ignore\n"
    assert ("suppression-unused", "report") not in told("m.py", text)


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


def messages(text: str, path: str = "m.py", policy: object = P40) -> list[str]:
    """What is said of the suppressions in a file."""
    found = file_findings(path, text.encode(), policy)  # type: ignore[arg-type]
    return [each.message for each in found if each.rule.startswith("suppression-")]


WRONG = {
    "not closed": ("ignore[dtype-value", "suppresses nothing: the list of rules is not closed"),
    "empty": ("ignore[ ]", "suppresses nothing: the list of rules is empty"),
    "a slip": ("ignroe", "suppresses nothing: unknown word 'ignroe'; did you mean 'ignore'?"),
    "a file beside code": ("ignore-file", "suppresses nothing: ignore-file only counts on a line of its own"),
    "several names": (
        "ignore[nope1, nope2, nope3, nope4]",
        "suppresses nothing: no rule is called 'nope1' or 'nope2' or 'nope3' or 1 more; `precpatch rules` lists them",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_comment_that_is_wrong_suppresses_nothing_and_is_told(name: str) -> None:
    comment, expected = WRONG[name]
    text = f"import torch\nx = torch.bfloat16  # precpatch: {comment}\n"
    assert told("m.py", text)[0] == ("dtype-value", "rewrite")
    assert messages(text) == [expected]


def test_names_without_business_on_the_line_are_told_once_for_a_comment() -> None:
    comment = "# precpatch: ignore[dtype-value, dtype-autocast, fp8]"
    text = f"import torch\nx = torch.bfloat16  {comment}\n"
    assert told("m.py", text)[0] == ("dtype-value", "suppressed")
    assert messages(text) == ["suppresses nothing: 'dtype-autocast' and 'fp8' do not apply on this line"]


def test_a_whole_file_by_rule() -> None:
    text = "# precpatch: ignore-file[dtype-v*]\nimport torch\nx = torch.bfloat16\ny = z.bfloat16()\n"
    assert told("m.py", text) == [("dtype-value", "suppressed"), ("dtype-method-cast", "rewrite")]


def test_two_comments_on_a_line_both_count() -> None:
    text = (
        "x = f(dtype='bf16', a=b.bfloat16())  # precpatch: ignore[dtype-setting] # precpatch: ignore[dtype-method-cast]"
    )
    assert {verdict for _, verdict in told("m.py", text + "\n")} == {"suppressed"}


def test_any_line_of_a_longer_place_will_do() -> None:
    text = "import torch\nx = (\n    torch  # precpatch: ignore\n    .bfloat16\n)\n"
    assert told("m.py", text) == [("dtype-value", "suppressed")]


def test_a_rule_that_would_claim_the_place_for_another_target_is_not_called_unused() -> None:
    """With float16, another rule decides about the states of an optimizer: the comment is for the other policy."""
    text = 'c = {"momentum_dtype": "bfloat16"}  # precpatch: ignore[dtype-setting]\n'
    assert told("m.py", text) == [("dtype-setting", "suppressed")]
    assert [rule for rule, _ in told("m.py", text, V100)] == ["optimizer-state-float16"]


def test_a_glob_that_names_a_rule_left_out_is_not_called_unused() -> None:
    policy = policy_for(Settings(select=("dtype-autocast",)), resolve_target("p40"))
    assert messages("import torch\nx = torch.bfloat16  # precpatch: ignore[dtype-*]\n", policy=policy) == []


def test_a_target_that_needs_nothing_hears_nothing() -> None:
    policy = policy_for(Settings(), resolve_target("a100"))
    assert told("m.py", "import torch\nx = torch.bfloat16  # precpatch: ignore[nope]\n", policy) == []


@pytest.mark.parametrize(
    "text",
    [
        "# precpatch: ignore\n" * 10_000,
        "".join(f"# precpatch: ignore[nope{number}]\n" for number in range(7_000)),
        f"# precpatch: ignore[{','.join(f'n{number}' for number in range(30_000))}]\n",
        "# precpatch: ignore[" * 10_000,
        "#" * 200_000 + " precpatch:",
    ],
    ids=["plain", "unknown", "a list", "open", "signs"],
)
def test_a_file_full_of_them_is_read_in_one_go(text: str) -> None:
    """Each took more than ten seconds while every mention searched the file again, or every name was put in words."""
    before = process_time()
    file_findings("m.py", f"import torch\nx = torch.bfloat16\n{text}\n".encode(), P40)
    assert process_time() - before < 5
