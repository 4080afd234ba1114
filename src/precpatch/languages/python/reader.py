"""The Python reader: bytes -> Mentions with roles, and the edits that rewrite them.

Facts that a mention can carry, besides those of ``conditions``:
    ``other-device``: the file or the branch is for an NPU or another device that is not CUDA.
    ``table``, ``dict-value``, ``in-call``, ``collected``, ``alias``, ``returned``, ``parameter-default``: what stands
        around the value (see ``roles``); ``argv``: it follows an option such as "--dtype" in a list of arguments.
    ``override``: it is the value of a Hydra override ``a.b.dtype=bfloat16`` in a string.
    ``embedded``: it stands in a longer command inside a string.
    ``taken-float32``, ``taken-float16``: the file uses that name for something that is not torch's.
    ``unresolved``: a bare ``bfloat16`` from a star import or another module. ``promised``: the function or the file
        says bf16 by its name. ``bf16-operand``: inside the call of a kernel that says so. ``reinterpreted``: its bytes
        are read as integers. ``under-list``: a cast under ``if x.dtype not in (...)`` with its own dtype in the list.
    ``aliased``: ``from torch import bfloat16 as bf``. ``mixed-import`` (set by the engine): some uses must stay.
    ``demands``: the check fails for every other value. ``check``: the allowed values are enforced.
    ``cast-guard``: ``if x.dtype != torch.bfloat16`` right around a cast of x to it.
    ``cli-flag``: a string such as "--bf16". ``dynamic``: ``getattr(torch, name)`` with a name known at run time only.
"""

from __future__ import annotations

import ast
import re
import tokenize
from io import BytesIO

from precpatch.languages.base import ReadError
from precpatch.languages.mention import Mention, place
from precpatch.languages.python import branches, edit, switches
from precpatch.languages.python.find import Finder, Found
from precpatch.languages.python.links import Pairs, link, uses_of
from precpatch.languages.python.names import ImportedDtype
from precpatch.languages.python.tree import Tree, scope_of
from precpatch.languages.python.words import leftover_words
from precpatch.languages.source import SourceFile
from precpatch.languages.values import FLASH_VARIANT, attention_of, dtype_of, spell_dtype
from precpatch.patch.edits import Edit

_NEEDLES = (
    *(b"bf16", b"BF16", b"Bf16", b"float16", b"Float16", b"FLOAT16", b"fp16", b"FP16"),
    *(b"lash_att", b"LASH_ATT", b"kernels-community", b"getattr(torch", b"getattr(th"),
    *(b"import triton", b"from triton", b"transformer_engine", b"torch.compile", b"torch_compile", b"enable_compile"),
    *(b"remove_padding", b"AttnBackend", b"attn_type", b"moe_implementation", b"enforce_eager", b"tf32", b".backward("),
    *(b'dtype="auto"', b"dtype='auto'", b"mixed_precision=", b"VERL_DISABLE_FLASH_ATTN_CE", b"use_liger"),
    *(
        b"impl_backend",
        b"liger_kernel",
        b"microbatch_padding",
        b"logprob_backend",
        b"'fa2",
        b'"fa2',
        b"packing",
        b"padding_free",
        b"ulysses",
    ),
)


class PythonLanguage:
    """Reads and rewrites Python files; see ``languages.base.Language``."""

    name = "python"
    suffixes: tuple[str, ...] = (".py",)

    def open(self, path: str, data: bytes) -> SourceFile:
        """The file in the encoding that its byte order mark or its coding comment names.

        Raises:
            ReadError: it names an unknown encoding, is not text in it, or holds null bytes.
        """
        if b"\0" in data:
            raise ReadError("not text (null bytes), so left alone")
        try:
            encoding, _ = tokenize.detect_encoding(BytesIO(data).readline)
            bom = 3 if encoding == "utf-8-sig" else 0
            source = SourceFile(path, data, "utf-8" if bom else encoding, bom)
            source.text.encode(source.encoding)
        except UnicodeError as error:
            at = getattr(error, "start", 0)
            raise ReadError(f"not {encoding} text at byte {at}, and no coding comment, so left alone") from None
        except (SyntaxError, LookupError) as error:
            raise ReadError(f"{error}, so left alone") from None
        return source

    def mentions(self, data: bytes) -> bool:
        """Whether a word of interest stands in the bytes."""
        return any(needle in data for needle in _NEEDLES)

    def read(self, source: SourceFile, text: bool = False) -> list[Mention]:
        """Every mention; with ``text`` also the words in comments, docstrings and names."""
        finder = Finder(source)
        pairs = [(_mention(source, found), found) for found in finder.find()]
        mentions = [*link(finder, pairs), *_imports(finder, pairs)]
        if text:
            mentions += leftover_words(finder, mentions)
        return sorted(mentions, key=lambda mention: (mention.start, mention.end))

    def rewrite(self, source: SourceFile, mention: Mention, value: str) -> tuple[Edit, ...]:
        """The edit that makes the mention say ``value`` in its own spelling.

        Raises:
            ValueError: the value does not stand in one piece (a word split over two string literals).
        """
        if f"taken-{value}" in mention.facts:
            return ()
        if mention.kind == "switch" and value in {"float32", "float16"}:
            return switches.edits(source, mention, value)
        return (_edit(source, mention.start, mention.end, _rewritten(mention, value)),)

    def extend(self, source: SourceFile, mention: Mention, value: str) -> tuple[Edit, ...]:
        """Add ``value`` to the literal list, tuple or set that the mention stands in, or a branch to its converter."""
        if mention.role == "value":
            return branches.edits(source, mention, value)
        tree = Tree(source)
        for node, _ in tree.walk(frozenset({mention.line})):
            if not isinstance(node, (ast.List, ast.Tuple, ast.Set)):
                continue
            inside = [child for child in node.elts if source.offset(tree.start(child)) == mention.start]
            if inside:
                start, end = _outer(tree, node)
                text = source.text[start:end]
                new = edit.extend_container(text, mention.text, _rewritten(mention, value))
                return (_edit(source, source.offset(start), source.offset(end), new),)
        return ()

    def check(self, before: SourceFile, data: bytes) -> str | None:
        """Parse the changed file again."""
        try:
            Tree(self.open(before.path, data))
        except ReadError as error:
            return str(error)
        return None


