"""Hidden folders beside a place.

Where results are written, and how what killed writers left ends. A staging folder
``.<name>.partial-<random>`` holds::

    lock       held by its writer while that lives; names its machine and its set's first folder
    new/       what is being written
    old/       what was set aside for it
    journal    only while results take their places: what goes where

As the journal is removed once all of a set are in their places, it tells what to undo.
Whoever writes to a folder later does so for a writer that was killed. For the moments
in which anything changes beside a place, processes take turns by the lock file
``.diploee.lock``.
"""  # noqa: E501

from __future__ import annotations

import json
import os
import platform
import re
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from diploee.base.errors import OutputError, one_line

try:
    import fcntl
# Not on Windows: nothing tells there whether a writer lives, so none is ended
except ImportError:
    fcntl = None  # type: ignore[assignment]

TURN = ".diploee.lock"
LOCK, JOURNAL, NEW, OLD = "lock", "journal", "new", "old"
_NAME = re.compile(r"\..+\.partial-[0-9a-z_]{8}", re.DOTALL)
_LONGEST = 50
"""Characters of a place's name in that of its staging folder: a name has 255 bytes at
most."""
_PATIENCE_S, _PAUSE_S = 60.0, 0.005
_FOREIGN_AFTER_S = 86_400.0
"""Age at which what another machine left is removed [s]."""

Identity = tuple[int, int, int]
"""Number, size and time of change of a file or folder, which a rename keeps."""


@dataclass(frozen=True)
class Move:
    """One file or folder that goes from a staging folder to its place."""

    staged: Path
    place: Path

    @property
    def aside(self) -> Path:
        """Where the former content goes."""
        return self.staged.parents[1] / OLD / self.staged.name


class Staging:
    """A hidden folder beside a place, locked by this process until it is removed.

    The `first` of a set holds its journal.
    """

    def __init__(self, place: Path, first: Staging | None = None) -> None:
        # Links stay
        set_of = os.path.abspath(first.folder) if first else ""  # noqa: PTH100
        with turn(place.parent):
            prefix = f".{place.name[:_LONGEST]}.partial-"
            # Else Arrow takes a drive, as in C:/x, for a scheme
            here = place.parent.absolute()
            self.folder: Path = Path(tempfile.mkdtemp(prefix=prefix, dir=here))
            self._handle = try_lock(self.folder / LOCK, os.O_CREAT)
        try:
            (self.folder / LOCK).write_bytes(
                os.fsencode(f"{platform.node()}\n{set_of}")
            )
            (self.folder / NEW).mkdir()
        except OSError:
            self.remove()
            raise

    def path_for(self, place: Path) -> Path:
        """Return where to write what goes to a place."""
        return self.folder / NEW / place.name

    def put(self, moves: Sequence[Move]) -> None:
        """Move all to their places, or none.

        The caller has the turns of all their folders. The first is there with all the
        others or not at all, also where a process is killed in between: they say what
        it is, as the sidecar of an export does.
        """
        if (
            len(moves) == 1
            and moves[0].staged.is_file()
            and os.path.lexists(moves[0].place)
        ):
            moves[0].staged.replace(moves[0].place)  # in one step everywhere
            return
        journal = self.folder / JOURNAL
        home = self.folder.parent.absolute()
        entries = [
            (
                *(_from_home(path, home) for path in (m.staged, m.place)),
                _identity(m.staged),
            )
            for m in moves
        ]
        journal.write_text(json.dumps(entries), "ascii")
        sync_one(journal)
        sync_one(self.folder)
        first, *others = moves
        try:
            if others:
                _set_aside(first)
            for move in (*others, first):
                _move_in(move)
        except BaseException:
            _undo(self.folder)
            raise
        journal.unlink()

    def remove(self) -> None:
        """Remove the folder with all that is in it, at last the lock."""
        if fcntl is None:  # on Windows no open file can be removed
            self._close()
        _remove(self.folder)
        self._close()

    def _close(self) -> None:
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None


def remove_leftovers(folder: Path, any_machine: bool = False) -> None:
    """Put right and remove what writers that were killed left in a folder.

    What a living one is writing stays, as does all that is not of this package; so does
    what can't be removed, which harms nobody. What writers on other machines left stays
    for a day, as not every lock reaches over a network, unless `any_machine` says that
    they have ended.
    """
    for staging in _stagings(folder):
        with suppress(OSError, OutputError):
            _settle(staging, any_machine)
    with suppress(OSError):
        _remove_turn(folder / TURN)


@contextmanager
def turn(*folders: Path) -> Iterator[None]:
    """Keep others from changing anything beside the places in folders.

    For moments only.
    """
    with ExitStack() as stack:
        # One for all
        for folder in sorted({os.path.realpath(folder) for folder in folders}):
            stack.enter_context(_one_turn(Path(folder)))
        yield


def sync(path: Path) -> None:
    """Make a file, or a folder with its files, last through a power cut."""
    for entry in path.iterdir() if path.is_dir() else ():
        sync(entry)
    sync_one(path)


def sync_one(path: Path) -> None:
    """Make the system keep a file, or the names in a folder where it can.

    Errors as for `sync`.
    """
    is_folder = path.is_dir()
    # Windows opens files alone, and syncs what it may write
    if is_folder and fcntl is None:
        return
    handle = os.open(path, os.O_RDONLY if fcntl else os.O_RDWR)
    try:
        os.fsync(handle)
    except OSError:
        if not is_folder:
            raise
    finally:
        os.close(handle)


def _stagings(folder: Path) -> list[Path]:
    try:
        with os.scandir(folder) as entries:
            return [
                Path(entry.path)
                for entry in entries
                if _NAME.fullmatch(entry.name)
                and entry.is_dir(follow_symlinks=False)
                and _is_own(entry.stat(follow_symlinks=False))
            ]
    except OSError:
        return []


