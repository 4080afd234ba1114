"""Which way of probing is taken, on hosts made of a fake runner."""

import json
import sys

import pytest

from precpatch.errors import UserError
from precpatch.gpu.nvidia_smi import LIST, OLD_QUERY, QUERY, NoGpuError
from precpatch.gpu.probe import (
    Completed,
    Host,
    MissingProgramError,
    ProbeError,
    commands_of,
    probe_document,
    probe_host,
    read_host,
    read_probe_document,
    run_command,
    target_of,
    torch_is_installed,
)

P40 = {"index": 0, "name": "Tesla P40", "major": 6, "minor": 1, "memory_bytes": 25 << 30, "uuid": "GPU-1"}
SMI_ROWS = "0, NVIDIA A100-SXM4-80GB, 8.0, 81920 MiB, GPU-aa\n1, Tesla P40, 6.1, 24576 MiB, GPU-bb\n"


def missing(name):
    raise MissingProgramError(f"{name} is not installed")


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


def test_the_answer_of_torch_is_kept_beside_ours():
    fake = FakeHost(torch={"gpus": [P40 | {"torch_bf16": True}]}, driver={"gpus": [P40]})
    probe = probe_host(host=fake.host, ask_torch=True)
    assert (probe.via, fake.asked, probe.notes) == ("driver", ["nvidia-smi", "nvidia-smi", "driver", "torch"], ())
    (card,) = probe.gpus
    assert (card.torch_bf16, card.native_bf16, card.source) == (True, False, "driver")
    assert card.shared_memory_per_block_optin == 49152


def test_torch_is_not_asked_where_only_the_target_is_wanted():
    fake = FakeHost(torch={"gpus": [P40]}, driver={"gpus": [P40]})
    probe_host(host=fake.host)
    probe_host("driver", host=fake.host, ask_torch=True)
    assert "torch" not in fake.asked


def test_torch_is_not_imported_on_a_host_without_a_gpu():
    fake = FakeHost(torch={"gpus": [P40]})
    with pytest.raises(UserError):
        probe_host(host=fake.host, ask_torch=True)
    assert set(fake.asked) == {"driver", "nvidia-smi"}


def test_a_torch_that_serves_no_gpu_is_a_note():
    fake = FakeHost(torch={"error": "torch 2.6.0 is built without CUDA"}, driver={"gpus": [P40]})
    probe = probe_host(host=fake.host, ask_torch=True)
    assert probe.notes == ("torch was asked about bf16 and gave no answer: torch 2.6.0 is built without CUDA",)
    assert probe.gpus[0].torch_bf16 is None


def test_the_answer_of_torch_goes_to_its_card_whatever_the_order():
    told = [P40 | {"torch_bf16": False, "uuid": "GPU-bb"}, P40 | {"torch_bf16": True, "uuid": "GPU-aa", "major": 8}]
    fake = FakeHost(torch={"gpus": told}, smi=SMI_ROWS)
    assert [card.torch_bf16 for card in probe_host(host=fake.host, ask_torch=True).gpus] == [True, False]


def test_a_torch_without_uuids_is_joined_by_place_and_name():
    told = [P40 | {"torch_bf16": True, "uuid": None}]
    other = P40 | {"name": "Tesla T4", "uuid": "GPU-2", "index": 1}
    fake = FakeHost(torch={"gpus": told}, driver={"gpus": [P40, other]})
    assert [card.torch_bf16 for card in probe_host(host=fake.host, ask_torch=True).gpus] == [True, None]


def test_noise_before_an_answer_is_left_out():
    fake = FakeHost(torch="a plugin says hello\n" + json.dumps({"gpus": [P40]}))
    assert probe_host("torch", host=fake.host).via == "torch"


def test_a_container_without_nvidia_smi_is_read_through_the_driver():
    fake = FakeHost(driver={"gpus": [P40]})
    assert probe_host(host=fake.host).via == "driver"


def test_nvidia_smi_comes_first_since_it_costs_less():
    fake = FakeHost(driver={"gpus": [P40]}, smi="0, Tesla P40, 6.1, 24576 MiB, GPU-1\n")
    assert (probe_host(host=fake.host).via, fake.asked) == ("nvidia-smi", ["nvidia-smi"])


@pytest.mark.parametrize(
    ("smi", "visible"),
    [
        ("0, Tesla P40, 24576 MiB, GPU-1\n", None),
        ("0, NVIDIA P999, 13.0, 24576 MiB, GPU-1\n", None),
        ("Strange Card, [N/A]\n", None),
        (SMI_ROWS, "0"),
        (SMI_ROWS, "MIG-GPU-aa/7/0"),
        (lambda command: Completed(9, "Failed to initialize NVML: Driver/library version mismatch\n"), None),
        (lambda command: Completed(0, MIG_LIST if command[1:] == list(LIST) else SMI_ROWS), None),
    ],
)
def test_the_driver_answers_where_nvidia_smi_may_not_be_exact(smi, visible):
    fake = FakeHost(driver={"gpus": [P40]}, smi=smi, environ={"CUDA_VISIBLE_DEVICES": visible} if visible else {})
    assert probe_host(host=fake.host).via == "driver"


