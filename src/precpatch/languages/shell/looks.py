"""Whether a text that stands somewhere else is plainly made of commands of a shell."""

from __future__ import annotations

import re

_SET = r"(?:[A-Za-z_]\w*=\S*\s+)*(?:sudo\s+)?(?:\S*/)?"
"""What may stand before a program: variables that are set for it, and its folder."""

_STARTS = re.compile(
    rf"""{_SET}(?:
        python[\d.]*\s+(?:-|\S+\.py\b|\$) | (?:torchrun|srun|mpirun|nohup|exec|env)\s+[-\w.$/]
        | accelerate\s+launch\b | deepspeed\s+(?:-|\S+\.py\b) | vllm\s+(?:serve|bench|chat|complete)\b
        | ray\s+(?:start|stop|job|up|down|status|submit)\b | uv\s+(?:run|sync|pip|venv|add|lock)\b
        | (?:pip[\d.]*|conda|mamba|micromamba|poetry|npm)\s+(?:install|add|activate|create|run|env)\b
        | apt(?:-get)?\s+(?:-\w+\s+)*(?:update|install)\b | git\s+(?:clone|checkout|config|lfs|pull|submodule)\b
        | (?:bash|sh|zsh)\s+(?:-\w|\S+\.sh\b) | docker\s+(?:run|build|compose|exec|pull)\b | nvidia-smi\b
        | (?:wget|curl)\s+(?:-|["']?http) | (?:huggingface-cli|hf)\s+\w | sleep\s+\d | mkdir\s+\S | ulimit\s+-
    )
    | export\s+[A-Za-z_]\w*(?:=|\s*$) | set\s+[-+][A-Za-z] | cd\s+\S+\s*(?:$|&&|;) | (?:source|\.)\s+\S*/ | echo\s+["'$]
    | if\s+(?:\[|!\s|command\s) | for\s+\w+\s+in\s | while\s+(?:\[|true\b|!\s|read\b)
    | \#!\s*\S*(?:\bbash|/sh|\benv\s+\w*sh)\b
    """,
    re.VERBOSE,
)
_MAX_LINE = 1000
"""So many characters of a line are looked at."""


def reads_as_commands(text: str) -> bool:
    """Whether the first line of a text that is no comment is plainly a command."""
    position = 0
    while position < len(text):
        end = text.find("\n", position)
        end = len(text) if end < 0 else end
        line = text[position : min(end, position + _MAX_LINE)].strip()
        if line and (line.startswith("#!") or not line.startswith("#")):
            return _STARTS.match(line) is not None
        position = end + 1
    return False
