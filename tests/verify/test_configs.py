"""The step configs: composing as Hydra does, and dataclasses that refuse what the patch writes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

pytest.importorskip("hydra")

Verify = Callable[..., object]

ONLY = ("--only", "configs")
PPO = "verl/trainer/config/ppo.yaml"
ENGINE = "verl/engine.py"
HEAD = "from dataclasses import dataclass\n\n"
CLASS = """@dataclass
class {name}:
    path: str = "???"
    batch: int = None
    dtype: str = "float32"
    inner: object = None

    def __post_init__(self):
        {check}

"""


def classes(checks: list[str]) -> str:
    """A module with a dataclass ``C0``, ``C1``, ... for each check."""
    return HEAD + "".join(CLASS.format(name=f"C{number}", check=check) for number, check in enumerate(checks))


def test_configs_are_composed_and_resolved(verify: Verify) -> None:
    files = {
        PPO: "defaults: [part@actor: one, _self_]\nlr: ${actor.lr}\nhome: ${oc.env:NONESUCH}\nlog: ${hydra:run.dir}\n",
        "verl/trainer/config/part/one.yaml": "lr: 1\npath: ???\nalso: ${.path}\n",
    }
    done = verify(files, *ONLY)
    assert done.problems("configs") == []
    assert done.step("configs")["summary"] == "1 config composed, 0 dataclasses built, 0 read"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("defaults: [nonesuch]\n", f"{PPO}:None: does not compose: MissingConfigException: In 'ppo'"),
        (
            "a: ${nonesuch.x}\n",
            f"{PPO}:None: a: ${{nonesuch.x}}: InterpolationKeyError: Interpolation key 'nonesuch.x'",
        ),
        ("a:\n\tb: 1\n", f"{PPO}:None: does not compose: ScannerError: "),
        ("a: [{b: '${nonesuch:1}'}]\n", f"{PPO}:None: a[0].b: ${{nonesuch:1}}: UnsupportedInterpolationType"),
        ("a: {_target_: verl.bad.Thing}\n", "verl/bad.py:1: _target_ verl.bad.Thing: ZeroDivisionError"),
    ],
)
def test_what_is_wrong_with_a_config_is_one_line(text: str, told: str, verify: Verify) -> None:
    done = verify({PPO: text, "verl/bad.py": "1 / 0\n"}, *ONLY)
    assert done.code == 1
    (problem,) = done.problems("configs")
    assert problem.startswith(told)
    assert "\n" not in problem


REFUSALS = [
    'assert self.dtype in ["bfloat16", "float16"]',
    'if self.dtype not in ("bfloat16", "float16"):\n            raise ValueError("no")',
    'if self.batch is None:\n            raise ValueError("no batch")\n        assert self.dtype in ["bfloat16"]',
    'if self.dtype == "float32":\n            raise ValueError("no")',
    'assert not self.dtype.startswith("float32"), self.dtype',
]


def test_a_dataclass_that_refuses_the_patched_value_fails(verify: Verify) -> None:
    nodes = [f"a{n}: {{_target_: verl.engine.C{n}, path: x}}\n" for n in range(len(REFUSALS))]
    nodes += [f"b{n}: {{_target_: verl.engine.C{n}, path: x, dtype: float32}}\n" for n in range(len(REFUSALS))]
    done = verify({PPO: "".join(nodes), ENGINE: classes(REFUSALS)}, *ONLY)
    assert done.code == 1
    problems = done.problems("configs")
    for name in (node.partition(":")[0] for node in nodes):
        assert len([each for each in problems if each.startswith(f"{PPO}:None: {name}: ")]) == 1


def test_a_dataclass_that_waits_for_another_value_is_no_failure(verify: Verify) -> None:
    checks = [
        'assert self.dtype in ["bfloat16", "float32"]',
        'if self.batch is None:\n            raise ValueError("no batch")',
        'if self.batch is None:\n            raise ValueError(f"no batch, {self.dtype}")',
        'assert self.path != "x"',
        'assert self.path in ["a", "b"]',
    ]
    nodes = [f"a{n}: {{_target_: verl.engine.C{n}, path: x}}\n" for n in range(len(checks))]
    nodes += [f"b{n}: {{_target_: verl.engine.C{n}, path: '???'}}\n" for n in range(len(checks))]
    done = verify({PPO: "".join(nodes), ENGINE: classes(checks)}, *ONLY)
    assert done.problems("configs") == []
    assert done.step("configs")["figures"]["waiting"] == len(checks) * 2 - 1


def test_dataclasses_are_built_from_the_inside(verify: Verify) -> None:
    inner = "{_target_: verl.engine.C0, path: x, dtype: float16}"
    text = f"a: {{_target_: verl.engine.C0, path: x, inner: {inner}}}\n"
    done = verify({PPO: text, ENGINE: classes(['assert self.dtype in ["float32", "float16"]'])}, *ONLY)
    assert done.step("configs")["figures"]["built"] == 2


def test_a_class_that_refuses_its_own_default_fails_without_a_config(verify: Verify) -> None:
    files = {ENGINE: classes(REFUSALS[:1]), "verl/trainer/worker.py": "def f():\n    import verl.engine\n"}
    done = verify(files, *ONLY)
    assert done.problems("configs") == [
        "verl/engine.py:3: C0.__post_init__ refuses dtype='float32': it takes bfloat16, float16"
    ]
    assert verify(files, *ONLY, "--target", "a100").code == 0


def test_targets_that_need_another_package_or_name_nothing_are_told(verify: Verify) -> None:
    text = "a: {_target_: verl.rollout.Server}\nb: {_target_: verl.gone.Thing}\n"
    done = verify({PPO: text, "verl/rollout.py": "import vllm\n"}, *ONLY)
    assert done.code == 0
    assert done.step("configs")["notes"] == [
        "_target_ that name nothing in the checkout: verl.gone.Thing",
        "1 _target_ is not needed here: needs vllm",
    ]


def test_a_config_that_has_to_be_named_is_told(verify: Verify) -> None:
    entry = "import hydra\n@hydra.main(config_path='config', config_name='other')\ndef main(c): ...\n"
    done = verify({"verl/trainer/main_ppo.py": entry}, *ONLY)
    assert done.code == 0
    told = "verl/trainer/main_ppo.py:2: there is no verl/trainer/config/other.yaml, so --config-name has to be given"
    assert done.step("configs")["notes"] == [told]


@pytest.mark.parametrize("place", ["file://verl/trainer/config", "file://../../verl/trainer/config"])
def test_a_search_path_counts_from_the_top_or_from_the_entry_point(place: str, verify: Verify) -> None:
    files = {
        "examples/run/main.py": "import hydra\n@hydra.main('config', 'mine', None)\ndef main(c): ...\n",
        "examples/run/config/mine.yaml": f"hydra: {{searchpath: ['{place}']}}\ndefaults: [ppo, _self_]\nx: ${{lr}}\n",
    }
    done = verify(files, *ONLY)
    assert done.problems("configs") == []
    assert done.step("configs")["figures"]["configs"] == 2


def test_without_hydra_one_line_names_the_remedy(verify: Verify) -> None:
    done = verify({}, *ONLY, "--block", "hydra")
    (problem,) = done.problems("configs")
    assert problem.startswith("None:None: hydra is not installed for ")
    assert problem.endswith("name the interpreter that runs verl with --python FILE")


DATACLASS = HEAD + "@dataclass\nclass C:\n    inner: object = None\n    other: int = 1\n\n"
EFFECTS = """
import os
class Plain:
    def __init__(self, **given):
        launch()
