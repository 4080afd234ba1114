"""The guard's import hooks beside those of the program that it watches."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

OTHER_HOOK = """
    import sys

    class Other:
        def find_spec(self, name, path=None, target=None):
            if name != "triton":
                return None
            for finder in sys.meta_path:
                if finder is not self:
                    spec = finder.find_spec(name, path, target)
                    if spec is not None:
                        return spec

    sys.meta_path.insert(0, Other())
    from precpatch_guard.imports import after_import

    after_import("triton", lambda module: print("after", module.WORD))
    import triton

    print("imported", triton.WORD)
"""


def test_another_hook_on_the_same_module(guard: Callable[..., object], tmp_path: Path) -> None:
    """Each hook asks all finders: none may ask the other for ever."""
    (tmp_path / "triton.py").write_text("WORD = 'here'")
    done = guard(OTHER_HOOK, "--target", "p40")
    assert (done.code, done.out) == (0, "after here\nimported here\n")
