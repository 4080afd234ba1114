"""Kill apply, revert and recovery at every call that changes something, and let each of those calls fail.

    python tests/safety/crash.py            the short form, as in CI
    python tests/safety/crash.py --long     every call, every fault, second faults, random kills; prints the figures

After each: every file is whole, what the error says of the tree is so, one recovery makes the tree all old or all new,
revert brings every byte and mode back, and nothing of ours is left. Run as root, it does all of it as "nobody" too.
"""

from __future__ import annotations

import argparse
import errno
import os
import random
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from precpatch.errors import UserError
from precpatch.patch.edits import Edit, NewFile, PatchSet
from precpatch.patch.transaction import apply, recover, revert, tidy

OLD = {"a.py": b"x = bf16\r\n", "pkg/b.sh": b"\xe9 bf16", "pkg/deep/c d.yaml": b"k: bf16\n" * 9, "other.py": b"pass\n"}
NEW = {path: data.replace(b"bf16", b"fp32", 1) for path, data in OLD.items()}
ADDED = NewFile("pkg/added.py", b"import torch\n\xff")
NEW_AND_ADDED = {**NEW, ADDED.path: ADDED.data}
MODES = {"pkg/b.sh": 0o755, "a.py": 0o640}
NOBODY = 65534

CALLS = ("open", "write", "replace", "link", "fsync", "unlink", "chmod", "chown", "mkdir", "rmdir", "ftruncate")
FAULTS = (errno.EIO, errno.ENOSPC, errno.EACCES, errno.EROFS)

Action = Callable[[Path], object]


def build(root: Path) -> Path:
    """A tree as it is before any apply."""
    for path, data in OLD.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_bytes(data)
        (root / path).chmod(MODES.get(path, 0o644))
    return root


def read(root: Path) -> dict[str, bytes]:
    """Every file but those of ``.precpatch``, temporary ones too."""
    found = [path for path in root.rglob("*") if path.is_file()]
    names = {path.relative_to(root).as_posix(): path for path in found}
    return {name: path.read_bytes() for name, path in names.items() if not name.startswith(".precpatch/")}


def do_apply(root: Path) -> object:
    """Make the change, as long as it is not made."""
    edits = [Edit(path, data.index(b"bf16"), b"bf16", b"fp32") for path, data in OLD.items() if b"bf16" in data]
    return apply(root, PatchSet.of(edits, OLD.__getitem__, [ADDED]))


def do_second_apply(root: Path) -> object:
    """One more change on top."""
    return apply(root, PatchSet.of([Edit("other.py", 0, b"pass", b"None")], lambda _: OLD["other.py"]))


def revert_all(root: Path) -> object:
    """Take back every apply."""
    return revert(root, all=True)


def nothing(root: Path) -> None:
    """The tree as built."""


def applied_twice(root: Path) -> None:
    """Two applies to take back."""
    do_apply(root)
    do_second_apply(root)


SCENARIOS: dict[str, tuple[Action, Action]] = {
    "apply": (nothing, do_apply),
    "second apply": (do_apply, do_second_apply),
    "revert": (do_apply, revert),
    "revert --all": (applied_twice, revert_all),
}
"""Name -> what happened before, and what is killed or fails."""


class Boundary:
    """The calls of the system that change something, counted; at one of them something happens.

    Attributes:
        calls: number of calls so far.
    """

    def __init__(self, at: Callable[[int], bool], then: Callable[[str, tuple[object, ...]], object]) -> None:
        self.calls = 0
        self._at, self._then = at, then

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Watch the calls in the block."""
        originals = {name: getattr(os, name) for name in CALLS if hasattr(os, name)}
        for name, original in originals.items():
            setattr(os, name, self._wrapped(name, original))
        try:
            yield
        finally:
            for name, original in originals.items():
                setattr(os, name, original)

    def _wrapped(self, name: str, original: Callable[..., object]) -> Callable[..., object]:
        def call(*args: object, **kwargs: object) -> object:
            self.calls += 1
            if self._at(self.calls):
                self._then(name, (original, *args))
            return original(*args, **kwargs)

        return call


def die(name: str, call: tuple[object, ...]) -> None:
    """Kill the process; in the middle of a write half of it is done."""
    if name == "write":
        call[0](call[1], bytes(call[2])[: len(call[2]) // 2])  # type: ignore[operator,arg-type,index]
    os.kill(os.getpid(), signal.SIGKILL)


def failing(number: int) -> Callable[[str, tuple[object, ...]], None]:
    """A fault of the system."""

    def fail(name: str, call: tuple[object, ...]) -> None:
        raise OSError(number, os.strerror(number), str(call[1]))

    return fail


def in_child(action: Callable[[], object], user: int | None) -> int:
    """The status of a process that did ``action``, as the user with this number where one is given."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            become(user)
            action()
            code = 0
        except UserError as error:
            os.write(2, f"{error}\n".encode())
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)
    return os.waitpid(child, 0)[1]


