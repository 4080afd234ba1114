"""The facts that a rule may ask for: what the readers state of a place is what ``facts.yaml`` says that they do."""

from __future__ import annotations

import json

import pytest

from precpatch.engine.rules import load_rules
from precpatch.engine.setups import with_neighbours
from precpatch.languages import language_of
from precpatch.vocabulary import builtin_vocabulary
from precpatch.vocabulary.facts import load_facts

SUFFIX = {"python": ".py", "yaml": ".yaml", "shell": ".sh", "json": ".json", "notebook": ".ipynb"}


def told(path: str, text: str) -> set[tuple[str, str]]:
    """Every fact that is stated in a file, with the language of the place."""
    language = language_of(path)
    assert language is not None
    mentions = language.read(language.open(path, text.encode()), builtin_vocabulary()).mentions
    mentions = with_neighbours(builtin_vocabulary(), mentions)
    return {(fact, mention.language) for mention in mentions for fact in mention.facts}


def declared(fact: str, language: str) -> bool:
    return fact in load_facts() and language in load_facts()[fact].readers


@pytest.mark.parametrize("rule", load_rules(), ids=lambda rule: rule.id)
def test_the_examples_state_no_fact_that_is_not_declared(rule: object) -> None:
    for example in rule.examples:  # type: ignore[attr-defined]
        found = told(example.path or f"example{SUFFIX[example.language]}", example.before)
        assert {each for each in found if not declared(*each)} == set()


TOGETHER = {
    "flash-attention": {"attn_implementation": "flash_attention_2", "use_remove_padding": True},
    "megatron": {"actor": {"strategy": "megatron", "use_remove_padding": True}},
    "veomni": {"actor": {"strategy": "veomni", "use_fused_kernels": True}},
    "packed": {"attn_implementation": "flash_attention_2", "use_remove_padding": True},
    "sequence-parallel": {"ulysses_sequence_parallel_size": 4, "use_remove_padding": True},
}
"""What is set together, in one document; the other languages write the same."""


def overrides(config: dict[str, object], above: str = "") -> list[str]:
    """A config as the overrides of a command line."""
    return [
        override
        for key, value in config.items()
        for override in (overrides(value, f"{above}{key}.") if isinstance(value, dict) else [f"{above}{key}={value}"])
    ]


def written_together(fact: str) -> dict[tuple[str, str], tuple[str, str]]:
    """Where each language says what is set together."""
    config = TOGETHER[fact]
    words = overrides({"actor_rollout_ref": config})
    return {
        (fact, "python"): ("m.py", f"run({words})\n"),
        (fact, "yaml"): ("c.yaml", json.dumps({"actor_rollout_ref": config})),
        (fact, "shell"): ("r.sh", f"run {' '.join(words)}\n"),
        (fact, "json"): ("c.json", json.dumps({"actor_rollout_ref": config})),
    }


PACKED = "a.use_remove_padding=True"
TRAINER = {"output_dir": "out", "learning_rate": 1}

