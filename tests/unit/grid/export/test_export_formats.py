"""Contents of the files, by each format's rules; the tools themselves:
tests/grid_tools."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from builders import tiny_run
from exported import export, sidecar, stored_w

from diploee.base.errors import InputError
from diploee.facility.base import REACTIVE
from diploee.grid.export import FORMATS, Options, export_run

Q_FORMATS = ["opendss", "pypsa", "pandapower", "playback"]
Q_OF_P = [0, 0.01, 0.1], [-0.002, 0, 0.018]
"""The table that `q_table` holds, in MW and Mvar."""


def written_mvar(name: str, place: Path) -> np.ndarray:
    """Return the reactive power that an export holds [Mvar]."""
    if name == "opendss":
        base = float(
            (place / "datacenter.dss").read_text().split("kvar=")[1].split()[0]
        )
        return np.loadtxt(place / "q.csv") * base / 1e3
    if name == "pypsa":
        return pd.read_csv(place / "loads-q_set.csv")["datacenter"].to_numpy()
    if name == "pandapower":
        return pd.read_parquet(place)["datacenter_q_mvar"].to_numpy()
    return pd.read_csv(place)["q_mvar"].to_numpy()


@pytest.mark.slow
# Needs Q
@pytest.mark.parametrize("name", [name for name in FORMATS if name != "psse"])
def test_every_sidecar_says_what_the_numbers_are(name, year_run, tmp_path):
    place = export(year_run, name, tmp_path)
    told = sidecar(place)
    files = {p.name for p in place.iterdir()} if place.is_dir() else {place.name}
    assert set(told["files"]) == files - {"diploee_export.json"}
    assert told["power_boundary"].startswith("device power")
    assert told["utc_offset"] == "-07:00"
    assert "mean over the step that starts" in told["interval_convention"]
    assert told["run"]["scenario_sha256"] == year_run.manifest["scenario_sha256"]
    assert told["reactive_power"].startswith("none")
    assert any("supports no fault study" in note for note in told["notes"])
    assert any("no oscillation above 0.5 Hz" in note for note in told["notes"])
    assert told["energy_mwh"] == pytest.approx(
        stored_w(year_run).sum() / 2 / 1e6, rel=1e-6
    )
    assert told["mean_mw"] * 8_760 == pytest.approx(told["energy_mwh"])


def test_equal_exports_are_equal_bytes(fine_run, q_table, tmp_path):
    for name, fmt in FORMATS.items():
        if "first" not in fmt.accepted_options():
            continue
        table = q_table if "q_table" in fmt.options else None
        for time in ("1", "2"):
            export(fine_run, name, tmp_path / time / name, step="1 s", q_table=table)
    one, two = (sorted((tmp_path / time).rglob("*.*")) for time in ("1", "2"))
    for a, b in zip(one, two, strict=True):
        assert a.is_dir() or a.read_bytes() == b.read_bytes(), a


def test_playback_counts_seconds_from_its_start(fine_run, tmp_path):
    span = {"first": datetime(2018, 1, 1, 0, 5), "until": datetime(2018, 1, 1, 0, 6)}
    frame = pd.read_csv(export(fine_run, "playback", tmp_path, **span))
    assert list(frame) == ["t_s", "p_mw"]
    np.testing.assert_array_equal(frame["t_s"], np.round(np.arange(600) * 0.1, 3))
    np.testing.assert_allclose(
        frame["p_mw"] * 1e6, stored_w(fine_run)[3000:3600], atol=1e-3
    )


@pytest.mark.parametrize("name", ["openg2g", "gpu-data"])
def test_power_per_gpu_is_that_of_the_devices_not_of_the_meter(tmp_path, name):
    """A GPU's share of the losses and the cooling would lie above what a GPU can draw."""  # noqa: E501
    changes = {
        "duration": "10 min",
        "facility.stages": [{"kind": "constant_loss", "loss_fraction": 0.5}],
    }
    run = tiny_run(tmp_path / "run", changes)
    place = export(run, name, tmp_path)
    power_w = np.loadtxt(place, delimiter=",", skiprows=1)[:, 1]
    np.testing.assert_allclose(power_w * 48, stored_w(run, "it_power_w"), rtol=1e-6)
    told = sidecar(place)
    assert told["column"] == "it_power_w"
    assert told["power_boundary"].startswith("device power")
    assert told["reactive_power"] == "none: the format holds active power alone"
    asked = export(run, name, tmp_path / "meter", column="facility_power_w")
    assert np.loadtxt(asked, delimiter=",", skiprows=1)[0, 1] == pytest.approx(
        2 * power_w[0]
    )


