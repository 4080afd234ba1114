"""Which way of probing is taken, on hosts made of a fake runner."""

import json
import sys

import pytest

from precpatch.errors import UserError
from precpatch.gpu.nvidia_smi import OLD_QUERY, QUERY
from precpatch.gpu.probe import (
    FASTEST_FIRST,
    Completed,
    Host,
    ProbeError,
    probe_document,
    probe_host,
    read_probe_document,
    run_command,
    target_of,
    torch_is_installed,
)

P40 = {"index": 0, "name": "Tesla P40", "major": 6, "minor": 1, "memory_bytes": 25 << 30, "uuid": "GPU-1"}
SMI_ROWS = "0, NVIDIA A100-SXM4-80GB, 8.0, 81920 MiB, GPU-aa\n1, Tesla P40, 6.1, 24576 MiB, GPU-bb\n"


def missing(name):
    raise ProbeError(f"{name} is not installed")


class FakeHost:
    """Answers each way of probing with what it is given; None: that way is not there."""

    def __init__(self, *, torch=None, driver=None, smi=None, environ=None):
        self.answers = {"torch": torch, "driver": driver, "nvidia-smi": smi}
        self.asked = []
        self.host = Host(run=self.run, environ=environ or {}, torch_installed=lambda: torch is not None)

    def run(self, command, timeout):
        assert timeout > 0
        way = self.way_of(command)
        self.asked.append(way)
        answer = self.answers[way]
        if answer is None:
            missing(way)
        if callable(answer):
            return answer(command)
        return Completed(0, answer if isinstance(answer, str) else json.dumps(answer) + "\n")

    @staticmethod
    def way_of(command):
        if command[0] != sys.executable:
            return "nvidia-smi"
        return "torch" if "import torch" in command[-1] else "driver"


def test_torch_comes_first_and_its_answer_is_kept_beside_ours():
    fake = FakeHost(torch={"gpus": [P40 | {"torch_bf16": True}]}, driver={"gpus": [P40]})
    probe = probe_host(host=fake.host)
    assert (probe.via, fake.asked) == ("torch", ["torch"])
    (card,) = probe.gpus
    assert card.torch_bf16 is True
    assert not card.native_bf16
    assert card.shared_memory_per_block_optin == 49152


def test_noise_before_the_answer_of_torch_is_left_out():
    fake = FakeHost(torch="a plugin says hello\n" + json.dumps({"gpus": [P40]}))
    assert probe_host(host=fake.host).via == "torch"


def test_without_torch_the_driver_answers():
    fake = FakeHost(driver={"gpus": [P40]}, smi=SMI_ROWS)
    assert (probe_host(host=fake.host).via, fake.asked) == ("driver", ["driver"])


@pytest.mark.parametrize(
    "broken",
    [
        {"error": "torch 2.6.0 is built without CUDA"},
        {"gpus": []},
        "",
        "not json",
        "[1]",
        lambda command: Completed(-11, "", "Segmentation fault"),
    ],
)
def test_a_way_that_fails_is_followed_by_the_next(broken):
    fake = FakeHost(torch=broken, driver=broken, smi="0, Tesla P40, 6.1, 24576 MiB, GPU-1\n")
    assert probe_host(host=fake.host).via == "nvidia-smi"
    assert fake.asked == ["torch", "driver", "nvidia-smi"]


def test_torch_is_asked_last_where_only_the_target_is_wanted():
    fake = FakeHost(torch={"gpus": [P40]})
    assert probe_host(host=fake.host, order=FASTEST_FIRST).via == "torch"
    assert fake.asked == ["driver", "nvidia-smi", "torch"]


def test_a_named_way_is_the_only_one():
    fake = FakeHost(torch={"gpus": [P40]}, driver={"gpus": [P40]}, smi=SMI_ROWS)
    assert probe_host("nvidia-smi", host=fake.host).via == "nvidia-smi"
    assert fake.asked == ["nvidia-smi"]


def test_no_answer_names_every_reason_and_asks_for_a_target():
    with pytest.raises(UserError, match=r"torch: torch is not installed; driver: .*; nvidia-smi: .*--target p40"):
        probe_host(host=FakeHost().host)


def test_an_unknown_way():
    with pytest.raises(UserError, match="--via 'guess' is not one of auto, torch, driver, nvidia-smi"):
        probe_host("guess", host=FakeHost().host)


def test_a_driver_that_does_not_tell_the_compute_capability_is_no_answer():
    fake = FakeHost(driver={"gpus": [P40 | {"major": None}]})
    with pytest.raises(UserError, match="the compute capability of 'Tesla P40' is unknown"):
        probe_host("driver", host=fake.host)