def _is_own(found: os.stat_result) -> bool:
    """Return whether a folder is this user's.

    Another's journal is not to be followed.
    """
    return not hasattr(os, "geteuid") or found.st_uid == os.geteuid()


@contextmanager
def _one_turn(folder: Path) -> Iterator[None]:
    if fcntl is None:
        yield
        return
    path = folder / TURN
    deadline = time.monotonic() + _PATIENCE_S
    while (handle := _turn_lock(path)) is None:
        if time.monotonic() > deadline:
            raise OutputError(
                f"{path}: another process of diploee holds it and does not go on; "
                "end that one, or choose another place"
            )
        time.sleep(_PAUSE_S)
    try:
        yield
    finally:
        path.unlink(missing_ok=True)
        os.close(handle)


def _turn_lock(path: Path) -> int | None:
    try:
        return try_lock(path, os.O_CREAT)
    except PermissionError:
        if path.exists():  # that of another user, who will remove it
            return None
        raise


def try_lock(path: Path, flags: int = 0) -> int | None:
    """Open and lock a file; None if another process has it, or removed it in between.

    On a file system without locks it seems another's, unless it is made here: nothing
    tells there that its process has ended.
    """
    handle = os.open(path, os.O_RDWR | flags | getattr(os, "O_NOFOLLOW", 0), 0o666)
    if fcntl is None:
        return handle
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.path.samestat(os.fstat(handle), os.stat(path, follow_symlinks=False)):  # noqa: PTH116
            return handle
    except (BlockingIOError, FileNotFoundError):
        pass
    except OSError:
        if flags & os.O_CREAT:
            return handle
    os.close(handle)
    return None


def _remove_turn(path: Path) -> None:
    """Remove the lock of a writer that was killed before it made anything."""
    if fcntl is not None and (handle := try_lock(path)) is not None:
        path.unlink(missing_ok=True)
        os.close(handle)


def _settle(staging: Path, any_machine: bool) -> None:
    """Undo what a killed writer left half in place, and its staging folder."""
    if fcntl is None:
        return
    lock = staging / LOCK
    # Nobody is between making a staging folder and locking it
    with turn(staging.parent):
        if not lock.exists():
            # Killed before or after all else; refused where it holds anything
            staging.rmdir()
            return
        handle = try_lock(lock)
    if handle is None:
        return
    try:
        node, _, set_of = os.fsdecode(lock.read_bytes()).partition("\n")
        age_s = time.time() - lock.stat().st_mtime
        is_local = any_machine or node in ("", platform.node())
        if not is_local and age_s < _FOREIGN_AFTER_S:
            return
        if set_of and (Path(set_of) / JOURNAL).exists():
            _settle(Path(set_of), any_machine)
            if (Path(set_of) / JOURNAL).exists():
                return
        others = {path.parents[1] for path, _, _ in _journal(staging)} - {staging}
        with turn(staging.parent, *(place.parent for _, place, _ in _journal(staging))):
            _undo(staging)
        for folder in (*others, staging):
            _remove(folder)
    finally:
        os.close(handle)


def _journal(staging: Path) -> list[tuple[Path, Path, Identity]]:
    try:
        entries = json.loads((staging / JOURNAL).read_text("ascii"))
        home = staging.parent
        return [
            (home / staged, home / place, tuple(ids)) for staged, place, ids in entries
        ]
    except (OSError, ValueError, TypeError):
        # It was killed before the journal was whole, so before the first move
        return []


def _undo(staging: Path) -> None:
    """Put back what stood at the places of a set that is not whole.

    No other thing is touched.
    """
    entries = _journal(staging)
    moves = [(Move(staged, place), identity) for staged, place, identity in entries]
    if all(_identity(move.place) == identity for move, identity in moves):
        return
    for move, identity in reversed(moves):
        is_in_place = _identity(move.place) == identity
        if is_in_place:
            move.place.rename(move.staged)
        if os.path.lexists(move.aside) and not os.path.lexists(move.place):
            move.aside.rename(move.place)
            if not is_in_place:
                sys.stderr.write(
                    f"diploee: {one_line(str(move.place))}: replacing it was cut "
                    "short; the older one stands again\n"
                )
    (staging / JOURNAL).unlink()


def _move_in(move: Move) -> None:
    _set_aside(move)
    move.staged.rename(move.place)


def _set_aside(move: Move) -> None:
    if os.path.lexists(move.place):
        move.aside.parent.mkdir(exist_ok=True)
        move.place.rename(move.aside)


def _remove(staging: Path) -> None:
    """Remove a staging folder.

    The journal first and the lock last, as it may end at any step.
    """
    (staging / JOURNAL).unlink(missing_ok=True)
    for name in (NEW, OLD):
        if (staging / name).exists():
            shutil.rmtree(staging / name, onerror=_make_writable)
    (staging / LOCK).unlink(missing_ok=True)
    with suppress(FileNotFoundError):
        staging.rmdir()


def _make_writable(remove: object, path: str, _problem: object) -> None:
    """Try once more where a folder that was replaced lets nothing be removed."""
    folder = Path(path).parent
    folder.chmod(0o700)
    if callable(remove):
        remove(path)


def _identity(path: Path) -> Identity | None:
    try:
        stat = path.lstat()
    except OSError:
        return None
    return (stat.st_ino, stat.st_size, stat.st_mtime_ns)


def _from_home(path: Path, home: Path) -> str:
    path = path.absolute()
    return str(path.relative_to(home)) if path.is_relative_to(home) else str(path)
