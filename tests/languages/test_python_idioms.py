"""Functions and arguments by whose name Python says what a value is for: each of them counts, one line each."""

from __future__ import annotations

import pytest

from precpatch.engine.finding import REPORT, REWRITE
from precpatch.engine.policy import Policy
from precpatch.engine.rules import load_rules
from precpatch.gpu.resolve import resolve_target
from precpatch.session import file_findings

P40 = Policy(load_rules(), resolve_target("p40"))


def acted_on(code: str) -> list[str]:
    """What is rewritten or reported in a line."""
    return [
        each.mention.text for each in file_findings("m.py", code.encode(), P40) if each.verdict in {REWRITE, REPORT}
    ]


def roles(code: str) -> list[str]:
    return [each.mention.role for each in file_findings("m.py", code.encode(), P40)]


TEXT_ARGUMENTS = ["help", "description", "metavar", "title", "doc", "message", "msg", "epilog", "reason"]


@pytest.mark.parametrize("name", TEXT_ARGUMENTS)
def test_an_argument_that_is_text_for_people(name: str) -> None:
    assert acted_on(f'run({name}="a.dtype=bfloat16")\n') == []
    assert acted_on(f'page = {{"{name}": "flash_attention_2"}}\n') == []
    assert acted_on('run(other="a.dtype=bfloat16")\n') != []


MESSAGES = [
    *("print", "pprint", "warnings.warn", "log.warning", "log.debug", "log.info", "log.error", "log.critical"),
    *("log.exception", "log.log", "rank_zero_info", "log_rank_0", "print_rank_0", "log.warning_once", "log.info_once"),
    *("click.secho", "click.echo", "pytest.fail", "pytest.skip", "SomeError", "SomeWarning", "SomeException"),
]


@pytest.mark.parametrize("function", MESSAGES)
def test_a_function_that_prints(function: str) -> None:
    assert acted_on(f'{function}("a.dtype=bfloat16", "flash_attention_2")\n') == []


STRING_METHODS = [
    *("replace", "startswith", "endswith", "split", "rsplit", "strip", "lstrip", "rstrip", "removeprefix"),
    *("removesuffix", "join", "find", "partition", "rpartition", "count", "index", "encode"),
]


@pytest.mark.parametrize("method", STRING_METHODS)
def test_a_method_of_strings_only_compares(method: str) -> None:
    assert roles(f'name.{method}("flash_attention_2")\n') == ["comparison"]
    assert acted_on(f'name.{method}("flash_attention_2")\n') == []


@pytest.mark.parametrize(
    "method", ["append", "add", "insert", "extend", "remove", "discard", "index", "count", "update"]
)
def test_a_method_of_containers_collects(method: str) -> None:
    assert roles(f"known.{method}(torch.bfloat16)\n") == ["lookup"]


@pytest.mark.parametrize("call", ["field", "dataclasses.field", "Field", "pydantic.Field", "attr.ib", "attr.attrib"])
def test_a_field_of_a_class_has_the_key_of_its_attribute(call: str) -> None:
    assert acted_on(f'class C:\n    dtype: str = {call}(default="bfloat16")\n') == ['"bfloat16"']
    assert acted_on(f'class C:\n    title: str = {call}(default="bfloat16")\n') == []
    assert acted_on(f'class C:\n    dtype: str = {call}(default_factory=lambda: "bfloat16")\n') == ['"bfloat16"']


@pytest.mark.parametrize("call", ["field", "Field", "attr.ib", "attr.attrib", "Factory", "attr.Factory"])
def test_the_first_argument_of_a_field(call: str) -> None:
    argument = 'lambda: "bfloat16"' if "Factory" in call else '"bfloat16"'
    assert acted_on(f"class C:\n    dtype: str = {call}({argument})\n") == ['"bfloat16"']


LOOKUPS = ["torch.iinfo", "isinstance", "issubclass", "itemsize", "hasattr", "is_bf16", "is_fp16"]


@pytest.mark.parametrize("call", LOOKUPS)
def test_a_function_that_asks_for_a_fact(call: str) -> None:
    before = "x, " if call in {"isinstance", "issubclass", "hasattr"} else ""
    assert acted_on(f"import torch\ny = {call}({before}torch.bfloat16)\n") == []
    assert roles(f"import torch\ny = {call}({before}torch.bfloat16)\n") == ["lookup"]
    assert acted_on("import torch\ny = cast(torch.bfloat16)\n") == ["torch.bfloat16"]


@pytest.mark.parametrize("name", ["choices", "choice", "allowed", "options", "candidates", "values", "supported"])
def test_an_argument_that_lists_what_is_allowed(name: str) -> None:
    assert set(roles(f'f(dtype="x", {name}=["bf16", "fp16"])\n')) == {"allowed-values"}


@pytest.mark.parametrize("function", ["register", "_register", "unregister", "register_attention", "register_kernel"])
def test_a_function_that_gives_something_a_name(function: str) -> None:
    assert roles(f'{function}("flash_attention_2")\n') == ["key"]


@pytest.mark.parametrize("function", ["register_buffer", "register_parameter"])
def test_registering_a_tensor_is_no_naming(function: str) -> None:
    assert roles(f'import torch\nself.{function}("x", torch.zeros(1, dtype=torch.bfloat16))\n') == ["value"]