def test_an_old_driver_is_asked_again_by_name():
    def old_driver(command):
        if command[1:] == list(QUERY):
            return Completed(2, 'Field "compute_cap" is not a valid field to query.\n\n')
        assert command[1:] == list(OLD_QUERY)
        return Completed(0, "0, Tesla T4, 15109 MiB, GPU-1\n")

    (card,) = probe_host("nvidia-smi", host=FakeHost(smi=old_driver).host).gpus
    assert (card.compute_capability, card.source) == ((7, 5), "name")


def test_nvidia_smi_that_fails_says_why():
    fake = FakeHost(smi=lambda command: Completed(9, "NVIDIA-SMI has failed because it couldn't communicate\n"))
    with pytest.raises(UserError, match="nvidia-smi failed: NVIDIA-SMI has failed because"):
        probe_host("nvidia-smi", host=fake.host)


@pytest.mark.parametrize(
    ("value", "name"),
    [("0", "a100"), ("1", "p40"), ("1,0", "p40"), ("0,9,1", "a100"), ("GPU-b", "p40"), ("GPU-aa", "a100")],
)
def test_nvidia_smi_rows_are_filtered_by_cuda_visible_devices(value, name):
    fake = FakeHost(smi=SMI_ROWS, environ={"CUDA_VISIBLE_DEVICES": value})
    assert target_of(probe_host(host=fake.host)).name == name


def test_an_index_into_a_mixed_host_is_noted():
    environ = {"CUDA_VISIBLE_DEVICES": "0"}
    assert "PCI_BUS_ID" in probe_host(host=FakeHost(smi=SMI_ROWS, environ=environ).host).notes[0]
    by_bus = environ | {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
    assert probe_host(host=FakeHost(smi=SMI_ROWS, environ=by_bus).host).notes == ()


@pytest.mark.parametrize("value", ["", "-1", "none"])
def test_hidden_gpus_are_not_looked_for(value):
    fake = FakeHost(driver={"gpus": [P40]}, environ={"CUDA_VISIBLE_DEVICES": value})
    with pytest.raises(UserError, match="hides every GPU"):
        probe_host(host=fake.host)
    assert fake.asked == []


def test_an_index_that_is_not_there_hides_all_and_is_named():
    fake = FakeHost(smi=SMI_ROWS, environ={"CUDA_VISIBLE_DEVICES": "7"})
    with pytest.raises(UserError, match="CUDA_VISIBLE_DEVICES is '7'"):
        probe_host(host=fake.host)


def test_the_weakest_decides():
    assert target_of(probe_host(host=FakeHost(smi=SMI_ROWS).host)).name == "p40"


def test_a_card_the_catalog_does_not_know_is_called_by_its_capability():
    fake = FakeHost(driver={"gpus": [P40 | {"name": "NVIDIA P102-100"}]})
    assert target_of(probe_host(host=fake.host)).name == "sm_61"


def test_document_round_trip():
    probe = probe_host(host=FakeHost(smi=SMI_ROWS).host)
    document = json.loads(json.dumps(probe_document(probe, target_of(probe))))
    again = read_probe_document(document)
    assert again.via == "file"
    assert target_of(again).describe() == document["target"]


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ([], "not the output of"),
        ({"version": 1, "findings": []}, "not the output of"),
        ({"kind": "gpu-probe", "version": 2, "gpus": [{}]}, "reads version 1"),
        ({"kind": "gpu-probe", "version": 1}, "lists no GPU"),
        ({"kind": "gpu-probe", "version": 1, "gpus": []}, "lists no GPU"),
        ({"kind": "gpu-probe", "version": 1, "gpus": [5]}, "lists no GPU"),
        ({"kind": "gpu-probe", "version": 1, "gpus": [{}]}, "without a name"),
    ],
)
def test_what_is_not_a_probe_document(document, message):
    with pytest.raises(ValueError, match=message):
        read_probe_document(document)


def test_the_runner_reads_both_streams():
    code = "import sys; print('out'); print('err', file=sys.stderr); sys.exit(3)"
    done = run_command([sys.executable, "-c", code], 60)
    assert (done.returncode, done.stdout.strip(), done.stderr.strip()) == (3, "out", "err")


def test_the_runner_has_a_timeout():
    with pytest.raises(ProbeError, match="no answer in 0 s"):
        run_command([sys.executable, "-c", "import time; time.sleep(60)"], 0.1)


def test_the_runner_says_what_is_missing(tmp_path):
    with pytest.raises(ProbeError, match="no-such-program is not installed"):
        run_command(["no-such-program"], 1)
    with pytest.raises(ProbeError, match="could not be started"):
        run_command([str(tmp_path)], 1)


def test_looking_for_torch_does_not_import_it():
    before = "torch" in sys.modules
    assert torch_is_installed() in (True, False)
    assert ("torch" in sys.modules) == before
