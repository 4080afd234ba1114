"""Whole and broken outputs of nvidia-smi."""

import pytest

from precpatch.errors import UserError
from precpatch.gpu.nvidia_smi import ProbeError, parse_nvidia_smi
from precpatch.gpu.probe import probe_saved_output, target_of

UUID = "GPU-8932f937-d72c-4106-c12f-20bd9faed9f6"


FITS_ALL = {"native_bf16", "runs_flash_attention_2", "fast_fp16"}


@pytest.mark.parametrize(
    ("output", "name", "capability", "able"),
    [
        ("Tesla P40, 6.1\n", "p40", (6, 1), set()),
        ("Tesla P100-PCIE-16GB, 6.0\n", "p100", (6, 0), {"fast_fp16"}),
        ("Tesla V100-SXM2-32GB, 7.0\nTesla V100-SXM2-32GB, 7.0\n", "v100", (7, 0), {"fast_fp16"}),
        ("Tesla T4, 7.5\n", "t4", (7, 5), {"fast_fp16"}),
        ("NVIDIA A100-SXM4-80GB, 8.0\n", "a100", (8, 0), FITS_ALL),
        ("NVIDIA A100-SXM4-80GB, 8.0\nTesla P40, 6.1\n", "p40", (6, 1), set()),
        ("Tesla T4, [N/A]\n", "t4", (7, 5), {"fast_fp16"}),
        ("Tesla T4, 7.5\r\n", "t4", (7, 5), {"fast_fp16"}),
    ],
    ids=["p40", "p100", "v100", "t4", "a100", "mixed", "na", "crlf"],
)
def test_decisions(output, name, capability, able):
    target = target_of(probe_saved_output(output))
    assert (target.name, target.capability.compute_capability) == (name, capability)
    assert {question for question in FITS_ALL if target.ask(question)} == able
    assert target.dtype == ("bfloat16" if able == FITS_ALL else "float32")


@pytest.mark.parametrize(
    "output",
    [
        "",
        "\n \r\n",
        'Field "compute_cap" is not a valid field to query.\n',
        "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.\n",
        "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make sure that the latest "
        "NVIDIA driver is installed and running.\n",
        "No devices were found\n",
        "Failed to initialize NVML: Driver/library version mismatch\n",
        "name, compute_cap\n",
        "NVIDIA A100-SXM4-80GB, 8.0\nUnable to determine the device handle for GPU0000:3B:00.0: Unknown Error\n",
        "[N/A], [N/A]\n",
        "bash: nvidia-smi: command not found\n",
    ],
)
def test_no_answer_is_never_taken_for_a_gpu(output):
    with pytest.raises(ProbeError):
        parse_nvidia_smi(output)
    with pytest.raises(UserError, match="--target p40"):
        probe_saved_output(output)


def test_a_card_that_neither_it_nor_the_catalog_knows_decides_nothing():
    probe = probe_saved_output("NVIDIA Graphics Device, [N/A]\nTesla T4, 7.5\n")
    assert probe.gpus[0].compute_capability is None
    with pytest.raises(UserError, match="'NVIDIA Graphics Device' is unknown"):
        target_of(probe)


def test_an_ambiguous_name_is_not_guessed():
    (card,) = parse_nvidia_smi("RTX 6000, [N/A]\n")
    assert card.compute_capability is None


def test_every_field():
    (card,) = parse_nvidia_smi(f"3, Tesla T4, 7.5, 15360 MiB, {UUID}\n")
    assert (card.index, card.name, card.uuid, card.memory_bytes) == (3, "Tesla T4", UUID, 15360 << 20)
    assert (card.source, card.shared_memory_per_block_optin) == ("nvidia-smi", 65536)


def test_a_compute_capability_looked_up_by_name_says_so():
    (card,) = parse_nvidia_smi(f"0, Tesla V100-SXM2-32GB, 32510 MiB, {UUID}\n")
    assert (card.source, card.compute_capability, card.memory_bytes) == ("name", (7, 0), 32510 << 20)


def test_a_known_name_alone_is_enough():
    (card,) = parse_nvidia_smi("Tesla P40")
    assert card.compute_capability == (6, 1)


def test_a_header_a_byte_order_mark_and_quotes():
    (card,) = parse_nvidia_smi('\ufeffindex, name, compute_cap, memory.total [MiB]\n0, "Tesla P40", 6.1, 24576\n')
    assert (card.name, card.compute_capability, card.memory_bytes) == ("Tesla P40", (6, 1), 24576 << 20)


def test_a_name_with_commas():
    (card,) = parse_nvidia_smi("0, Some Card, Revision B, 7.5, 15360 MiB\n")
    assert (card.name, card.compute_capability) == ("Some Card, Revision B", (7, 5))


def test_a_capability_without_a_name():
    (card,) = parse_nvidia_smi("6.1\n")
    assert (card.name, card.compute_capability) == ("unnamed GPU (6.1)", (6, 1))


def test_a_warning_after_the_rows_is_left_out():
    cards = parse_nvidia_smi("Tesla P40, 6.1\nWARNING: infoROM is corrupted at gpu 0000:3B:00.0\n")
    assert len(cards) == 1
