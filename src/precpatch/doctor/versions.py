"""Versions and version ranges as pip compares them, with two liberties: local labels and pre-releases do not count."""

from __future__ import annotations

from functools import cache

from packaging.specifiers import SpecifierSet
from packaging.version import InvalidVersion, Version


def version_of(text: str | None) -> Version | None:
    """The version that ``text`` spells; None where it spells none.

    A local label goes ("2.8.0+cu126" is 2.8.0), and a pre-release counts as the release that it leads to: NVIDIA's
    containers hold torch "2.6.0a0+df5bbc09d1.nv24.12", which has what 2.6 has.
    """
    try:
        version = Version(text or "")
    except InvalidVersion:
        return None
    return Version(version.base_version if version.is_prerelease else version.public)


def local_label(text: str) -> str | None:
    """ "cu126" of "2.8.0+cu126"."""
    return text.partition("+")[2] or None


def release_of(text: str) -> str | None:
    """ "2.8" of "2.8.1+cu126"; None where ``text`` is no version."""
    version = version_of(text)
    return f"{version.major}.{version.minor}" if version else None


def within(text: str | None, versions: str) -> bool:
    """Whether ``text`` is a version in the range ``versions``, such as ">=4.53.1,<5"."""
    version = version_of(text)
    return version is not None and _range(versions).contains(version, prereleases=True)


@cache
def _range(versions: str) -> SpecifierSet:
    return SpecifierSet(versions)
