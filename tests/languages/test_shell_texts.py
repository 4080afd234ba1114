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
