"""Does the installed torch have code for the target, and which build does."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace

from precpatch.doctor.checks.check import Check
from precpatch.doctor.checks.situation import Situation
from precpatch.doctor.environment import cuda_of
from precpatch.doctor.facts import Code, Source, Wheel, code_of
from precpatch.doctor.versions import release_of, version_of
from precpatch.gpu.capability import format_compute_capability

WHY = (
    "A torch build holds machine code for a list of GPUs; on any other card the first kernel fails with "
    "'no kernel image is available for execution on the device'."
)
INDEX = "https://download.pytorch.org/whl"

_ASKED = Source("get-arch-list", "torch.cuda.get_arch_list() of this interpreter")
_VERSION_FILE = Source("torch-version", "torch/version.py of this interpreter")
_ARCHITECTURE = re.compile(r"(sm|compute)_(\d{2,3}a?)[f]?", re.ASCII)


def torch_check(situation: Situation) -> Check:
    """The torch build and its arch list against the target."""
    environment = situation.environment
    if environment.packages.get("torch") is None:
        seen = f"torch is not installed for {environment.executable}; --python names another interpreter"
        return _check("fail", seen, situation)
    if situation.card is None:
        return _check("ok", f"torch {environment.torch}; the target is a CPU", situation, sources=(_VERSION_FILE,))
    if environment.cuda is None and environment.torch_variant is not None:
        seen = f"torch {environment.torch} is built without CUDA"
        return _check("fail", seen, situation, sources=(_VERSION_FILE,))
    return _arch_list_check(situation)


def install_command(situation: Situation) -> str | None:
    """The command that installs a torch build with code for the target; None where no wheel has any.

    The installed release in another build comes first, then the newest release whose arch list was checked. A build
    whose CUDA the driver refuses is left out.
    """
    installed = version_of(situation.environment.packages.get("torch"))
    same = installed and f"{installed.major}.{installed.minor}"
    usable = [row for row in situation.facts.wheels if _serves(situation, row.code) and _driver_takes(situation, row)]
    for row in sorted((row for row in usable if row.torch == same), key=_preference, reverse=True):
        return _install(situation, str(installed), row)
    checked = (row for row in usable if row.release and row.verified != "memory")
    best = max(checked, key=lambda row: (version_of(row.release), _preference(row)), default=None)
    return _install(situation, best.release, best) if best and best.release else None


def _arch_list_check(situation: Situation) -> Check:
    """The verdict by the arch list: torch's own where it answered, else that of the facts."""
    environment = situation.environment
    name = f"torch {environment.torch}"
    if environment.architectures:
        return _by_code(situation, name, _code_of_architectures(environment.architectures), (_ASKED,))
    release = release_of(environment.packages["torch"])
    wheel = situation.facts.wheel(release, environment.torch_variant)
    if wheel is None:
        return _check("unknown", f"{name}: its arch list is not known{_unanswered(situation)}", situation)
    if environment.torch_variant is None:
        name += f", taken for the {wheel.variant} build of PyPI"
    check = _by_code(situation, name, wheel.code, wheel.sources)
    doubt = wheel.doubt(None) if environment.torch_variant else "its build is not known"
    return replace(check, seen=check.seen + _unanswered(situation), doubt=doubt)


def _by_code(situation: Situation, name: str, code: Code, sources: tuple[Source, ...]) -> Check:
    served = _serves(situation, code)
    card = format_compute_capability(situation.card)
    seen = f"{name} has code for {code}; {'that serves' if served else 'none of it runs on'} {card}"
    return _check("ok" if served else "fail", seen, situation, sources=sources)


def _unanswered(situation: Situation) -> str:
    error = situation.environment.architectures_error
    return f" (torch itself did not tell: {error})" if error else ""


def _check(status: str, seen: str, situation: Situation, *, sources: tuple[Source, ...] = ()) -> Check:
    fix = install_command(situation) if status == "fail" and situation.card else None
    return Check(id="torch", title="PyTorch", status=status, seen=seen, why=WHY, fix=fix, sources=sources)


def _serves(situation: Situation, code: Code) -> bool:
    return situation.card is not None and code.serves(situation.card, situation.facts.alone)


def _driver_takes(situation: Situation, wheel: Wheel) -> bool:
    """False where a fact says that the driver of this host cannot load the CUDA of the wheel."""
    environment = replace(situation.environment, cuda=cuda_of(wheel.variant))
    other = replace(situation, environment=environment)
    return not any(case.status == "fail" and other.holds(case) for case in situation.facts.check("driver").cases)


def _preference(wheel: Wheel) -> tuple[bool, bool, int]:
    """A checked arch list before one from memory, the wheel of PyPI before others, then the oldest CUDA."""
    return wheel.verified != "memory", wheel.pypi_default, -int(wheel.variant.removeprefix("cu"))


def _install(situation: Situation, version: str, wheel: Wheel) -> str:
    """The build is named in the version too: pip takes "2.8.0" as installed, whatever its build."""
    wanted = f"torch=={version}+{wheel.variant}"
    return f"{situation.environment.pip} install '{wanted}' --index-url {INDEX}/{wheel.variant}"


def _code_of_architectures(names: Iterable[str]) -> Code:
    """The Code in names such as "sm_75" and "compute_120"."""
    found = [match for name in names if (match := _ARCHITECTURE.fullmatch(name))]
    return code_of(
        [match[2] for match in found if match[1] == "sm"],
        [match[2].rstrip("a") for match in found if match[1] == "compute"],
    )
