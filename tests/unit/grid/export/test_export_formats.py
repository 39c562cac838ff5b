"""Contents of the files, by each format's rules; the tools themselves:
tests/grid_tools."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from builders import tiny_run
from exported import sidecar, stored_w

from diploee import Run
from diploee.base.errors import InputError
from diploee.facility.base import REACTIVE
from diploee.grid.export import FORMATS, Options, export_run
from diploee.grid.export.series import ReactiveTable

Q_FORMATS = ["opendss", "pypsa", "pandapower", "playback"]


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
def test_every_sidecar_says_what_the_numbers_are(
    name: str, year_run: Run, tmp_path: Path
) -> None:
    place = export_run(
        year_run, name, tmp_path / f"out{(FORMATS[name].suffixes or ('',))[0]}"
    )
    told = sidecar(place)
    files = (
        {p.name for p in place.iterdir()} - {"diploee_export.json"}
        if place.is_dir()
        else None
    )
    assert set(told["files"]) == (files or {place.name})
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


def test_equal_exports_are_equal_bytes(
    fine_run: Run, q_table: ReactiveTable, tmp_path: Path
) -> None:
    for name, fmt in FORMATS.items():
        if "first" not in fmt.accepts():
            continue
        suffix = (fmt.suffixes or ("",))[0]
        options = Options(
            step="1 s", q_table=q_table if "q_table" in fmt.options else None
        )
        one, two = (
            export_run(fine_run, name, tmp_path / name / time / f"x{suffix}", options)
            for time in ("1", "2")
        )
        for a, b in zip(
            sorted(one.parent.rglob("*")), sorted(two.parent.rglob("*")), strict=True
        ):
            assert a.is_dir() or a.read_bytes() == b.read_bytes()


def test_playback_counts_seconds_from_its_start(fine_run: Run, tmp_path: Path) -> None:
    options = Options(
        first=datetime(2018, 1, 1, 0, 5), until=datetime(2018, 1, 1, 0, 6)
    )
    frame = pd.read_csv(export_run(fine_run, "playback", tmp_path / "p.csv", options))
    assert list(frame) == ["t_s", "p_mw"]
    np.testing.assert_array_equal(frame["t_s"], np.round(np.arange(600) * 0.1, 3))
    np.testing.assert_allclose(
        frame["p_mw"] * 1e6, stored_w(fine_run)[3000:3600], atol=1e-3
    )


@pytest.mark.parametrize("name", ["openg2g", "gpu-data"])
def test_power_per_gpu_is_that_of_the_devices_not_of_the_meter(
    tmp_path: Path, name: str
) -> None:
    """A GPU's share of the losses and the cooling would lie above what a GPU can draw."""  # noqa: E501
    changes = {
        "duration": "10 min",
        "facility.stages": [{"kind": "constant_loss", "loss_fraction": 0.5}],
    }
    run = tiny_run(tmp_path / "run", changes)
    place = export_run(run, name, tmp_path / "gpu.csv")
    power_w = np.loadtxt(place, delimiter=",", skiprows=1)[:, 1]
    np.testing.assert_allclose(power_w * 48, stored_w(run, "it_power_w"), rtol=1e-6)
    told = sidecar(place)
    assert told["column"] == "it_power_w"
    assert told["power_boundary"].startswith("device power")
    assert told["reactive_power"] == "none: the format holds active power alone"
    asked = export_run(
        run, name, tmp_path / "meter.csv", Options(column="facility_power_w")
    )
    assert np.loadtxt(asked, delimiter=",", skiprows=1)[0, 1] == pytest.approx(
        2 * power_w[0]
    )


def test_openg2g_counts_the_gpus_of_the_columns_pool(
    minute_run: Run, tmp_path: Path
) -> None:
    options = Options(column="it_power_w.right")
    frame = pd.read_csv(
        export_run(minute_run, "openg2g", tmp_path / "trace.csv", options)
    )
    expected = stored_w(minute_run, "it_power_w.right") / 16
    np.testing.assert_allclose(frame["power_W"], expected, atol=1e-4)


