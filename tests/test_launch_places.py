"""Settings where launches keep them: files that scripts write, sweeps, launchers, configs of sweeps and jobs."""

from __future__ import annotations

from pathlib import Path

import pytest

from precpatch.config import Settings
from precpatch.gpu.resolve import resolve_target
from precpatch.session import plan


def lines(root: Path, name: str, text: str, *, target: str = "p40") -> dict[int, list[str]]:
    """What a run says of a file: each line with what is found there, "old -> new" or "? old"."""
    (root / name).write_text(text)
    found: dict[int, list[str]] = {}
    for each in plan(root, (), resolve_target(target), Settings(unsafe=False)).of("rewrite", "report"):
        edits = [f"{edit.old.decode()} -> {edit.new.decode()}" for edit in each.edits if each.action == "rewrite"]
        found.setdefault(each.mention.line, []).extend(edits or [f"? {each.mention.text}"])
    return found


# --- files that a script writes ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("head", "line", "said"),
    [
        ("cat > c.yaml <<EOF", "dtype: ${DT:-bfloat16}", "bfloat16 -> float32"),
        ("cat > c.yaml <<EOF", '  - dtype: "${DT:-bfloat16}"  # why', "bfloat16 -> float32"),
        ("cat > c.yaml <<-EOF", "model: {torch_dtype: ${DT:-bfloat16}, x: 1}", "bfloat16 -> float32"),
        ("tee c.yml <<EOF", "attn_implementation: ${A:-flash_attention_2}", "flash_attention_2 -> eager"),
        ("cat <<EOF > c.yaml", "bf16: ${BF:-true}", "true -> false"),
        ("cat > c.yaml <<EOF", "use_remove_padding: ${RM:-True}", "True -> False"),
        ("cat > c.yaml <<EOF", "ulysses_sequence_parallel_size: ${SP:-2}", "? 2"),
        ("cat > c.yaml <<EOF", "VLLM_ATTENTION_BACKEND: ${V:-FLASH_ATTN}", "? FLASH_ATTN"),
        ("cat > c.json <<EOF", '"torch_dtype": "${DT:-bfloat16}",', "bfloat16 -> float32"),
        ("kubectl apply -f - <<EOF", "dtype: ${DT:-${OTHER:-bfloat16}}", "bfloat16 -> float32"),
    ],
)
def test_the_default_of_a_variable_in_a_file_that_a_script_writes(
    tmp_path: Path, head: str, line: str, said: str
) -> None:
    text = f"{head}\nname: x\n{line}\nEOF\n"
    assert lines(tmp_path, "run.sh", text) == {3: [said]}
    assert lines(tmp_path, "run.sh", text, target="a100") == {}


@pytest.mark.parametrize("taken", ["$DT", "${DT}", '"$DT"', "${DT:-$DT}"])
def test_a_variable_that_such_a_file_takes_is_told_where_it_is_given(tmp_path: Path, taken: str) -> None:
    text = f"DT=bfloat16\nSP=4\ncat > c.yaml <<EOF\ndtype: {taken}\nulysses_sequence_parallel_size: $SP\nEOF\n"
    assert lines(tmp_path, "run.sh", text) == {1: ["bfloat16 -> float32"], 2: ["? 4"]}


@pytest.mark.parametrize(
    "text",
    [
        "cat > c.yaml <<'EOF'\nuse_remove_padding: ${RM:-true}\nEOF\n",
        "cat > c.yaml <<EOF\n# use_remove_padding: ${RM:-true}\nname: ${RM:-true}\nbf16: ${BF:-false}\nEOF\n",
        "cat > notes.md <<EOF\nuse_remove_padding: ${RM:-true}\nEOF\n",
    ],
)
def test_what_a_file_that_a_script_writes_does_not_set_stays(tmp_path: Path, text: str) -> None:
    assert lines(tmp_path, "run.sh", text) == {}


@pytest.mark.parametrize("mark", ["<<'COMMENT'", "<<COMMENT", "<<-COMMENT", '<< "COMMENT"'])
@pytest.mark.parametrize("command", [":", "  :", "true"])
def test_commands_that_are_given_to_the_null_command_are_commented_out(tmp_path: Path, command: str, mark: str) -> None:
    body = "python t.py a.dtype=bfloat16 --bf16 true b.attn_implementation=${A:-flash_attention_2}"
    text = f"{command} {mark}\n{body}\nCOMMENT\npython t.py a.dtype=bfloat16\n"
    assert lines(tmp_path, "run.sh", text) == {4: ["bfloat16 -> float32"]}


