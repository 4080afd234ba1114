"""Words that a user's rule brings: found in every reader, with nothing else edited. And files of other devices."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from precpatch.config import Settings
from precpatch.engine.finding import REPORT, REWRITE
from precpatch.engine.policy import Policy
from precpatch.engine.rules import load_rules
from precpatch.engine.words import vocabulary_for
from precpatch.gpu.resolve import resolve_target
from precpatch.session import file_findings, plan
from precpatch.vocabulary import builtin_vocabulary

RULE = """\
id: {id}
name: a rule of one's own
what: Tells of it.
why: It matters here.
safety: {safety}
match: {match}
then: {then}
"""


def policy(folder: Path, match: str, then: str = "{action: report}", safety: str = "report") -> Policy:
    """The policy of a run with one more rule, and only that one."""
    (folder / "own.yaml").write_text(RULE.format(id="own-rule", safety=safety, match=match, then=then))
    rules = [rule for rule in load_rules([folder]) if rule.id == "own-rule"]
    return Policy(rules, resolve_target("p40"))


def told(policy: Policy, path: str, text: str) -> list[str]:
    return [each.mention.text for each in file_findings(path, text.encode(), policy) if each.verdict == REPORT]


def notebook(code: str) -> str:
    cell = {"cell_type": "code", "execution_count": None, "metadata": {}, "outputs": [], "source": code}
    return json.dumps({"cells": [cell], "metadata": {}, "nbformat": 4, "nbformat_minor": 5})


SWITCH = {
    "python keyword": ("m.py", "run(use_flash_rope=True)\n"),
    "python dict": ("m.py", 'config = {"use_flash_rope": True}\n'),
    "python dataclass": ("m.py", "class Config:\n    use_flash_rope: bool = True\n"),
    "python attribute": ("m.py", "config.use_flash_rope = True\n"),
    "python override": ("m.py", 'run(["a.use_flash_rope=True"])\n'),
    "yaml": ("c.yaml", "model:\n  use_flash_rope: true\n"),
    "yaml override": ("c.yaml", "run:\n  - a.use_flash_rope=true\n"),
    "json": ("c.json", '{"output_dir": "o", "learning_rate": 1, "use_flash_rope": true}'),
    "shell override": ("r.sh", "python3 -m train a.use_flash_rope=True\n"),
    "shell option": ("r.sh", "python3 train.py --use-flash-rope true\n"),
    "notebook": ("n.ipynb", notebook("run(use_flash_rope=True)\n")),
    "notebook command": ("n.ipynb", notebook("!python3 -m train a.use_flash_rope=True\n")),
}


@pytest.mark.parametrize(("path", "text"), SWITCH.values(), ids=SWITCH)
def test_a_switch_that_only_the_rule_knows(tmp_path: Path, path: str, text: str) -> None:
    own = policy(tmp_path, "{kind: switch, key: use_flash_rope, value: 'true'}")
    assert len(told(own, path, text)) == 1
    assert told(own, path, text.replace("True", "False").replace("true", "false")) == []


def test_a_switch_is_a_boolean_and_no_text(tmp_path: Path) -> None:
    own = policy(tmp_path, "{kind: switch, key: use_flash_rope, value: 'true'}")
    assert told(own, "m.py", "run(use_flash_rope=True)\n") == ["True"]
    assert told(own, "m.py", 'run(use_flash_rope="true")\n') == []


NAMED = {
    "python": ("m.py", 'run(rope_backend="quick")\n'),
    "python dataclass": ("m.py", 'class Config:\n    rope_backend: str = "quick"\n'),
    "yaml": ("c.yaml", "rope_backend: quick\n"),
    "json": ("c.json", '{"output_dir": "o", "learning_rate": 1, "rope_backend": "quick"}'),
    "shell": ("r.sh", "python3 -m train a.rope_backend=quick\n"),
    "notebook": ("n.ipynb", notebook('run(rope_backend="quick")\n')),
}


@pytest.mark.parametrize(("path", "text"), NAMED.values(), ids=NAMED)
def test_a_choice_that_only_the_rule_knows(tmp_path: Path, path: str, text: str) -> None:
    own = policy(tmp_path, "{kind: switch, key: rope_backend, value: [quick, quicker]}")
    assert len(told(own, path, text)) == 1
    assert told(own, path, text.replace("quick", "plain")) == []


IMPORTS = {
    "import": ("m.py", "import xformers\n"),
    "a part of it": ("m.py", "import xformers.ops as xops\n"),
    "from": ("m.py", "from xformers.ops import memory_efficient_attention\n"),
    "notebook": ("n.ipynb", notebook("import xformers\n")),
    "installed": ("r.sh", "pip install xformers==0.0.30\n"),
}


@pytest.mark.parametrize(("path", "text"), IMPORTS.values(), ids=IMPORTS)
def test_a_package_that_only_the_rule_knows(tmp_path: Path, path: str, text: str) -> None:
    own = policy(tmp_path, "{kind: import, value: ['xformers', 'xformers.*']}")
    assert len(told(own, path, text)) == 1


def test_keys_with_a_star(tmp_path: Path) -> None:
    own = policy(tmp_path, "{kind: switch, key: '*_quick_rope', value: 'true'}")
    assert len(told(own, "c.yaml", "a:\n  some_quick_rope: true\n")) == 1
    assert len(told(own, "m.py", "run(other_quick_rope=True)\n")) == 1


def test_a_variable_of_the_environment(tmp_path: Path) -> None:
    own = policy(tmp_path, "{kind: switch, key: MY_ATTENTION, value: 'fast*'}")
    assert len(told(own, "r.sh", "export MY_ATTENTION=faster\n")) == 1
    assert len(told(own, "m.py", 'import os\nos.environ["MY_ATTENTION"] = "fast"\n')) == 1
    assert told(own, "r.sh", "export MY_ATTENTION=slow\n") == []


def test_a_dtype_and_an_implementation_that_only_the_rule_knows(tmp_path: Path) -> None:
    own = policy(tmp_path, "[{kind: dtype, value: posit16}, {kind: attention, value: ring_attention_9}]")
    assert len(told(own, "m.py", 'run(dtype="posit16")\n')) == 1
    assert len(told(own, "c.yaml", "attn_implementation: ring_attention_9\n")) == 1
    assert len(told(own, "r.sh", "python3 -m train a.dtype=posit16\n")) == 1


def test_a_switch_of_ones_own_is_rewritten(tmp_path: Path) -> None:
    switch = "{kind: switch, key: use_flash_rope, value: 'true'}"
    own = policy(tmp_path, switch, "{action: rewrite, to: 'false'}", "safe")
    found = {
        path: [each.after for each in file_findings(path, text.encode(), own) if each.verdict == REWRITE]
        for path, text in {
            "m.py": "run(use_flash_rope=True)\n",
            "c.yaml": "use_flash_rope: yes\n",
            "r.sh": "python3 -m train a.use_flash_rope=True\n",
            "c.json": '{"output_dir": "o", "learning_rate": 1, "use_flash_rope": true}',
        }.items()
    }
    assert found == {"m.py": ["False"], "c.yaml": ["no"], "r.sh": ["False"], "c.json": ["false"]}


HOLDS = {
    "shell in a notebook": ("shell", "notebook", notebook("!python3 -m train a.use_flash_rope=True\n")),
    "python in a notebook": ("python", "notebook", notebook("run(use_flash_rope=True)\n")),
    "python in a script": ("python", "shell", "python3 - <<'EOF'\nrun(use_flash_rope=True)\nEOF\n"),
}


@pytest.mark.parametrize(("language", "holder", "text"), HOLDS.values(), ids=HOLDS)
def test_a_file_is_read_for_what_stands_inside_it(tmp_path: Path, language: str, holder: str, text: str) -> None:
    own = policy(tmp_path, f"{{language: {language}, kind: switch, key: use_flash_rope, value: 'true'}}")
    assert own.needles[holder].stand_in(text.encode())
    assert not own.needles["json"].stand_in(text.encode())


def test_the_built_in_rules_bring_no_words() -> None:
    """What they ask for stands in the vocabulary: a key that is nowhere would do nothing, silently."""
    vocabulary = builtin_vocabulary()
    assert vocabulary_for(load_rules(), vocabulary) is vocabulary
    unknown = [
        (rule.id, key)
        for rule in load_rules()
        for match in rule.matches
        for key in dict(match.globs).get("key", ())
        if "switch" in dict(match.globs).get("kind", ())
        and not set(key) & set("*?[")
        and key not in vocabulary.calls
        and key not in {program.concept for program in vocabulary.programs}
        and vocabulary.setting(*reversed(key.rsplit(".", 1))) is None
    ]
    assert unknown == []


DEVICES = [
    *("npu", "tpu", "xpu", "hpu", "musa", "mlu", "ascend", "xla", "habana", "gaudi"),
    *("hccl", "hccs", "mindspeed", "cann", "cambricon"),
]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("verl/models/attn_{}.py", 'impl = f(attn_implementation="flash_attention_2", dtype=torch.bfloat16)\n'),
        ("examples/run_qwen_{}.sh", "python3 -m train actor.dtype=bfloat16\n"),
        ("verl/config/{}.yaml", "dtype: bfloat16\n"),
        ("config/{}/config.json", '{{"model_type": "qwen2", "torch_dtype": "bfloat16"}}'),
        ("m.py", "def {}_forward(x):\n    return x.to(torch.bfloat16)\n"),
        ("m.py", "if is_{}_available():\n    x = f(dtype=torch.bfloat16)\n"),
        ("m.py", 'if device.type == "{}":\n    x = f(dtype=torch.bfloat16)\n'),
    ],
    ids=["file", "script", "yaml", "json", "function", "branch", "comparison"],
)
def test_what_is_for_another_device_stays(device: str, path: str, text: str) -> None:
    p40 = Policy(load_rules(), resolve_target("p40"))
    code = f"import torch\n{text.format(device)}" if path.endswith(".py") else text.format(device)
    found = file_findings(path.format(device), code.encode(), p40)
    assert [each.mention.text for each in found if each.action != "keep"] == []


def test_a_word_of_a_path_that_is_nvidias_too_is_no_device() -> None:
    """MPS is Apple's, and NVIDIA's Multi-Process Service; in code it is Apple's."""
    p40 = Policy(load_rules(), resolve_target("p40"))
    script, code = b"python3 -m train actor.dtype=bfloat16\n", b"import torch\nx = f(dtype=torch.bfloat16)\n"
    assert [each.action for each in file_findings("examples/run_mps.sh", script, p40)] == ["rewrite"]
    assert [each.action for each in file_findings("mps/m.py", code, p40)] == ["rewrite"]
    asked = code.replace(b"x =", b"if is_mps_available():\n    x =")
    assert [each.action for each in file_findings("m.py", asked, p40)] == ["keep"]


