"""The short form of the fuzzing: built files, seeds, and what was found before; the long one is ``fuzz.py``."""

from __future__ import annotations

from pathlib import Path

import pytest
from built import FILES
from hypothesis import given, settings
from hypothesis import strategies as st
from properties import TARGETS, check
from seeds import corpus, seeds

SEEDS = seeds()


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("suffix", FILES)
@settings(max_examples=60)
@given(data=st.data())
def test_every_property_holds_for_built_files(suffix: str, target: str, data: st.DataObject) -> None:
    check(f"file{suffix}", data.draw(FILES[suffix]), target)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("suffix", FILES)
def test_every_property_holds_for_the_seeds(suffix: str, target: str) -> None:
    for data in SEEDS[suffix]:
        check(f"file{suffix}", data, target)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("path", corpus(), ids=lambda path: path.name)
def test_what_was_found_stays_mended(path: Path, target: str) -> None:
    check(f"file{path.suffix}", path.read_bytes(), target)