def become(user: int | None) -> None:
    """Be another user from now on."""
    if user is not None:
        os.setgroups([])
        os.setgid(user)
        os.setuid(user)


def check_whole(root: Path) -> None:
    """Every file is one of those that there are at any time."""
    seconds = {"other.py": b"None\n"}
    for path, data in read(root).items():
        if path.rpartition("/")[2].startswith(".precpatch-"):
            continue
        assert data in (OLD.get(path), NEW_AND_ADDED.get(path), seconds.get(path)), (path, data)
    assert set(OLD) <= set(read(root))


def check_words(root: Path, words: str, before: dict[str, bytes], after: dict[str, bytes]) -> None:
    """What an error says of the tree is so."""
    claims = {
        "nothing was changed": before,
        "every file is as before": before,
        "the change is made": after,
        "is as before the apply": OLD,
    }
    said = [expected for claim, expected in claims.items() if claim in words]
    assert said or "`precpatch revert" in words, words
    assert "\n" not in words, words
    for expected in said:
        assert read(root) == expected, words


def check_recovery(root: Path) -> None:
    """One recovery makes the tree all old or all new, and then revert brings everything back and leaves nothing."""
    recover(root)
    states = (OLD, NEW_AND_ADDED, {**NEW_AND_ADDED, "other.py": b"None\n"})
    assert read(root) in states, read(root)
    if read(root) != OLD:
        revert(root, all=True)
    tidy(root)
    assert read(root) == OLD
    assert {path: (root / path).stat().st_mode & 0o7777 for path in MODES} == MODES
    assert not (root / ".precpatch").exists()


def kill_everywhere(folder: Path, name: str, user: int | None, step: int = 1) -> int:
    """Kill a scenario before its call 1, 1 + step, ... ; the number of kills."""
    first, action = SCENARIOS[name]
    return _survived(folder, first, lambda root: None, action, user=user, step=step)


def kill_recovery_everywhere(folder: Path, user: int | None, step: int = 1) -> int:
    """Kill an apply where half of its files are swapped, then its recovery before every call; the number of kills."""
    swaps = 0

    def second_swap(name: str, call: tuple[object, ...]) -> None:
        nonlocal swaps
        swaps += name == "replace" and ".precpatch-" in str(call[1])
        if swaps == 2:
            os.kill(os.getpid(), signal.SIGKILL)

    def half(root: Path) -> None:
        nonlocal swaps
        swaps = 0
        with Boundary(lambda _: True, second_swap).watching():
            assert os.WIFSIGNALED(in_child(lambda: do_apply(root), user))

    return _survived(folder, nothing, half, recover, user=user, step=step)


def _survived(
    folder: Path,
    first: Action,
    before: Action,
    action: Action,
    *,
    user: int | None,
    step: int,
) -> int:
    """Kill ``action`` before its call 1, 1 + step, ... until it ends by itself; the number of kills."""
    for number, at in enumerate(range(1, 100_000, step)):
        root = made(folder, first, user)
        before(root)
        with Boundary(lambda calls, at=at: calls == at, die).watching():
            status = in_child(lambda root=root: action(root), user)
        check_whole(root)
        in_child_or_raise(lambda root=root: check_recovery(root), user)
        shutil.rmtree(root)
        if not os.WIFSIGNALED(status):
            return number
    raise AssertionError("does not end")


def fail_everywhere(folder: Path, name: str, fault: int, user: int | None, *, lasting: bool, step: int = 1) -> int:
    """Let a call of a scenario fail, once or from then on for good; the number of faults."""
    first, action = SCENARIOS[name]
    for number, at in enumerate(range(1, 100_000, step)):
        root = made(folder, first, user)
        reached = in_child(lambda root=root, at=at: one_fault(root, action, fault, at, lasting), user)
        assert not os.WIFSIGNALED(reached)
        in_child_or_raise(lambda root=root: check_recovery(root), user)
        shutil.rmtree(root)
        if os.WEXITSTATUS(reached) == 0:
            return number
        assert os.WEXITSTATUS(reached) == FAULTY, f"{name}, {os.strerror(fault)} at call {at}"
    raise AssertionError("does not end")


FAULTY = 7