def test_openg2g_counts_the_gpus_of_the_columns_pool(minute_run, tmp_path):
    place = export(minute_run, "openg2g", tmp_path, column="it_power_w.right")
    expected = stored_w(minute_run, "it_power_w.right") / 16
    np.testing.assert_allclose(pd.read_csv(place)["power_W"], expected, atol=1e-4)


def test_facility_csv_has_the_columns_of_the_published_years(minute_run, tmp_path):
    place = export(minute_run, "facility-csv", tmp_path / "a", step="15 min")
    frame = pd.read_csv(place, index_col="timestamp", parse_dates=True)
    stored = minute_run.facility(["facility_power_w", "utilization"])
    assert list(frame) == ["power_W", "utilization"]
    assert place.read_text().splitlines()[1].startswith("2018-01-01 00:00:00,")
    for name, of in zip(frame, stored, strict=True):
        expected = stored[of].to_numpy().reshape(-1, 15).mean(axis=1)
        np.testing.assert_allclose(frame[name], expected, atol=1e-3)
    assert 0 < frame["utilization"].max() <= 1
    # The power of a pool is beside that pool's own nodes
    asked = export(minute_run, "facility-csv", tmp_path, column="it_power_w.right")
    left, right = (
        stored_w(minute_run, f"utilization.{pool}") for pool in ("left", "right")
    )
    written = pd.read_csv(asked)["utilization"]
    np.testing.assert_allclose(written, right, atol=1e-6)
    assert not np.allclose(written, left)


def test_facility_csv_skips_no_hour_for_daylight_saving(tmp_path):
    changes = {"start": "2018-11-03", "facility.time_zone": "America/Denver"}
    run = tiny_run(tmp_path / "run", changes)
    stamps = pd.read_csv(export(run, "facility-csv", tmp_path / "a"))["timestamp"]
    step = pd.to_datetime(stamps).diff().dropna().unique()
    assert stamps[0] == "2018-11-03 00:00:00" and step == [pd.Timedelta("1 min")]


def test_opendss_multipliers_are_of_the_peak(fine_run, tmp_path):
    folder = export(fine_run, "opendss", tmp_path, name="dc", bus="b1", kv=34.5)
    script = (folder / "dc.dss").read_text()
    p = np.loadtxt(folder / "p.csv")
    peak_kw = float(stored_w(fine_run).max()) / 1e3
    assert p.max() == 1
    np.testing.assert_allclose(p * peak_kw, stored_w(fine_run) / 1e3, rtol=1e-9)
    for line in (
        "New LoadShape.dc npts=12000 sinterval=0.1 pmult=(file=p.csv) useactual=no",
        f"New Load.dc bus1=b1 kV=34.5 model=1 status=variable kW={peak_kw!r} kvar=0.0",
    ):
        assert line in script
    assert not (folder / "q.csv").exists()


def test_opendss_whole_minutes_are_a_minterval(minute_run, tmp_path):
    folder = export(minute_run, "opendss", tmp_path, step="15 min", actual=True)
    script = (folder / "datacenter.dss").read_text()
    assert "npts=192 minterval=15 pmult=(file=p.csv) useactual=yes" in script
    expected = stored_w(minute_run).reshape(-1, 15).mean(axis=1) / 1e3
    np.testing.assert_allclose(np.loadtxt(folder / "p.csv"), expected, atol=1e-6)


def test_pypsa_snapshots_are_naive_utc_with_their_weights(year_run, tmp_path):
    folder = export(year_run, "pypsa", tmp_path, name="dc")
    snapshots = pd.read_csv(folder / "snapshots.csv", index_col=0)
    # Midnight at UTC-07:00
    assert snapshots["snapshot"].iloc[0] == "2018-01-01 07:00:00"
    weights = snapshots[["objective", "stores", "generators"]]
    assert set(weights.to_numpy().ravel()) == {0.5}
    assert (folder / "loads.csv").read_text() == "name,bus\ndc,datacenter\n"
    p_set = pd.read_csv(folder / "loads-p_set.csv", index_col=0)
    np.testing.assert_allclose(p_set["dc"] * 1e6, stored_w(year_run), atol=1e-3)


def test_pypsa_stamps_keep_one_form_below_a_second(fine_run, tmp_path):
    folder = export(fine_run, "pypsa", tmp_path)
    stamps = pd.to_datetime(
        pd.read_csv(folder / "snapshots.csv", index_col=0)["snapshot"]
    )
    assert np.unique(np.diff(stamps)) == np.timedelta64(100, "ms")


