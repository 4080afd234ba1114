"""What --target takes."""

import json

import pytest

from precpatch.errors import UserError
from precpatch.gpu.probe import Completed, Host, probe_document, probe_saved_output, target_of
from precpatch.gpu.resolve import resolve_target


@pytest.mark.parametrize(
    ("spec", "name", "capability"),
    [
        ("p40", "p40", "6.1"),
        ("Tesla P40", "p40", "6.1"),
        ("Tesla V100-SXM2-32GB", "v100", "7.0"),
        ("6.1", "sm_61", "6.1"),
        (" 6.1 ", "sm_61", "6.1"),
        ("sm_61", "sm_61", "6.1"),
        ("SM61", "sm_61", "6.1"),
        ("compute_61", "sm_61", "6.1"),
        ("61", "sm_61", "6.1"),
        ("sm_90a", "sm_90", "9.0"),
        ("sm_120", "sm_120", "12.0"),
        ("120", "sm_120", "12.0"),
        ("cpu", "cpu", None),
    ],
)
def test_specs(spec, name, capability):
    described = resolve_target(spec).describe()
    assert (described["name"], described["compute_capability"]) == (name, capability)


def test_the_policy_of_a_cpu():
    cpu = resolve_target("cpu")
    assert (cpu.dtype, cpu.attention, cpu.native_bf16) == ("float32", "eager", False)


def test_the_policy_is_passed_on():
    target = resolve_target("v100", dtype="float16", attention="sdpa")
    assert (target.dtype, target.attention) == ("float16", "sdpa")


@pytest.mark.parametrize(("dtype", "attention"), [("bf16", "auto"), ("auto", "flash")])
def test_a_bad_policy(dtype, attention):
    with pytest.raises(UserError, match="is not one of auto"):
        resolve_target("p40", dtype, attention)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("p4O", "did you mean .*p40.*precpatch targets"),
        ("T400", r"unknown target 'T400'; did you mean t4\?"),
        ("quantum computer", "unknown target 'quantum computer'. `precpatch targets`"),
        ("", "unknown target ''"),
        ("x" * 5000, "unknown target 'xxx"),
        ("RTX 6000", r"more than one GPU: quadro-rtx-6000 \(7.5\), rtx-6000-ada \(8.9\)"),
        ("6.3", "not a compute capability precpatch knows: .*6.1"),
        ("61.0", "not a compute capability"),
        ("100", "compute capability 10.0 or p100, v100"),
        ("60", "compute capability 6.0 or m60"),
        ("99", "unknown target"),
    ],
)
def test_what_is_refused(spec, message):
    with pytest.raises(UserError, match=message):
        resolve_target(spec)


def test_auto_probes_the_host_and_takes_the_weakest():
    rows = "0, NVIDIA A100-SXM4-80GB, 8.0, 81920 MiB, GPU-aa\n1, Tesla P40, 6.1, 24576 MiB, GPU-bb\n"

    def run(command, timeout):
        return Completed(0, rows) if "--query-gpu" in command[1] else Completed(0, '{"error": "no driver"}')

    host = Host(run=run, environ={}, torch_installed=lambda: False)
    assert resolve_target(host=host).name == "p40"


def test_auto_without_a_gpu_assumes_nothing():
    host = Host(run=lambda command, timeout: Completed(1, "", "broken"), environ={}, torch_installed=lambda: False)
    with pytest.raises(UserError, match="--target p40"):
        resolve_target("auto", host=host)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_a_probe_file(tmp_path, encoding):
    probe = probe_saved_output("Tesla T4, 7.5\nTesla P40, 6.1\n")
    file = tmp_path / "gpu"
    file.write_text(json.dumps(probe_document(probe, target_of(probe))), encoding=encoding)
    target = resolve_target(str(file), dtype="float16")
    assert (target.name, target.dtype, target.capability.source) == ("p40", "float16", "file")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("Tesla P40, 6.1\n", "it is not JSON; `precpatch probe --format json`"),
        ("{}", "it is not the output of"),
        ('{"kind": "gpu-probe", "version": 1, "gpus": [{"name": "x", "compute_capability": "new"}]}', "'new' is not"),
        ('{"kind": "gpu-probe", "version": 1, "gpus": [{"name": "x"}]}', "compute capability of 'x' is unknown"),
        ("[" * 100_000, "gpu.json"),
    ],
)
def test_a_file_that_is_not_a_probe(tmp_path, text, message):
    file = tmp_path / "gpu.json"
    file.write_text(text)
    with pytest.raises(UserError, match=message):
        resolve_target(str(file))


def test_a_file_that_is_not_text(tmp_path):
    file = tmp_path / "gpu.json"
    file.write_bytes(b"\xff\xfe\xff\xff\x00\xd8")
    with pytest.raises(UserError, match="it is not JSON"):
        resolve_target(str(file))


@pytest.mark.parametrize("name", ["missing.json", "folder/missing", "."])
def test_a_file_that_cannot_be_read(tmp_path, name):
    with pytest.raises(UserError, match=r"--target .*: .*director"):
        resolve_target(f"{tmp_path}/{name}")
