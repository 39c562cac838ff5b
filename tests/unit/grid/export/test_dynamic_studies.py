"""Files for dynamic studies: what stands in them, read apart from what wrote them."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pytest
from builders import tiny_run
from exported import stored_w

from diploee import Run
from diploee.base.errors import InputError
from diploee.grid.export import Options, export_run
from diploee.grid.export.series import ReactiveTable


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    folder = tmp_path_factory.mktemp("runs") / "two_hours"
    return tiny_run(
        folder, {"duration": "2 h", "resolution": "1 s"}, event_windows=True
    )


@pytest.fixture(scope="module")
def power_mw(run: Run) -> np.ndarray:
    return stored_w(run) / 1e6


def test_andes_data_are_per_unit_and_its_row_names_them(
    run: Run, power_mw: np.ndarray, q_table: ReactiveTable, tmp_path: Path
) -> None:
    place = export_run(
        run, "andes", tmp_path / "andes", Options(q_table=q_table, mva=50.0, name="dc")
    )
    t_s, p_pu, q_pu = np.loadtxt(place / "dc.csv", delimiter=",", skiprows=1).T
    np.testing.assert_allclose(p_pu * 50, power_mw, atol=1e-7)
    np.testing.assert_allclose(q_pu * 50, -0.002 + 0.2 * power_mw, atol=1e-7)
    assert t_s.tolist() == np.arange(7_200).tolist()
    (row,) = csv.DictReader((place / "TimeSeries.csv").read_text("utf-8").splitlines())
    assert (row["path"], row["fields"], row["dests"]) == (
        "dc.csv",
        "p_pu,q_pu",
        "Ppf,Qpf",
    )


def test_andes_without_reactive_power_leaves_that_of_the_case(
    run: Run, tmp_path: Path
) -> None:
    place = export_run(run, "andes", tmp_path / "andes")
    (row,) = csv.DictReader((place / "TimeSeries.csv").read_text("utf-8").splitlines())
    assert (row["fields"], row["dests"]) == ("p_pu", "Ppf")


def test_gridlabd_player_is_a_third_of_the_facility(
    run: Run, power_mw: np.ndarray, q_table: ReactiveTable, tmp_path: Path
) -> None:
    place = export_run(
        run, "gridlabd", tmp_path / "glm", Options(q_table=q_table, step="1 min")
    )
    lines = (place / "datacenter.player").read_text().splitlines()
    stamp, _, value = lines[0].partition(",")
    assert stamp == "2018-01-01 00:00:00 GMT"
    first_mw = power_mw[:60].mean()
    assert complex(value).real * 3 / 1e6 == pytest.approx(first_mw, rel=1e-6)
    expected_mvar = np.interp(first_mw, [0, 0.1], [-0.002, 0.018])
    assert complex(value).imag * 3 / 1e6 == pytest.approx(expected_mvar, rel=1e-4)
    energy = sum(complex(line.partition(",")[2]).real for line in lines) * 3 / 1e6
    assert energy == pytest.approx(power_mw.sum() / 60, rel=1e-6)
    assert "file datacenter.player" in (place / "datacenter.glm").read_text()
    notes = json.loads((place / "diploee_export.json").read_text())["notes"]
    assert any("any timezone of whole hours, such as EST5EDT" in note for note in notes)


def test_gridlabd_has_no_tenths_of_a_second(run: Run, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"whole seconds, found a step of 0\.1 s"):
        export_run(run, "gridlabd", tmp_path / "glm", Options(event_window="peak"))


@pytest.mark.parametrize("name", ["openg2g-load", "gpu-data"])
def test_two_columns_have_the_head_that_their_tool_asks_for(
    run: Run, power_mw: np.ndarray, tmp_path: Path, name: str
) -> None:
    place = export_run(run, name, tmp_path / "load.csv")
    head, per_mw = {
        "openg2g-load": ("t_s,p_kw", 1e3),
        "gpu-data": ("t_seconds,P_gpu_W", 1e6 / 48),
    }[name]
    assert place.read_text().splitlines()[0] == head
    t_s, power = np.loadtxt(place, delimiter=",", skiprows=1).T
    np.testing.assert_allclose(power, power_mw * per_mw, rtol=1e-6)
    assert t_s[1] == 1.0


def test_raw_records_are_peak_minimum_highest_quarter_and_a_moment(
    run: Run, power_mw: np.ndarray, q_table: ReactiveTable, tmp_path: Path
) -> None:
    options = Options(
        q_table=q_table, at="2018-01-01 01:00:00", bus_number=7, parts=("raw",)
    )
    place = export_run(run, "psse", tmp_path / "psse", options)
    records = [
        line.partition("/")[0].split(",")
        for line in (place / "datacenter.raw").read_text().splitlines()
    ]
    quarter = np.convolve(power_mw, np.full(900, 1 / 900), "valid").max()
    filled = round(run.metrics["grid"]["transient_h"] * 3600)
    expected = [power_mw.max(), power_mw[filled:].min(), quarter, power_mw[3_600]]
    # An empty facility is how a run begins, and no load that a site has.
    assert power_mw[:filled].min() < expected[1]
    assert run.metrics["grid"]["minimum"]["min_mw"] == pytest.approx(expected[1])
    for record, p_mw in zip(records, expected, strict=True):
        assert record[0] == "7"
        assert len(record) == 13
        assert float(record[5]) == pytest.approx(p_mw, abs=1e-6)
        assert float(record[6]) == pytest.approx(-0.002 + 0.2 * p_mw, abs=1e-6)
    starts = [
        line.rpartition(" from ")[2]
        for line in (place / "datacenter.raw").read_text().splitlines()
    ]
    offset = run.scenario.start_with_zone.isoformat()[-6:]
    assert starts[3] == f"2018-01-01T01:00:00{offset}" and all(
        s.endswith(offset) for s in starts
    )
    # One stands for the facility
    assert [record[2] for record in records] == ["0", "0", "0", "1"]


def test_raw_record_without_reactive_power_is_refused(run: Run, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="needs reactive power; give --q-table"):
        export_run(run, "psse", tmp_path / "psse")


def test_moment_outside_of_the_run_is_refused(
    run: Run, q_table: ReactiveTable, tmp_path: Path
) -> None:
    with pytest.raises(
        InputError, match=r"--at: .* is exported, 2018-01-01 00:00 to 2018-01-0"
    ):
        options = Options(q_table=q_table, at="2018-01-02 01:00:00")
        export_run(run, "psse", tmp_path / "psse", options)


@pytest.mark.parametrize(
    ("name", "within_mw"), [("comtrade", 1e-7), ("comtrade-1999", 2e-6)]
)
def test_comtrade_record_gives_the_event_window_back(
    run: Run, q_table: ReactiveTable, tmp_path: Path, name: str, within_mw: float
) -> None:
    options = Options(q_table=q_table, event_window="peak")
    place = export_run(run, name, tmp_path / "record", options)
    config = (place / "datacenter.cfg").read_text().splitlines()
    n_channels = int(config[1].partition(",")[0])
    a, b = (float(value) for value in config[2].split(",")[5:7])
    rate_hz, n_samples = (
        float(value) for value in config[2 + n_channels + 2].split(",")
    )
    assert (n_channels, rate_hz) == (2, 10)
    data = (place / "datacenter.dat").read_bytes()
    if name == "comtrade":
        kinds = [("n", "<i4"), ("t", "<i4"), ("p", "<f4"), ("q", "<f4")]
        record = np.frombuffer(data, dtype=kinds)
        p_mw, ticks = record["p"].astype(float), record["t"]
    else:
        _, ticks, p_mw, _ = np.loadtxt(data.decode().splitlines(), delimiter=",").T
    expected_w = run.event_window("peak")["facility_power_w"].to_numpy()
    assert n_samples == expected_w.size
    np.testing.assert_allclose(a * p_mw + b, expected_w / 1e6, atol=within_mw)
    step_us = np.diff(ticks) * float(config[-3 if name == "comtrade" else -1])
    assert np.unique(step_us).tolist() == [100_000.0]


@pytest.mark.parametrize(
    ("name", "start", "stamp"),
    [
        ("comtrade", "2018-01-01", "01/01/2018,08:00:00.000000"),
        ("comtrade-1999", "2018-01-01", "01/01/2018,01:00:00.000000"),
        ("comtrade-1999", "2018-07-01", "01/07/2018,01:00:00.000000"),
    ],
)
def test_a_comtrade_record_without_a_field_for_its_zone_has_the_time_of_its_site(
    tmp_path: Path, name: str, start: str, stamp: str
) -> None:
    site = {"start": start, "duration": "2 h", "facility.time_zone": "America/Denver"}
    run = tiny_run(tmp_path / "run", site)
    place = export_run(run, name, tmp_path / "record", Options(first=f"{start}T01:00"))
    assert stamp in (place / "datacenter.cfg").read_text().splitlines()
    notes = " ".join(json.loads((place / "diploee_export.json").read_text())["notes"])
    offset = "-06:00" if "07" in start else "-07:00"
    assert (f"local time, UTC{offset}" in notes) == (name == "comtrade-1999")


@pytest.mark.parametrize("name", ["comtrade", "comtrade-1999"])
def test_stamps_of_a_comtrade_record_of_days_rise_by_its_step(
    tmp_path: Path, name: str
) -> None:
    run = tiny_run(tmp_path / "run", {"duration": "3 days", "resolution": "10 min"})
    place = export_run(run, name, tmp_path / "record")
    config = (place / "datacenter.cfg").read_text().splitlines()
    data = (place / "datacenter.dat").read_bytes()
    if name == "comtrade":
        ticks = np.frombuffer(data, dtype=[("n", "<i4"), ("t", "<i4"), ("p", "<f4")])[
            "t"
        ]
    else:
        _, ticks, _ = np.loadtxt(data.decode().splitlines(), delimiter=",").T
    step_us = np.diff(ticks) * float(config[-3 if name == "comtrade" else -1])
    assert np.unique(step_us).tolist() == [600_000_000.0]
