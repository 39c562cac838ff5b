"""Writing results: files and folders that take their places at the end.

All together.
"""

from __future__ import annotations

import os
import shutil
import signal
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from diploee.base.errors import OutputError
from diploee.base.files.places import (
    FolderKind,
    check_file,
    check_folder,
    is_disk_full,
    local_place,
    reason,
)
from diploee.base.files.staging import Move, Staging, sync, sync_one, turn

_HELD = ("SIGINT", "SIGTERM", "SIGHUP")
_late: list[int] = []


def is_late() -> bool:
    """Return whether the handled signal came after a result was in place.

    A handler may then let the command end as if the signal had come after it.
    """
    return bool(_late)


@contextmanager
def uninterrupted(completes: bool = False) -> Iterator[None]:
    """Hold back what ends a process, as Ctrl-C, until the block is done.

    Only the main thread is ever interrupted. At the end of a block that `completes` a
    result, `is_late` says so to the handler.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    came: list[int] = []
    numbers = [getattr(signal, name) for name in _HELD if hasattr(signal, name)]
    handlers = {number: signal.getsignal(number) for number in numbers}
    # None is a handler that is not Python's, which could not be put back.
    held = {n: h for n, h in handlers.items() if h not in (None, signal.SIG_IGN)}
    done = False
    try:
        for number in held:
            signal.signal(number, lambda number, _frame: came.append(number))
        yield
        done = True
    finally:
        for number, handler in held.items():
            signal.signal(number, handler)
        if came:
            _late.extend(came if completes and done else ())
            try:
                signal.raise_signal(came[0])
            finally:
                _late.clear()


Paths = Iterable[Path | str | None]


@dataclass
class Item:
    """A file or folder being written at `path`.

    `place` is where it appears, as the user calls it. `check` raises an error if a
    place may not be replaced. `other_place` returns another if this one was taken in
    the meantime. `option` names the place in errors.
    """

    path: Path
    place: Path
    check: Callable[..., None]
    other_place: Callable[[], Path] | None = None
    option: str = "--out"

    @property
    def target(self) -> Path:
        """The place with a name: that of ``.`` is its folder's.

        A link's folder, not the link.
        """
        if self.path.is_dir() and self.place.is_symlink():
            return self.place.resolve()
        return _named_place(self.place)


class Writing:
    """Results being written, which appear together; made by `writing`."""

    def __init__(self, force: bool = False, inputs: Paths = ()) -> None:
        self.needed_mb: Callable[[float], float] = lambda _written_mb: 0.0
        """Returns the size of all [MB] from what is written [MB]; 0 is not known."""
        self._force = force
        self._inputs = tuple(inputs)
        self._items: list[Item] = []
        self._at = ("the result", "--out")
        self._stagings: dict[str, Staging] = {}
        self._made: list[Path] = []

    def file(
        self,
        place: Path | str,
        *,
        replaces: Callable[[Path], bool] | None = None,
        option: str = "--out",
    ) -> Path:
        """Return a hidden path for the file that shall appear at a place."""
        place = local_place(place, option)
        check = partial(
            check_file,
            force=self._force,
            inputs=self._inputs,
            replaces=replaces,
            option=option,
        )
        check(
            place,
            clean=os.path.realpath(_named_place(place).parent) not in self._stagings,
        )
        path = self._staging(_named_place(place), option).path_for(_named_place(place))
        # The last of several of a place wins
        if path not in (item.path for item in self._items):
            self._items.append(Item(path, place, check, option=option))
        return path

    def folder(
        self,
        place: Path | str,
        kind: FolderKind | None = None,
        *,
        option: str = "--out",
    ) -> Item:
        """Return a hidden folder that shall appear at a place, if it may."""
        place = local_place(place, option)
        check = partial(
            check_folder,
            force=self._force,
            kind=kind,
            inputs=self._inputs,
            option=option,
        )
        check(place)
        target = place.resolve() if place.is_symlink() else _named_place(place)
        path = self._staging(target, option).path_for(target)
        path.mkdir()
        self._items.append(Item(path, place, check, option=option))
        return self._items[-1]

    def finish(self) -> None:
        """Sync what was written and move all to their places: all or none."""
        for item in self._items:
            sync(item.path)
        with uninterrupted(completes=True):
            self._put()
            self.remove()

    def _put(self) -> None:
        with turn(*(item.target.parent for item in self._items)):
            for item in self._items:
                if item.other_place is not None and os.path.lexists(item.place):
                    item.place = item.other_place()
                item.check(item.place, clean=False)
            if self._items:
                first = next(iter(self._stagings.values()))
                first.put([Move(item.path, item.target) for item in self._items])
        for staging in self._stagings.values():
            with suppress(OSError):
                sync_one(staging.folder.parent)
        self._made = []

    def remove(self) -> None:
        """Remove all that is not in its place."""
        for staging in self._stagings.values():
            with suppress(OSError):
                staging.remove()
        for folder in self._made:
            with suppress(OSError):
                folder.rmdir()

    def error(self, error: OSError) -> OutputError:
        """Return why nothing could be written, as one line for the user."""
        place, option = self._at
        # Else a folder can't be made
        if self._items and place == str(self._items[0].target):
            for item in self._items:  # the one being written is the last that is there
                if item.path.exists():
                    place, option = str(item.target), item.option
        if not is_disk_full(error):
            return OutputError(
                f"{place}: can't be written ({reason(error)}); nothing of it was kept, "
                f"check {option}"
            )
        written_mb = sum(_size_mb(item.path) for item in self._items)
        needed_mb = self.needed_mb(written_mb)
        needed = f"about {needed_mb:,.4g} MB needed in all, " if needed_mb else ""
        return OutputError(
            f"{place}: the disk is full or a limit on file size is reached "
            f"({needed}{written_mb:,.3g} MB written so far, {self._free_mb():,.0f} MB "
            "free); nothing of it was kept, free some space or write elsewhere"
        )

    def _free_mb(self) -> float:
        with suppress(OSError):
            return (
                sum(shutil.disk_usage(parent).free for parent in [*self._stagings][:1])
                / 1e6
            )
        return 0.0

    def _staging(self, target: Path, option: str) -> Staging:
        before, self._at = self._at, (str(target), option)  # for an error at once
        parent = os.path.realpath(target.parent)
        if parent not in self._stagings:
            missing = [
                p for p in (target.parent, *target.parent.parents) if not p.exists()
            ]
            first = next(iter(self._stagings.values()), None)
            with uninterrupted():
                self._made[:0] = missing
                target.parent.mkdir(parents=True, exist_ok=True)
                self._stagings[parent] = Staging(target, first)
        # Later the first of all is named
        self._at = before if self._items else self._at
        return self._stagings[parent]


@contextmanager
def writing(
    force: bool = False, inputs: Paths = (), joins: Writing | None = None
) -> Iterator[Writing]:
    """Write several files and folders that appear together, or not at all.

    `force` replaces what is at their places as far as `check_file` and `check_folder`
    let it, `inputs` are read and never replaced. Where the results appear with those
    that it `joins`, all else is as that says.
    """
    if joins is not None:
        yield joins
        return
    new = Writing(force, inputs)
    try:
        yield new
        new.finish()
    except OSError as error:
        raise new.error(error) from error
    finally:
        with uninterrupted():
            new.remove()


@contextmanager
def whole_file(
    place: Path | str,
    force: bool = False,
    *,
    inputs: Paths = (),
    option: str = "--out",
    joins: Writing | None = None,
) -> Iterator[Path]:
    """Give a hidden path to write to, and put the file in place at the end."""
    with writing(force, inputs, joins) as new:
        yield new.file(place, option=option)


@contextmanager
def whole_folder(
    place: Path | str, force: bool = False, *, kind: FolderKind | None = None
) -> Iterator[Path]:
    """Give a hidden folder to write to, and put it in its place when all went well."""
    with writing(force) as new:
        yield new.folder(place, kind).path


def _named_place(place: Path) -> Path:
    """Return a path with a name to add to, which ``.`` and ``x/..`` lack."""
    return place if place.name not in ("", "..") else Path(os.path.abspath(place))  # noqa: PTH100


def _size_mb(path: Path) -> float:
    with suppress(OSError):
        files = path.rglob("*") if path.is_dir() else (path,)
        return sum(file.stat().st_size for file in files if file.is_file()) / 1e6
    return 0.0
