"""Every bad profile file and measured log gives one line: file, place, found, expected,
remedy."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from builders import profile, write_scenario
from command_line import Ended, call, contents

from diploee.base.errors import ProfileError
from diploee.profiles import ProfileLibrary
from diploee.profiles.store import METADATA_KEY, read_profile, write_profile

N_SAMPLES = 100


def good_file(folder: Path) -> Path:
    path = folder / "tune-2n.parquet"
    write_profile(profile("tune-2n", np.arange(N_SAMPLES) + 0.5, n_nodes=2), path)
    return path


def rewrite(path: Path, change: Callable[[dict[str, list[Any]]], object]) -> None:
    """Change the columns of a profile file and keep its head."""
    table = pq.read_table(path)
    columns = {name: table[name].to_pylist() for name in table.column_names}
    change(columns)
    changed = pa.table({name: pa.array(values) for name, values in columns.items()})
    pq.write_table(changed.replace_schema_metadata(table.schema.metadata), path)


def rewrite_head(path: Path, **changes: object) -> None:
    table = pq.read_table(path)
    head = json.loads(table.schema.metadata[METADATA_KEY]) | changes
    head = {key: value for key, value in head.items() if value is not None}
    pq.write_table(
        table.replace_schema_metadata({METADATA_KEY: json.dumps(head)}), path
    )


def problem_of(path: Path) -> str:
    with pytest.raises(ProfileError) as caught:
        read_profile(path)
    assert str(caught.value).startswith(f"{path}: ")
    return str(caught.value)


def put(name: str, row: int, value: object) -> Callable[[dict[str, list[Any]]], object]:
    return lambda columns: columns[name].__setitem__(row, value)


def drop_row(columns: dict[str, list[Any]]) -> None:
    for values in columns.values():
        del values[40]


def drop_all(columns: dict[str, list[Any]]) -> None:
    columns["t_ms"], columns["power_w"] = [], []


def double_the_step(columns: dict[str, list[Any]]) -> None:
    columns["t_ms"] = [2 * t_ms for t_ms in columns["t_ms"]]


BAD_DATA: dict[str, tuple[Callable[[dict[str, list[Any]]], object], str]] = {
    "NaN": (put("power_w", 7, float("nan")), "power_w[7] is nan W (1 such values)"),
    "infinite": (put("power_w", 7, float("inf")), "power_w[7] is inf W"),
    "null": (put("power_w", 7, None), "power_w[7] is nan W (1 such values)"),
    "negative": (put("power_w", 9, -3.0), "power_w[9] is -3 W (1 such values)"),
    "gap": (drop_row, "step after row 39 is 2000 ms, expected 1000 ms without gaps (1"),
    "wrong step": (double_the_step, "row 0 is 2000 ms, expected 1000 ms without gaps"),
    "backwards": (put("t_ms", 5, 0), "step after row 4 is -4000 ms, expected 1000 ms"),
    "no rows": (drop_all, "holds no sample, expected 1 or more; import or build"),
    "no power": (lambda columns: columns.pop("power_w"), "'power_w' is missing"),
    "no time": (lambda columns: columns.pop("t_ms"), "column 't_ms' is missing"),
    "text": (
        lambda columns: columns.__setitem__("power_w", ["a"] * N_SAMPLES),
        "column 'power_w' is of type string, expected numbers",
    ),
    "changed": (put("power_w", 7, 9.0), "so it was changed; import or build"),
}


@pytest.mark.parametrize(("change", "words"), BAD_DATA.values(), ids=BAD_DATA)
def test_bad_data_of_a_profile_is_named(
    tmp_path: Path, change: Callable[[dict[str, list[Any]]], object], words: str
) -> None:
    path = good_file(tmp_path)
    rewrite(path, change)
    assert words in problem_of(path)


@pytest.mark.parametrize(
    ("head", "words"),
    [
        ({"schema_version": 99}, "schema version 99, this version reads 1"),
        ({"provenance": {}}, "'diploee.profile': provenance.kind: this key is missi"),
        ({"dt_ms": 100}, "step after row 0 is 1000 ms, expected 100 ms without gaps"),
    ],
)
def test_bad_head_of_a_profile_is_named(
    tmp_path: Path, head: dict[str, Any], words: str
) -> None:
    path = good_file(tmp_path)
    rewrite_head(path, **head)
    assert words in problem_of(path)


DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "three bytes": lambda data: data[:3],
    "cut": lambda data: data[:-9],
    "overwritten": lambda data: data[:8] + bytes(192) + data[200:],
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_damaged_profile_is_named(
    tmp_path: Path, damage: Callable[[bytes], bytes]
) -> None:
    path = good_file(tmp_path)
    path.write_bytes(damage(path.read_bytes()))
    assert re.search(r": can't be read \(.*\); import", problem_of(path))


def test_parquet_file_that_is_no_profile_is_named(tmp_path: Path) -> None:
    pq.write_table(
        pa.table({"t_ms": [0, 1000], "power_w": [1.0, 2.0]}), tmp_path / "x.parquet"
    )
    with pytest.raises(
        ProfileError, match="it is not a power profile; bring measured data in"
    ):
        ProfileLibrary.open(tmp_path)


def test_missing_and_empty_library_are_named(tmp_path: Path) -> None:
    with pytest.raises(ProfileError, match="no such profile folder"):
        ProfileLibrary.open(tmp_path / "nowhere")
    with pytest.raises(ProfileError, match=r"no \*\.parquet profiles in this folder"):
        ProfileLibrary.open(tmp_path)


@pytest.mark.parametrize(
    ("command", "key", "value", "words"),
    [
        ("run", "workload", "tuna", "'tuna' (have: 'draw', 'tune'); did you mean"),
        ("validate", "workload", "tuna", "'tuna' (have: 'draw', 'tune'); did you mean"),
        ("run", "n_nodes", 3, "'tune' on 3 nodes (have: 2, 4); to scale one lin"),
        ("run", "scale_from_n_nodes", 8, "'tune' on 8 nodes (have: 2, 4)"),
    ],
)
def test_missing_profile_ends_with_2_and_leaves_nothing(
    tmp_path: Path,
    library_folder: Path,
    command: str,
    key: str,
    value: object,
    words: str,
) -> None:
    path = write_scenario(
        tmp_path / "tiny.yaml", {f"streams.training.classes.0.{key}": value}
    )
    place = ("--out", tmp_path / "run", "--quiet") if command == "run" else ()
    ended = call(command, path, "--profiles", library_folder, *place)
    assert ended.code == 2
    assert ended.problem.startswith(f"{path}:")
    assert " streams.training: class " in ended.problem
    assert f"no profile of workload {words}" in ended.problem
    assert [child.name for child in tmp_path.iterdir()] == ["tiny.yaml"]


@pytest.fixture
def importing(tmp_path: Path) -> Callable[..., Ended]:
    """Import a table of two samples into a library beside it."""
    table = tmp_path / "job.csv"
    table.write_text("t_s,power_w\n0,1\n0.1,2\n", "utf-8")
    job = ("plain", table, "--workload", "x", "--nodes", 1, "--out", tmp_path / "lib")
    return lambda *options: call("profiles", "import", *job, *options)


def test_import_keeps_an_existing_profile_without_force(
    tmp_path: Path, importing: Callable[..., Ended]
) -> None:
    assert importing().code == 0
    before = contents(tmp_path)
    ended = importing()
    assert ended.code == 2
    assert "exists already; choose another id, or --force" in ended.problem
    assert contents(tmp_path) == before
    assert importing("--force").code == 0


@pytest.mark.parametrize(
    ("options", "words"),
    [
        *(
            (("--id", name), "use letters, digits, '.', '_' and '-' only")
            for name in ("../escape", ".hidden", "-", "x y")
        ),
        (("--sampling-s", 0), "--sampling-s: must be at least 1e-06"),
        (("--bandwidth-hz", 50), "--bandwidth-hz is 50, expected more than 0 and at"),
    ],
)
def test_facts_about_a_table_that_can_not_be_are_refused_and_leave_nothing(
    tmp_path: Path,
    importing: Callable[..., Ended],
    options: tuple[object, ...],
    words: str,
) -> None:
    ended = importing(*options)
    assert ended.code == 2
    assert words in ended.problem
    assert [child.name for child in tmp_path.iterdir()] == ["job.csv"]


def test_two_profiles_of_one_id_are_named(tmp_path: Path) -> None:
    good_file(tmp_path / "lib" / "a")
    good_file(tmp_path / "lib" / "b")
    with pytest.raises(ProfileError, match="two profiles have the id 'tune-2n'"):
        ProfileLibrary.open(tmp_path / "lib")


@pytest.mark.slow
def test_given_facts_about_a_table_are_shown(
    tmp_path: Path, importing: Callable[..., Ended]
) -> None:
    told = ("--boundary", "node_ac", "--averaging-s", 0.1, "--sampling-s", 0.05)
    assert importing(*told, "--id", "told").code == 0
    assert importing("--id", "untold").code == 0
    library = ("--profiles", tmp_path / "lib", "--out")
    shown = {
        name: call("profiles", "show", name, *library, tmp_path / f"{name}.png").out
        for name in ("told", "untold")
    }
    assert "boundary  node AC power, power supplies and fans included" in shown["told"]
    assert "every 0.05 s, averaged over 0.1 s, bandwidth 2.5 Hz" in shown["told"]
    assert "boundary  unknown: " in shown["untold"]
    assert (
        "every 0.1 s, averaged over unknown times, bandwidth 0.44 Hz" in shown["untold"]
    )
