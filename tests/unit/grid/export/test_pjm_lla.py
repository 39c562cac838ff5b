"""Demand by year and a ramp schedule, against the series that they are taken from."""

from __future__ import annotations

import pandas as pd
import pytest
from builders import tiny_run
from exported import export, rows_of

from diploee import Run
from diploee.base.errors import InputError
from diploee.grid.export import Options, export_run
from diploee.simulation.size import rated_at_meter_w

NODE_MW = (4 * 700 + 2 * 360) / 1e6
DEMAND = "demand_until_next_mw"


def hourly_mw(run: Run) -> pd.Series:
    power_w = run.facility()["facility_power_w"].astype("float64")
    return power_w.resample("1h", origin="start").mean() / 1e6


def ramp(run: Run, place, **options) -> list[dict[str, str]]:
    return rows_of(export(run, "pjm-lla", place, **options) / "ramp_schedule.csv")


@pytest.fixture(scope="module")
def years(tmp_path_factory):
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
def tables(years, tmp_path_factory):
    place = tmp_path_factory.mktemp("lla") / "out"
    export_run(years, "pjm-lla", place, Options(zone="DOM", area="Loudoun, north"))
    return {path.stem: rows_of(path) for path in place.glob("*.csv")}


@pytest.mark.slow
def test_demand_is_the_highest_hour_of_each_calendar_year(years, tables):
    hourly = hourly_mw(years)
    (row,) = tables["demand"]
    assert (row.pop("ZONENAME"), row.pop("AREANAME")) == ("DOM", "Loudoun, north")
    highest = hourly.groupby(hourly.index.year).max()
    found = {int(year): float(mw) for year, mw in row.items()}
    assert found == pytest.approx(dict(highest))
    assert found[2026] < found[2028]


def test_capacity_is_the_ratings_in_place_at_the_end_of_the_year(tables):
    (row,) = tables["capacity"]
    found = [float(row[year]) for year in ("2026", "2027", "2028")]
    assert found == pytest.approx([4 * NODE_MW, 10 * NODE_MW, 10 * NODE_MW])
    (summary,) = tables["summary"]
    assert float(summary["Capacity"]) == pytest.approx(10 * NODE_MW)
    share = float(summary["Demand"]) / float(summary["Capacity"])
    assert f"{share:.1%}" in summary["Note"]


def test_ramp_schedule_has_a_row_for_every_step(years, tables):
    found = pd.DataFrame(tables["ramp_schedule"])
    assert found["date"].tolist() == ["2026-12-01", "2027-03-01", "2027-07-01"]
    # Whole days by the clock
    assert found["days_since_step"].tolist() == ["0", "90", "122"]
    steps_mw = [n * NODE_MW for n in (4, 4, 2)]
    assert found["step_mw"].astype(float).tolist() == pytest.approx(steps_mw)
    hourly = hourly_mw(years)
    spans = (
        hourly[:"2027-02-28"],
        hourly["2027-03-01":"2027-06-30"],
        hourly["2027-07-01":],
    )
    expected = [span.max() for span in spans]
    assert found[DEMAND].astype(float).tolist() == pytest.approx(expected)


def test_hour_across_a_step_is_of_the_nodes_that_it_adds(tmp_path):
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
    # From 00:30 on; 17:30 is the first of twelve nodes
    means_mw = hourly_mw(run).to_numpy()
    expected = [0.0, means_mw[:17].max(), means_mw[17:].max()]
    found = [float(row[DEMAND]) for row in ramp(run, tmp_path)]
    assert found == pytest.approx(expected, rel=1e-5)


def test_site_without_phases_is_one_step(year_run, tmp_path):
    (row,) = ramp(year_run, tmp_path)
    found = [float(row["capacity_mw"]), float(row["step_mw"])]
    assert found == pytest.approx([12 * NODE_MW] * 2)


def test_capacity_is_rated_where_the_demand_is_taken(tmp_path):
    changes = {
        "facility.node_types.node.ac_power": "air_hgx",
        "facility.stages": ["ups", "transformers", "point_of_interconnection"],
    }
    run = tiny_run(tmp_path / "run", changes)
    for column, rated_w in (
        ("facility_power_w", rated_at_meter_w(run.scenario)),
        ("it_power_w", 12 * NODE_MW * 1e6),
    ):
        (row,) = ramp(run, tmp_path / column, column=column)
        assert float(row["capacity_mw"]) == pytest.approx(rated_w / 1e6, rel=1e-5)


def test_no_power_per_gpu_while_gpus_are_added(years, tmp_path):
    with pytest.raises(InputError, match="GPUs are added in the course of the run"):
        export(years, "openg2g", tmp_path)
