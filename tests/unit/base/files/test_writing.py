"""Results take their places whole, whoever is killed, interrupted or writes there at
once."""

from __future__ import annotations

import errno
import json
import os
import shutil
import signal
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from command_line import contents
from damages import a_device
from killing import MAX_STEPS, ended, kill_at, kills

from diploee.base.errors import InputError, OutputError, OutputExistsError
from diploee.base.files import (
    FolderKind,
    check_output_folder,
    remove_leftovers,
    whole_file,
    whole_folder,
    writing,
)

KIND = FolderKind(
    "a test folder", "marker.json", ("of",), lambda _: ("marker.json", "x", "sub/*")
)


def put_file(root: Path, text: str, force: bool) -> None:
    with whole_file(root / "deep" / "file", force) as path:
        path.write_text(text)


def put_set(root: Path, text: str, force: bool) -> None:
    for name in ("page", "pictures/1", "pictures/2"):
        with whole_file(root / name, force) as path:
            path.write_text(text)


def put_folder(root: Path, text: str, force: bool) -> None:
    with whole_folder(root / "folder", force, kind=KIND) as folder:
        (folder / "sub").mkdir()
        for name in ("x", "sub/y"):
            (folder / name).write_text(text)
        (folder / "marker.json").write_text(json.dumps({"of": text}))


Put = Callable[[Path, str, bool], None]
PUTS: dict[str, Put] = {"file": put_file, "set": put_set, "folder": put_folder}


def seen(root: Path) -> dict[str, bytes]:
    """Return what a user sees: all that is not hidden."""
    return {
        name: text for name, text in contents(root).items() if "/." not in f"/{name}"
    }


def fresh(put: Put, root: Path, text: str) -> dict[str, bytes]:
    """Write a result to a place that holds nothing, and return it."""
    shutil.rmtree(root, ignore_errors=True)
    root.mkdir()
    if text:
        put(root, text, False)
    return contents(root)


@pytest.mark.slow
@pytest.mark.parametrize("old_text", ["old", ""], ids=["replaced", "new"])
@pytest.mark.parametrize("name", PUTS)
def test_kill_at_any_step_leaves_each_whole_or_absent_and_the_next_one_works(
    tmp_path: Path, name: str, old_text: str
) -> None:
    put, root, force = PUTS[name], tmp_path / "root", bool(old_text)
    new = fresh(put, root, "new")
    old = fresh(put, root, old_text)
    n_kills = 0
    for _ in kills(root, lambda: put(root, "new", force), range(1, MAX_STEPS)):
        n_kills += 1
        found = seen(root)
        if name == "folder":  # it may be missing for a moment, a file never
            assert found in (old, new, {})
        else:
            assert {**old, **found}.keys() == found.keys()
            assert all(text in (old.get(n), new[n]) for n, text in found.items())
        put(root, "new", True)
        assert seen(root) == new
        remove_leftovers(root, 0.0)
        remove_leftovers(root / "deep", 0.0)
        remove_leftovers(root / "pictures", 0.0)
        assert contents(root) == new
        fresh(put, root, old_text)
    assert n_kills > 4
    assert contents(root) == new


def test_what_a_killed_one_left_goes_a_day_later(tmp_path: Path) -> None:
    for _ in kills(tmp_path, lambda: put_file(tmp_path, "new", False), first=6):
        break
    (left,) = (tmp_path / "deep").iterdir()
    put_file(tmp_path, "new", False)
    assert left.exists()
    for path in (left, *left.iterdir()):
        os.utime(path, (0, 0))
    put_file(tmp_path, "newer", True)
    assert contents(tmp_path) == {"deep/file": b"newer"}


