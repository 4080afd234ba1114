"""The page for developers: the addition that it shows is all that a new word takes."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

from precpatch.languages import language_of
from precpatch.vocabulary.load import builtin_folder, load_vocabulary

PAGE = (Path(__file__).parents[1] / "CONTRIBUTING.md").read_text("utf-8")
NOTEBOOK = json.dumps({
    "cells": [{"cell_type": "code", "metadata": {}, "outputs": [], "source": "f(WORD=True)\n"}],
    "metadata": {}, "nbformat": 4, "nbformat_minor": 5,
})  # fmt: skip

FILES = {
    "literal.py": 'config = {"WORD": True}\n',
    "keyword.py": "run(WORD=True)\n",
    "dataclass.py": "class Config:\n    WORD: bool = True\n",
    "config.yaml": "model:\n  WORD: true\n",
    "arguments.json": '{"output_dir": "out", "learning_rate": 1e-6, "WORD": true}\n',
    "run.sh": "python3 -m train model.WORD=True\n",
    "book.ipynb": NOTEBOOK,
}


def test_the_word_of_the_example_is_found_in_every_reader(tmp_path: Path) -> None:
    shutil.copytree(builtin_folder(), tmp_path / "vocabulary")
    match = re.search(r"```diff\n(.*?)```", PAGE, re.DOTALL)
    assert match is not None
    subprocess.run(["git", "apply", "-p1", "-"], input=match[1].encode(), cwd=tmp_path, check=True)
    word = re.findall(r"^\+.*, (\w+)\]$", match[1], re.MULTILINE)[0]
    before, after = load_vocabulary(builtin_folder()), load_vocabulary(tmp_path / "vocabulary")
    for path, text in FILES.items():
        language = language_of(path)
        assert language is not None
        source = language.open(path, text.replace("WORD", word).encode())
        assert [each.key for each in language.read(source, after).mentions] == [word], path
        assert list(language.read(source, before).mentions) == [], path