@pytest.mark.parametrize(
    "broken",
    [
        {"error": "cuInit answered 803"},
        {"gpus": []},
        "",
        "not json",
        "[1]",
        lambda command: Completed(-11, "", "Segmentation fault"),
    ],
)
def test_a_driver_that_fails_leaves_the_answer_of_nvidia_smi(broken):
    fake = FakeHost(driver=broken, smi="0, Tesla P40, 24576 MiB, GPU-1\n")
    assert probe_host(host=fake.host).via == "nvidia-smi"
    assert fake.asked == ["nvidia-smi", "driver"]


NO_LIBRARY = {"error": "the host has no CUDA driver library", "no_gpu": True}


@pytest.mark.parametrize(
    ("driver", "smi", "environ"),
    [
        (NO_LIBRARY, None, {}),
        (NO_LIBRARY, lambda command: Completed(6, "No devices were found\n"), {}),
        ({"gpus": []}, None, {}),
        ({"gpus": [P40]}, None, {"CUDA_VISIBLE_DEVICES": ""}),
    ],
)
def test_a_host_without_a_gpu_is_told_from(driver, smi, environ):
    with pytest.raises(NoGpuError):
        read_host("auto", FakeHost(driver=driver, smi=smi, environ=environ).host)


@pytest.mark.parametrize(
    ("driver", "smi"),
    [
        ({"error": "cuInit answered 803", "no_gpu": False}, None),
        (NO_LIBRARY, lambda command: Completed(9, "Failed to initialize NVML: Driver/library version mismatch\n")),
        ("", None),
    ],
)
def test_a_host_whose_gpu_cannot_be_read(driver, smi):
    with pytest.raises(ProbeError) as caught:
        read_host("auto", FakeHost(driver=driver, smi=smi).host)
    assert not isinstance(caught.value, NoGpuError)


def test_nvidia_smi_of_wsl_is_found_outside_the_path():
    def only_wsl(command):
        if command[0] != "/usr/lib/wsl/lib/nvidia-smi":
            missing("nvidia-smi")
        return Completed(0, "0, NVIDIA GeForce RTX 2080 Ti, 7.5, 11264 MiB, GPU-1\n")

    (card,) = probe_host("nvidia-smi", host=FakeHost(smi=only_wsl).host).gpus
    assert card.compute_capability == (7, 5)


MIG_LIST = """GPU 0: NVIDIA A100-SXM4-80GB (UUID: GPU-aa)
  MIG 3g.40gb     Device  0: (UUID: MIG-0123-4)
  MIG 1g.10gb+me  Device  1: (UUID: MIG-GPU-aa/7/0)
GPU 1: Tesla P40 (UUID: GPU-bb)
"""


def mig_host(visible, listed=MIG_LIST):
    def smi(command):
        return Completed(0, listed) if command[1:] == list(LIST) else Completed(0, SMI_ROWS)

    return FakeHost(smi=smi, environ={} if visible is None else {"CUDA_VISIBLE_DEVICES": visible}).host


@pytest.mark.parametrize(
    ("visible", "cards"),
    [
        ("MIG-0123-4", [("NVIDIA A100-SXM4-80GB MIG 3g.40gb", 40)]),
        ("MIG-01", [("NVIDIA A100-SXM4-80GB MIG 3g.40gb", 40)]),
        ("MIG-GPU-aa/7/0", [("NVIDIA A100-SXM4-80GB MIG 1g.10gb+me", 10)]),
        ("GPU-bb,MIG-0123-4", [("Tesla P40", 24), ("NVIDIA A100-SXM4-80GB MIG 3g.40gb", 40)]),
    ],
)
def test_mig_instances_are_named_by_their_uuid(visible, cards):
    probe = probe_host("nvidia-smi", host=mig_host(visible))
    assert [(gpu.name, (gpu.memory_bytes or 0) >> 30) for gpu in probe.gpus] == cards
    assert probe.notes == ()


def test_a_gpu_that_mig_splits_is_noted():
    (note,) = probe_host("nvidia-smi", host=mig_host(None)).notes
    assert note.startswith("MIG splits GPU 0 into 2 instances")


def test_a_mig_instance_that_is_not_there():
    with pytest.raises(UserError, match=r"shows none of the 2 GPUs.*CUDA_VISIBLE_DEVICES is 'MIG-9'"):
        probe_host("nvidia-smi", host=mig_host("MIG-9"))


def test_an_older_nvidia_smi_that_lists_no_mig_still_finds_the_gpu_of_an_instance():
    (card,) = probe_host("nvidia-smi", host=mig_host("MIG-GPU-aa/7/0", "GPU 0: x (UUID: GPU-aa)\n")).gpus
    assert card.name == "NVIDIA A100-SXM4-80GB"


def test_the_commands_that_another_host_would_run():
    everything = commands_of("auto")
    assert [command[1:] for command in everything[1:]] == [list(QUERY), list(OLD_QUERY), list(LIST)]
    assert commands_of("driver") + commands_of("nvidia-smi") == everything


def test_a_named_way_is_the_only_one():
    fake = FakeHost(torch={"gpus": [P40]}, driver={"gpus": [P40]}, smi=SMI_ROWS)
    assert probe_host("nvidia-smi", host=fake.host).via == "nvidia-smi"
    assert set(fake.asked) == {"nvidia-smi"}


def test_no_answer_names_every_reason_and_asks_for_a_target():
    with pytest.raises(UserError, match=r"no GPU could be read \(nvidia-smi: .*; driver: .*\); .*--target p40"):
        probe_host(host=FakeHost().host)


def test_an_unknown_way():
    with pytest.raises(UserError, match="--via 'guess' is not one of auto, nvidia-smi, driver, torch"):
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