def test_opendss_multipliers_are_of_the_peak(fine_run: Run, tmp_path: Path) -> None:
    folder = export_run(
        fine_run, "opendss", tmp_path / "dss", Options(name="dc", bus="b1", kv=34.5)
    )
    script = (folder / "dc.dss").read_text()
    p = np.loadtxt(folder / "p.csv")
    peak_kw = float(stored_w(fine_run).max()) / 1e3
    assert p.max() == 1
    np.testing.assert_allclose(p * peak_kw, stored_w(fine_run) / 1e3, rtol=1e-9)
    assert (
        "New LoadShape.dc npts=12000 sinterval=0.1 pmult=(file=p.csv) useactual=no"
        in script
    )
    assert (
        f"New Load.dc bus1=b1 kV=34.5 model=1 status=variable kW={peak_kw!r} kvar=0.0"
        in script
    )
    assert not (folder / "q.csv").exists()


def test_opendss_whole_minutes_are_a_minterval(minute_run: Run, tmp_path: Path) -> None:
    options = Options(step="15 min", actual=True)
    folder = export_run(minute_run, "opendss", tmp_path / "dss", options)
    script = (folder / "datacenter.dss").read_text()
    assert "npts=192 minterval=15 pmult=(file=p.csv) useactual=yes" in script
    expected = stored_w(minute_run).reshape(-1, 15).mean(axis=1) / 1e3
    np.testing.assert_allclose(np.loadtxt(folder / "p.csv"), expected, atol=1e-6)


def test_pypsa_snapshots_are_naive_utc_with_their_weights(
    year_run: Run, tmp_path: Path
) -> None:
    folder = export_run(year_run, "pypsa", tmp_path / "net", Options(name="dc"))
    snapshots = pd.read_csv(folder / "snapshots.csv", index_col=0)
    # Midnight at UTC-07:00
    assert snapshots["snapshot"].iloc[0] == "2018-01-01 07:00:00"
    assert set(snapshots[["objective", "stores", "generators"]].to_numpy().ravel()) == {
        0.5
    }
    assert (folder / "loads.csv").read_text() == "name,bus\ndc,datacenter\n"
    p_set = pd.read_csv(folder / "loads-p_set.csv", index_col=0)
    np.testing.assert_allclose(p_set["dc"] * 1e6, stored_w(year_run), atol=1e-3)


def test_pypsa_stamps_keep_one_form_below_a_second(
    fine_run: Run, tmp_path: Path
) -> None:
    folder = export_run(fine_run, "pypsa", tmp_path / "net")
    stamps = pd.to_datetime(
        pd.read_csv(folder / "snapshots.csv", index_col=0)["snapshot"]
    )
    assert np.unique(np.diff(stamps)) == np.timedelta64(100, "ms")


@pytest.mark.parametrize("suffix", [".parquet", ".csv"])
def test_pandapower_table_has_an_integer_step(
    fine_run: Run, tmp_path: Path, suffix: str
) -> None:
    place = export_run(
        fine_run, "pandapower", tmp_path / f"p{suffix}", Options(name="dc")
    )
    frame = (
        pd.read_parquet(place)
        if suffix == ".parquet"
        else pd.read_csv(place, index_col="step")
    )
    assert list(frame) == ["dc_p_mw"]
    assert frame.index.dtype == np.int64 and list(frame.index[:2]) == [0, 1]
    assert frame.index.is_unique and frame.index[-1] == 11_999
    np.testing.assert_allclose(frame["dc_p_mw"] * 1e6, stored_w(fine_run), atol=1e-3)


def test_pandapower_file_must_end_in_a_known_suffix(
    fine_run: Run, tmp_path: Path
) -> None:
    with pytest.raises(InputError, match=r"must end in \.parquet or \.csv"):
        export_run(fine_run, "pandapower", tmp_path / "table.xlsx")


@pytest.mark.parametrize(
    "name", sorted(n for n in FORMATS if "q_table" not in FORMATS[n].options)
)
def test_formats_without_reactive_power_refuse_a_table(
    name: str, year_run: Run, tmp_path: Path, q_table: ReactiveTable
) -> None:
    with pytest.raises(
        InputError, match=f"--q-table: the format '{name}' has no use for it"
    ):
        export_run(year_run, name, tmp_path / "x", Options(q_table=q_table))


@pytest.mark.parametrize("name", Q_FORMATS)
def test_reactive_power_is_the_users_table_at_each_steps_mean(
    name: str, minute_run: Run, tmp_path: Path, q_table: ReactiveTable
) -> None:
    options = Options(q_table=q_table, step="15 min")
    place = export_run(
        minute_run, name, tmp_path / f"x{(FORMATS[name].suffixes or ('',))[0]}", options
    )
    p_mw = stored_w(minute_run).reshape(-1, 15).mean(axis=1) / 1e6
    expected = np.interp(p_mw, [0, 0.01, 0.1], [-0.002, 0, 0.018])
    assert expected.min() < 0 < expected.max()
    found = written_mvar(name, place)
    np.testing.assert_allclose(found, expected, atol=2e-9)
    assert (
        "above 0 is reactive power that the facility draws"
        in sidecar(place)["reactive_power"]
    )


