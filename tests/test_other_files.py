"""Files that are not known by a suffix: what a run says of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from precpatch.config import Settings
from precpatch.gpu.resolve import resolve_target
from precpatch.plan import Plan
from precpatch.session import plan

COMMAND = "python t.py --dtype bfloat16 --attn_implementation flash_attention_2\n"


def run(root: Path, target: str = "v100", *, unsafe: bool = False) -> Plan:
    return plan(root, (), resolve_target(target, "float32" if target == "v100" else "auto"), Settings(unsafe=unsafe))


def told(root: Path, target: str = "v100") -> list[tuple[str, int, str]]:
    found = run(root, target).of("rewrite", "report")
    return [(each.mention.path, each.mention.line, each.rule) for each in found]


DECIDES = {
    "sft.toml": '[model]\nname = "demo-bf16"\nattn = "flash_attention_2"\n',
    "run.bat": "@echo off\nrem set TORCH_DTYPE=bfloat16\nset TORCH_DTYPE=bfloat16\n",
    "run.ps1": "# dtype\n\n$env:TORCH_DTYPE = 'bfloat16'\n",
    "entry.j2": f"x\n\n{COMMAND}",
    "job.conf.template": "x\nparam_dtype: {{ x }} bfloat16\ndtype: bfloat16\n",
    "conf.jsonc": '{\n// dtype: bfloat16\n"dtype": "bfloat16"}\n',
    "pyproject.toml": '[project]\ndependencies = [\n  "flash-attn>=2.7",\n]\n',
    "metadata.toml": "x = 1\n\ndtype = 'bfloat16'\n",
    "record.cfg": "x\n\ndtype: bfloat16\n",
    "notes-v2.conf": "x\n\ndtype: bfloat16\n",
    "setup.cfg": "[options]\n\ndtype = bfloat16\n",
}


@pytest.mark.parametrize("name", DECIDES)
def test_a_file_that_no_reader_knows_is_named_once(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text(DECIDES[name])
    (path, line, rule), *more = told(tmp_path)
    assert (path, rule, more) == (name, "not-read", [])
    assert line == 3
    assert told(tmp_path, "a100") == []


@pytest.mark.parametrize(
    ("name", "text"),
    [
        *(
            (name, COMMAND)
            for name in ("README.md", "docs.rst", "LICENSE", "CHANGELOG", "notes.txt", "uv.lock", "a.log")
        ),
        *(
            (name, COMMAND)
            for name in ("data.csv", "data.jsonl", "page.html", "fix.patch", ".gitignore", "package-lock.json")
        ),
        ("sft.toml", '# dtype = "bfloat16"\nname = "demo-bf16"\nbf16_note = "why"\n'),
        ("kernel.cu", 'float to_bf16(float x);\nif (dtype == "bfloat16") {}\n'),
        ("a.ts", 'const names = ["bf16", "fp16"];\n'),
        ("binary", f"\0{COMMAND}"),
        ("huge.toml", 'dtype = "bfloat16"\n' + "x = 1\n" * 50_000),
        ("wide.toml", f'x = "{"a" * 5000} dtype=bfloat16"\n'),
    ],
)
def test_prose_data_and_what_only_talks_is_passed_over(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text)
    assert told(tmp_path) == []


def test_a_list_of_requirements_is_told_by_line(tmp_path: Path) -> None:
    (tmp_path / "requirements-gpu.txt").write_text("torch\n# flash-attn\nflash_attn==2.8.1  # x\n")
    assert told(tmp_path) == [("requirements-gpu.txt", 3, "flash-attn-install")]


@pytest.mark.parametrize(
    ("first", "text"),
    [
        ("#!/bin/bash -e", "python t.py --dtype bfloat16\n"),
        ("#!/usr/bin/env bash", "export TORCH_DTYPE=bfloat16\n"),
        ("#! /usr/bin/env -S python3 -u", "import torch; x = torch.load(y).to(torch.bfloat16)\n"),
    ],
)
def test_a_script_without_a_suffix_is_read_and_its_fix_is_for_review(tmp_path: Path, first: str, text: str) -> None:
    (tmp_path / "launch").write_text(f"{first}\n{text}")
    (finding,) = run(tmp_path).of("report")
    assert (finding.mention.line, finding.after is not None) == (2, True)
    made = run(tmp_path, unsafe=True)
    assert b"float32" in made.patches.apply_to("launch", (tmp_path / "launch").read_bytes())


def test_a_program_of_another_kind_without_a_suffix_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "launch").write_text('#!/usr/bin/perl\n\n$x{dtype} = "bfloat16";\n')
    assert [rule for _, _, rule in told(tmp_path)] == ["not-read"]


def test_what_is_excluded_or_left_alone_by_default_is_not_looked_at(tmp_path: Path) -> None:
    for folder in ("tests", "node_modules", "own"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "a.toml").write_text('dtype = "bfloat16"\n')
    target = resolve_target("v100", "float32")
    assert [each.mention.path for each in plan(tmp_path, (), target, Settings()).findings] == ["own/a.toml"]
    assert plan(tmp_path, (), target, Settings(exclude=("own/",))).findings == ()


def test_a_file_that_is_named_is_looked_at(tmp_path: Path) -> None:
    (tmp_path / "Dockerfile").write_text("ENV TORCH_DTYPE=bfloat16\n")
    found = plan(tmp_path, (tmp_path / "Dockerfile",), resolve_target("v100", "float32"), Settings()).findings
    assert [each.rule for each in found] == ["dtype-setting"]


# --- JSON that is no config of a known form --------------------------------------------------------------------------

JOB = (
    '{"name": "x",\n"command": ["python", "-m", "t",\n"a.rollout.dtype=bfloat16", "a.model.use_remove_padding=True"]}\n'
)


@pytest.mark.parametrize(
    ("name", "text", "line"),
    [
        ("job.json", JOB, 3),
        ("args.json", '{"args": ["--attn_implementation", "flash_attention_2"]}\n', 1),
        ("args.json", '{"args":\n ["--torch-dtype=bfloat16"]}\n', 2),
        ("env.json", '{"env_vars": {"A": "b",\n "VLLM_ATTENTION_BACKEND": "FLASH_ATTN"}, "working_dir": "."}\n', 2),
        ("env.json", '{"env_vars": {"TORCH_DTYPE": "bfloat16"}}\n', 1),
        (
            "model.json",
            '{"model": {"dtype":"bfloat16", "use_remove_padding":true, "ulysses_sequence_parallel_size": 2}}',
            1,
        ),
        ("model.json", '{"model": {\n"use_remove_padding": true}}\n', 2),
    ],
)
def test_json_of_no_known_form_that_sets_something_is_named_once(
    tmp_path: Path, name: str, text: str, line: int
) -> None:
    (tmp_path / name).write_text(text)
    assert told(tmp_path) == [(name, line, "not-read")]
    assert told(tmp_path, "a100") == []


@pytest.mark.parametrize(
    ("name", "text"),
    [
        *(
            (name, JOB)
            for name in ("tokenizer_config.json", "model.safetensors.index.json", "results.json", "vocab.json")
        ),
        *((name, JOB) for name in ("package-lock.json", "dataset_info.json", "conda-lock.json", "config.schema.json")),
        ("data.json", f"[{JOB}]"),
        ("chat.json", '{"messages": ["set dtype=bfloat16", "say \\"dtype\\": \\"bfloat16\\", and use --bf16 true"]}\n'),
        ("names.json", '{"dtypes": ["bfloat16", "float16"], "bfloat16": 3, "name": "demo-bf16"}\n'),
        (
            "quiet.json",
            '{"model": {"dtype": "float32", "use_remove_padding": false, "attn_implementation": "eager"}}\n',
        ),
        ("huge.json", '{"dtype": "bfloat16", "x": "' + "x" * 300_000 + '"}\n'),
    ],
)
def test_json_that_is_data_or_sets_nothing_is_passed_over(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text)
    assert told(tmp_path) == []


def test_a_dockerfile_that_cannot_be_read_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "Dockerfile").write_text("ENV VLLM_ATTENTION_BACKEND=FLASH_ATTN\n")
    real = open

    def refuse(path: object, *rest: object, **more: object) -> object:
        if str(path).endswith("Dockerfile"):
            raise PermissionError(13, "Permission denied")
        return real(path, *rest, **more)  # type: ignore[call-overload]

    monkeypatch.setattr("builtins.open", refuse)
    found = run(tmp_path, "p40")
    assert [(note.path, note.message) for note in found.errors] == [("Dockerfile", "cannot be read: Permission denied")]