# --- variables that launchers hand on --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "command",
    [
        "mpirun -np 2 -x {} python t.py",
        "/usr/bin/mpiexec -x A=1 -x {} python t.py",
        "srun --export=ALL,{} python t.py",
        "srun --export ALL,{},A=1 python t.py",
        "sbatch --export={},A=1 t.sh",
        'sbatch --export="ALL,{}" t.sh',
        "docker run --env={} image",
        "singularity exec --env A=1,{} image",
    ],
)
def test_a_variable_that_a_launcher_hands_on_is_one(tmp_path: Path, command: str) -> None:
    assert lines(tmp_path, "run.sh", command.format("VLLM_ATTENTION_BACKEND=FLASH_ATTN")) == {1: ["? FLASH_ATTN"]}
    assert lines(tmp_path, "run.sh", command.format("TORCH_DTYPE=bfloat16")) == {1: ["bfloat16 -> float32"]}
    assert lines(tmp_path, "run.sh", command.format("RUN_NAME=bfloat16")) == {}
    assert lines(tmp_path, "run.sh", command.format("VLLM_ATTENTION_BACKEND=XFORMERS")) == {}


def test_the_variables_that_a_job_of_hydra_sets(tmp_path: Path) -> None:
    text = "hydra:\n  job:\n    env_set:\n      A: b\n      VLLM_ATTENTION_BACKEND: FLASH_ATTN\n"
    assert lines(tmp_path, "config.yaml", text) == {5: ["? FLASH_ATTN"]}


# --- several values, one a run ---------------------------------------------------------------------------------------

SWEPT = {
    "a.rollout.dtype": ("float16", "bfloat16"),
    "a.actor.ulysses_sequence_parallel_size": ("1", "2"),
    "a.attn_implementation": ("sdpa", "flash_attention_2"),
    "a.bf16": ("false", "true"),
    "a.use_remove_padding": ("False", "True"),
}


@pytest.mark.parametrize("key", SWEPT)
@pytest.mark.parametrize("form", ["{}={},{}", "'{}={},{}'", "{}='{},{}'", "'{}=choice({}, {})'", "+{}={},{}"])
def test_one_of_the_values_of_a_multirun_is_reported(tmp_path: Path, key: str, form: str) -> None:
    plain, telling = SWEPT[key]
    text = "python -m t -m \\\n" + form.format(key, plain, telling) + " \\\n" + form.format("exp", plain, telling)
    assert lines(tmp_path, "run.sh", text + "\n") == {2: [f"? {telling}"]}


@pytest.mark.parametrize("key", SWEPT)
@pytest.mark.parametrize("form", ["{},{}", "'{}, {}'", "choice({}, {})"])
def test_one_of_the_values_of_a_sweep_in_a_config_is_reported(tmp_path: Path, key: str, form: str) -> None:
    plain, telling = SWEPT[key]
    values = form.format(plain, telling)
    text = f"hydra:\n  sweeper:\n    params:\n      {key}: {values}\nname: {values}\n"
    assert lines(tmp_path, "config.yaml", text) == {4: [f"? {telling}"]}


@pytest.mark.parametrize("key", SWEPT)
@pytest.mark.parametrize("form", ["{}: {{values: [{}, {}]}}", "{}:\n    values:\n    - {}\n    - {}"])
def test_one_of_the_values_of_a_parameter_is_reported(tmp_path: Path, key: str, form: str) -> None:
    plain, telling = SWEPT[key]
    text = f"method: grid\nparameters:\n  name: {{values: [{telling}]}}\n  {form.format(key, plain, telling)}\n"
    assert list(lines(tmp_path, "sweep.yaml", text).values()) == [[f"? {telling}"]]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("dtype: {value: bfloat16}", "bfloat16 -> float32"),
        ("dtype: {value: 'bf16'}", "'bf16' -> 'fp32'"),
        ("a.attn_implementation: {value: flash_attention_2}", "flash_attention_2 -> eager"),
        ("use_remove_padding: {value: true}", "true -> false"),
        ("ulysses_sequence_parallel_size: {value: 2}", "? 2"),
    ],
)
def test_the_one_value_of_a_parameter_is_that_of_the_setting(tmp_path: Path, line: str, said: str) -> None:
    assert lines(tmp_path, "sweep.yaml", f"method: grid\nparameters:\n  {line}\n") == {3: [said]}


# --- branches that ask the compute capability ------------------------------------------------------------------------

QUERY = "$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader | head -1)"
ASK = "import torch, sys; sys.exit"


