"""Files for dynamic studies: what stands in them, read apart from what wrote them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from builders import tiny_run
from exported import export, rows_of, sidecar, stored_w

from diploee.base.errors import InputError


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "two_hours"
    return tiny_run(
        folder, {"duration": "2 h", "resolution": "1 s"}, event_windows=True
    )


@pytest.fixture(scope="module")
def power_mw(run):
    return stored_w(run) / 1e6


def test_andes_data_are_per_unit_and_its_row_names_them(
    run, power_mw, q_table, tmp_path
):
    place = export(run, "andes", tmp_path, q_table=q_table, mva=50.0, name="dc")
    t_s, p_pu, q_pu = np.loadtxt(place / "dc.csv", delimiter=",", skiprows=1).T
    np.testing.assert_allclose(p_pu * 50, power_mw, atol=1e-7)
    np.testing.assert_allclose(q_pu * 50, -0.002 + 0.2 * power_mw, atol=1e-7)
    assert t_s.tolist() == np.arange(7_200).tolist()
    (row,) = rows_of(place / "TimeSeries.csv")
    names = (row["path"], row["fields"], row["dests"])
    assert names == ("dc.csv", "p_pu,q_pu", "Ppf,Qpf")


def test_andes_without_reactive_power_leaves_that_of_the_case(run, tmp_path):
    (row,) = rows_of(export(run, "andes", tmp_path) / "TimeSeries.csv")
    assert (row["fields"], row["dests"]) == ("p_pu", "Ppf")


def test_gridlabd_player_is_a_third_of_the_facility(run, power_mw, q_table, tmp_path):
    place = export(run, "gridlabd", tmp_path, q_table=q_table, step="1 min")
    stamps, values = zip(
        *(
            line.split(",")
            for line in (place / "datacenter.player").read_text().splitlines()
        ),
        strict=True,
    )
    assert stamps[0] == "2018-01-01 00:00:00 GMT"
    found = 3 / 1e6 * np.array([complex(value) for value in values])
    expected_mw = power_mw.reshape(-1, 60).mean(axis=1)
    np.testing.assert_allclose(found.real, expected_mw, rtol=1e-5, atol=1e-9)
    assert found.real.sum() == pytest.approx(expected_mw.sum(), rel=1e-6)
    expected_mvar = np.interp(expected_mw, [0, 0.1], [-0.002, 0.018])
    assert found.imag[0] == pytest.approx(expected_mvar[0], rel=1e-4)
    assert "file datacenter.player" in (place / "datacenter.glm").read_text()
    notes = sidecar(place)["notes"]
    assert any("any timezone of whole hours, such as EST5EDT" in note for note in notes)


def test_gridlabd_has_no_tenths_of_a_second(run, tmp_path):
    with pytest.raises(InputError, match=r"whole seconds, found a step of 0\.1 s"):
        export(run, "gridlabd", tmp_path, event_window="peak")


@pytest.mark.parametrize(
    ("name", "head", "per_mw"),
    [
        ("openg2g-load", "t_s,p_kw", 1e3),
        ("gpu-data", "t_seconds,P_gpu_W", 1e6 / 48),
    ],
)
def test_two_columns_have_the_head_that_their_tool_asks_for(
    run, power_mw, tmp_path, name, head, per_mw
):
    place = export(run, name, tmp_path)
    assert place.read_text().splitlines()[0] == head
    t_s, power = np.loadtxt(place, delimiter=",", skiprows=1).T
    np.testing.assert_allclose(power, power_mw * per_mw, rtol=1e-6)
    assert t_s[1] == 1.0


def test_raw_records_are_peak_minimum_highest_quarter_and_a_moment(
    run, power_mw, q_table, tmp_path
):
    options = {"at": "2018-01-01 01:00:00", "bus_number": 7, "parts": ("raw",)}
    place = export(run, "psse", tmp_path, q_table=q_table, **options)
    lines = (place / "datacenter.raw").read_text().splitlines()
    records = [line.partition("/")[0].split(",") for line in lines]
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
    starts = [line.rpartition(" from ")[2] for line in lines]
    offset = run.scenario.start_with_zone.isoformat()[-6:]
    assert starts[3] == f"2018-01-01T01:00:00{offset}"
    assert all(start.endswith(offset) for start in starts)
    # One stands for the facility
    assert [record[2] for record in records] == ["0", "0", "0", "1"]


def test_raw_record_without_reactive_power_is_refused(run, tmp_path):
    with pytest.raises(InputError, match="needs reactive power; give --q-table"):
        export(run, "psse", tmp_path)


def test_moment_outside_of_the_run_is_refused(run, q_table, tmp_path):
    says = r"--at: .* is exported, 2018-01-01 00:00 to 2018-01-0"
    with pytest.raises(InputError, match=says):
        export(run, "psse", tmp_path, q_table=q_table, at="2018-01-02 01:00:00")


def comtrade(place: Path) -> tuple[list[str], np.ndarray, list[float]]:
    """Return the head of a COMTRADE record, its power [MW], and how its stamps rise
    [us]."""
    config = (place / "datacenter.cfg").read_text().splitlines()
    channels = "pq"[: int(config[1].partition(",")[0])]
    data = (place / "datacenter.dat").read_bytes()
    if "ASCII" in config:
        _, ticks, power, *_ = np.loadtxt(data.decode().splitlines(), delimiter=",").T
        us_per_tick = float(config[-1])
    else:
        kinds = [("n", "<i4"), ("t", "<i4"), *((name, "<f4") for name in channels)]
        record = np.frombuffer(data, dtype=kinds)
        ticks, power = record["t"], record["p"].astype(float)
        us_per_tick = float(config[-3])
    a, b = (float(value) for value in config[2].split(",")[5:7])
    return config, a * power + b, np.unique(np.diff(ticks) * us_per_tick).tolist()


@pytest.mark.parametrize(
    ("name", "within_mw"), [("comtrade", 1e-7), ("comtrade-1999", 2e-6)]
)
def test_comtrade_record_gives_the_event_window_back(
    run, q_table, tmp_path, name, within_mw
):
    place = export(run, name, tmp_path, q_table=q_table, event_window="peak")
    config, power_mw, rises_us = comtrade(place)
    expected_w = run.event_window("peak")["facility_power_w"].to_numpy()
    np.testing.assert_allclose(power_mw, expected_w / 1e6, atol=within_mw)
    assert config[1].startswith("2,")
    assert config[6] == f"10,{expected_w.size}"
    assert rises_us == [100_000.0]


@pytest.mark.parametrize(
    ("name", "start", "stamp", "offset"),
    [
        ("comtrade", "2018-01-01", "01/01/2018,08:00:00.000000", None),
        ("comtrade-1999", "2018-01-01", "01/01/2018,01:00:00.000000", "-07:00"),
        ("comtrade-1999", "2018-07-01", "01/07/2018,01:00:00.000000", "-06:00"),
    ],
)
def test_a_comtrade_record_without_a_field_for_its_zone_has_the_time_of_its_site(
    tmp_path, name, start, stamp, offset
):
    site = {"start": start, "duration": "2 h", "facility.time_zone": "America/Denver"}
    run = tiny_run(tmp_path / "run", site)
    place = export(run, name, tmp_path, first=f"{start}T01:00")
    assert stamp in (place / "datacenter.cfg").read_text().splitlines()
    notes = " ".join(sidecar(place)["notes"])
    assert f"local time, UTC{offset}" in notes or offset is None
    assert ("local time, UTC" in notes) == (offset is not None)


@pytest.mark.parametrize("name", ["comtrade", "comtrade-1999"])
def test_stamps_of_a_comtrade_record_of_days_rise_by_its_step(tmp_path, name):
    run = tiny_run(tmp_path / "run", {"duration": "3 days", "resolution": "10 min"})
    _, _, rises_us = comtrade(export(run, name, tmp_path))
    assert rises_us == [600_000_000.0]
