"""Names of Python code that nothing gives a value to: what a rewrite without its import leaves."""

from __future__ import annotations

import symtable
import warnings


def unbound(code: bytes | str) -> set[str]:
    """The names that are read somewhere and given a value nowhere that is seen from there."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            top = symtable.symtable(code, "m.py", "exec")
        except (SyntaxError, ValueError):
            return set()
    known = {each.get_name() for each in top.get_symbols() if each.is_assigned() or each.is_imported()}
    missing, tables = set(), [top]
    while tables:
        table = tables.pop()
        tables += table.get_children()
        for each in table.get_symbols():
            if each.is_referenced() and (table is top or each.is_global()) and each.get_name() not in known:
                missing.add(each.get_name())
    return missing
