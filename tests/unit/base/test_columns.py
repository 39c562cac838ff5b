"""The catalogue of columns: one declaration that files and readers share."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from builders import tiny_run, tiny_scenario
from command_line import call

import diploee
from diploee import Run
from diploee.base.column_specs import (
    Column,
    catalogue,
    column_dicts,
    find_column,
    with_boundary,
)
from diploee.base.errors import InputError
from diploee.grid.export.series import check_power_column
from diploee.profiles import ProfileLibrary
from diploee.runs.parquet_files import declared_columns

AUXILIARY = Column(
    "auxiliary_power_w", "W", "facility", "mean", "chillers", "constant load"
)


def test_a_written_name_gives_its_column_and_its_owner() -> None:
    for name, unit, per in (
        ("it_power_w.h100", "W", "pool"),
        ("served_rps.chat.large", "requests/s", "service"),
        ("queued_jobs", "jobs", "facility"),
    ):
        column, owner = find_column(name, declared_columns())
        assert f"{column.name}.{owner}".strip(".") == name
        assert (column.unit, column.per) == (unit, per)


def test_an_undeclared_name_is_refused_with_those_that_are() -> None:
    for name, found in (
        ("it_powr_w", r"'it_powr_w' is not declared .* mean 'it_power_w'\?"),
        ("incoming_rps", "of the facility"),
        ("queued_jobs.h100", "of pools and services"),
        ("", "is not declared"),
    ):
        with pytest.raises(InputError, match=found) as error:
            find_column(name, declared_columns())
        assert len(str(error.value)) < 500


def test_a_name_taken_twice_is_refused_by_what_both_declare() -> None:
    other = replace(AUXILIARY, text="pumps")
    with pytest.raises(
        InputError, match=r"'auxiliary_power_w' is declared twice: .*load.*pumps"
    ):
        catalogue(declared_columns(), (AUXILIARY,), (other,))
    assert catalogue(declared_columns(), (AUXILIARY,))[-1] is AUXILIARY


def test_a_stage_can_move_the_boundary_of_one_column_alone() -> None:
    moved = with_boundary(
        declared_columns(), "facility_power_w", "point of interconnection"
    )
    changed = {(a.name, a.boundary) for a in {*moved} - {*declared_columns()}}
    assert changed == {("facility_power_w", "point of interconnection")}
    with pytest.raises(InputError, match="'grid_power_w' is not declared"):
        with_boundary(declared_columns(), "grid_power_w", "")


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory, library: ProfileLibrary) -> Run:
    folder = tmp_path_factory.mktemp("runs") / "tiny"
    return diploee.run(tiny_scenario({"duration": "1 h"}), folder, profiles=library)


def rewrite(run: Run, folder: Path, columns: object) -> Run:
    """Copy the series of a run with other metadata."""
    path = Path(shutil.copytree(run.folder, folder)) / "facility.parquet"
    table = pq.read_table(path)
    table = table.append_column("chillers_w", table["it_power_w"])
    head = json.loads(table.schema.metadata[b"diploee.facility"])
    head.pop("columns")
    head |= {} if columns is None else {"columns": columns}
    table = table.replace_schema_metadata({b"diploee.facility": json.dumps(head)})
    pq.write_table(table, path)
    return Run(folder)


def test_a_run_knows_its_columns_from_its_file(run: Run, tmp_path: Path) -> None:
    assert [c.name for c in run.columns][-1] == "queued_jobs"
    assert column_dicts(run.columns) == run.manifest["columns"]
    moved = with_boundary(run.columns, "facility_power_w", "point of interconnection")
    entries = column_dicts(catalogue(moved, (AUXILIARY,)))
    newer = [entry | {"colour": "red"} for entry in entries]
    changed = rewrite(run, tmp_path / "moved", newer)
    assert changed.columns == (*moved, AUXILIARY)
    assert changed.boundary() == "point of interconnection"
    assert changed.boundary("it_power_w").startswith("device power")


def test_a_run_from_before_the_catalogue_has_the_declared_one(
    run: Run, tmp_path: Path
) -> None:
    assert rewrite(run, tmp_path / "older", None).columns == declared_columns()
    with pytest.raises(
        InputError, match=r"metadata: columns\.0\.unit: this key is missing"
    ):
        _ = rewrite(run, tmp_path / "damaged", [{"name": "x"}]).columns


def test_any_column_in_watts_that_a_run_declares_can_be_exported(
    run: Run, tmp_path: Path
) -> None:
    chillers = replace(AUXILIARY, name="chillers_w")
    columns = column_dicts(catalogue(run.columns, [chillers]))
    check_power_column(rewrite(run, tmp_path / "told", columns).series(), "chillers_w")
    untold = rewrite(run, tmp_path / "untold", None).series()
    with pytest.raises(InputError, match=r"no power column 'chillers_w' \(have: 'it_p"):
        check_power_column(untold, "chillers_w")


def test_types_of_columns_are_those_that_the_page_of_outputs_gives(
    tmp_path: Path,
) -> None:
    rows = (line.split(" | ") for line in call("schema", "--outputs").out.splitlines())
    types = {
        row[0].strip("| `"): row[2]
        for row in rows
        if row[0].startswith("| `") and len(row) > 5
    }
    run = tiny_run(tmp_path / "run", {"duration": "2 h"})
    schema = pq.read_schema(run.folder / "facility.parquet")
    arrow = {"float": "float32", "int32": "int32"}
    found = {name: arrow[str(schema.field(name).type)] for name in schema.names[1:]}
    assert len(found) >= 5 and found == {name: types[name] for name in found}
    # in double precision once read, so that running sums keep their digits
    read = run.facility().drop(columns="timestamp", errors="ignore").dtypes
    assert set(map(str, read)) == {"float64", "int32"}
