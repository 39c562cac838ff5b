"""A run folder appears whole or not at all, and nothing that stood there is lost."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from builders import tiny_run

from diploee import open_run
from diploee.base.errors import InputError
from diploee.base.files import whole_folder
from diploee.runs.folder import RUN_FOLDER, default_folder

SMALL = {"duration": "2 h"}


def manifest_of(text: str) -> bytes:
    return json.dumps(
        {"schema_version": 1, "scenario_sha256": "", "text": text}
    ).encode()


def write_run(place: Path, force: bool = False, text: str = "new") -> None:
    with whole_folder(place, force, kind=RUN_FOLDER) as folder:
        (folder / "manifest.json").write_bytes(manifest_of(text))


def test_default_folder_counts_up(tmp_path: Path) -> None:
    assert default_folder("x", "0123456789", tmp_path) == tmp_path / "x-01234567"
    (tmp_path / "x-01234567").mkdir()
    (tmp_path / "x-01234567-2").symlink_to(tmp_path / "nowhere")
    assert default_folder("x", "0123456789", tmp_path) == tmp_path / "x-01234567-3"


def test_folder_that_is_no_run_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"not a run folder \(no manifest\.json\)"):
        open_run(tmp_path)


@pytest.mark.parametrize(
    ("manifest", "words"),
    [
        ("{", r"manifest\.json:1: not valid JSON"),
        (
            json.dumps({"schema_version": 99}),
            "schema version 99, this version of diploee reads",
        ),
    ],
)
def test_bad_manifest_is_named(tmp_path: Path, manifest: str, words: str) -> None:
    (tmp_path / "manifest.json").write_text(manifest, "utf-8")
    with pytest.raises(InputError, match=words):
        open_run(tmp_path)


@pytest.mark.parametrize("file", ["facility.parquet", "jobs.parquet", "metrics.json"])
@pytest.mark.parametrize("how", ["missing", "truncated"])
def test_bad_file_of_a_run_is_named(tmp_path: Path, file: str, how: str) -> None:
    place = tmp_path / "run"
    run = tiny_run(place, SMALL)
    path = place / file
    if how == "missing":
        path.unlink()
    else:
        path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    fresh = open_run(run.folder)
    with pytest.raises(InputError) as caught:
        _ = fresh.facility(), fresh.jobs(), fresh.metrics
    assert str(caught.value).startswith(str(path))
    assert len(str(caught.value).splitlines()) == 1


def test_force_on_a_link_replaces_the_folder_behind_it(tmp_path: Path) -> None:
    write_run(tmp_path / "real", text="old")
    (tmp_path / "link").symlink_to("real")
    write_run(tmp_path / "link", force=True)
    assert (tmp_path / "link").is_symlink()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link", "real"]
    assert "new" in (tmp_path / "real" / "manifest.json").read_text("utf-8")


def test_run_whose_default_place_was_taken_meanwhile_takes_the_next_number(
    tmp_path: Path,
) -> None:
    def default() -> Path:
        return default_folder("site", "0123456789", tmp_path)

    first = default()
    with whole_folder(first, kind=RUN_FOLDER) as new:
        (new / "manifest.json").write_text("{}", "utf-8")
        write_run(default())
    assert (first.with_name("site-01234567-2") / "manifest.json").is_file()
    assert (first / "manifest.json").is_file()


@pytest.mark.parametrize("is_own", [False, True])
def test_a_run_with_code_of_the_users_own_says_where_to_read_it(
    tmp_path: Path, is_own: bool
) -> None:
    place = tiny_run(tmp_path / "run", SMALL).folder
    manifest = json.loads((place / "manifest.json").read_text("utf-8"))
    manifest["scenario"]["facility"]["stages"] = [{"kind": "mine"}]
    own = {"kind": "stage", "name": "mine", "sha256": 64 * "0"}
    manifest |= {"own_parts": [own]} if is_own else {}
    (place / "manifest.json").write_text(json.dumps(manifest), "utf-8")
    with pytest.raises(InputError, match="must be a kind of stage") as refused:
        open_run(place)
    assert ("read the run where its module is imported" in str(refused.value)) == is_own
