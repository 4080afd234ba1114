"""Finding what needs a kernel that the card may not have: imports, torch.compile, patched attention, backward passes.

Facts: ``guarded`` (an import that may fail), ``lazy`` (inside a function), ``padding`` (flash_attn.bert_padding, which
is pure PyTorch), ``gated`` (torch.compile behind a switch of its own), ``patches-attention`` (replaces the forward of
an attention layer), ``no-scaler`` (a backward pass in a file that knows no gradient scaler), ``class-default``.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from precpatch.languages.python.roles import Climb, Role
from precpatch.languages.python.tree import FUNCTIONS, Ancestors, Tree, dotted, last_name, string
from precpatch.languages.settings import NAMED_SWITCHES, NUMBER_KEYS, SWITCH_KEYS

if TYPE_CHECKING:
    from precpatch.languages.python.find import Finder, Found

WORDS = (
    r"import triton|from triton|transformer_engine|liger_kernel|torch\.compile|torch_compile|enable_compile|"
    r"remove_padding|AttnBackend|attn_type|moe_implementation|enforce_eager|tf32|\.backward\(|dtype=.auto|"
    r"mixed_precision|packing|padding_free|ulysses|VERL_DISABLE_FLASH_ATTN_CE|liger_kernel|use_liger|impl_backend|"
    r"microbatch_padding|fused_kernel_backend|logprob_backend|[\"']fa[234][\"']"
)
"""Lines and files with any of these are read as well."""

_PACKAGES = re.compile(r"(?:^|.*\.)(flash_attn|triton|transformer_engine|liger_kernel)(?:\.|$)")
_IMPORT = re.compile(r"\bimport\b")
_IMPORT_ERRORS = frozenset({"ImportError", "ModuleNotFoundError", "Exception", "BaseException"})
_AVAILABLE = re.compile(r"(?i)flash|fa[23]?_|_available|has_|have_|installed")
_DEVICE_ASKED = re.compile(r"(?i)is_(?:torch_)?(?:cuda|npu|xpu)_available|cuda\.is_available|device_name")
_PADDING = "flash_attn.bert_padding"


def imports(finder: Finder, node: ast.AST, ancestors: Ancestors) -> Iterator[Found]:
    """``import triton``, ``from flash_attn.bert_padding import unpad_input`` and the like."""
    if isinstance(node, ast.Import):
        modules, names = [alias.name for alias in node.names], []
    elif isinstance(node, ast.ImportFrom) and not node.level:
        modules, names = [node.module or ""], [alias.name for alias in node.names]
    else:
        return
    for module in modules:
        match = _PACKAGES.match(module)
        if match:
            role = Role("import", key=",".join(names) or None, facts=_import_facts(ancestors))
            if module == _PADDING and isinstance(node, ast.ImportFrom):
                role.facts.add("padding")
            yield finder.found_as("import", module, node, ancestors, role)


def imports_in(tree: Tree) -> Iterator[tuple[str, set[str]]]:
    """Every import of a package of interest in a file: the module and the facts about the place."""
    for node, ancestors in tree.walk(tree.source.lines_with(_IMPORT)):
        if isinstance(node, ast.ImportFrom) and not node.level and _PACKAGES.match(node.module or ""):
            yield node.module or "", _import_facts(ancestors)
        elif isinstance(node, ast.Import):
            yield from ((alias.name, _import_facts(ancestors)) for alias in node.names if _PACKAGES.match(alias.name))


def _import_facts(ancestors: Ancestors) -> set[str]:
    facts = set()
    if any(isinstance(parent, FUNCTIONS) for parent in ancestors):
        facts.add("lazy")
    if any(_lets_fail(parent, ancestors) or _asks_first(parent) for parent in ancestors):
        facts.add("guarded")
    return facts


def _lets_fail(parent: ast.AST, ancestors: Ancestors) -> bool:
    """A ``try`` whose body the import is in and that catches its failure."""
    if not isinstance(parent, ast.Try):
        return False
    below = ancestors[ancestors.index(parent) + 1 :]
    if below and below[0] not in parent.body:
        return False
    if all(isinstance(each, ast.Pass) for handler in parent.handlers for each in handler.body):
        return False  # nothing stands in for the names: the failure only comes later
    caught = {name for handler in parent.handlers for name in _caught(handler)}
    return bool(caught & _IMPORT_ERRORS)


def _caught(handler: ast.ExceptHandler) -> set[str]:
    if handler.type is None:
        return {"BaseException"}
    types = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    return {last_name(each) or "" for each in types}


def _asks_first(parent: ast.AST) -> bool:
    """An ``if`` that asks for the package; one that only asks for a CUDA device does not."""
    if not isinstance(parent, (ast.If, ast.IfExp)):
        return False
    test = ast.unparse(parent.test)
    return bool(_AVAILABLE.search(_DEVICE_ASKED.sub("", test)))


def compiled(finder: Finder, node: ast.AST, ancestors: Ancestors) -> Iterator[Found]:
    """``torch.compile``, called or as a decorator."""
    if isinstance(node, ast.Attribute) and node.attr == "compile" and finder.names.is_torch(node.value, ancestors):
        role = Role("switch", key="torch.compile")
        tests = [parent.test for parent in ancestors if isinstance(parent, (ast.If, ast.IfExp))]
        if any("compile" in ast.unparse(test) for test in tests):
            role.facts.add("gated")
        yield finder.found_as("switch", "torch.compile", node, ancestors, role)


def patched_attention(finder: Finder, node: ast.AST, ancestors: Ancestors) -> Iterator[Found]:
    """``if use_remove_padding or ...: Attention.forward = some_flash_attn_forward``: told at the name in the test."""
    if not isinstance(node, (ast.Name, ast.Attribute)) or last_name(node) != "use_remove_padding":
        return
    branch = next((parent for parent in reversed(ancestors) if isinstance(parent, ast.stmt)), None)
    if isinstance(branch, ast.If) and _inside(branch.test, node) and any(map(_replaces_attention, branch.body)):
        role = Role("switch", key="use_remove_padding", facts={"patches-attention"})
        yield finder.found_as("switch", "gate", node, ancestors, role)


def _inside(test: ast.AST, node: ast.AST) -> bool:
    return any(each is node for each in ast.walk(test))


def _replaces_attention(statement: ast.stmt) -> bool:
    if not isinstance(statement, ast.Assign):
        return False
    target, value = statement.targets[0], dotted(statement.value) or ""
    return isinstance(target, ast.Attribute) and target.attr == "forward" and "attn" in value.rpartition(".")[2]


def backward(finder: Finder, node: ast.AST, ancestors: Ancestors) -> Iterator[Found]:
    """``loss.backward()`` in a file that never speaks of a gradient scaler."""
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute) or node.func.attr != "backward":
        return
    if "scaler" not in finder.source.text.lower():
        yield finder.found_as(
            "switch", "backward", node, ancestors, Role("switch", key="backward", facts={"no-scaler"})
        )


def switch(finder: Finder, node: ast.Constant, ancestors: Ancestors) -> Iterator[Found]:
    """``use_torch_compile=True``, ``moe_implementation: str = "fused"``: a switch or a named kernel, by its key."""
    role = Climb(finder.names, node, ancestors).run()
    key = role.key if role.key != "enabled" else _section_of(ancestors)
    if role.name != "value" or key is None:
        return
    role.key = key
    value = str(node.value).lower()
    if type(node.value) is int and node.value > 1 and key in NUMBER_KEYS:
        yield from _switch(finder, value, node, ancestors, role)
    is_switch = isinstance(node.value, bool) and (key in SWITCH_KEYS or key == "use_transformer_engine")
    if is_switch or (isinstance(node.value, str) and value in NAMED_SWITCHES.get(key, ())):
        yield from _switch(finder, value, node, ancestors, role)


def _section_of(ancestors: Ancestors) -> str | None:
    """``bf16.enabled`` for the value in ``{"bf16": {"enabled": True}}`` or ``config["bf16"] = {"enabled": True}``."""
    if isinstance(ancestors[-1], ast.Assign):
        item = ancestors[-1].targets[0]
        section = last_name(item.value) if isinstance(item, ast.Subscript) else None
        return f"{section}.enabled" if section else None
    if len(ancestors) > 1 and isinstance(ancestors[-1], ast.Dict) and isinstance(ancestors[-2], ast.Assign):
        section = last_name(ancestors[-2].targets[0])
        return f"{section}.enabled" if section else None
    dicts = [node for node in ancestors if isinstance(node, ast.Dict)][-2:]
    if len(dicts) < 2 or dicts[1] not in dicts[0].values:
        return None
    section = string(dicts[0].keys[dicts[0].values.index(dicts[1])])
    return f"{section}.enabled" if section else None


def _switch(finder: Finder, value: str, node: ast.AST, ancestors: Ancestors, role: Role) -> Iterator[Found]:
    role.name = "switch"
    if _is_class_default(ancestors):
        role.facts.add("class-default")
    yield finder.found_as("switch", value, node, ancestors, role)


def _is_class_default(ancestors: Ancestors) -> bool:
    """``name: type = value`` right in a class, or inside a ``field(default=value)`` there."""
    for at, parent in enumerate(ancestors):
        if isinstance(parent, ast.AnnAssign):
            return at > 0 and isinstance(ancestors[at - 1], ast.ClassDef)
    return False


def enum_backend(finder: Finder, node: ast.AST, ancestors: Ancestors) -> Iterator[Found]:
    """``attention_backend=AttnBackend.fused``: a named kernel by an enum."""
    if isinstance(node, ast.Attribute) and (dotted(node.value) or "").endswith("AttnBackend"):
        role = Climb(finder.names, node, ancestors).run()
        if role.name == "value" and role.key:
            role.name = "switch"
            yield finder.found_as("switch", node.attr, node, ancestors, role)


def variable_switch(finder: Finder, node: ast.AST, ancestors: Ancestors) -> Iterator[Found]:
    """``use_transformer_engine=use_te``: the switch is there, its value is known at run time."""
    if not isinstance(node, ast.keyword) or node.arg != "use_transformer_engine":
        return
    if not isinstance(node.value, ast.Constant):
        role = Role("switch", key=node.arg)
        yield finder.found_as("switch", "variable", node.value, ancestors, role)