@pytest.mark.parametrize(
    "test",
    [
        f"[[ {QUERY} -ge 8 ]]",
        f'[ "{QUERY}" -gt 79 ]',
        '[ "$CC" -ge 80 ]',
        "(( MAJOR >= 8 ))",
        '[[ "${MAJOR}" -gt 7 ]]',
        '! [ "$CC" -lt 80 ]',
        '[[ "$CC" =~ ^8 ]]',
        '(( $(echo "$CC >= 8.0" | bc -l) ))',
        f'python -c "{ASK}(0 if torch.cuda.get_device_capability()[0] >= 8 else 1)"',
        f'python3 -c "{ASK}(torch.cuda.get_device_capability() < (8, 0))"',
    ],
)
@pytest.mark.parametrize("form", ["if {}; then {}; fi", "if {}; then\n  {}\nelse\n  D=float32\nfi"])
def test_a_branch_that_asks_the_compute_capability_stays(tmp_path: Path, test: str, form: str) -> None:
    guarded = form.format(test, "D=bfloat16; A=flash_attention_2; B=true")
    use = "python t.py a.dtype=$D a.attn_implementation=$A a.bf16=$B"
    assert lines(tmp_path, "run.sh", f"CC={QUERY}\nMAJOR=${{CC%%.*}}\n{guarded}\n{use}\n") == {}


@pytest.mark.parametrize("least", ['[ "$CC" -lt 80 ]', '[ "$CC" -lt 90 ]'])
def test_what_an_older_card_does_not_reach_stays(tmp_path: Path, least: str) -> None:
    text = f"CC={QUERY}\nif {least}; then D=float16; else D=bfloat16; fi\npython t.py a.dtype=$D\n"
    assert lines(tmp_path, "run.sh", text) == {}


@pytest.mark.parametrize(
    "test",
    [
        *('[ "$CC" -ge 70 ]', '[ "$CC" -lt 80 ]', '[ "$CC" -gt 70 ]', '[ "$OTHER" -ge 80 ]', '[ -n "$CC" ]'),
        *('[ "$CC" != "8.0" ]', '[ ! "$CC" -ge 80 ]', "[[ ! $CC -ge 80 ]]", '[ "$CC" -gt 72 ]'),
        *('[ $CC -ge 80 ] || [ -n "$F" ]', '[ -n "$F" ] || [ $CC -ge 80 ]', '[[ $CC -ge 80 || -n "$F" ]]'),
        '[ $CC -ge 80 -o -n "$F" ]',
        f'python -c "{ASK}(torch.cuda.get_device_capability() >= (8, 0))"',
    ],
)
def test_a_branch_that_an_older_card_reaches_changes(tmp_path: Path, test: str) -> None:
    text = f"CC={QUERY}\nif {test}; then D=bfloat16; fi\npython t.py a.dtype=$D\n"
    assert lines(tmp_path, "run.sh", text) == {2: ["bfloat16 -> float32"]}


# --- other spellings -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("key", ["use_remove_padding", "use_torch_compile", "use_liger", "flash_attention"])
@pytest.mark.parametrize(("old", "new"), [('"True"', "False"), ("'true'", "false")])
def test_a_switch_in_quotes_becomes_one_without(tmp_path: Path, key: str, old: str, new: str) -> None:
    assert lines(tmp_path, "config.yaml", f"model:\n  {key}: {old}\n") == {2: [f"{old} -> {new}"]}
    assert lines(tmp_path, "config.yaml", f"model:\n  {key}: {new}\n") == {}


@pytest.mark.parametrize(
    "key",
    ["eval_sample_packing", "flash_attn_cross_entropy", "flash_attn_rms_norm", "liger_rms_norm", "liger_rope"],
)
def test_more_switches_of_axolotl(tmp_path: Path, key: str) -> None:
    assert lines(tmp_path, "lora.yml", f"base_model: x\n{key}: true\n") == {2: ["true -> false"]}
    assert lines(tmp_path, "lora.yml", f"base_model: x\n{key}: true\n", target="a100") == {}


@pytest.mark.parametrize("requirement", ['"flash-attn@https://h/f.whl"', "flash-attn==2.8.3", "flash_attn"])
def test_what_a_run_is_given_with_is_installed(tmp_path: Path, requirement: str) -> None:
    text = f"uv run --no-sync --with {requirement} python t.py\npython t.py --with {requirement}\n"
    assert list(lines(tmp_path, "run.sh", text)) == [1]


@pytest.mark.parametrize("around", ["cat > job.yaml <<'EOF'\n{}EOF\n", "tee a.yml <<'EOF'\n{}EOF\n"])
def test_a_script_in_a_job_that_a_script_writes_is_rewritten(tmp_path: Path, around: str) -> None:
    text = around.format("run: python t.py --dtype bfloat16\n")
    assert lines(tmp_path, "run.sh", text) == {2: ["bfloat16 -> float32"]}
