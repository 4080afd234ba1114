"""Asks an installed torch about the GPUs.

``probe.py`` runs this file's text in a process of its own: torch initializes CUDA, which breaks forked children, and
importing it takes seconds. No CUDA context is made and no GPU memory taken. It uses the standard library and torch
only, and prints one line of JSON: ``{"gpus": [...]}``, or ``{"error": "..."}``.
"""

import json
import os
import sys
from typing import Any

# Field of the answer: attribute of torch's device properties. The last three came with torch 2.7.
PROPERTIES = {
    "memory_bytes": "total_memory",
    "shared_memory_per_block": "shared_memory_per_block",
    "shared_memory_per_block_optin": "shared_memory_per_block_optin",
    "shared_memory_per_sm": "shared_memory_per_multiprocessor",
}


def answer(torch: Any) -> dict[str, Any]:
    """The JSON object to print for the imported module ``torch``."""
    if torch.version.cuda is None:
        return {"error": f"torch {torch.__version__} is built without CUDA"}
    if not torch.cuda.is_available():
        return {"error": f"torch {torch.__version__} sees no CUDA device"}
    take_no_memory(torch)
    return {"gpus": [read_gpu(torch, index) for index in range(torch.cuda.device_count())]}


def take_no_memory(torch: Any) -> None:
    """Keeps ``is_bf16_supported()`` of this process from making a CUDA context.

    From torch 2.3 on it tries a bfloat16 tensor on a card below 8.0. With torch 2.11 on an H200 that took 525 MiB, and
    a card that is full would be said to lack bfloat16. Any CUDA card can hold the tensor, so the trial is answered.
    """
    torch.cuda._check_bf16_tensor_supported = lambda device: True


def read_gpu(torch: Any, index: int) -> dict[str, Any]:
    """One GPU: sizes in bytes, and None for what this torch does not tell."""
    properties = torch.cuda.get_device_properties(index)
    uuid = getattr(properties, "uuid", None)
    return {
        "index": index,
        "name": properties.name,
        "uuid": None if uuid is None else f"{'MIG' if ' MIG ' in properties.name else 'GPU'}-{uuid}",
        "major": properties.major,
        "minor": properties.minor,
        "torch_bf16": says_bf16(torch, index),
        **{field: getattr(properties, attribute, None) for field, attribute in PROPERTIES.items()},
    }


def says_bf16(torch: Any, index: int) -> "bool | None":
    """``torch.cuda.is_bf16_supported()`` for one GPU; None where it fails.

    It asks for the current device. Changing that one would make a context, so only the question is answered anew.
    """
    try:
        torch.cuda.current_device = lambda: index
        return bool(torch.cuda.is_bf16_supported())
    except Exception:
        return None


def main() -> None:
    """Imports torch, never from the current folder (it may be the checkout to patch), and prints the answer."""
    here = os.getcwd()
    sys.path[:] = [entry for entry in sys.path if entry and entry != here]
    try:
        import torch

        found = answer(torch)
    except Exception as error:
        found = {"error": f"torch failed: {type(error).__name__}: {error}"}
    print(json.dumps(found))


if __name__ == "__main__":
    main()
