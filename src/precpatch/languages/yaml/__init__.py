"""The YAML reader."""

from precpatch.languages.yaml.reader import YamlLanguage
from precpatch.languages.yaml.walk import MAX_DEPTH

__all__ = ["MAX_DEPTH", "YamlLanguage"]
