"""The step imports: entry points, what they reach, and what a failure means."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

Verify = Callable[..., object]
Packages = Callable[..., None]

ONLY = ("--only", "imports")
WORKER = "verl/trainer/worker.py"
TORCH = {"torch/__init__.py": "class cuda:\n    is_available = staticmethod(lambda: False)\n"}


def reach(*paths: str) -> str:
    """A function that imports modules."""
    names = (path.removesuffix(".py").replace("/", ".") for path in paths)
    return "def f():\n" + "".join(f"    import {name}\n" for name in names)


def test_what_is_imported_inside_functions_is_imported_too(verify: Verify) -> None:
    done = verify({WORKER: "def f():\n    from .deep import x\n", "verl/trainer/deep.py": "x = 1 / 0\n"}, *ONLY)
    assert done.code == 1
    assert done.problems("imports") == ["verl/trainer/deep.py:1: ZeroDivisionError: division by zero"]
    assert done.step("imports")["figures"] == {
        "entry_points": 1,
        "cannot_start": 0,
        "imported": 4,
        "not_needed": 0,
        "failed": 1,
    }


def test_what_prints_or_is_only_for_type_checkers_is_no_matter(verify: Verify) -> None:
    text = "import os\nfrom typing import TYPE_CHECKING\nprint('noise')\nos.write(1, b'noise')\n"
    done = verify({WORKER: f"{text}if TYPE_CHECKING:\n    import verl.bad\n", "verl/bad.py": "1 / 0\n"}, *ONLY)
    assert done.code == 0


def test_every_way_to_reach_a_module_counts(verify: Verify) -> None:
    ways = (
        'REGISTRY = {"vllm": "verl.a.Server"}\n'
        'from importlib import import_module\ndef f():\n    import_module("verl.b")\n    from .. import c\n'
    )
    modules = {f"verl/{name}.py": "1 / 0\n" for name in "abcd"}
    done = verify({WORKER: ways, **modules}, *ONLY)
    assert [each["path"] for each in done.step("imports")["problems"]] == ["verl/a.py", "verl/b.py", "verl/c.py"]


@pytest.mark.parametrize("place", [WORKER, "verl/trainer/__init__.py"])
def test_needing_flash_attn_fails_even_where_it_is_installed(place: str, verify: Verify, packages: Packages) -> None:
    packages({"flash_attn/__init__.py": "", "flash_attn/bert_padding.py": "pad_input = print\n"})
    done = verify({place: "import os\nfrom flash_attn.bert_padding import pad_input\n"}, *ONLY)
    assert done.code == 1
    (problem,) = done.problems("imports")
    assert problem.startswith(
        f"{place}:2: ModuleNotFoundError: No module named 'flash_attn', which does not run on p40"
    )
    assert verify({}, *ONLY, "--target", "a100").code == 0


def test_an_import_of_flash_attn_that_is_handled_is_none(verify: Verify, packages: Packages) -> None:
    packages({"flash_attn/__init__.py": "1 / 0\n"})
    assert verify({WORKER: "try:\n    import flash_attn\nexcept ImportError:\n    pass\n"}, *ONLY).code == 0


def test_an_import_of_flash_attn_on_machines_with_a_gpu_only_is_found(verify: Verify, packages: Packages) -> None:
    packages(TORCH)
    guarded = "import torch\nif torch.cuda.is_available():\n    import flash_attn\n"
    done = verify({WORKER: guarded, "verl/gpu.py": ""}, *ONLY)
    assert done.problems("imports") == [
        f"{WORKER}:3: ModuleNotFoundError: No module named 'flash_attn', which does not run on p40"
    ]


LACKS = {
    "vllm": "import vllm\n",
    "megatron": "from megatron.core import parallel_state\n",
    "sglang": "try:\n    import sglang\nexcept ImportError as error:\n    raise RuntimeError('no engine') from error\n",
    "engine": "try:\n    import engine\nexcept ImportError:\n    raise ValueError('install it')\n",
    "trtllm": "def f():\n    import trtllm\nraise ValueError('TrtLLM is not there')\n",
    "another json": "from json import nonesuch\n",
    "a working crashing": "import crashing\n",
    "nonesuch-engine": """
        from importlib.metadata import PackageNotFoundError, version
        def version_of(name):
            try:
                return version(name)
            except PackageNotFoundError:
                return None
        if version_of('nonesuch-engine') <= '0.6':
            pass
        """,
    "a GPU": "raise AssertionError('Torch not compiled with CUDA enabled')\n",
}


def test_what_a_lazy_module_lacks_is_not_needed_here(verify: Verify, packages: Packages) -> None:
    packages({"crashing.py": "1 / 0\n"})
    modules = {f"verl/m{number}.py": text for number, text in enumerate(LACKS.values())}
    done = verify({WORKER: reach(*modules), **modules}, *ONLY)
    assert done.problems("imports") == []
    assert {each["path"]: each["why"] for each in done.step("imports")["not_needed"]} == {
        f"verl/m{number}.py": f"needs {needs}" for number, needs in enumerate(LACKS)
    }


DEFECTS = (
    "from verl.nonesuch import x\n",
    "from verl import nonesuch\n",
    "try:\n    import vllm\nexcept ImportError:\n    undefined\n",
    "raise ValueError('a bad default')\n",
)


def test_a_defect_of_the_checkout_is_a_failure(verify: Verify) -> None:
    modules = {f"verl/m{number}.py": text for number, text in enumerate(DEFECTS)}
    done = verify({WORKER: reach(*modules), **modules}, *ONLY)
    assert done.code == 1
    assert [each["path"] for each in done.step("imports")["problems"]] == sorted(modules)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("import os\nos._exit(3)\n", f"{WORKER}:2: the process ended itself with exit code 3"),
        ("import os, signal\nos.kill(os.getpid(), signal.SIGKILL)\n", "the process was ended by SIGKILL"),
        ("import sys\nsys.exit('bye')\n", "SystemExit: the module ends the program, with 'bye'"),
    ],
)
def test_a_module_that_ends_the_process_fails_and_the_rest_goes_on(text: str, told: str, verify: Verify) -> None:
    files = {WORKER: text, "verl/trainer/later.py": "1 / 0\n"}
    entry = "import hydra\n\n@hydra.main(config_path='config', config_name='ppo')\ndef main(config):\n"
    entry += "    import verl.trainer.worker\n    import verl.trainer.later\n"
    done = verify({**files, "verl/trainer/main_ppo.py": entry}, *ONLY)
    assert done.code == 1
    first, second = done.problems("imports")
    assert first == "verl/trainer/later.py:1: ZeroDivisionError: division by zero"
    assert second.startswith(WORKER)
    assert told in second


def test_the_line_of_a_module_that_hangs_is_told(verify: Verify) -> None:
    program = "def f():\n    from . import worker\nif __name__ == '__main__':\n    f()\n"
    files = {"verl/trainer/main_ppo.py": program, WORKER: "import time\n\ntime.sleep(60)\n"}
    done = verify(files, *ONLY, "--timeout", "3")
    assert done.problems("imports") == [f"{WORKER}:3: took more than 3 seconds (--timeout)"]


def test_a_package_that_fails_half_way_stays_failed(verify: Verify) -> None:
    files = {
        "verl/engine/__init__.py": "from .first import x\nfrom .second import y\n",
        "verl/engine/first.py": "x = 1\n",
        "verl/engine/second.py": "y = 1 / 0\n",
        WORKER: "def f():\n    import verl.engine\n    import verl.engine.first\n",
    }
    done = verify(files, *ONLY)
    (problem,) = done.problems("imports")
    assert problem.startswith(
        "verl/engine/second.py:1: ZeroDivisionError: division by zero (stops verl/engine/__init__"
    )
    assert done.step("imports")["figures"]["failed"] == 3


def test_a_failure_that_only_an_earlier_one_brings_about_is_none(verify: Verify) -> None:
    files = {
        "verl/engine.py": "import math\nif hasattr(math, 'claimed'):\n    raise ValueError('twice')\n",
        "verl/needs.py": "import math\nmath.claimed = 1\nimport vllm\n",
        WORKER: "def f():\n    import verl.needs\n    import verl.engine\n",
    }
    assert verify(files, *ONLY).code == 0


def test_an_entry_point_that_lacks_a_package_is_told_and_with_entry_it_fails(verify: Verify) -> None:
    other = "import hydra\nimport nonesuch\n@hydra.main(config_path='config', config_name='ppo')\ndef main(c): ...\n"
    files = {"verl/trainer/main_other.py": other}
    done = verify(files, *ONLY)
    assert done.code == 0
    told = "verl/trainer/main_other.py cannot start here: it needs nonesuch (verl/trainer/main_other.py:2)"
    assert done.step("imports")["notes"] == [told]
    assert done.step("imports")["figures"]["cannot_start"] == 1
    done = verify(files, *ONLY, "--entry", "verl.trainer.main_other")
    assert done.code == 1
    assert "install nonesuch for" in done.problems("imports")[0]


def test_no_entry_point_that_can_start_is_a_failure(verify: Verify) -> None:
    done = verify({"verl/trainer/__init__.py": "import nonesuch\n"}, *ONLY)
    assert done.code == 1
    assert "No module named 'nonesuch'; install nonesuch for" in done.problems("imports")[0]


def test_nobody_is_told_to_install_what_does_not_run_on_the_card(verify: Verify) -> None:
    done = verify({"verl/trainer/__init__.py": "import vllm\n"}, *ONLY)
    (problem,) = done.problems("imports")
    assert "No module named 'vllm', which does not run on p40 (stops" in problem


def test_a_missing_framework_asks_for_another_interpreter(verify: Verify) -> None:
    done = verify({WORKER: "import omegaconf\n"}, *ONLY, "--block", "omegaconf")
    assert done.code == 1
    assert done.problems("imports")[0].endswith("name the interpreter that runs verl with --python FILE")


@pytest.mark.parametrize(
    "alias", ["import hydra as h\n@h.main", "from hydra import main as m\n@m", "import hydra\n@hydra.main"]
)
def test_an_entry_point_is_known_by_its_decorator(alias: str, verify: Verify) -> None:
    done = verify({"verl/trainer/main_ppo.py": f"{alias}('config', 'ppo')\ndef main(c): ...\n"}, *ONLY)
    assert done.step("imports")["figures"]["entry_points"] == 1


def test_without_hydra_a_program_in_a_trainer_package_is_the_entry_point(verify: Verify) -> None:
    program = "def f():\n    from . import worker\nif __name__ == '__main__':\n    f()\n"
    done = verify({"verl/trainer/main_ppo.py": program, WORKER: "1 / 0\n"}, *ONLY)
    assert done.step("imports")["figures"]["entry_points"] == 1
    assert done.problems("imports") == [f"{WORKER}:1: ZeroDivisionError: division by zero"]


def test_without_an_entry_point_every_module_is_looked_at(verify: Verify) -> None:
    done = verify({"verl/trainer/main_ppo.py": "", "verl/other.py": "1 / 0\n"}, *ONLY)
    assert done.step("imports")["summary"].startswith("no entry point found, so every module was looked at")
    assert done.problems("imports") == ["verl/other.py:1: ZeroDivisionError: division by zero"]


def test_a_helper_module_that_apply_added_and_is_gone_is_found_in_functions_too(verify: Verify) -> None:
    text = "def f():\n    from verl.utils.precpatch_padding import pad_input\n    import verl.forgotten\n"
    done = verify({WORKER: text, "verl/utils/__init__.py": ""}, *ONLY)
    (problem,) = done.problems("imports")
    assert problem.startswith(f"{WORKER}:2: verl.utils.precpatch_padding, which apply added, is not there")
    assert done.step("imports")["notes"] == [f"verl.forgotten is not in the checkout; imported at {WORKER}:3"]


def test_scripts_find_their_neighbours_and_not_those_of_others(verify: Verify) -> None:
    script = (
        "import hydra\nimport helper\nassert helper.NAME == {name!r}\n@hydra.main('config', 'ppo')\ndef main(c): ...\n"
    )
    files = {f"examples/{name}/run-{name}.py": script.format(name=name) for name in "ab"}
    files |= {f"examples/{name}/helper.py": f"NAME = {name!r}\n" for name in "ab"}
    done = verify(files, *ONLY)
    assert done.problems("imports") == []
    assert done.step("imports")["figures"]["entry_points"] == 3


def test_a_source_folder_is_on_the_path(verify: Verify) -> None:
    entry = "import hydra\nfrom other.part import x\n@hydra.main('config', 'ppo')\ndef main(c): ...\n"
    files = {"src/other/__init__.py": "", "src/other/part.py": "x = 1\n", "src/other/main.py": entry}
    assert verify(files, *ONLY).problems("imports") == []


def test_nothing_is_written_in_the_checkout(verify: Verify, checkout: Callable[..., Path]) -> None:
    root = checkout({})
    before = sorted(root.rglob("*"))
    assert verify({}).code == 0
    assert sorted(root.rglob("*")) == before
