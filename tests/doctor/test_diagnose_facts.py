"""errors.yaml is well formed, and the fast search can lose none of its messages."""

from __future__ import annotations

import re

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from precpatch.cli import main as cli_main
from precpatch.doctor.failures import SEVERITIES, VERIFIED, Failure, load_failures
from precpatch.doctor.shapes import shape

FAILURES = load_failures()
COMMANDS = [name for group in cli_main._COMMANDS.values() for name in group]

each_failure = pytest.mark.parametrize("failure", FAILURES, ids=lambda failure: failure.id)


def test_there_are_83_messages_and_their_echoes() -> None:
    assert sum(not failure.echo for failure in FAILURES) >= 83
    assert any(failure.echo for failure in FAILURES)


def test_ids_are_unique() -> None:
    assert len({failure.id for failure in FAILURES}) == len(FAILURES)


@each_failure
def test_an_entry_says_what_a_person_needs(failure: Failure) -> None:
    assert failure.severity in SEVERITIES
    assert failure.verified in VERIFIED
    assert failure.sources or VERIFIED[failure.verified] == "unverified"
    for text in (failure.cause, failure.fix, failure.software):
        assert text.strip()
        assert "as above" not in text


@each_failure
def test_the_regex_matches_its_example(failure: Failure) -> None:
    assert failure.regex.search(failure.example)


@each_failure
def test_the_command_is_one_of_precpatch(failure: Failure) -> None:
    command = failure.command("p40")
    if command is not None:
        name = re.fullmatch(r"precpatch (\w+) --target p40", command)
        assert name
        assert name[1] in COMMANDS


@each_failure
@settings(max_examples=30, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_every_match_holds_an_anchor(failure: Failure, data: st.DataObject) -> None:
    match = data.draw(st.from_regex(failure.regex, fullmatch=True))
    assert any(anchor in match for anchor in failure.anchors)


@each_failure
def test_anchors_are_long_enough_to_be_rare(failure: Failure) -> None:
    assert all(len(shape(anchor.encode())) >= 5 for anchor in failure.anchors)
