"""The JSON reader, and what notebooks need of it: the encoding of a JSON file and its objects with their places."""

from precpatch.languages.json.encoding import JsonBytes, open_json
from precpatch.languages.json.reader import JsonLanguage
from precpatch.languages.json.tree import MAX_DEPTH, MAX_PATH, Box, Member, Scalar, parse

__all__ = [
    "MAX_DEPTH",
    "MAX_PATH",
    "Box",
    "JsonBytes",
    "JsonLanguage",
    "Member",
    "Scalar",
    "open_json",
    "parse",
]
