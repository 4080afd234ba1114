"""Modules that precpatch adds to a checkout where it has no path of its own without a package the card cannot use."""