@pytest.mark.parametrize("old_text", ["old", ""], ids=["replaced", "new"])
@pytest.mark.parametrize("name", ["file", "folder"])
def test_full_disk_at_any_step_leaves_what_was_there_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, old_text: str
) -> None:
    put, root = PUTS[name], tmp_path / "root"
    new = fresh(put, root, "new")
    calls = {how: getattr(os, how) for how in ("rename", "replace", "mkdir", "fsync")}
    n_calls, step = 1, 0

    def fill(how: str, *arguments: Any) -> Any:
        nonlocal n_calls
        n_calls += 1
        if n_calls == step:
            raise OSError(errno.ENOSPC, "No space left on device")
        return calls[how](*arguments)

    while n_calls >= step:
        old = fresh(put, root, old_text)
        n_calls, step = 0, step + 1
        with monkeypatch.context() as patch:
            for how in calls:
                patch.setattr(os, how, partial(fill, how))
            try:
                put(root, "new", bool(old_text))
            except OutputError as error:
                assert "the disk is full" in str(error) and contents(root) == old
            else:  # where a folder is there, none need be made
                assert contents(root) == new
    assert step > 3


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("name", PUTS)
def test_signal_at_any_step_leaves_nothing_half_done(
    tmp_path: Path, name: str, number: signal.Signals
) -> None:
    put, root = PUTS[name], tmp_path / "root"
    new, old = fresh(put, root, "new"), fresh(put, root, "old")

    def interrupt(_number: int, _frame: object) -> None:
        raise KeyboardInterrupt

    def prepare(step: int) -> None:
        signal.signal(number, interrupt)
        kill_at(root, step, number)

    for step in range(1, 200):
        code = ended(lambda: put(root, "new", True), lambda step=step: prepare(step))
        if name != "set":
            assert seen(root) in ((old, new) if code else (new,))
        if code == 0:
            break
        fresh(put, root, "old")
    assert step > 4


@pytest.mark.parametrize("force", [True, False])
@pytest.mark.parametrize("name", PUTS)
def test_writers_at_once_leave_whole_results(
    tmp_path: Path, name: str, force: bool
) -> None:
    put, root = PUTS[name], tmp_path / "root"
    whole = [fresh(put, root, letter) for letter in "abc"]
    fresh(put, root, "")
    codes: list[int] = []

    def write(letter: str) -> None:
        for _ in range(3 if force else 1):
            put(root, letter, force)

    def run(letter: str) -> None:
        codes.append(ended(partial(write, letter)))

    threads = [threading.Thread(target=run, args=(letter,)) for letter in "abc"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if name == "set":
        assert contents(root).keys() == whole[0].keys()
    else:
        assert contents(root) in whole
        assert sorted(codes) == ([0, 0, 0] if force else [0, 1, 1])


def test_a_folder_that_appears_after_the_last_check_is_not_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "run"
    checks: list[int] = []

    def checked_then_taken(*args: Any, **keys: Any) -> None:
        check_output_folder(*args, **keys)
        checks.append(len(checks))
        if len(checks) == 2:  # the one right before the move
            target.mkdir()
            (target / "other.txt").write_text("first")

    monkeypatch.setattr(writing, "check_output_folder", checked_then_taken)
    with (
        pytest.raises(OutputExistsError),
        whole_folder(target, kind=KIND) as folder,
    ):
        (folder / "own.txt").write_text("second")
    assert [path.name for path in target.iterdir()] == ["other.txt"]
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


def test_what_a_living_writer_has_and_what_is_not_ours_stays(tmp_path: Path) -> None:
    foreign = tmp_path / ".notes.partial-abcdefgh"
    foreign.mkdir()
    (foreign / "mine").touch()
    with whole_file(tmp_path / "one") as path:
        path.write_text("1")
        put_file(tmp_path, "other", False)
        with whole_file(tmp_path / "two") as other:
            other.write_text("2")
    found = {"one", "two", "deep/file", ".notes.partial-abcdefgh/mine"}
    assert contents(tmp_path).keys() == found


def test_folder_that_lets_nothing_be_removed_is_replaced(tmp_path: Path) -> None:
    fresh(put_folder, tmp_path / "root", "old")
    (tmp_path / "root" / "folder" / "sub").chmod(0o500)
    put_folder(tmp_path / "root", "new", True)
    assert not [name for name in contents(tmp_path) if "partial" in name]


FOREIGN: dict[str, dict[str, str | None]] = {
    "no marker": {"notes": "mine"},
    "another's marker": {"marker.json": '{"name": "web app"}', "src/main.js": "mine"},
    "a marker that is no object": {"marker.json": "[]"},
    "a deep marker": {"marker.json": "[" * 100_000},
    "a pipe, which is not read": {"marker.json": None},
    "a file beside": {"marker.json": '{"of": 1}', "notes": "mine"},
    "a folder beside": {"marker.json": '{"of": 1}', "src/main.js": "mine"},
    "a file below": {"marker.json": '{"of": 1}', "sub/y": "", "sub/deep/z": "mine"},
}


@pytest.mark.parametrize("files", FOREIGN.values(), ids=FOREIGN)
def test_force_keeps_folders_with_anything_foreign(
    tmp_path: Path, files: dict[str, str | None]
) -> None:
    place = tmp_path / "folder"
    for name, text in files.items():
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        if text is None:
            os.mkfifo(place / name)
        else:
            (place / name).write_text(text)
    before = contents(tmp_path)
    with pytest.raises(OutputExistsError, match=r"(is not|besides) a test folder") as e:
        put_folder(tmp_path, "new", True)
    assert contents(tmp_path) == before
    assert str(e.value).startswith(f"{place}: ")


def test_force_takes_an_empty_folder_and_names_the_current_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "folder").mkdir()
    monkeypatch.chdir(tmp_path / "folder")
    for place in (".", tmp_path / "folder", "../../" + tmp_path.name):
        with pytest.raises(InputError), whole_folder(place, True, kind=KIND):
            pass
    monkeypatch.chdir(tmp_path)
    put_folder(tmp_path, "new", True)


