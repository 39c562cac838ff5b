"""Names are text wherever they are written: one cell of a CSV file, never a command of
a script."""

from __future__ import annotations

import csv
from shutil import copytree

import pyarrow.parquet as pq
import pytest
from builders import TINY, tiny_data, tiny_run
from hypothesis import given
from hypothesis import strategies as st

from diploee import Run
from diploee.base.errors import InputError
from diploee.base.model import MAX_NAME_LENGTH
from diploee.grid.export import Options, export_run
from diploee.scenario import scenario_from_dict

ODD = ("a, \"b\"; 'c'", "=1+1", "! x", "größe [W]", "new load.x")
COMMANDS = ("New LoadShape.", "New Load.", "!")


def two_pools(name: str) -> dict[str, object]:
    pool, stream = TINY["facility"]["pools"]["main"], TINY["streams"]["training"]
    return {
        "duration": "1 h",
        "facility": {**TINY["facility"], "pools": {name: pool, "other": pool}},
        "streams": {f"to {name}": {**stream, "pool": name}},
    }


@pytest.mark.parametrize("name", ODD)
def test_odd_names_are_one_cell_of_a_csv_file_and_no_command_of_a_script(
    name, tmp_path
):
    run = tiny_run(tmp_path / "run", two_pools(name))
    options = Options(column=f"it_power_w.{name}")
    place = export_run(run, "csv", tmp_path / "power.csv", options)
    with place.open(newline="", encoding="utf-8") as file:
        rows = list(csv.reader(file))
    assert rows[0] == ["timestamp", f"it_power_w.{name}"]
    assert {len(row) for row in rows} == {2}
    folder = export_run(run, "opendss", tmp_path / "dss", options)
    for script in folder.glob("*.dss"):
        lines = script.read_text("utf-8").splitlines()
        assert all(line.startswith(COMMANDS) for line in lines), lines


def test_a_doctored_column_does_not_become_a_command(minute_run, tmp_path):
    copytree(minute_run.folder, tmp_path / "run")
    path = tmp_path / "run" / "facility.parquet"
    evil = "it_power_w.left\nDOScmd /C calc.exe"
    table = pq.read_table(path)
    renamed = [
        evil if name == "it_power_w.left" else name for name in table.column_names
    ]
    pq.write_table(table.rename_columns(renamed), path)
    folder = export_run(
        Run(tmp_path / "run"), "opendss", tmp_path / "dss", Options(column=evil)
    )
    (script,) = folder.glob("*.dss")
    assert all(
        line.startswith(COMMANDS) for line in script.read_text("utf-8").splitlines()
    )


PLACES = ("facility.node_types", "facility.pools", "streams")


@pytest.mark.slow
@given(st.text(max_size=MAX_NAME_LENGTH + 2), st.sampled_from(PLACES))
def test_names_are_refused_unless_they_can_be_shown_in_one_line(name, place):
    data = tiny_data()
    *parents, last = place.split(".")
    here = data
    for key in parents:
        here = here[key]
    (value,) = here[last].values()
    here[last] = {name: value}
    if place == "facility.node_types":
        data["facility"]["pools"]["main"]["node_type"] = name
    elif place == "facility.pools":
        data["streams"]["training"]["pool"] = name
    fits = bool(name.strip()) and name.isprintable() and len(name) <= MAX_NAME_LENGTH
    if fits:
        scenario_from_dict(data)
        return
    with pytest.raises(InputError, match="all printable") as caught:
        scenario_from_dict(data)
    assert all(
        line.isprintable() and len(line) < 500
        for line in str(caught.value).splitlines()
    )