def one_fault(root: Path, action: Action, fault: int, at: int, lasting: bool) -> None:
    """Do ``action`` with a fault; ends the process with ``FAULTY`` where its call was reached and all is right."""
    before = read(root)
    boundary = Boundary(lambda calls: calls == at or (lasting and calls > at), failing(fault))
    words = ""
    with boundary.watching():
        try:
            action(root)
        except UserError as error:
            words = str(error)
    check_whole(root)
    after = {**before, "other.py": b"None\n"} if action is do_second_apply else NEW_AND_ADDED
    if words:
        check_words(root, words, before, after)
    elif action in (do_apply, do_second_apply):
        assert read(root) == after
    else:
        assert read(root) == OLD
    if boundary.calls >= at:
        os._exit(FAULTY)


def short_writes(folder: Path, name: str, user: int | None) -> int:
    """Let every write take one byte; the number of writes."""
    first, action = SCENARIOS[name]
    root = made(folder, first, user)
    write, count = os.write, 0

    def one_byte(descriptor: int, data: bytes) -> int:
        nonlocal count
        count += 1
        return write(descriptor, bytes(data)[:1])

    os.write = one_byte
    try:
        action(root)
    finally:
        os.write = write
    check_whole(root)
    check_recovery(root)
    shutil.rmtree(root)
    return count


def random_kills(folder: Path, seconds: float, user: int | None, seed: int) -> int:
    """Kill applies and reverts at random moments for so many seconds, one after the other in the same tree."""
    chance, until, kills = random.Random(seed), time.monotonic() + seconds, 0  # noqa: S311
    while time.monotonic() < until:
        root = made(folder, nothing, user)
        for _ in range(6):
            child = os.fork()
            if child == 0:
                try:
                    become(user)
                    chance.choice((try_apply, try_revert))(root)
                finally:
                    os._exit(0)
            chance.random()
            time.sleep(chance.random() * 0.012)
            os.kill(child, signal.SIGKILL)
            kills += os.WIFSIGNALED(os.waitpid(child, 0)[1])
            check_whole(root)
        in_child_or_raise(lambda root=root: check_recovery(root), user)
        shutil.rmtree(root)
    return kills


def try_apply(root: Path) -> None:
    """Recover and apply, as the command does."""
    recover(root)
    if read(root) == OLD:
        do_apply(root)


def try_revert(root: Path) -> None:
    """Revert, if there is something."""
    try:
        revert(root)
    except UserError as error:
        assert "nothing to revert" in str(error), error  # noqa: PT017


def made(folder: Path, first: Action, user: int | None) -> Path:
    """A new tree for one trial, owned by who runs it."""
    root = Path(tempfile.mkdtemp(dir=folder)).resolve() / "tree"
    build(root)
    if user is not None:
        for path in (root.parent, root, *root.rglob("*")):
            os.chown(path, user, user)
    in_child_or_raise(lambda: first(root), user)
    return root


def in_child_or_raise(action: Callable[[], object], user: int | None) -> None:
    """Do ``action`` as another user, in a process of its own where that takes one."""
    if user is None:
        action()
    else:
        assert in_child(action, user) == 0


def everything(folder: Path, user: int | None, *, is_long: bool, seconds: float) -> Counter[str]:
    """All trials as one user; the figures."""
    figures: Counter[str] = Counter()
    step = 1 if is_long else 5
    for name in SCENARIOS:
        figures["kills at a call"] += kill_everywhere(folder, name, user, step)
        for fault in FAULTS if is_long else FAULTS[:1]:
            for lasting in (False, True):
                figures[f"faults: {errno.errorcode[fault]}"] += fail_everywhere(
                    folder, name, fault, user, lasting=lasting, step=step
                )
        if user is None:
            figures["short writes"] += short_writes(folder, name, user)
    figures["kills of a recovery at a call"] += kill_recovery_everywhere(folder, user, step)
    figures["random kills"] += random_kills(folder, seconds, user, seed=17)
    return figures


def users() -> list[int | None]:
    """Who to run as: as one is, and without rights where one has all."""
    return [None, NOBODY] if os.geteuid() == 0 else [None]


def main() -> None:
    """Run the trials and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--long", action="store_true", help="every call and fault, minutes of random kills")
    is_long = parser.parse_args().long
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        for user in users():
            start = time.monotonic()
            figures = everything(Path(name), user, is_long=is_long, seconds=60 if is_long else 2)
            print(f"as {'nobody' if user else 'user ' + str(os.geteuid())}, {time.monotonic() - start:.0f} s:")
            for what, number in figures.items():
                print(f"  {number:>6}  {what}")
    print("nothing lost")


if __name__ == "__main__":
    sys.exit(main())
