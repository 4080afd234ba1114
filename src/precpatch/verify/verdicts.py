"""What a failed import means: a defect of the checkout, or a package that this target or environment has not got."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

from precpatch.verify.modules import Module, Modules
from precpatch.verify.outcome import Problem

FLASH_ATTN = "flash_attn"

DOES_NOT_RUN = ", which does not run on "
_BLOCKED = " (blocked by precpatch guard)"
_WORD = re.compile(r"\w+")
_NO_GPU = re.compile("not compiled with CUDA|No CUDA GPUs|no NVIDIA driver|no CUDA-capable device")
_BUGS = frozenset({"AttributeError", "NameError", "SyntaxError", "TypeError"})


@dataclass(frozen=True)
class Verdict:
    """Why a module does not import.

    Attributes:
        problem: where, and the error.
        needs: the package that is not there or does not work here; "" where the checkout itself is at fault.
    """

    problem: Problem
    needs: str = ""

    @property
    def is_there(self) -> bool:
        """The package that it needs is installed, and does not work or is another release."""
        return self.needs.startswith(("a working ", "another "))


@dataclass(frozen=True)
class Judge:
    """Says what failures mean.

    Attributes:
        modules: the checkout.
        card: the target's name.
        absent: packages that the target does not run or that are not installed.
        has_flash: the target runs FlashAttention-2, so that needing flash_attn is no defect.
    """

    modules: Modules
    card: str
    absent: frozenset[str]
    has_flash: bool

    def judge(self, module: Module | None, answer: Mapping[str, Any]) -> Verdict | None:
        """The verdict on an answer; None where it tells of no failure."""
        path = module.path if module else ""
        if "crash" in answer:
            return Verdict(self._problem(path, answer["frames"], answer["crash"]))
        if answer.get("other"):
            where = PurePosixPath(answer["other"]).as_posix()
            return Verdict(Problem(path, 0, f"the environment imports {where} in its place"))
        failure = answer.get("failure")
        if failure is None:
            return None
        needs = self._needs(failure)
        return Verdict(self._problem(path, failure["frames"], self._text(failure)), needs)

    def _problem(self, path: str, frames: Sequence[Sequence[Any]], text: str) -> Problem:
        """The error at the innermost place in the checkout."""
        place, line = frames[0] if frames else (path, 0)
        return Problem(PurePosixPath(place).as_posix(), int(line), text)

    def _text(self, failure: Mapping[str, Any]) -> str:
        text = str(failure["text"])
        if _BLOCKED in text:
            return text.replace(_BLOCKED, "") + f"{DOES_NOT_RUN}{self.card}"
        return text

    def _needs(self, failure: Mapping[str, Any]) -> str:
        """The foreign package without which the import cannot work; "" where the checkout is at fault."""
        imported = self._imported_at(failure["frames"])
        missing = _top(failure["missing"])
        if FLASH_ATTN in {*imported, missing} and not self.has_flash and not imported - {FLASH_ATTN}:
            return ""
        if missing and not self.modules.owns(missing):
            is_module = "ModuleNotFoundError" in failure["type"]
            return missing if is_module else f"another {missing}"
        foreign = sorted(name for name in imported if not self.modules.owns(name))
        if foreign:
            return f"a working {foreign[0]}"
        if _NO_GPU.search(failure["text"]):
            return "a GPU"
        if failure["asked"] and "NoneType" in failure["text"]:  # it went on with no version
            return str(failure["asked"][0])
        if not _BUGS.isdisjoint(failure["type"]):
            return ""
        behind = [_top(name) for name in failure["behind"] if not self.modules.owns(name)]
        said = [word for word in map(str.lower, _WORD.findall(failure["text"])) if word in self.absent]
        named = behind or (said if self._raises_at(failure["frames"]) else [])
        return named[0] if named and (FLASH_ATTN not in named or self.has_flash) else ""

    def _raises_at(self, frames: Sequence[Sequence[Any]]) -> bool:
        """Whether the innermost line of the checkout is a ``raise``."""
        return any(isinstance(node, ast.Raise) for node in self._nodes_at(frames))

    def _imported_at(self, frames: Sequence[Sequence[Any]]) -> set[str]:
        """The packages that the innermost line of the checkout imports; none where it does something else."""
        imports = [node for node in self._nodes_at(frames) if isinstance(node, (ast.Import, ast.ImportFrom))]
        return set[str]().union(*map(_packages, imports))

    def _nodes_at(self, frames: Sequence[Sequence[Any]]) -> list[ast.stmt]:
        """The statements that stand at the innermost line of the checkout."""
        module = self.modules.by_path.get(PurePosixPath(frames[0][0]).as_posix()) if frames else None
        return self.modules.statements(module, int(frames[0][1])) if module else []


def _packages(node: ast.Import | ast.ImportFrom) -> set[str]:
    if isinstance(node, ast.Import):
        return {_top(alias.name) for alias in node.names}
    return set() if node.level else {_top(node.module or "")}


def _top(name: str) -> str:
    return name.partition(".")[0]
