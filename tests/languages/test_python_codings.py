"""Coding comments: what each codec of Python does to a file that names it, truly or not."""

from __future__ import annotations

from encodings.aliases import aliases

import pytest

from precpatch.config import Settings
from precpatch.engine.finding import REWRITE
from precpatch.gpu.resolve import resolve_target
from precpatch.languages.source import ReadError
from precpatch.patch.edits import PatchSet
from precpatch.session import file_findings, policy_for

POLICY = policy_for(Settings(), resolve_target("p40"), show_text=True)
CODECS = sorted({*aliases.values(), "idna", "punycode", "undefined", "raw_unicode_escape", "unicode_escape", "no_such"})
TEXTS = ["", "naïve", "中文", "日本", "привет", "+AGI-", "~{", "\\u0041 \\N{DASH}"]


def coded(codec: str, text: str) -> bytes:
    """A file that names the codec, in that codec where it can be, else in UTF-8."""
    head = f"# -*- coding: {codec} -*-\n# {text}\nimport torch\n"
    code = f"{head}x = f('{text}', dtype=     torch.bfloat16)\ny = 1 # {text}\n"
    try:
        return code.encode(codec)
    except (LookupError, ValueError, TypeError, RuntimeError):
        return code.encode()


@pytest.mark.parametrize("codec", CODECS)
def test_each_codec_is_read_right_or_refused(codec: str) -> None:
    wrong = [coded("utf-8", text).replace(b"utf-8", codec.encode()) for text in TEXTS]
    for data in (*(coded(codec, text) for text in TEXTS), *wrong):
        try:
            found = file_findings("m.py", data, POLICY)
        except ReadError:
            continue
        edits = [edit for each in found if each.verdict == REWRITE for edit in each.edits]
        after = PatchSet.of(edits, lambda _, data=data: data).apply_to("m.py", data) if edits else data
        assert after in (data, data.replace(b"dtype=     torch.bfloat16", b"dtype=     torch.float32"))