PLACES = {
    ("accelerate", "json"): ("c.json", json.dumps({"distributed_type": "NO", "mixed_precision": "bf16"})),
    ("alias", "python"): ("m.py", "import torch\nBF16 = torch.bfloat16\n"),
    ("aliased-elsewhere", "yaml"): ("c.yaml", "dtype: &d bfloat16\nname: *d\n"),
    ("argument", "shell"): ("r.sh", "run bfloat16\n"),
    ("argv", "python"): ("m.py", 'run(["--dtype", "bfloat16"])\n'),
    ("argv", "yaml"): ("c.yaml", "more: [--dtype, bfloat16]\n"),
    ("asks-bf16", "shell"): ("r.sh", 'if [ "$X" = bf16 ]; then\n  run a.dtype=bfloat16\nfi\n'),
    ("asks-flash-attention", "shell"): (
        "r.sh",
        'if [ "$X" = flash_attention_2 ]; then\n  run a.attn_implementation=flash_attention_2\nfi\n',
    ),
    ("by-look", "python"): ("Dockerfile", 'RUN python -c "import torch; x = torch.bfloat16"\n'),
    ("by-look", "shell"): ("Dockerfile", "ENV TORCH_DTYPE=bfloat16\n"),
    ("collected", "python"): ("m.py", "import torch\nknown.append(torch.bfloat16)\n"),
    ("composed", "python"): ("m.py", 'import torch\nx = f(dtype=getattr(torch, "bfloat" + "16"))\n'),
    ("default", "shell"): ("r.sh", "X=${DTYPE:-bfloat16}\n"),
    ("embedded", "yaml"): ("c.yaml", "about: |\n  start it with a.dtype=bfloat16\n"),
    ("escaped", "json"): ("c.json", json.dumps(TRAINER | {"dtype": "bfloat16"}).replace("bfloat", "bflo\\u0061t")),
    ("escaped", "yaml"): ("c.yaml", 'dtype: "bflo\\x61t16"\n'),
    ("heredoc", "python"): ("r.sh", "python3 - <<'EOF'\nx = f(dtype=\"bfloat16\")\nEOF\n"),
    ("heredoc", "shell"): ("r.sh", "cat <<'EOF' > run.sh\nrun a.dtype=bfloat16\nEOF\n"),
    ("hf-config", "json"): ("c.json", '{"model_type": "x", "torch_dtype": "bfloat16"}'),
    ("in-f-string", "python"): ("m.py", 'import torch\nx = f"{torch.bfloat16}"\n'),
    ("in-list", "shell"): ("r.sh", "DTYPES=(bfloat16 float16)\n"),
    ("maybe-sequence-parallel", "python"): ("m.py", f'run([f"a.ulysses_sequence_parallel_size={{sp}}", "{PACKED}"])\n'),
    ("maybe-sequence-parallel", "shell"): ("r.sh", f"run a.ulysses_sequence_parallel_size=$1 {PACKED}\n"),
    ("option", "yaml"): ("c.yaml", "more:\n  - --dtype=bfloat16\n"),
    ("other-device", "json"): ("npu/c.json", '{"model_type": "x", "torch_dtype": "bfloat16"}'),
    ("other-device", "shell"): ("run_npu.sh", "run a.dtype=bfloat16\n"),
    ("other-device", "yaml"): ("npu.yaml", "dtype: bfloat16\n"),
    ("override", "yaml"): ("c.yaml", "overrides:\n  - a.dtype=bfloat16\n"),
    ("primary-config", "json"): ("c.json", '{"actor_rollout_ref": {"dtype": "bfloat16"}}'),
    ("primary-config", "yaml"): ("c.yaml", "actor_rollout_ref:\n  dtype: bfloat16\n"),
    ("shared", "shell"): ("r.sh", "ON=True\nrun a.use_remove_padding=$ON other.thing=$ON\n"),
    ("taken-float16", "python"): ("m.py", "from torch import bfloat16\nfloat16 = 1\nx = f(dtype=bfloat16)\n"),
    ("taken-float32", "python"): ("m.py", "from torch import bfloat16\nfloat32 = 1\nx = f(dtype=bfloat16)\n"),
    ("trainer", "json"): ("c.json", json.dumps(TRAINER | {"bf16": True})),
    ("variable", "yaml"): ("c.yaml", "env:\n  my_dtype: bfloat16\n"),
} | {place: source for fact in TOGETHER for place, source in written_together(fact).items()}


@pytest.mark.parametrize(("fact", "language"), PLACES, ids=lambda word: word)
def test_a_fact_is_stated_and_declared(fact: str, language: str) -> None:
    assert (fact, language) in told(*PLACES[fact, language])
    assert declared(fact, language)


def test_every_declared_fact_is_stated_somewhere() -> None:
    examples = (example for rule in load_rules() for example in rule.examples)
    found = {each for one in examples for each in told(one.path or f"example{SUFFIX[one.language]}", one.before)}
    promised = {(fact.name, reader) for fact in load_facts().values() for reader in fact.readers}
    assert promised - found - PLACES.keys() == set()


FORMS = {
    "primary-config": [
        ("c.yaml", "data: {x: 1}\ntrainer: {dtype: bfloat16}\n", "data: "),
        ("c.yaml", "data: {x: 1}\ntrainer: {dtype: bfloat16}\n", "trainer: "),
    ],
    "accelerate": [
        ("c.yaml", "compute_environment: X\ndistributed_type: NO\nmixed_precision: bf16\n", "compute_environment: "),
        ("c.yaml", "compute_environment: X\ndistributed_type: NO\nmixed_precision: bf16\n", "distributed_type: "),
    ],
    "megatron": [
        ("megatron/c.yaml", "dtype: bfloat16\n", "megatron"),
        ("c.yaml", "strategy: megatron\ndtype: bfloat16\n", "megatron"),
        ("c.yaml", "_target_: a.McoreConfig\ndtype: bfloat16\n", "Mcore"),
        ("c.yaml", "_target_: a.MegatronConfig\ndtype: bfloat16\n", "Megatron"),
    ],
}


@pytest.mark.parametrize(
    ("fact", "path", "text", "sign"), [(fact, *row) for fact, rows in FORMS.items() for row in rows]
)
def test_what_makes_a_file_a_config_of_its_kind(fact: str, path: str, text: str, sign: str) -> None:
    assert (fact, "yaml") in told(path, text)
    assert (fact, "yaml") not in told(path.replace(sign, "x"), text.replace(sign, f"x{sign[-2:]}"))
