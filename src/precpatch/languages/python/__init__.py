"""The Python reader."""

from precpatch.languages.python.reader import PythonLanguage

__all__ = ["PythonLanguage"]
