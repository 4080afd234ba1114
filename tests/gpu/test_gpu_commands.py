"""`precpatch probe` and `precpatch targets`."""

import json
import platform

import pytest
import typer
from typer.testing import CliRunner

from precpatch.cli.probe import describe_cluster, describe_probe, probe
from precpatch.cli.targets import plain_table, targets
from precpatch.errors import UserError
from precpatch.gpu.capability import derive
from precpatch.gpu.cluster import Node, cluster_target, make_cluster
from precpatch.gpu.probe import Completed, Host, Probe, probe_document, probe_host, target_of
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


def saved_probe(folder, name, rows):
    file = folder / f"{name}.json"
    result = invoke("probe", "--nvidia-smi-output", "-", "--format", "json", "--output", str(file), stdin=rows)
    assert result.exit_code == 0
    return str(file)


def test_files_of_several_hosts_are_merged_and_the_weakest_decides(tmp_path):
    files = [saved_probe(tmp_path, "a", "Tesla T4, 7.5\n" * 2), saved_probe(tmp_path, "b", MIXED)]
    result = invoke("probe", "--merge", *files)
    assert result.exit_code == 0
    assert "  2 x Tesla T4: compute capability 7.5, memory unknown, bfloat16 emulated" in result.stdout
    assert "2 nodes, 4 GPUs; the weakest decides: Tesla P40 in b.json\ntarget p40: dtype float32" in result.stdout


def test_a_merged_file_is_a_target_and_can_be_merged_again(tmp_path):
    a, b = saved_probe(tmp_path, "a", "Tesla T4, 7.5\n"), saved_probe(tmp_path, "b", MIXED)
    merged, again = str(tmp_path / "ab.json"), str(tmp_path / "again.json")
    assert invoke("probe", a, "--merge", b, "--format", "json", "-o", merged).exit_code == 0
    assert invoke("probe", "--merge", merged, a, "--format", "json", "-o", again).exit_code == 0
    documents = [json.loads((tmp_path / name).read_text()) for name in ("ab.json", "again.json")]
    assert [node["hostname"] for node in documents[1]["nodes"]] == ["a.json", "b.json", "a.json"]
    for document, file in zip(documents, (merged, again), strict=True):
        assert (document["version"], document["kind"], document["via"]) == (1, "gpu-cluster", "files")
        assert resolve_target(file).describe() == document["target"]
        assert document["target"]["name"] == "p40"


def test_a_probe_names_its_host_in_the_merge(tmp_path):
    row = "0, Tesla T4, 7.5, 15360 MiB, GPU-1\n"
    host = Host(run=lambda command, timeout: Completed(0, row), environ={}, torch_installed=lambda: False)
    found = probe_host("nvidia-smi", host=host)
    file = tmp_path / "x.json"
    file.write_text(json.dumps(probe_document(found, target_of(found))))
    assert invoke("probe", "--merge", str(file)).stdout.startswith(f"node {platform.node()}: read through a file\n")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--merge"], "--merge needs the files"),
        (["--merge", "none.json"], "--merge none.json: No such file"),
        (["--merge", "--ray"], "do not go together"),
        (["--ray", "--nvidia-smi-output", "-"], "do not go together"),
        (["a.json"], "'a.json' has no option that takes it"),
        (["--ray", "a:1", "b:1"], "--ray takes one address, not 2"),
        (["--merge", "a.json", "--via", "driver"], "--via driver reads GPUs"),
        (["--ray", "--via", "torch"], "torch is not asked on the nodes"),
        (["--ray", "local"], "--ray 'local' is no running cluster"),
        (["--ray", " "], "no running cluster"),
    ],
)
def test_options_that_do_not_go_together(arguments, message):
    result = invoke("probe", *arguments)
    assert isinstance(result.exception, UserError)
    assert message in str(result.exception)
    assert result.stdout == ""


def test_nodes_without_a_gpu_are_shown_and_do_not_decide():
    t4 = derive("Tesla T4", (7, 5), source="driver")
    nodes = [Node("head", "0123456789", notes=("no driver",)), Node("w", "fedcba98765", "driver", (t4,), ("look",))]
    cluster = make_cluster("ray", nodes)
    assert describe_cluster(cluster, cluster_target(cluster)).splitlines() == [
        "node head (01234567): no GPU",
        "  note: no driver",
        "node w (fedcba98): read through the CUDA driver",
        "  1 x Tesla T4: compute capability 7.5, memory unknown, bfloat16 emulated, float16 tensor-core",
        "  note: look",
        "2 nodes, 1 GPU; the weakest decides: Tesla T4 in w (fedcba98)",
        "target t4: dtype float32, attention eager",
    ]


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
