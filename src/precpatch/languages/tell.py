"""The teller: it names what a reader found, by the vocabulary of the run. Every reader's sites go through here."""

from __future__ import annotations

from dataclasses import dataclass

from precpatch.languages import site as forms
from precpatch.languages.mention import Mention, place
from precpatch.languages.site import Site
from precpatch.languages.source import SourceFile
from precpatch.languages.spell import truth
from precpatch.vocabulary import Setting, Vocabulary
from precpatch.vocabulary.words import ANY, ATTENTION, BOOLEAN, DTYPE, NUMBER

_CHOOSES = frozenset({"value", "switch", "interpolation-default"})
"""The roles in which a switch is told: everywhere else it is only spoken of."""


@dataclass(frozen=True, slots=True)
class Name:
    """What a word says: its kind, canonical value and spelling, and the key of its setting where that is qualified."""

    kind: str
    value: str
    spelling: str = "name"
    key: str | None = None


class Teller:
    """Names the sites of one file.

    Attributes:
        language: the reader whose sites these are.
        quiet: whether values that need nothing (float32, eager) are told as well.
        keyed: whether a name only counts under the key of a setting that takes it.
    """

    def __init__(
        self, source: SourceFile, vocabulary: Vocabulary, language: str, *, quiet: bool = False, keyed: bool = False
    ) -> None:
        self.source = source
        self.vocabulary = vocabulary
        self.language = language
        self.quiet = quiet
        self.keyed = keyed

    def tell(self, site: Site) -> Mention | None:
        """The mention of a site that says something in the vocabulary."""
        name = self.name(site)
        return self.mention(site, name) if name is not None else None

    def mention(self, site: Site, name: Name) -> Mention:
        """The mention of a site that says ``name``."""
        role = "switch" if name.kind == "switch" and site.role == "value" else site.role
        return Mention(
            language=self.language,
            kind=name.kind,
            value=name.value,
            spelling=name.spelling,
            role=role,
            key=name.key or site.key,
            key_path=site.key_path,
            callee=site.callee,
            scope=site.scope,
            facts=site.facts,
            allowed=site.allowed,
            used_by=site.used_by,
            setup=site.setup,
            **place(self.source, site.start, site.end),
        )

    def name(self, site: Site) -> Name | None:
        """What a site says; nothing where a switch is only spoken of."""
        name = self._name(site)
        return None if name is not None and name.kind == "switch" and site.role not in _CHOOSES else name

    def _name(self, site: Site) -> Name | None:
        if site.form in (forms.TEXT, forms.BOOLEAN, forms.NUMBER):
            return self._value(site) or self._switch(site)
        if site.form == forms.OBJECT:
            return Name("dtype", site.word, "torch")
        if site.form == forms.TYPE:
            dtype = self.vocabulary.dtype_of(site.word)
            return Name("dtype", *dtype) if dtype is not None else None
        if site.form == forms.METHOD:
            return Name("dtype", site.word, "method")
        if site.form == forms.MODULE:
            return Name("import", site.word) if self.vocabulary.package_of(site.word) else None
        if site.form == forms.REQUIREMENT:
            package = self.vocabulary.installed(site.word)
            return Name("import", package.name) if package else None
        if site.form == forms.CALL:
            return Name("switch", site.word, key=site.word)
        if site.form == forms.START:
            return Name("switch", site.word)
        if site.form == forms.CHOICE:
            return self._switch(site)
        setting = self.setting(site)
        if setting is None or not (site.word or setting.unresolved or "given" in site.facts):
            return None
        return Name("switch", site.word or "variable", key=setting.name if "." in setting.name else None)

    def setting(self, site: Site) -> Setting | None:
        """The setting that a site is for."""
        return self.vocabulary.setting(site.key, site.above)

    def _value(self, site: Site) -> Name | None:
        """The dtype or the attention implementation that a text names."""
        if site.form != forms.TEXT:
            return None
        dtype = self.vocabulary.dtype_of(site.word)
        if dtype is not None and dtype[0] == "auto":  # hands the choice to the model's config, under this key only
            loads = site.key == "dtype" and (site.callee or "").endswith(".from_pretrained")
            return Name("dtype", *dtype) if loads or site.key == "torch_dtype" else None
        if dtype is not None and (self.quiet or dtype[0] not in self.vocabulary.quiet) and self._counts(site, DTYPE):
            return Name("dtype", *dtype)
        attention = self.vocabulary.attention_of(site.word) if dtype is None else None
        if attention is None or (attention in self.vocabulary.quiet and not self.quiet):
            return None
        return Name("attention", attention) if self._counts(site, ATTENTION) else None

    def _counts(self, site: Site, takes: str) -> bool:
        """Whether a name in this place is one: an ordinary word only under a key that takes such names, in a config."""
        is_ordinary = site.word.lower() in self.vocabulary.ordinary
        if not self.keyed and not is_ordinary:
            return True
        if is_ordinary and not self.quiet:
            return False
        setting = self.setting(site)
        return setting is not None and takes in setting.takes

    def _switch(self, site: Site) -> Name | None:
        """What a value says of the setting that it stands under."""
        setting = self.setting(site)
        if setting is None:
            return None
        key = setting.name if "." in setting.name else site.key
        if site.form == forms.BOOLEAN and BOOLEAN in setting.takes:
            return Name("switch", truth(site.word), key=key)
        if setting.tells(NUMBER if site.form == forms.NUMBER else site.form, site.word):
            return Name("switch", site.word.lower(), key=key)
        if ANY in setting.takes and "variable" in site.facts and "$" not in site.word:
            return Name("switch", site.word, key=key)
        return None
