"""The vLLM that a checkout asks for, and what a scan for an older card says of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from precpatch.config import Settings
from precpatch.gpu.resolve import resolve_target
from precpatch.session import plan

RUN = "python3 -m train actor.rollout.name=vllm\nvllm serve m --port 1\n"


def told(root: Path, lists: dict[str, str], target: str = "v100") -> list[str]:
    """The messages on a launch script in a checkout with these lists of requirements."""
    for name, text in {"run.sh": RUN, **lists}.items():
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).write_text(text, encoding="utf-8")
    found = plan(root, [], resolve_target(target), Settings()).findings
    return [each.message for each in found if each.rule == "engine-pinned"]


@pytest.mark.parametrize(
    ("name", "text", "asks"),
    [
        ("requirements.txt", "torch\nvllm==0.24.0\n", "vllm==0.24.0"),
        ("requirements.txt", "vllm[x] >= 0.20, < 1  # newer\n", "vllm>=0.20,<1"),
        ("requirements-cuda.txt", "vllm~=0.21.0 ; sys_platform == 'linux'\n", "vllm~=0.21.0"),
        ("requirements/gpu.txt", "vllm==0.24.*\n", "vllm==0.24.*"),
        ("setup.py", 'VLLM = ["tensordict>=0.8", "vllm>=0.20.0,<=0.25"]\n', "vllm>=0.20.0,<=0.25"),
        (
            "pyproject.toml",
            "[project]\ndependencies = [\n  'vllm==0.26.0; python_version > \"3\"',\n]\n",
            "vllm==0.26.0",
        ),
    ],
)
def test_a_version_that_no_longer_takes_the_card(tmp_path: Path, name: str, text: str, asks: str) -> None:
    needs = f"{asks} in {name} needs compute capability 7.5; vllm==0.19.1 runs"
    message = f"vllm does not run on v100 in the version asked for: {needs}"
    assert told(tmp_path, {name: text}) == [message, message]
    assert told(tmp_path, {name: text}, "t4") == []


@pytest.mark.parametrize(
    "lists",
    [
        {},
        {"requirements.txt": "vllm\n"},
        {"requirements.txt": "vllm==0.8.5\n"},
        {"requirements.txt": "vllm<=0.24.0\n"},
        {"requirements.txt": "vllm>=0.8.5,<=0.24.0\n"},
        {"requirements.txt": "# vllm==0.24.0\ntorch # vllm==0.24.0\n"},
        {"requirements.txt": "vllm-ascend==0.24.0\nmy-vllm==0.24.0\n"},
        {"requirements.txt": "vllm==nightly\nvllm==\n"},
        {"requirements-npu.txt": "vllm==0.24.0\n"},
        {"setup.py": '# "vllm==0.24.0"\nvllm = "0.24.0"\n'},
        {"requirements.txt": "vllm==0.24.0\n", "setup.py": 'VLLM = ["vllm>=0.8.5,<=0.12.0"]\n'},
        {"requirements.txt": "vllm==0.24.0\n", "setup.py": 'VLLM = ["vllm<=0.12.0"]\n'},
        {"notes.txt": "vllm==0.24.0\n"},
    ],
)
def test_a_checkout_that_takes_an_older_version_or_says_none(tmp_path: Path, lists: dict[str, str]) -> None:
    assert told(tmp_path, lists) == []


def test_a_card_that_no_version_takes_is_told_so_and_nothing_of_the_version(tmp_path: Path) -> None:
    assert told(tmp_path, {"requirements.txt": "vllm==0.24.0\n"}, "p40") == []
    rules = {each.rule for each in plan(tmp_path, [], resolve_target("p40"), Settings()).findings}
    assert {"rollout-engine", "generation-engine"} <= rules


def test_a_list_that_cannot_be_read_is_passed_over(tmp_path: Path) -> None:
    (tmp_path / "requirements-a.txt").mkdir()
    (tmp_path / "requirements-b.txt").write_bytes(b"\xff\xfe\0vllm")
    assert told(tmp_path, {"requirements-c.txt": "vllm==0.24.0\n"}) != []