def _outer(tree: Tree, node: ast.AST) -> tuple[int, int]:
    """The span of a container; a tuple's with its brackets where it has some."""
    return tree.start(node), tree.end(node)


def _edit(source: SourceFile, start: int, end: int, new: str) -> Edit:
    return Edit(source.path, start, source.data[start:end], new.encode(source.encoding))


def _rewritten(mention: Mention, value: str) -> str:
    """The source text of a mention that says ``value``."""
    if "mixed-import" in mention.facts:
        return f"{mention.text}, {value}"
    if mention.kind == "import":
        return edit.replace_module(mention.text, value)
    if mention.role == "import":
        old = mention.text.split()[0]
        return edit.replace_import(mention.text, old, value)
    if mention.spelling == "torch":
        return edit.replace_name(mention.text, value)
    if mention.spelling == "method":
        return edit.replace_method(mention.text, spell_dtype(value, "method"))
    if mention.kind == "switch" and mention.text in {"True", "False"}:
        return edit.replace_literal(mention.text, value.capitalize())
    word = _word_in(mention)
    new = spell_dtype(value, mention.spelling, word) if mention.kind == "dtype" else value
    return edit.replace_in_string(mention.text, word, new)


def _word_in(mention: Mention) -> str:
    """The word in the mention's string that names its value, as it is written there."""
    if mention.kind == "attention":
        names = re.findall(rf"{FLASH_VARIANT}|flash_attention_[234]", mention.text, re.IGNORECASE)
        return next((name for name in reversed(names) if attention_of(name) == mention.value), mention.value)
    if mention.kind != "dtype":
        return mention.value
    found = re.findall(r"(?:torch\.)?[A-Za-z]*\d+(?:-[a-z]+)?", mention.text)
    return next(
        (word for word in reversed(found) if dtype_of(word) == (mention.value, mention.spelling)), mention.value
    )


def _mention(source: SourceFile, found: Found) -> Mention:
    role = found.role
    return Mention(
        language="python",
        kind=found.kind,
        value=found.value,
        spelling=found.spelling,
        role=role.name,
        key=role.key,
        key_path=role.key_path,
        callee=role.callee,
        scope=scope_of(found.ancestors),
        facts=frozenset(role.facts),
        allowed=role.allowed,
        **place(source, found.start, found.end),
    )


def _imports(finder: Finder, pairs: Pairs) -> list[Mention]:
    """``from torch import bfloat16 [as bf]``: one mention an import, tied to the uses of the name."""
    return [
        _import(finder, imported, uses_of(imported, pairs))
        for imported in finder.names.dtypes.values()
        if imported.value == "bfloat16"
    ]


def _import(finder: Finder, imported: ImportedDtype, uses: tuple[int, ...]) -> Mention:
    facts = {"aliased"} if imported.alias.asname else set()
    if finder.other_device:
        facts.add("other-device")
    facts |= {f"taken-{name}" for name in ("float32", "float16") if finder.names.is_taken(name)}
    return Mention(
        language="python",
        kind="dtype",
        value=imported.value,
        spelling="torch",
        role="import",
        key=imported.local,
        facts=frozenset(facts),
        follows=uses,
        **place(finder.source, finder.tree.start(imported.alias), finder.tree.end(imported.alias)),
    )
