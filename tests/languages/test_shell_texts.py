"""Texts in a shell script that are run, or written to a file, elsewhere than they stand."""

from __future__ import annotations

import pytest
from patched import run

COMMAND = "python -m verl.trainer.main_ppo a.rollout.dtype={0} a.model.use_remove_padding={1}"

BEFORE = ["", "cd /w && ", "source ~/.bashrc; ", "export A=1; cd /w && ", "set -x; ", "ulimit -n 9; cd /w || exit 1; "]

STARTERS = [
    "ssh node1 {}",
    "tmux new-session -d -s t {}",
    "screen -dmS t bash -c {}",
    "sbatch --wrap {}",
    "sbatch --wrap={}",
    "CMD={}",
    "alias train={}",
]


@pytest.mark.parametrize("quote", ["'", '"'])
@pytest.mark.parametrize("before", BEFORE)
@pytest.mark.parametrize("starter", STARTERS)
def test_a_command_in_quotes_is_read_whatever_runs_before_it(starter: str, before: str, quote: str) -> None:
    text = starter.format(quote + before + COMMAND + quote) + "\n"
    after = run("run.sh", text.format("bfloat16", "True"))
    assert (after.text, after.reports) == (text.format("float32", "False"), [])


@pytest.mark.parametrize("program", ["echo", "printf", "git commit -m", "logger"])
def test_a_command_in_quotes_for_people_stays(program: str) -> None:
    text = f'{program} "cd /w && {COMMAND}"\n'.format("bfloat16", "True")
    after = run("run.sh", text)
    assert (after.text, after.reports) == (text, [])


WRITTEN = {
    ("dtype: {}", "conf/c.yaml"): ("bfloat16", "float32"),
    ("use_remove_padding: {}", "c.yml"): ("true", "false"),
    ('{{"bf16": {{"enabled": {}}}}}', "ds.json"): ("true", "false"),
    ("export WANTED={}; python t.py --dtype $WANTED", "run.sh"): ("bfloat16", "float32"),
    ("x = torch.{}", "c.py"): ("bfloat16", "float32"),
}
"""A line, the file that it is written to, and what it says before and after."""

WAYS = ["echo '{0}' > {1}", "echo -e '{0}' >> {1}", "printf '{0}\\n' >\"$W/{1}\"", "echo '{0}' | tee -a {1}"]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("line", WRITTEN)
def test_a_line_that_is_written_to_a_file_decides_as_the_file_would(line: tuple[str, str], way: str) -> None:
    old, new = (way.format(line[0].format(word), line[1]) + "\n" for word in WRITTEN[line])
    after = run("setup.sh", old)
    assert (after.text, after.reports) == (new, [])


@pytest.mark.parametrize("name", [".env", "conf/.env.local", "~/.bashrc", "train.env"])
def test_a_variable_that_is_written_to_an_environment_is_reported(name: str) -> None:
    assert run("setup.sh", f'echo "VLLM_ATTENTION_BACKEND=FLASH_ATTN" >> {name}\n').reports == [
        (1, "attention-backend-variable")
    ]


@pytest.mark.parametrize(
    "end", ["", " >&2", " > /dev/stderr", " >> run.log", " > notes.txt", " > README.md", " | tee x.log"]
)
@pytest.mark.parametrize("line", WRITTEN)
def test_a_line_for_people_stays(line: tuple[str, str], end: str) -> None:
    text = f"echo '{line[0].format(WRITTEN[line][0])}'{end}\n"
    after = run("setup.sh", text)
    assert (after.text, after.reports) == (text, [])


def test_an_escape_in_a_program_for_python_stays_one() -> None:
    text = """python -c "import torch; print('a\\\\nb', x.to(torch.{}))"\n"""
    assert run("run.sh", text.format("bfloat16")).text == text.format("float32")
