"""Edits, their composition, and what is refused."""

from __future__ import annotations

import hashlib
from dataclasses import FrozenInstanceError

import pytest

from precpatch.errors import UserError
from precpatch.patch.edits import Edit, NewFile, OverlapError, PatchSet, StaleEdit

TEXT = b"one two three two"


def patch_set(*edits: Edit, **files: bytes) -> PatchSet:
    return PatchSet.of(edits, (files or {"a": TEXT}).__getitem__)


def test_empty_is_false_and_changes_nothing() -> None:
    assert not PatchSet()
    assert PatchSet() == PatchSet.of([], lambda path: b"")
    assert PatchSet().paths == ()
    assert PatchSet().apply_to("a", TEXT) == TEXT


def test_edits_are_grouped_by_path_and_ordered_by_position() -> None:
    first, second, other = Edit("a", 0, b"one", b"1"), Edit("a", 4, b"two", b"2"), Edit("b", 0, b"x", b"y")
    patches = patch_set(other, second, first, a=TEXT, b=b"x")
    assert patches.paths == ("a", "b")
    assert patches.edits == (first, second, other)
    assert patches.apply_to("a", TEXT) == b"1 2 three two"
    assert patches.files[0].sha256 == hashlib.sha256(TEXT).hexdigest()
    assert patches.files[0].apply_to(TEXT) == b"1 2 three two"


def test_the_same_edit_twice_counts_once() -> None:
    edit = Edit("a", 4, b"two", b"2")
    assert patch_set(edit, Edit("a", 4, b"two", b"2")).edits == (edit,)


def test_edits_that_change_nothing_are_dropped() -> None:
    assert not patch_set(Edit("a", 4, b"two", b"two"))
    assert not patch_set(Edit("a", 0, b"x", b""), Edit("a", 2, b"", b"x"), a=b"xx")


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (Edit("a", 4, b"two", b"2"), Edit("a", 4, b"two", b"zwei")),
        (Edit("a", 0, b"one two", b"1"), Edit("a", 4, b"two", b"2")),
        (Edit("a", 4, b"two", b"2"), Edit("a", 5, b"", b"!")),
        (Edit("a", 4, b"", b"1"), Edit("a", 4, b"", b"2")),
    ],
)
def test_different_edits_of_the_same_bytes_are_an_error_that_names_both(first: Edit, second: Edit) -> None:
    with pytest.raises(OverlapError) as caught:
        patch_set(second, first)
    assert {caught.value.first, caught.value.second} == {first, second}
    assert str(first) in str(caught.value)
    assert str(second) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_edits_that_only_touch_are_fine() -> None:
    patches = patch_set(Edit("a", 0, b"one", b"1"), Edit("a", 3, b"", b"+"), Edit("a", 3, b" ", b"_"))
    assert patches.apply_to("a", TEXT) == b"1+_two three two"


@pytest.mark.parametrize("edit", [Edit("a", 5, b"two", b"2"), Edit("a", -3, b"two", b"2"), Edit("a", 99, b"", b"2")])
def test_bytes_that_are_not_there_are_an_error(edit: Edit) -> None:
    with pytest.raises(StaleEdit, match="a: changed since it was read") as caught:
        patch_set(edit)
    assert caught.value.edit == edit
    assert isinstance(caught.value, UserError)


def test_other_bytes_than_those_of_the_plan_are_an_error() -> None:
    with pytest.raises(StaleEdit):
        patch_set(Edit("a", 4, b"two", b"2")).apply_to("a", b"one TWO three two")


def test_a_patch_set_cannot_be_changed() -> None:
    with pytest.raises(FrozenInstanceError):
        PatchSet().files = ()  # type: ignore[misc]


def test_new_files_are_part_of_the_set() -> None:
    new, empty, edit = NewFile("b/new", b"data"), NewFile("0", b""), Edit("a", 0, b"one", b"1")
    patches = PatchSet.of([edit], {"a": TEXT}.__getitem__, [new, empty, NewFile("b/new", b"data")])
    assert patches.paths == ("0", "a", "b/new")
    assert patches.new_files == (empty, new)
    assert [patch.sha256 is None for patch in patches.files] == [True, False, True]
    assert patches.apply_to("b/new", None) == b"data"
    assert patches.apply_to("b/new", b"data") == b"data"
    assert patches.apply_to("0", None) == b""
    assert patches.apply_to("none", None) is None
    assert PatchSet.of([], lambda path: b"", [empty])


@pytest.mark.parametrize(
    ("edits", "new_files"),
    [
        ([], [NewFile("a", b"1"), NewFile("a", b"2")]),
        ([Edit("a", 4, b"two", b"2")], [NewFile("a", b"1")]),
    ],
)
def test_a_new_file_has_its_path_for_itself(edits: list[Edit], new_files: list[NewFile]) -> None:
    with pytest.raises(OverlapError, match="a: two changes claim the whole file: new file '1'; and ") as caught:
        PatchSet.of(edits, {"a": TEXT}.__getitem__, new_files)
    assert "\n" not in str(caught.value)


def test_a_file_that_came_or_went_since_is_an_error() -> None:
    edit, new = Edit("a", 4, b"two", b"2"), NewFile("b", b"")
    patches = PatchSet.of([edit], {"a": TEXT}.__getitem__, [new])
    with pytest.raises(StaleEdit, match="b: changed since it was read") as caught:
        patches.apply_to("b", b"other")
    assert caught.value.edit == new
    with pytest.raises(StaleEdit, match="a: changed since it was read") as caught:
        patches.apply_to("a", None)
    assert caught.value.edit == edit