@pytest.mark.parametrize("kind", ["folder", "pipe", "device", "link to a device"])
def test_no_file_replaces_what_is_none(tmp_path: Path, kind: str) -> None:
    place = tmp_path / "place"
    if kind == "folder":
        place.mkdir()
    elif kind == "pipe":
        os.mkfifo(place)
    elif kind == "device":
        place = a_device(tmp_path)
    else:
        place.symlink_to(a_device(tmp_path))
    for force in (True, False):
        writing = whole_file(place, force)
        with pytest.raises(OutputExistsError, match="expected a file"), writing:
            pass
    assert os.path.lexists(place) and not place.is_file()


def test_force_never_replaces_an_input(tmp_path: Path) -> None:
    run = tmp_path / "run"
    run.mkdir()
    (run / "data").write_text("mine")
    (tmp_path / "same").hardlink_to(run / "data")
    (tmp_path / "link").symlink_to("run")
    link = tmp_path / "link"
    for place, inputs in (
        *((run / "data", [each]) for each in (run / "data", link / "data", link)),
        *((each, [run / "data"]) for each in (tmp_path / "same", link / "data")),
        (tmp_path / "same", [None, "no such file", link / "data"]),
    ):
        writing = whole_file(place, True, inputs=inputs)
        with pytest.raises(InputError, match="is an input of this command"), writing:
            pass
    with whole_file(run / "new", inputs=[run]) as path:
        path.touch()


NO_PLACES: dict[Path | str, str] = {
    "": "is empty",
    **dict.fromkeys(("s3://bucket/run", "file:///x", "://"), "is a URL"),
    Path("https://x/y.html"): "is a URL",
    **dict.fromkeys(("a\0b", os.fsdecode(b"\xff")), "not a name in UTF-8"),
}


@pytest.mark.parametrize("whole", [whole_file, whole_folder])
def test_what_names_no_local_place_is_refused(whole: Any) -> None:
    for place, words in NO_PLACES.items():
        with pytest.raises(InputError, match=words) as caught, whole(place):
            pass
        assert str(caught.value).isprintable()


def test_name_of_255_bytes_can_be_written(tmp_path: Path) -> None:
    with whole_file(tmp_path / ("\u00e4" * 127 + "x")) as path:
        path.write_text("long")
    assert len(contents(tmp_path)) == 1


def test_nothing_is_left_of_a_folder_made_in_vain(tmp_path: Path) -> None:
    with (
        pytest.raises(OutputError, match="the disk is full"),
        whole_file(tmp_path / "deep" / "deeper" / "file") as path,
    ):
        path.write_text("half")
        raise OSError(errno.ENOSPC, "No space left on device")
    assert not list(tmp_path.iterdir())


def test_files_are_synced_before_they_take_their_places(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: set[int] = set()
    monkeypatch.setattr(os, "fsync", lambda handle: synced.add(os.fstat(handle).st_ino))
    for name, put in PUTS.items():
        put(tmp_path / name, "text", False)
    assert {p.stat().st_ino for p in tmp_path.rglob("*") if p.is_file()} <= synced
