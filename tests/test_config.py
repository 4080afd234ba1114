"""Where settings come from, and what is said about wrong ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from precpatch.config import Settings, load_settings
from precpatch.errors import UserError


def put(folder: Path, name: str, text: str) -> Path:
    file = folder / name
    file.write_text(text, encoding="utf-8")
    return file


def test_no_file_and_no_option_gives_the_defaults(tmp_path: Path) -> None:
    assert load_settings(tmp_path, {}) == Settings()


def test_pyproject(tmp_path: Path) -> None:
    put(tmp_path, "pyproject.toml", '[project]\nname = "x"\n[tool.precpatch]\ntarget = "p40"\nexclude = ["tests/*"]\n')
    assert load_settings(tmp_path, {}) == Settings(target="p40", exclude=("tests/*",))


def test_precpatch_toml_wins_over_pyproject(tmp_path: Path) -> None:
    put(tmp_path, "pyproject.toml", '[tool.precpatch]\ntarget = "p40"\nunsafe = true\n')
    put(tmp_path, "precpatch.toml", 'target = "t4"\n')
    assert load_settings(tmp_path, {}) == Settings(target="t4")


def test_the_command_line_wins_over_a_file(tmp_path: Path) -> None:
    put(tmp_path, "precpatch.toml", 'target = "t4"\ndtype = "float16"\nselect = ["a"]\n')
    settings = load_settings(tmp_path, {"target": "p40", "dtype": None, "select": ("b", "c")})
    assert settings == Settings(target="p40", dtype="float16", select=("b", "c"))


def test_a_named_file_takes_the_place_of_the_others(tmp_path: Path) -> None:
    put(tmp_path, "precpatch.toml", 'target = "t4"\n')
    (tmp_path / "conf").mkdir()
    named = put(tmp_path / "conf", "other.toml", 'attention = "sdpa"\nrules = ["mine", "/abs"]\n')
    settings = load_settings(tmp_path, {}, named)
    assert settings == Settings(attention="sdpa", rules=(tmp_path / "conf/mine", Path("/abs")))


@pytest.mark.parametrize("name", ["precpatch.toml", "pyproject.toml"])
def test_a_byte_order_mark_is_no_error(tmp_path: Path, name: str) -> None:
    head = "" if name == "precpatch.toml" else "[tool.precpatch]\n"
    (tmp_path / name).write_bytes(b"\xef\xbb\xbf" + f'{head}target = "p40"\n'.encode())
    assert load_settings(tmp_path, {}).target == "p40"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('traget = "p40"', ["unknown key 'traget'", "Did you mean 'target'?"]),
        ("target = 40", ["'target' must be a string, not 40"]),
        ('unsafe = "yes"', ["'unsafe' must be true or false, not 'yes'"]),
        ('select = "a"', ["'select' must be a list of strings, not 'a'"]),
        ("rules = [1]", ["'rules' must be a list of strings"]),
        ('dtype = "flaot16"', ["dtype: 'flaot16' is not one of auto, float32, float16", "Did you mean 'float16'?"]),
        ('attention = "flash"', ["attention: 'flash' is not one of auto, eager, sdpa"]),
        ('a = 1\ntarget = = "p40"', ["not valid TOML", "line 2, column 10"]),
    ],
)
def test_a_wrong_file_is_named_with_what_is_wrong(tmp_path: Path, text: str, told: list[str]) -> None:
    file = put(tmp_path, "precpatch.toml", text)
    with pytest.raises(UserError) as caught:
        load_settings(tmp_path, {})
    for words in [str(file), *told]:
        assert words in str(caught.value)


def test_a_file_that_is_not_text_is_named_with_the_place(tmp_path: Path) -> None:
    (tmp_path / "precpatch.toml").write_bytes(b'target = "p40"\n# caf\xe9\n')
    with pytest.raises(UserError, match=r"precpatch\.toml: not UTF-8 text \(at line 2, column 6\)"):
        load_settings(tmp_path, {})


def test_a_named_file_must_be_there(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"none\.toml: cannot read the settings: No such file"):
        load_settings(tmp_path, {}, tmp_path / "none.toml")


def test_the_table_in_pyproject_must_be_a_table(tmp_path: Path) -> None:
    put(tmp_path, "pyproject.toml", '[tool]\nprecpatch = "p40"\n')
    with pytest.raises(UserError, match="must be a table"):
        load_settings(tmp_path, {})


def test_a_broken_pyproject_that_says_nothing_of_precpatch_stops_nobody(tmp_path: Path) -> None:
    put(tmp_path, "pyproject.toml", "[project\n")
    assert load_settings(tmp_path, {}) == Settings()


def test_the_settings_of_the_checkout_hold_in_its_folders(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / "precpatch.toml").write_text('target = "t4"\n')
    inner = tmp_path / "verl" / "trainer"
    inner.mkdir(parents=True)
    assert load_settings(inner, {}).target == "t4"
    (inner / "precpatch.toml").write_text('target = "p40"\n')
    assert load_settings(inner, {}).target == "p40"


def test_settings_above_the_checkout_do_not_count(tmp_path: Path) -> None:
    (tmp_path / "precpatch.toml").write_text('target = "t4"\n')
    (tmp_path / "checkout" / ".git").mkdir(parents=True)
    assert load_settings(tmp_path / "checkout", {}).target == "auto"
