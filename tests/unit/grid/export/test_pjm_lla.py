"""Demand by year and a ramp schedule, against the series that they are taken from."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest
from builders import tiny_run

from diploee import Run
from diploee.base.errors import InputError
from diploee.grid.export import Options, export_run
from diploee.simulation.size import rated_at_meter_w

NODE_MW = (4 * 700 + 2 * 360) / 1e6


@pytest.fixture(scope="module")
def years(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Fourteen months over three calendar years of a site that grows twice."""
    folder = tmp_path_factory.mktemp("build-out") / "run"
    return tiny_run(
        folder,
        {
            "start": "2026-12-01",
            "duration": "14 months",
            "resolution": "30 min",
            "facility.utc_offset": None,
            "facility.time_zone": "America/New_York",
            "facility.pools.main.phases": [
                {"since": "2026-12-01", "n_nodes": 4},
                {"since": "2027-03-01", "n_nodes": 8},
                {"since": "2027-07-01", "n_nodes": 10},
            ],
        },
    )


@pytest.fixture(scope="module")
def tables(
    years: Run, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, list[dict[str, str]]]:
    place = tmp_path_factory.mktemp("lla") / "out"
    export_run(years, "pjm-lla", place, Options(zone="DOM", area="Loudoun, north"))
    return {
        path.stem: list(csv.DictReader(path.read_text("utf-8").splitlines()))
        for path in place.glob("*.csv")
    }


@pytest.mark.slow
def test_demand_is_the_highest_hour_of_each_calendar_year(
    years: Run, tables: dict[str, list[dict[str, str]]]
) -> None:
    hourly = (
        years.facility()["facility_power_w"].astype("float64").resample("1h").mean()
    )
    (row,) = tables["demand"]
    assert (row.pop("ZONENAME"), row.pop("AREANAME")) == ("DOM", "Loudoun, north")
    highest = hourly.groupby(hourly.index.year).max() / 1e6
    assert {int(year): float(mw) for year, mw in row.items()} == pytest.approx(
        dict(highest)
    )
    assert float(row["2026"]) < float(row["2028"])


def test_capacity_is_the_ratings_in_place_at_the_end_of_the_year(
    tables: dict[str, list[dict[str, str]]],
) -> None:
    (row,) = tables["capacity"]
    found = [float(row[year]) for year in ("2026", "2027", "2028")]
    assert found == pytest.approx([4 * NODE_MW, 10 * NODE_MW, 10 * NODE_MW])
    (summary,) = tables["summary"]
    assert float(summary["Capacity"]) == pytest.approx(10 * NODE_MW)
    share = float(summary["Demand"]) / float(summary["Capacity"])
    assert f"{share:.1%}" in summary["Note"]


def test_ramp_schedule_has_a_row_for_every_step(
    years: Run, tables: dict[str, list[dict[str, str]]]
) -> None:
    rows = tables["ramp_schedule"]
    assert [row["date"] for row in rows] == ["2026-12-01", "2027-03-01", "2027-07-01"]
    # Whole days by the clock
    assert [row["days_since_step"] for row in rows] == ["0", "90", "122"]
    assert [float(row["step_mw"]) for row in rows] == pytest.approx(
        [n * NODE_MW for n in (4, 4, 2)]
    )
    hourly = (
        years.facility()["facility_power_w"].astype("float64").resample("1h").mean()
        / 1e6
    )
    spans = (
        hourly[:"2027-02-28"],
        hourly["2027-03-01":"2027-06-30"],
        hourly["2027-07-01":],
    )
    assert [float(row["demand_until_next_mw"]) for row in rows] == pytest.approx(
        [span.max() for span in spans]
    )


def test_hour_across_a_step_is_of_the_nodes_that_it_adds(tmp_path: Path) -> None:
    changes = {
        "start": "2026-12-30T00:30",
        "duration": "2 d",
        "resolution": "30 min",
        "facility.pools.main.phases": [
            {"since": "2026-12-30T01:00", "n_nodes": 4},
            {"since": "2026-12-30T18:00", "n_nodes": 12},
        ],
    }
    run = tiny_run(tmp_path / "run", changes)
    place = export_run(run, "pjm-lla", tmp_path / "lla")
    rows = list(
        csv.DictReader((place / "ramp_schedule.csv").read_text("utf-8").splitlines())
    )
    hourly = (
        run.facility()["facility_power_w"]
        .astype("float64")
        .resample("1h", origin="start")
    )
    # From 00:30 on; 17:30 is the first of twelve nodes
    means_mw = hourly.mean().to_numpy() / 1e6
    expected = [0.0, means_mw[:17].max(), means_mw[17:].max()]
    found = [float(row["demand_until_next_mw"]) for row in rows]
    assert found == pytest.approx(expected, rel=1e-5)


def test_site_without_phases_is_one_step(year_run: Run, tmp_path: Path) -> None:
    place = export_run(year_run, "pjm-lla", tmp_path / "lla")
    (row,) = csv.DictReader(
        (place / "ramp_schedule.csv").read_text("utf-8").splitlines()
    )
    assert (
        float(row["capacity_mw"])
        == float(row["step_mw"])
        == pytest.approx(12 * NODE_MW)
    )


def test_capacity_is_rated_where_the_demand_is_taken(tmp_path: Path) -> None:
    changes = {
        "facility.node_types.node.ac_power": "air_hgx",
        "facility.stages": ["ups", "transformers", "point_of_interconnection"],
    }
    run = tiny_run(tmp_path / "run", changes)
    for column, rated_w in (
        ("facility_power_w", rated_at_meter_w(run.scenario)),
        ("it_power_w", 12 * NODE_MW * 1e6),
    ):
        place = export_run(run, "pjm-lla", tmp_path / column, Options(column=column))
        (row,) = csv.DictReader(
            (place / "ramp_schedule.csv").read_text("utf-8").splitlines()
        )
        assert float(row["capacity_mw"]) == pytest.approx(rated_w / 1e6, rel=1e-5)


def test_no_power_per_gpu_while_gpus_are_added(years: Run, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="GPUs are added in the course of the run"):
        export_run(years, "openg2g", tmp_path / "trace.csv")