def launch(**given):
    os.mkdir(os.path.join(os.path.dirname(__file__), "launched"))
"""


def test_nothing_but_dataclasses_is_called(verify: Verify, checkout: Callable[..., Path]) -> None:
    text = (
        "a: {_target_: verl.e.launch}\nb: {_target_: '${name}'}\nname: verl.e.launch\n"
        "c: {_target_: verl.e.C, inner: {_target_: verl.e.launch}}\nd: {_target_: verl.e.C, inner: '${a}'}\n"
        "e: {_target_: verl.e.C, inner: [[{_target_: verl.e.Plain}]]}\nf: {_target_: verl.e.C, inner: {x: 1}}\n"
    )
    files = {PPO: text, "verl/e.py": DATACLASS + EFFECTS}
    done = verify(files, *ONLY)
    assert done.problems("configs") == []
    assert (done.step("configs")["figures"]["built"], done.step("configs")["figures"]["waiting"]) == (1, 3)
    assert not (checkout({}) / "verl/launched").exists()


def test_what_only_the_run_or_the_user_gives_is_no_failure(verify: Verify) -> None:
    text = "a: ${oc.env:NONESUCH}\nb: ${a}\nc: x_${b}\nd: ${e}\ne: ${hydra:run.dir}\nf: ${later:1}\ng: ${f}\n"
    entry = (
        "import hydra\nfrom omegaconf import OmegaConf\n@hydra.main('config', 'ppo', None)\ndef main(c):\n"
        "    OmegaConf.register_new_resolver('later', str)\n"
    )
    done = verify({PPO: text + "h: ${never:1}\n", "verl/trainer/main_ppo.py": entry}, *ONLY)
    (problem,) = done.problems("configs")
    assert problem.endswith("Unsupported interpolation type never")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("defaults: [{model: '???'}, _self_]\n", "You must specify 'model'"),
        ("defaults: [x]\nhydra: {searchpath: ['file://${oc.env:NONESUCH}']}\n", "Environment variable 'NONESUCH'"),
    ],
)
def test_a_config_that_waits_for_a_choice_is_told(text: str, told: str, verify: Verify) -> None:
    done = verify({PPO: text}, *ONLY)
    assert done.code == 0
    (note,) = done.step("configs")["notes"]
    assert note.startswith(f"{PPO} only composes with what you give: ")
    assert told in note


def test_a_key_may_hold_a_dot_and_a_dataclass_may_end_the_program(verify: Verify) -> None:
    nodes = "'a.b': {_target_: verl.e.C}\n3: {_target_: verl.e.C}\nl: [[{_target_: verl.e.C}]]\n"
    ends = "@dataclass\nclass E:\n    x: int = 1\n    def __post_init__(self):\n        raise SystemExit(3)\n"
    files = {PPO: nodes + "e: {_target_: verl.e.E}\n", "verl/e.py": DATACLASS + ends}
    done = verify(files, *ONLY)
    assert done.problems("configs") == []
    assert done.step("configs")["figures"]["built"] == 3


def test_parts_that_the_entry_point_registers_are_there_in_every_process(verify: Verify) -> None:
    entry = (
        "import hydra\nfrom hydra.core.config_store import ConfigStore\n"
        "ConfigStore.instance().store(name='base', node={'lr': 1})\n"
        "@hydra.main('config', 'ppo', None)\ndef main(c):\n    from verl.trainer import worker\n"
    )
    files = {
        "verl/trainer/main_ppo.py": entry,
        PPO: "defaults: [base, _self_]\n",
        "verl/trainer/worker.py": "import os\nos._exit(1)\n",
    }
    assert verify(files, *ONLY).problems("configs") == []


def test_a_folder_of_configs_that_is_not_there_has_to_be_named(verify: Verify) -> None:
    entry = "import hydra\n@hydra.main(config_path='gone', config_name='ppo')\ndef main(c): ...\n"
    done = verify({"verl/trainer/main_ppo.py": entry}, *ONLY)
    assert done.code == 0
    assert (
        "there is no verl/trainer/gone/ppo.yaml, so --config-name has to be given" in done.step("configs")["notes"][0]
    )


SP, PACKED = "ulysses_sequence_parallel_size", "use_remove_padding"
FOLDER = "verl/trainer/config"


def hazards(done: object) -> list[tuple[str, str]]:
    """The values that train wrong, with the overrides that put them right."""
    told = [each.removeprefix(f"{PPO}:None: ") for each in done.problems("configs")]
    assert done.code == (1 if told else 0)
    assert done.step("configs")["figures"]["hazards"] == len(told)
    return [(each.partition(": ")[0], each.partition("; as overrides: ")[2]) for each in told]


@pytest.mark.parametrize("role", ["actor_rollout_ref.actor", "actor_rollout_ref.ref", "critic", "reward_model"])
def test_a_size_that_comes_from_another_layer_is_named_with_both_settings(role: str, verify: Verify) -> None:
    """No file says that both hold for one model: only composing does."""
    files = {
        PPO: f"defaults: [part@{role}: fsdp, hf@{role.partition('.')[0]}.model: hf, _self_]\nsize: 2\npacked: true\n",
        f"{FOLDER}/part/fsdp.yaml": f"{SP}: ${{size}}\nstrategy: fsdp\n",
        f"{FOLDER}/hf/hf.yaml": f"{PACKED}: ${{oc.select:packed,false}}\n",
    }
    done = verify(files, *ONLY)
    size, packed = f"{role}.{SP}", f"{role.partition('.')[0]}.model.{PACKED}"
    assert set(hazards(done)) == {
        (f"{packed} is True (${{oc.select:packed,false}})", f"++{packed}=False ++{size}=1"),
        (f"{size} is 2 (${{size}})", f"++{size}=1 ++{packed}=False"),
    }
    (told,) = [each for each in done.problems("configs") if SP in each.partition(" is ")[0]]
    assert "each GPU attends only to its piece, without an error" in told
    assert "verl models/transformers/monkey_patch.py" in told


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (f"{SP}: 4\n{PACKED}: false\n", [(f"{SP} is 4", f"++{SP}=1")]),
        (f"{SP}: 1\n{PACKED}: true\n", [(f"{PACKED} is True", f"++{PACKED}=False")]),
        (f"{SP}: 1\n{PACKED}: false\n", []),
        (f"{SP}: null\n{PACKED}: ???\n", []),
        (f"engine: {{{SP}: 2}}\nmodel: {{{PACKED}: true}}\n", [
            (f"engine.{SP} is 2", f"++engine.{SP}=1 ++model.{PACKED}=False"),
            (f"model.{PACKED} is True", f"++model.{PACKED}=False ++engine.{SP}=1"),
        ]),
        (f"a: {{{SP}: 2}}\nb: {{{SP}: 1, model: {{{PACKED}: true}}}}\n", [
            (f"a.{SP} is 2", f"++a.{SP}=1"),
            (f"b.model.{PACKED} is True", f"++b.model.{PACKED}=False"),
        ]),
        (f"a: {{b: {{{SP}: 2}}, c: {{{SP}: '${{a.b.{SP}}}'}}}}\n", [(f"a.b.{SP} is 2", f"++a.b.{SP}=1")]),
        (f"a: {{strategy: megatron, {PACKED}: true}}\nb: {{strategy: fsdp, {PACKED}: true}}\n", [
            (f"b.{PACKED} is True", f"++b.{PACKED}=False"),
        ]),
        ("a: {trainer: {sequence_packing: {enabled: true}}}\n", [
            ("a.trainer.sequence_packing.enabled is True", "++a.trainer.sequence_packing.enabled=False"),
        ]),
    ],
)  # fmt: skip
def test_values_that_train_wrong_are_told_model_by_model(
    text: str, told: list[tuple[str, str]], verify: Verify
) -> None:
    assert hazards(verify({PPO: text}, *ONLY)) == told


@pytest.mark.parametrize("options", [("--target", "a100"), ("--ignore", "packing", "--ignore", "ulysses")])
def test_nothing_is_told_where_the_rules_are_not_for_it(options: tuple[str, ...], verify: Verify) -> None:
    assert hazards(verify({PPO: f"{SP}: 2\n{PACKED}: true\n"}, *ONLY, *options)) == []


def test_what_a_comment_suppresses_is_not_told(verify: Verify) -> None:
    text = f"{SP}: 2\n{PACKED}: true # precpatch: ignore[packing-under-sequence-parallel]\n"
    assert hazards(verify({PPO: text}, *ONLY)) == [(f"{SP} is 2", f"++{SP}=1 ++{PACKED}=False")]


COMPUTED = f"{HEAD}ON, SIZE = bool(1), 1 + 1\n\n@dataclass\nclass C:\n    {PACKED}: bool = ON\n    {SP}: int = SIZE\n"


def test_a_default_of_a_dataclass_is_what_a_run_is_given(verify: Verify) -> None:
    """Where the config leaves it to the class; the class by itself is told where no config does."""
    left = f"a: {{_target_: verl.engine.C, {SP}: 1}}\n"
    told = hazards(verify({PPO: left, ENGINE: COMPUTED}, *ONLY))
    assert told == [(f"a.{PACKED} is True (the default of C)", f"++a.{PACKED}=False")]
    files = {ENGINE: COMPUTED, "verl/trainer/worker.py": "import verl.engine\n", PPO: "lr: 1\n"}
    problems = verify(files, *ONLY).problems("configs")
    assert [each.partition(" is ")[0] for each in problems] == [f"{ENGINE}:5: C.{PACKED}", f"{ENGINE}:5: C.{SP}"]
    assert "as overrides" not in "".join(problems)


def test_a_default_of_a_dataclass_is_no_setting_of_another_model(verify: Verify) -> None:
    off = f"{HEAD}@dataclass\nclass C:\n    {PACKED}: bool = False\n    {SP}: int = 1\n"
    text = f"engine: {{_target_: verl.engine.C, {SP}: 2}}\nmodel: {{{PACKED}: true}}\n"
    assert hazards(verify({PPO: text, ENGINE: off}, *ONLY)) == [
        (f"engine.{SP} is 2", f"++engine.{SP}=1 ++model.{PACKED}=False"),
        (f"model.{PACKED} is True", f"++model.{PACKED}=False ++engine.{SP}=1"),
    ]
