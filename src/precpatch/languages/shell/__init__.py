"""The shell reader."""

from precpatch.languages.shell.reader import ShellLanguage

__all__ = ["ShellLanguage"]