@pytest.mark.parametrize("suffix", [".parquet", ".csv"])
def test_pandapower_table_has_an_integer_step(fine_run, tmp_path, suffix):
    place = export_run(
        fine_run, "pandapower", tmp_path / f"p{suffix}", Options(name="dc")
    )
    if suffix == ".parquet":
        frame = pd.read_parquet(place)
    else:
        frame = pd.read_csv(place, index_col="step")
    assert list(frame) == ["dc_p_mw"]
    assert frame.index.dtype == np.int64
    assert frame.index.tolist() == list(range(12_000))
    np.testing.assert_allclose(frame["dc_p_mw"] * 1e6, stored_w(fine_run), atol=1e-3)


def test_pandapower_file_must_end_in_a_known_suffix(fine_run, tmp_path):
    with pytest.raises(InputError, match=r"must end in \.parquet or \.csv"):
        export_run(fine_run, "pandapower", tmp_path / "table.xlsx")


@pytest.mark.parametrize("name", Q_FORMATS)
def test_reactive_power_is_the_users_table_at_each_steps_mean(
    name, minute_run, tmp_path, q_table
):
    place = export(minute_run, name, tmp_path, q_table=q_table, step="15 min")
    p_mw = stored_w(minute_run).reshape(-1, 15).mean(axis=1) / 1e6
    expected = np.interp(p_mw, *Q_OF_P)
    assert expected.min() < 0 < expected.max()
    np.testing.assert_allclose(written_mvar(name, place), expected, atol=2e-9)
    told = sidecar(place)["reactive_power"]
    assert "above 0 is reactive power that the facility draws" in told


@pytest.mark.parametrize("name", Q_FORMATS)
@pytest.mark.parametrize("window", [None, "rise_1s"])
def test_reactive_power_of_the_run_stands_beside_its_power(
    name, window, reactive_run, tmp_path
):
    options = {"event_window": window} if window else {"step": "15 min"}
    place = export(reactive_run, name, tmp_path, **options)
    frame = reactive_run.event_window(window) if window else reactive_run.facility()
    q_mvar = frame[REACTIVE].to_numpy(np.float64) / 1e6
    expected = q_mvar.reshape(-1, 1 if window else 15).mean(axis=1)
    assert window or expected.min() < 0 < expected.max()
    np.testing.assert_allclose(written_mvar(name, place), expected, atol=2e-9)
    told = sidecar(place)["reactive_power"]
    assert told.startswith(f"modelled, the run's '{REACTIVE}' (behind a filter)")


def test_a_users_table_goes_before_the_runs_reactive_power(
    reactive_run, tmp_path, q_table
):
    place = export(reactive_run, "playback", tmp_path, q_table=q_table)
    expected = np.interp(stored_w(reactive_run) / 1e6, *Q_OF_P)
    np.testing.assert_allclose(written_mvar("playback", place), expected, atol=2e-9)
    told = sidecar(place)["reactive_power"]
    assert f"in q_of_p.csv, in place of the run's own '{REACTIVE}'" in told


def test_a_power_at_another_place_has_no_reactive_power(reactive_run, tmp_path):
    place = export(reactive_run, "playback", tmp_path, column="it_power_w")
    assert list(pd.read_csv(place)) == ["t_s", "p_mw"]
    assert sidecar(place)["reactive_power"].startswith("none: the run holds none of")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("p_mw,q_mvar\n1,2\n", "two rows or more, found 1"),
        ("p,q\n1,2\n2,3\n", ":1: column 'p_mw' is missing"),
        ("p_mw,q_mvar\n1,2\n1,3\n", ":3: column 'p_mw' is '1', expected more than in"),
        ("p_mw,q_mvar\n0,x\n1,3\n", ":2: column 'q_mvar' is 'x', expected a number"),
        ("p_mw,q_mvar\n0,0\n0.001,1\n", "the table goes from 0 to 0.001 MW; add rows"),
    ],
)
def test_bad_tables_are_one_clear_line_and_leave_nothing(
    minute_run, tmp_path, text, says
):
    table = tmp_path / "q.csv"
    table.write_text(text)
    with pytest.raises(InputError) as caught:
        minute_run.export("playback", tmp_path / "out.csv", q_table=table)
    assert says in str(caught.value) and len(str(caught.value).splitlines()) == 1
    assert [*tmp_path.iterdir()] == [table]


def test_a_table_need_not_begin_at_no_load(minute_run, tmp_path):
    table = tmp_path / "q.csv"
    table.write_text("p_mw,q_mvar\n0.004,0\n1,1\n")
    minute_run.export("playback", tmp_path / "out.csv", q_table=table)