@pytest.mark.parametrize("name", ["name", "names", "key", "label", "alias", "aliases", "dtype_name", "dtype_str"])
def test_a_dtype_that_is_given_a_name(name: str) -> None:
    assert roles(f'import torch\nEntry({name}="bf16", value=torch.bfloat16)\n')[-1] == "lookup"


@pytest.mark.parametrize(
    "function", ["is_supported", "has_kernel", "support_dtype", "supports_dtype", "can_run", "_is_ok"]
)
def test_a_function_that_asks(function: str) -> None:
    assert roles(f'{function}("flash_attention_2")\n') == ["comparison"]


@pytest.mark.parametrize(
    "function", ["check_attention", "validate_attention", "verify_name", "require_name", "assert_name"]
)
def test_a_function_that_asks_by_name(function: str) -> None:
    assert roles(f'{function}("flash_attention_2")\n') == ["comparison"]


OPTIONS = [
    "parser.add_argument",
    "click.option",
    "click.argument",
    "typer.Option",
    "typer.Argument",
    "group.add_option",
]


@pytest.mark.parametrize("call", OPTIONS)
def test_the_default_of_an_option(call: str) -> None:
    assert acted_on(f'{call}("--dtype", default="bfloat16")\n') == ['"bfloat16"']


@pytest.mark.parametrize("call", OPTIONS)
def test_an_option_says_what_it_sets(call: str) -> None:
    found = file_findings("m.py", f'{call}("--dtype", default="bfloat16", help="the dtype")\n'.encode(), P40)
    assert [(each.mention.key, each.mention.callee) for each in found] == [("dtype", call)]


@pytest.mark.parametrize("call", ["typer.Option", "typer.Argument"])
def test_the_first_argument_of_an_option_is_its_default(call: str) -> None:
    assert acted_on(f'def run(dtype: str = {call}("bfloat16")):\n    pass\n') == ['"bfloat16"']
    assert acted_on(f'def run(title: str = {call}("bfloat16")):\n    pass\n') == []


@pytest.mark.parametrize("method", ["get", "pop", "getattr", "setdefault", "getenv"])
def test_the_name_that_is_asked_for_is_a_key(method: str) -> None:
    assert roles(f'cfg.{method}("flash_attention_2", None)\n') == ["key"]


@pytest.mark.parametrize("function", ["getattr", "setattr"])
def test_the_name_of_an_attribute_is_a_key(function: str) -> None:
    assert roles(f'{function}(cfg, "flash_attention_2", None)\n') == ["key"]


@pytest.mark.parametrize("generic", ["Literal", "typing.Literal", "Annotated", "Union"])
def test_a_type_with_parameters_annotates(generic: str) -> None:
    assert roles(f'{generic}["flash_attention_2"]\n') == ["annotation"]
    assert roles('table["flash_attention_2"]\n') == ["key"]


@pytest.mark.parametrize("function", ["torch.autocast", "torch.amp.autocast_mode", "torch.cuda.amp.custom_fwd"])
def test_what_autocast_computes_in(function: str) -> None:
    assert roles(f"import torch\nx = {function}(dtype=torch.bfloat16)\n") == ["autocast"]


@pytest.mark.parametrize(("device", "acts"), [("cuda", True), ("cpu", False), ("npu", False)])
@pytest.mark.parametrize("argument", ['"{}"', 'device_type="{}"'])
def test_the_device_that_autocast_is_for(argument: str, device: str, acts: bool) -> None:
    code = f"import torch\nx = torch.autocast({argument.format(device)}, dtype=torch.bfloat16)\n"
    assert acted_on(code) == (["torch.bfloat16"] if acts else [])


@pytest.mark.parametrize("check", ["torch.cuda.is_bf16_supported", "is_torch_bf16_gpu_available", "is_bf16_available"])
def test_a_check_that_counts_emulation(check: str) -> None:
    code = f"import torch\ndtype = torch.bfloat16 if {check}() else torch.float16\n"
    rules = [each.rule for each in file_findings("m.py", code.encode(), P40)]
    assert "permissive-bf16-check" in rules


PACKAGES = [
    *("torch_npu", "vllm_ascend", "mindspeed", "torch_xla", "habana_frameworks", "torch_mlu", "torch_musa"),
    *("intel_extension_for_pytorch", "oneccl_bindings_for_pytorch"),
]


@pytest.mark.parametrize("package", PACKAGES)
@pytest.mark.parametrize("statement", ["import {}", "import {}.core as c", "from {} import x", "from {}.core import x"])
def test_a_file_that_imports_another_devices_package(package: str, statement: str) -> None:
    code = f"{statement.format(package)}\nimport torch\nx = f(dtype=torch.bfloat16)\n"
    assert acted_on(code) == []
    assert acted_on(code.replace(package, "other")) == ["torch.bfloat16"]


def test_jax_runs_on_cuda_as_well() -> None:
    code = "import jax\nimport jax.numpy as jnp\nimport torch\nx = f(dtype=torch.bfloat16)\ny = jnp.bfloat16\n"
    assert acted_on(code) == ["torch.bfloat16"]
