"""Table by year: closed forms of a constant load, and hours taken from files."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from builders import TYPICAL_DENVER, profile, tiny_run, tiny_scenario
from exported import export, rows_of, sidecar

import diploee
from diploee import ProfileLibrary, Run
from diploee import run as simulate
from diploee.base.errors import InputError
from diploee.grid.export import workbook

LIKE_IDLE = ProfileLibrary(
    [
        profile(f"{workload}-{n}n-1", np.full(900, 400.0 * n), n_nodes=n)
        for workload, n in (("tune", 2), ("tune", 4), ("draw", 1))
    ]
)
"""Profiles of jobs that draw what idle nodes do."""
IDLE = {
    "start": "2026-05-30",
    "duration": "8 months",
    "resolution": "1 h",
    "facility.node_types.node.ac_power": "air_hgx",
    "facility.stages": [
        "ups",
        "transformers",
        {"kind": "point_of_interconnection", "contract_mw": 0.03},
    ],
    "facility.pools.main.phases": [
        {"since": "2026-05-30", "n_nodes": 4},
        {"since": "2026-10-15", "n_nodes": 12},
    ],
}
CASES = ["all hours", "summer peak", "summer net peak", "autumn peak"]
QUANTITIES = ("mw", "mvar", "power_factor")


@pytest.fixture(scope="module")
def idle(tmp_path_factory) -> Run:
    """A constant load of each node, in two steps and two calendar years."""
    folder = tmp_path_factory.mktemp("by-year") / "idle"
    return simulate(tiny_scenario(IDLE), folder, profiles=LIKE_IDLE, engine="compiled")


@pytest.fixture(scope="module")
def table(idle) -> pd.DataFrame:
    return diploee.by_year(idle)


@pytest.fixture(scope="module")
def cooled(tmp_path_factory) -> Run:
    """A week of July with jobs and cooling."""
    changes = TYPICAL_DENVER | {
        "start": "2018-07-02",
        "duration": "7 d",
        "resolution": "30 min",
        "facility.node_types.node.ac_power": "dlc",
        "facility.stages": ["ups", "dlc_tower", "transformers"],
    }
    return tiny_run(tmp_path_factory.mktemp("by-year") / "cooled", changes)


def write_peaks(path: Path, *rows: str) -> Path:
    path.write_text("\n".join(["start,end,name", *rows, ""]), "utf-8")
    return path


def test_a_constant_load_is_its_own_peak_and_percentiles(idle, table) -> None:
    power = idle.facility(["poi_power_w", "poi_reactive_var"]) / 1e6
    for (_, since), rows in table.groupby(["year", "since"]):
        mw, mvar = power[pd.Timestamp(since, tz="UTC") + pd.Timedelta("1D") :].iloc[0]
        factor = mw / np.hypot(mw, mvar)
        for name, value in zip(QUANTITIES, (mw, mvar, factor), strict=True):
            for level in ("p5", "p50") if name == "power_factor" else ("p50", "p95"):
                assert rows[f"{name}_{level}"].tolist() == pytest.approx(
                    [value] * len(rows), rel=1e-5
                )
        assert rows["peak_mw"].tolist() == pytest.approx([mw] * len(rows), rel=1e-5)


def test_rows_are_the_steps_in_each_year(table) -> None:
    found = list(dict.fromkeys(zip(table["year"], table["since"], strict=True)))
    assert found == [
        (2026, "2026-05-30"),
        (2026, "2026-10-15"),
        (2027, "2026-10-15"),
    ]
    whole = table[table["case"] == "all hours"]
    days = [(date(2026, 10, 15) - date(2026, 5, 30)).days, 17 + 30 + 31, 30]
    assert whole["hours"].tolist()[:2] == [24 * n for n in days[:2]]


def test_contract_is_in_the_ratio_of_the_nodes_and_adds_up(table) -> None:
    whole = table[table["case"] == "all hours"]
    assert whole["contract_mw"].tolist() == pytest.approx([0.01, 0.03, 0.03])
    assert whole["rated_mw"].iloc[1] == pytest.approx(3 * whole["rated_mw"].iloc[0])
    assert "assumed" in whole["contract_basis"].iloc[0]


def test_a_case_without_hours_has_no_row(table) -> None:
    cases = {key: [*of["case"]] for key, of in table.groupby(["year", "step"])}
    second = [CASES[0], CASES[3]]
    assert cases == {(2026, 1): CASES, (2026, 2): second, (2027, 2): CASES[:1]}


def test_own_peak_is_the_highest_hours_of_the_season(cooled) -> None:
    found = diploee.by_year(cooled).set_index("case")
    mw = cooled.facility()["facility_power_w"].resample("1h").mean() / 1e6
    highest = mw.sort_values(ascending=False)[:20]
    evening = mw[(mw.index.hour >= 19) & (mw.index.hour < 22)]
    net = evening.sort_values(ascending=False)[:20]
    for case, hours in (("summer peak", highest), ("summer net peak", net)):
        row = found.loc[case]
        assert row["hours"] == 20 and row["peak_mw"] == pytest.approx(hours.max())
        assert row["mw_p50"] == pytest.approx(hours.median())
        assert row["mw_p95"] == pytest.approx(hours.quantile(0.95))
    assert "autumn peak" not in found.index


def test_named_hours_of_a_file_are_the_cases(cooled, tmp_path) -> None:
    peaks = write_peaks(
        tmp_path / "peaks.csv",
        "2018-07-03 16:00,2018-07-03 18:00,summer peak",
        "2018-07-05 20:00,2018-07-05 20:30,net peak",
        "2018-07-06 16:00,2018-07-06 17:00,summer peak",
    )
    found = diploee.by_year(cooled, peaks).set_index("case")
    assert list(found.index) == ["all hours", "summer peak", "net peak"]
    mw = cooled.facility()["facility_power_w"].resample("1h").mean() / 1e6
    taken = mw[
        pd.to_datetime(
            [f"2018-07-0{d} {h}:00-07:00" for d, h in ((3, 16), (3, 17), (6, 16))]
        )
    ]
    row = found.loc["summer peak"]
    basis = "of the file of peaks: whole steps of 1 h that its rows touch"
    assert row["hours"] == 3 and row["hours_basis"] == basis
    assert row["mw_p50"] == pytest.approx(taken.median())
    # Half an hour is of the hour in which it lies
    assert found.loc["net peak"]["peak_mw"] == pytest.approx(
        mw[pd.Timestamp("2018-07-05 20:00-07:00")]
    )


def test_hours_outside_the_run_are_refused_with_their_line(cooled, tmp_path) -> None:
    peaks = write_peaks(
        tmp_path / "peaks.csv", "2019-07-03 16:00,2019-07-03 17:00,peak"
    )
    with pytest.raises(InputError, match=r"peaks\.csv:2.*lies outside the run"):
        diploee.by_year(cooled, peaks)


def test_power_factor_has_its_worse_end_and_not_its_best(cooled) -> None:
    row = diploee.by_year(cooled).set_index("case").loc["all hours"]
    columns = ["facility_power_w", "facility_reactive_var"]
    p_w, q_var = cooled.facility(columns).resample("1h").mean().to_numpy().T
    factor = pd.Series(p_w / np.hypot(p_w, q_var))
    assert row["power_factor_p5"] == pytest.approx(factor.quantile(0.05), rel=1e-5)
    assert row["power_factor_p5"] < row["power_factor_p50"]
    assert "power_factor_p95" not in row


def test_it_and_cooling_stand_apart(cooled) -> None:
    row = diploee.by_year(cooled).set_index("case").loc["all hours"]
    hourly = cooled.facility(["it_ac_power_w", "cooling_w"]).resample("1h").mean() / 1e6
    for name, part in (("it_mw", "it_ac_power_w"), ("cooling_mw", "cooling_w")):
        assert row[f"{name}_p50"] == pytest.approx(hourly[part].median(), rel=1e-5)
        assert row[f"{name}_p95"] == pytest.approx(
            hourly[part].quantile(0.95), rel=1e-5
        )


def test_files_open_as_they_were_written(idle, table, tmp_path) -> None:
    openpyxl = pytest.importorskip("openpyxl")
    place = export(idle, "by-year", tmp_path, excel=True, zone="DOM", area="=1+1")
    book = openpyxl.load_workbook(place / "by_year.xlsx")
    names = ["by_year", "lcp", "demand", "capacity", "summary", "ramp_schedule"]
    assert book.sheetnames == names
    for name in names:
        header, *rows = book[name].iter_rows(values_only=True)
        csv_rows = rows_of(place / f"{name}.csv")
        assert len(rows) == len(csv_rows)
        for row, texts in zip(rows, csv_rows, strict=True):
            assert list(map(str, header)) == list(texts)
            for value, text in zip(row, texts.values(), strict=True):
                is_number = isinstance(value, int | float)
                assert (float(text) if is_number else text) == (
                    "" if value is None else value
                )
    assert rows_of(place / "demand.csv")[0]["AREANAME"] == "'=1+1"
    written = {f"{name}.csv" for name in names} | {"by_year.xlsx"}
    assert set(sidecar(place)["files"]) == written
    of_year = rows_of(place / "by_year.csv")
    assert [float(row["contract_mw"]) for row in of_year] == pytest.approx(
        table["contract_mw"].tolist(), abs=5e-4
    )


def test_lcp_has_a_row_a_step_with_the_highest_power_so_far(idle, table, tmp_path):
    rows = rows_of(export(idle, "by-year", tmp_path) / "lcp.csv")
    assert [row["Date"] for row in rows] == ["2026-05-30", "2026-10-15"]
    whole = table[table["case"] == "all hours"]
    peaks = whole.groupby("since")["peak_mw"].max()
    found = [float(row["Cumulative Peak MW"]) for row in rows]
    assert found == pytest.approx(peaks.tolist(), abs=5e-4)
    assert float(rows[1]["Mvar"]) == pytest.approx(whole["peak_mvar"].max(), abs=5e-4)
    assert all("assumed: in the ratio" in row["Assumed"] for row in rows)


def test_two_exports_have_the_same_bytes(idle, tmp_path) -> None:
    pytest.importorskip("openpyxl")
    places = [tmp_path / name for name in ("a", "b")]
    for place in places:
        export(idle, "by-year", place, excel=True)
    first, second = (
        {p.name: p.read_bytes() for p in (place / "out").iterdir()} for place in places
    )
    assert first == second and len(first) == 8


def test_no_workbook_without_its_package(idle, tmp_path, monkeypatch) -> None:
    def missing(name: str) -> None:
        raise ImportError(name)

    monkeypatch.setattr(workbook, "import_module", missing)
    with pytest.raises(InputError, match=r"pip install 'diploee\[excel\]'"):
        export(idle, "by-year", tmp_path, excel=True)
    assert not [*tmp_path.iterdir()]
