"""The error a user can mend: one clear line, exit code 2, never a traceback."""

from __future__ import annotations


class UserError(Exception):
    """A request that cannot be carried out.

    The text says what is wrong, where, and what to do. The command line prints it
    as one line on stderr and exits with code 2.
    """
