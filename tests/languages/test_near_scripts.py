"""Files that are near to a script: Dockerfiles, Makefiles and files of variables; and scripts without a suffix."""

from __future__ import annotations

import pytest
from patched import Outcome, once, policy

from precpatch.engine.finding import UNSAFE
from precpatch.session import file_findings

DOCKERFILE = """\
# ENV TORCH_DTYPE=bfloat16
ARG WANTED=bfloat16
FROM base AS bf16
LABEL name="dtype=bfloat16"
ENV A=1 \\
    # TORCH_DTYPE=bfloat16
    TORCH_DTYPE="bfloat16" \\
    RUN_NAME=run-bf16
ENV ATTN_IMPLEMENTATION flash_attention_2
RUN --mount=type=cache,target=/cache pip install \\
    # flash-attn is not wanted
    einops \\

    flash-attn
RUN pip uninstall -y flash-attn
RUN <<EOF
python t.py --dtype bfloat16
EOF
RUN cat > /c.yaml <<'DONE'
dtype: bfloat16
DONE
RUN ["python", "-c", "import torch; torch.zeros(1, dtype=torch.bfloat16)"]
HEALTHCHECK --interval=5s CMD python t.py --dtype bfloat16
ENTRYPOINT vllm serve m --dtype2 $WANTED --dtype $WANTED
CMD ["--say", "it's \\"x\\"", "--dtype", "bfloat16", "--kv-cache-dtype=fp8"]
"""

MAKEFILE = """\
# WANTED = bfloat16
WANTED ?= bfloat16
ATTN := flash_attention_2# chosen
NAME = run-bf16
ifeq ($(WANTED),bfloat16)
endif
train: data
\t@echo dtype=bfloat16
\t-python t.py dtype=$(WANTED) \\
\t\tattn_implementation=${ATTN} --name $(NAME)
\tfor i in a b; do python t.py --dtype bfloat16 --i $$i; done
"""

VARIABLES = """\
# TORCH_DTYPE=bfloat16
TORCH_DTYPE="bfloat16" # why
export ATTN_IMPLEMENTATION = flash_attention_2 # why
NAME=run-bf16
EMPTY=
"""


def reviewed(path: str, data: bytes) -> dict[int, str | None]:
    """Line -> what a person is asked to write there."""
    findings = file_findings(path, data, policy())
    return {each.mention.line: each.after for each in findings if each.verdict == UNSAFE}


PLACES = {
    "docker/Dockerfile": (DOCKERFILE, [2, 7, 9, 17, 20, 22, 23, 25]),
    "Dockerfile.base": (DOCKERFILE, [2, 7, 9, 17, 20, 22, 23, 25]),
    "train.dockerfile": (DOCKERFILE, [2, 7, 9, 17, 20, 22, 23, 25]),
    "Makefile": (MAKEFILE, [2, 3, 11]),
    "more/rules.mk": (MAKEFILE, [2, 3, 11]),
    ".env": (VARIABLES, [2, 3]),
    "prod.env": (VARIABLES, [2, 3]),
    ".env.example": (VARIABLES, [2, 3]),
}


@pytest.mark.parametrize("end", ["\n", "\r\n"], ids=["lf", "crlf"])
@pytest.mark.parametrize("path", PLACES)
def test_every_place_is_told_and_its_fix_is_for_review(path: str, end: str) -> None:
    text, wanted = PLACES[path]
    data = f"# é 🙂{end}".encode() + text.replace("\n", end).encode()
    assert sorted(reviewed(path, data)) == [line + 1 for line in wanted]
    assert once(path, data).data == data


def test_what_is_not_rewritten_is_reported_too() -> None:
    others = [each for each in reports("Dockerfile", DOCKERFILE) if each[1] in ("flash-attn-install", "fp8")]
    assert others == [(14, "flash-attn-install"), (25, "fp8")]


def reports(path: str, text: str) -> list[tuple[int, str]]:
    outcome: Outcome = once(path, text.encode())
    return outcome.reports


def test_a_variable_is_told_with_the_settings_that_take_it() -> None:
    assert once("Dockerfile", DOCKERFILE.encode()).used_by[2] == ("dtype",)
    assert once("Makefile", MAKEFILE.encode()).used_by[3] == ("attn_implementation",)


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("Dockerfile", "RUN"),
        ("Dockerfile", "RUN <<EOF\nno end --dtype bfloat16"),
        ("Dockerfile", "RUN \\\n# only\n"),
        ("Dockerfile", 'CMD ["--dtype", "bfloat16\n'),
        ("Makefile", "\t\n=\nX=\n\tpython t.py --dtype bfloat16 \\"),
        (".env", "=bfloat16\nX='bfloat16\n\n"),
    ],
)
def test_odd_files_are_read(path: str, text: str) -> None:
    assert once(path, text.encode()).text == text


def test_what_a_later_build_runs_is_read() -> None:
    assert reviewed("Dockerfile", b"FROM x\nONBUILD RUN python t.py --dtype bfloat16\n") == {2: "float32"}
