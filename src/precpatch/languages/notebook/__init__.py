"""The notebook reader."""

from precpatch.languages.notebook.magics import MAX_MAGICS
from precpatch.languages.notebook.reader import NotebookLanguage

__all__ = ["MAX_MAGICS", "NotebookLanguage"]
