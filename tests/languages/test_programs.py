"""Programs that are told where they are started, each by every way in which the vocabulary says that it starts."""

from __future__ import annotations

import json

import pytest

from precpatch.engine.policy import Policy
from precpatch.engine.rules import load_rules
from precpatch.gpu.resolve import resolve_target
from precpatch.session import file_findings
from precpatch.vocabulary import builtin_vocabulary

P40 = Policy(load_rules(), resolve_target("p40"))
V100 = Policy(load_rules(), resolve_target("v100"))
PROGRAMS = builtin_vocabulary().programs
COMMANDS = [(each.name, " ".join(command)) for each in PROGRAMS for command in each.commands]
COMMANDS += [(each.name, f"python3 -m {module}") for each in PROGRAMS for module in each.modules]
CLASSES = [(each.name, each.package, name) for each in PROGRAMS for name in each.classes]


def told(path: str, text: str, policy: Policy = P40) -> list[str]:
    """What is reported as started, the value of each; nothing may be rewritten."""
    found = [each for each in file_findings(path, text.encode(), policy) if each.action != "keep"]
    assert not [each for each in found if each.edits]
    return [each.mention.value for each in found if each.mention.key == "engine"]


@pytest.mark.parametrize(("name", "command"), COMMANDS)
@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("run.sh", "{} --port 1\n"),
        ("run.sh", "A=1 B=2 /opt/bin/{} $MODEL &\n"),
        ("run.sh", "nohup {} \\\n  --port 1 > log 2>&1\n"),
        ("run.sh", "CMD=({} --port 1)\n"),
        ("run.sh", "bash -c '{} --port 1'\n"),
        ("run.sh", 'CMD="{} --port 1"\n'),
        ("run.sh", "if ! curl -s host; then\n  {} --port 1\nfi\n"),
        ("run.sh", "cat > start.sh <<EOF\n{} --port 1\nEOF\n"),
        ("Dockerfile", "FROM x\nCMD {} --port 1\n"),
        ("job.yaml", "run: |\n  {} --port 1\n"),
        ("job.yaml", "containers:\n  - command: [{words}, --port, '1']\n"),
        ("a.py", "import os\nos.system('{} --port 1')\n"),
        ("a.py", "subprocess.Popen(f'A=1 {} --port {{port}}', shell=True)\n"),
        ("a.py", "cmd = '{} ' + model\n"),
        ("a.py", "subprocess.Popen([{words}, '--port', port])\n"),
        ("a.py", "cmd = [\n    {words},\n    *more, '--port', port,\n] + others\n"),
    ],
)
def test_a_command_starts_a_program(name: str, command: str, path: str, text: str) -> None:
    words = ", ".join(f'"{word}"' for word in command.split())
    assert told(path, text.format(command, words=words)) == [name]


@pytest.mark.parametrize(("name", "command"), COMMANDS)
def test_a_notebook_starts_a_program(name: str, command: str) -> None:
    cell = {"cell_type": "code", "source": [f"!{command} --port 1\n"], "metadata": {}, "outputs": []}
    notebook = {"cells": [cell], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
    assert told("a.ipynb", json.dumps(notebook)) == [name]


@pytest.mark.parametrize(("name", "command"), COMMANDS)
@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("run.sh", "# {} --port 1\n"),
        ("run.sh", 'echo "now: {} --port 1"\n'),
        ("run.sh", "pkill -f '{} --port 1'\n"),
        ("run.sh", "ps aux | grep '{} --port'\n"),
        ("run.sh", "{}2 --port 1\n"),
        ("run.sh", "x{} --port 1\n"),
        ("a.py", '"""Start it by {} --port 1"""\n'),
        ("a.py", '"""{} --port 1"""\n'),
        ("a.py", "raise ValueError('{} --port 1')\n"),
        ("a.py", "logger.info(f'{} --port {{port}}')\n"),
        ("a.py", "parser.add_argument('--url', help='{} --port 1')\n"),
        ("a.py", "text = 'Use {} --port 1'\n"),
        ("a.py", "text = '{} is what starts it'\n"),
        ("a.py", "if command == '{} --port 1':\n    pass\n"),
        ("job.yaml", "description: {} --port 1\n"),
    ],
)
def test_what_only_speaks_of_a_command(name: str, command: str, path: str, text: str) -> None:
    assert told(path, text.format(command.removeprefix("python3 ") if "x{}" in text else command)) == []


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("run.sh", "pip install vllm sglang tensorrt_llm\nwhich vllm\nvllm --version\nvllm bench serve\n"),
        ("run.sh", "python -m vllm.collect_env\npython serve.py vllm\n"),
        ("requirements.txt", "vllm==0.8.5\nsglang\n"),
        ("a.py", 'BACKENDS = ["trtllm-serve", "vllm", "sglang"]\nMODULE = "sglang.launch_server"\n'),
        ("a.py", "from vllm.entrypoints.openai.api_server import build_app\n"),
        ("a.py", 'x = "please run vllm serve --port 1"\ny = "Now launch vllm serve --port 1 by hand"\n'),
        ("a.py", 'x = "echo starting vllm serve a/b"\n'),
    ],
)
def test_the_names_alone_start_nothing(path: str, text: str) -> None:
    assert told(path, text) == []