@pytest.mark.parametrize("name", Q_FORMATS)
@pytest.mark.parametrize("window", [None, "rise_1s"])
def test_reactive_power_of_the_run_stands_beside_its_power(
    name: str, window: str | None, reactive_run: Run, tmp_path: Path
) -> None:
    options = Options(event_window=window) if window else Options(step="15 min")
    suffix = (FORMATS[name].suffixes or ("",))[0]
    place = export_run(reactive_run, name, tmp_path / f"x{suffix}", options)
    q_var = (reactive_run.event_window(window) if window else reactive_run.facility())[
        REACTIVE
    ]
    expected = (
        q_var.to_numpy(np.float64).reshape(-1, 1 if window else 15).mean(axis=1) / 1e6
    )
    assert window or expected.min() < 0 < expected.max()
    np.testing.assert_allclose(written_mvar(name, place), expected, atol=2e-9)
    told = sidecar(place)["reactive_power"]
    assert told.startswith(f"modelled, the run's '{REACTIVE}' (behind a filter)")
    assert "above 0 is reactive power that the facility draws" in told


def test_a_users_table_goes_before_the_runs_reactive_power(
    reactive_run: Run, tmp_path: Path, q_table: ReactiveTable
) -> None:
    place = export_run(
        reactive_run, "playback", tmp_path / "x.csv", Options(q_table=q_table)
    )
    expected = np.interp(
        stored_w(reactive_run) / 1e6, [0, 0.01, 0.1], [-0.002, 0, 0.018]
    )
    np.testing.assert_allclose(written_mvar("playback", place), expected, atol=2e-9)
    told = sidecar(place)["reactive_power"]
    assert f"in q_of_p.csv, in place of the run's own '{REACTIVE}'" in told


def test_a_power_at_another_place_has_no_reactive_power(
    reactive_run: Run, tmp_path: Path
) -> None:
    options = Options(column="it_power_w")
    place = export_run(reactive_run, "playback", tmp_path / "x.csv", options)
    assert list(pd.read_csv(place)) == ["t_s", "p_mw"]
    assert sidecar(place)["reactive_power"].startswith("none: the run holds none of")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", ":1: the file is empty"),
        ("p_mw,q_mvar\n1,2\n", "two rows or more, found 1"),
        ("p,q\n1,2\n2,3\n", ":1: column 'p_mw' is missing"),
        ("p_mw,q_mvar\n1,2\n1,3\n", ":3: column 'p_mw' is '1', expected more than in"),
        ("p_mw,q_mvar\n0,x\n1,3\n", ":2: column 'q_mvar' is 'x', expected a number"),
        ("p_mw,q_mvar\n0,1,2\n1,3\n", ":2: 3 fields, expected 2"),
        ("p_mw,q_mvar\n0,nan\n1,3\n", ":2: column 'q_mvar' is 'nan'"),
        ("p_mw,q_mvar\n0,0\n0.001,1\n", "the table goes from 0 to 0.001 MW; add rows"),
        ('p_mw,q_mvar\n0,"1\n1,3\n', "a double quote without its partner"),
        ("p_mw,q_mvar\n0,1\n1," + "3" * 140_000, ":3: column 'q_mvar' is '333"),
        ("p_mw," + "q" * 140_000 + "\n0,1\n", ":1: column 'q_mvar' is missing"),
        ("p_mw,q_mvar\n0,1\x00\n1,3\n", ":2: found a control byte (0x00)"),
        ("p_mw,q_mvar\n0.004,0\n1,1\n", None),
        (None, "can't be read"),
    ],
)
def test_bad_tables_are_one_clear_line_and_leave_nothing(
    minute_run: Run, tmp_path: Path, text: str | None, says: str | None
) -> None:
    table = tmp_path / "q.csv"
    if text is not None:
        table.write_text(text)
    before = set(tmp_path.iterdir())
    if says is None:
        minute_run.export("playback", tmp_path / "out.csv", q_table=table)
        return
    with pytest.raises(InputError) as caught:
        minute_run.export("playback", tmp_path / "out.csv", q_table=table)
    assert says in str(caught.value) and len(str(caught.value).splitlines()) == 1
    assert set(tmp_path.iterdir()) == before