def test_a_class_for_another_device_stays() -> None:
    p40 = Policy(load_rules(), resolve_target("p40"))
    code = "import torch\nclass {}Worker:\n    dtype = torch.bfloat16\n"
    for name in ("NPU", "Musa", "MLU", "XPU", "Ascend", "MindSpeed", "Hpu"):
        assert [each.action for each in file_findings("m.py", code.format(name).encode(), p40)] == ["keep"], name
    assert [each.action for each in file_findings("m.py", code.format("Input").encode(), p40)] == ["rewrite"]


def test_a_target_that_needs_nothing_reads_nothing(tmp_path: Path) -> None:
    """Not even files that do not parse, and of which a run for another card says so."""
    (tmp_path / "broken.py").write_text("x = = torch.bfloat16\n")
    (tmp_path / "broken.yaml").write_text("dtype: [bfloat16\n")
    assert len(plan(tmp_path, (), resolve_target("p40"), Settings()).errors) == 2
    nothing = plan(tmp_path, (), resolve_target("a100"), Settings())
    assert nothing.errors == ()
    assert nothing.findings == ()


def test_what_is_told_does_not_depend_on_other_words_of_the_file() -> None:
    """The line of verl 0.9.1's SGLang server, with another word in a comment and without; and a file of one setting."""
    p40 = Policy(load_rules(), resolve_target("p40"))
    for text in (
        'attention_backend = "flashinfer"\n',
        'attention_backend = "flashinfer"  # tf32\n',
        'llm = LLM(quantization="fp8")\n',
    ):
        assert len(told(p40, "m.py", text)) == 1, text
