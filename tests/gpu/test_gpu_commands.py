"""`precpatch probe` and `precpatch targets`."""

import json

import pytest
import typer
from typer.testing import CliRunner

from precpatch.cli.probe import describe_probe, probe
from precpatch.cli.targets import plain_table, targets
from precpatch.errors import UserError
from precpatch.gpu.capability import derive
from precpatch.gpu.probe import Probe, target_of
from precpatch.gpu.resolve import resolve_target

app = typer.Typer()
app.command()(probe)
app.command()(targets)

MIXED = "NVIDIA A100-SXM4-80GB, 8.0\nTesla P40, 6.1\n"


def invoke(*arguments, stdin=None):
    return CliRunner().invoke(app, list(arguments), input=stdin)


def test_probe_reads_saved_output():
    result = invoke("probe", "--nvidia-smi-output", "-", stdin=MIXED)
    assert result.exit_code == 0
    assert "2 GPUs; the weakest decides: Tesla P40" in result.stdout
    assert "target p40: dtype float32, attention eager" in result.stdout
    assert "per block 48 KiB, opt-in 48 KiB; per SM 96 KiB" in result.stdout


def test_probe_json_can_be_passed_back_as_a_target(tmp_path):
    saved, output = tmp_path / "smi.csv", tmp_path / "gpu.json"
    saved.write_text(MIXED)
    result = invoke("probe", "--nvidia-smi-output", str(saved), "--format", "json", "--output", str(output))
    assert (result.exit_code, result.stdout) == (0, "")
    document = json.loads(output.read_text())
    assert document["target"] == {
        "name": "p40",
        "compute_capability": "6.1",
        "dtype": "float32",
        "attention": "eager",
    }
    assert resolve_target(str(output)).describe() == document["target"]


def test_probe_json_goes_to_standard_output():
    result = invoke("probe", "--nvidia-smi-output", "-", "--format", "json", stdin=MIXED)
    assert [gpu["compute_capability"] for gpu in json.loads(result.stdout)["gpus"]] == ["8.0", "6.1"]


@pytest.mark.parametrize("encoding", ["utf-16", "utf-8-sig"])
def test_saved_output_as_windows_shells_write_it(tmp_path, encoding):
    saved = tmp_path / "smi.csv"
    saved.write_text("Tesla T4, 7.5\r\n", encoding=encoding, newline="")
    result = invoke("probe", "--nvidia-smi-output", str(saved))
    assert "target t4: dtype float32" in result.stdout


@pytest.mark.parametrize("stdin", ["", "No devices were found\n", "NVIDIA Graphics Device, [N/A]\n"])
@pytest.mark.parametrize("output_format", ["text", "json"])
def test_no_answer_prints_nothing_and_is_a_user_error(stdin, output_format):
    result = invoke("probe", "--nvidia-smi-output", "-", "--format", output_format, stdin=stdin)
    assert isinstance(result.exception, UserError)
    assert result.stdout == ""


def test_a_file_that_is_not_there(tmp_path):
    result = invoke("probe", "--nvidia-smi-output", str(tmp_path / "missing.csv"))
    assert isinstance(result.exception, UserError)
    assert "missing.csv" in str(result.exception)


def test_an_output_that_cannot_be_written(tmp_path):
    result = invoke("probe", "--nvidia-smi-output", "-", "--output", str(tmp_path / "no" / "gpu.json"), stdin=MIXED)
    assert isinstance(result.exception, UserError)


@pytest.mark.parametrize("arguments", [["--via", "guess"], ["--format", "xml"]])
def test_a_bad_option(arguments):
    assert invoke("probe", *arguments).exit_code == 2


def described(capability, torch_bf16):
    found = Probe("torch", (derive("card", capability, source="torch", torch_bf16=torch_bf16),))
    return describe_probe(found, target_of(found))


def test_the_answer_of_torch_is_shown_with_the_reason_why_it_differs():
    assert "True (torch.cuda.is_bf16_supported()): from torch 2.3 on it counts emulation" in described((6, 1), True)
    assert "so this torch build does not serve it" in described((8, 0), False)
    assert described((8, 0), True).count("is_bf16_supported()\n") == 0
    assert "torch says" not in described((6, 1), None)


def test_notes_and_unknown_sizes_are_shown():
    found = Probe("nvidia-smi", (derive("card", (13, 0), source="nvidia-smi"),), ("look here",))
    text = describe_probe(found, target_of(found))
    assert text.endswith("note: look here")
    assert "memory              unknown" in text


def test_targets_as_text():
    result = invoke("targets")
    lines = result.stdout.splitlines()
    assert result.exit_code == 0
    assert lines[0].startswith("name ")
    (p40,) = [line for line in lines if line.startswith("p40 ")]
    assert p40.split()[1:] == ["6.1", "24", "GiB", "none", "slow", "48", "KiB", "float32,", "eager", "Tesla", "P40"]


def test_targets_as_json():
    document = json.loads(invoke("targets", "--format", "json").stdout)
    cards = {card["name"]: card for card in document["targets"]}
    assert cards["p40"]["shared_memory_per_block_optin"] == 49152
    assert (cards["t4"]["dtype"], cards["t4"]["attention"]) == ("float32", "eager")
    assert (cards["a100"]["dtype"], cards["a100"]["attention"]) == ("bfloat16", "flash_attention_2")
    assert cards["v100"]["memory_gib"] == [16, 32]


def test_a_name_that_looks_like_markup_stays_as_it_is():
    assert plain_table([("[bold]x[/bold]", "y"), ("z", "")]) == "[bold]x[/bold]  y\nz"