@pytest.mark.parametrize(("name", "package", "cls"), CLASSES)
@pytest.mark.parametrize(
    "code",
    [
        "from {package} import {cls}\nx = {cls}(m)\n",
        "from {package} import {cls} as Model\n\ndef f():\n    return Model(m)\n",
        "from {package}.some.module import (\n    Other,\n    {cls},\n)\nself.x = await {cls}.from_parts(m)\n",
        "from {package} import {cls} as Model\nx = Model.from_parts(m)\n",
        "import {package}\nx = {package}.{cls}(model=m)\n",
        "import {package} as p\nx = p.{cls}(model=m)\n",
        "def f():\n    from {package} import {cls}\n    return {cls}(m)\n",
        "from ours.third_party.{package} import {cls}\nx = {cls}(m)\n",
    ],
)
def test_a_call_starts_a_program(name: str, package: str, cls: str, code: str) -> None:
    assert told("a.py", code.format(package=package, cls=cls)) == [name]


@pytest.mark.parametrize(("name", "package", "cls"), CLASSES)
@pytest.mark.parametrize(
    "code",
    [
        "import {package}\nfrom ours import {cls}\nx = {cls}(m)\n",
        "import {package}\nfrom .{package} import {cls}\nx = {cls}(m)\n",
        "import {package}\nclass {cls}:\n    pass\nx = {cls}(m)\n",
        "import {package}\nx = ours.{cls}(m)\n",
        "from {package} import {cls}\ndef f({cls}):\n    return {cls}(m)\n",
        "from {package} import {cls}\ndef f(x: {cls}) -> {cls}:\n    return x.generate(m)\n",
        "from {package} import {cls}\nclass Mine({cls}):\n    pass\n",
        "from {package} import {cls}\nx = isinstance(y, {cls})\n",
    ],
)
def test_a_class_that_is_not_called_or_another_one(name: str, package: str, cls: str, code: str) -> None:
    assert told("a.py", code.format(package=package, cls=cls)) == []


def test_an_engine_is_told_where_the_card_is_below_its_minimum() -> None:
    script = "vllm serve m --port 1\npython -m sglang.launch_server --port 1\ntrtllm-serve m\n"
    assert told("run.sh", script) == ["vllm", "sglang", "trtllm"]
    assert told("run.sh", script, V100) == ["sglang", "trtllm"]
    assert told("run.sh", script, Policy(load_rules(), resolve_target("a100"))) == []


def test_the_report_stands_where_the_engine_is_started_and_can_be_suppressed() -> None:
    found = file_findings("run.sh", b"set -x\nA=1 vllm serve m --port 1\n", P40)
    assert [(each.mention.line, each.mention.text) for each in found] == [(2, "vllm serve")]
    silent = b"vllm serve m --port 1  # precpatch: ignore[generation-engine]\n"
    assert [each.verdict for each in file_findings("run.sh", silent, P40)] == ["suppressed"]


@pytest.mark.parametrize("before", ["", "uv run ", "exec ", "cd /w && "])
def test_a_text_that_starts_a_program(before: str) -> None:
    assert told("a.py", f'os.system("{before}vllm serve --port 1")\n')
