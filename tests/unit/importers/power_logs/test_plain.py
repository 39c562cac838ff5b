"""Plain tables of whole-job power: read exactly, or refused with the row's number."""

import hashlib

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from command_line import call

from diploee.base.errors import InputError, LogFormatError, ProfileError
from diploee.importers.power_logs.generic_csv import import_plain
from diploee.importers.power_logs.mlperf_power import import_mlperf_power
from diploee.importers.power_logs.nvidia_smi import import_nvidia_smi
from diploee.importers.power_logs.wattameter import import_wattameter
from diploee.importers.text import text_lines
from diploee.metrics.spectral_bands import profile_support
from diploee.profiles import known_meter
from diploee.profiles.profile import PowerBoundary


def load(path, **options):
    return import_plain(path, workload="w", profile_id="p", **{"n_nodes": 2} | options)


def csv(folder, text):
    path = folder / "job.csv"
    path.write_text(text)
    return path


def parquet(folder, **columns):
    path = folder / "job.parquet"
    pq.write_table(pa.table(columns), path)
    return path


def test_csv_is_read_with_its_step_and_hash(tmp_path):
    path = csv(tmp_path, "note,t_s,power_w\na,5.0,1000\nb,5.1,1200.5\nc,5.2,0\n\n")
    profile = load(path, licence="CC0-1.0")
    assert (profile.n_nodes, profile.dt_ms) == (2, 100)
    np.testing.assert_array_equal(profile.power_w, np.float32([1000, 1200.5, 0]))
    found = profile.provenance
    assert found.source_sha256 == hashlib.sha256(path.read_bytes()).hexdigest()
    assert (found.kind, found.source, found.licence) == (
        *("measured", "job.csv", "CC0-1.0"),
    )
    assert found.sampling_interval_s == 0.1


def test_missing_facts_are_unknown_and_claim_no_bandwidth(tmp_path):
    """A table at 0.1 s may come from a driver that averages over 1 s: no more is
    claimed."""
    unknown = load(csv(tmp_path, "t_s,power_w\n0,1\n0.1,2")).provenance
    assert unknown.power_boundary == PowerBoundary.UNKNOWN
    assert (unknown.averaging_window_s, unknown.bandwidth_hz) == (None, 0.44)
    assert unknown.notes.startswith("Averaging of the readings unknown: taken as 1 s")
    support = profile_support([unknown])
    assert (support.trusted_hz, support.flagged_hz) == (0.25, 0.44)
    slow = load(csv(tmp_path, "t_s,power_w\n0,1\n60,2")).provenance
    assert (slow.averaging_window_s, slow.bandwidth_hz) == (None, 0.0042)


def test_given_facts_are_in_the_provenance_and_gate_the_metrics(tmp_path):
    told = load(
        csv(tmp_path, "t_s,power_w\n0,1\n0.1,2"),
        averaging_window_s=0.0,
        power_boundary="node_ac",
        sampling_interval_s=0.05,
        bandwidth_hz=4.0,
    ).provenance
    assert (told.power_boundary, told.notes) == (PowerBoundary.NODE_AC, "")
    assert (told.sampling_interval_s, told.bandwidth_hz) == (0.05, 4.0)
    assert profile_support([told]).trusted_hz == pytest.approx(3.2)


def test_a_gpu_that_is_given_has_its_meter(tmp_path):
    path = csv(tmp_path, "t_s,power_w\n0,1\n0.1,2")
    for gpu in ("H100", "MI300X"):
        origin = load(path, gpu=gpu).provenance
        assert origin.meter == known_meter("power.draw", gpu, 0.1)
        assert origin.averaging_window_s == origin.meter.window_s
        assert (origin.gpu_model, origin.bandwidth_hz) == (gpu, 0.44)


@pytest.mark.parametrize(
    "header", ["t_s,power_W", "T_S,Power_W", "power_W,t_s,power_w"]
)
def test_case_of_a_column_does_not_matter_where_one_is_meant(tmp_path, header):
    rows = {2: "0,5\n1,7\n", 3: "9,0,5\n9,1,7\n"}[header.count(",") + 1]
    np.testing.assert_array_equal(
        load(csv(tmp_path, f"{header}\n{rows}")).power_w, [5, 7]
    )


def test_two_columns_that_differ_from_the_name_in_case_are_refused(tmp_path):
    with pytest.raises(LogFormatError, match="column 'power_w' is there several times"):
        load(csv(tmp_path, "t_s,power_W,Power_W\n0,1,1\n1,1,1\n"))
    with pytest.raises(LogFormatError, match=":3: column 'power_W' is '-2'"):
        load(csv(tmp_path, "t_s,power_W\n0,1\n1,-2\n"))


@pytest.mark.parametrize("kind", [np.float32, np.int32])
def test_parquet_gives_the_same_as_csv(tmp_path, kind):
    table = pd.DataFrame(
        {"t_s": np.arange(50, dtype=kind), "power_w": np.arange(50, dtype=kind) * 7}
    )
    table.to_csv(tmp_path / "job.csv", index=False)
    table.to_parquet(tmp_path / "job.parquet", index=False)
    from_csv, from_parquet = load(tmp_path / "job.csv"), load(tmp_path / "job.parquet")
    assert from_csv.dt_ms == 1000
    assert from_csv.sha256 == from_parquet.sha256


def test_column_that_is_twice_in_a_parquet_file_is_refused_only_where_it_is_read(
    tmp_path,
):
    names = ["t_s", "power_w", "power_w", "note", "note"]
    table = pa.Table.from_arrays([pa.array(np.arange(10.0))] * 5, names)
    pq.write_table(table, tmp_path / "job.parquet")
    with pytest.raises(LogFormatError, match=r"'power_w' is there several times"):
        load(tmp_path / "job.parquet")
    pq.write_table(table.select([0, 1, 3, 4]), tmp_path / "job.parquet")
    assert len(load(tmp_path / "job.parquet").power_w) == 10


def test_parquet_that_unpacks_beyond_the_limit_is_refused_unread(tmp_path, monkeypatch):
    path = parquet(tmp_path, t_s=np.arange(10_000.0), power_w=np.ones(10_000))
    monkeypatch.setattr(text_lines, "MAX_UNPACKED_BYTES", 1 << 17)
    with pytest.raises(
        LogFormatError, match=r"job\.parquet: unpacks to more than 0 MiB"
    ):
        load(path)


def test_epoch_seconds_at_a_tenth_keep_their_step(tmp_path):
    t_s = 1.7e9 + np.arange(10_000) * 0.1
    profile = load(parquet(tmp_path, t_s=t_s, power_w=np.ones(t_s.size)))
    assert profile.dt_ms == 100


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("t_s,power\n0,1\n1,1", r"csv:1: column 'power' does not name its unit"),
        ("t_s,power_mW\n0,1\n1,1", r"csv:1: .* may be megawatts or milliwatts"),
        ("t_s,load\n0,1\n1,1", r"csv:1: 0 columns of power .*'t_s', 'load'"),
        ("t_s,cpu_power_w,gpu_power_w\n0,1,1", r"2 columns .* \(--power-column\)"),
        ("x,power_w\n0,1\n1,1", r"csv:1: column 't_s' is missing.*--time-column"),
        ("t_s,power_w\n0,1\n1,nan\n2,nan", r"csv: 1 reading of a device"),
        ("t_s,power_w\n0,1\n1,1e39\n2,1", r"csv:3: column 'power_w' is '1e39'"),
        ("t_s,power_w\n0,1\n1,1\n1,1", r"csv:4: 1 row at a time that is there"),
        ("time,power_w\n0,1\n2024-01-01,1", r"csv:3: .*'time' is '2024-01-01'"),
        ("t_s,power_w\n0,1\n1,1,1\n2,1", r"csv:3: 3 fields, expected 2"),
    ],
)
def test_bad_csv_is_refused_in_one_line_with_its_row(tmp_path, text, problem):
    with pytest.raises(LogFormatError, match=problem):
        load(csv(tmp_path, text))


@pytest.mark.parametrize(
    ("columns", "problem"),
    [
        ({"t_s": [0.0, 1, 2, 99], "power_w": [1.0] * 4}, r"t:5: 97.0 s without a good"),
        ({"t_s": [[0.0], [1.0]], "power_w": [1.0, 1.0]}, r"'t_s' is missing"),
        (None, "not a readable Parquet file"),
    ],
)
def test_bad_parquet_is_refused_with_the_line_of_its_table(tmp_path, columns, problem):
    path = tmp_path / "job.parquet"
    path.write_bytes(b"PAR1 no parquet PAR1")
    with pytest.raises(LogFormatError, match=problem):
        load(path if columns is None else parquet(tmp_path, **columns))


@pytest.mark.parametrize(
    ("read", "option"),
    [
        (import_plain, {"power_unit": "GW"}),
        (import_nvidia_smi, {"add_w": -1}),
        (import_wattameter, {"step_ms": 0.1}),
        (import_mlperf_power, {"n_nodes": 0}),
    ],
    ids=lambda value: getattr(value, "__name__", str(value)),
)
def test_every_importer_names_an_option_out_of_range(read, option):
    job = {} if read is import_mlperf_power else {"workload": "w", "n_nodes": 1}
    with pytest.raises(InputError, match=f"^{next(iter(option))}: "):
        read("nowhere", **job | option)


def test_a_column_is_summed_once_and_more_bandwidth_than_samples_is_refused(tmp_path):
    path = csv(tmp_path, "t_s,power_w\n0,1\n1,1")
    assert load(path, power_column=["power_w", "power_w"]).mean_power_w == 1
    with pytest.raises(
        ProfileError, match=r"at most 0\.5 Hz, half the rate of readings every 1 s"
    ):
        load(path, sampling_interval_s=0.1, bandwidth_hz=5.0)


def parse_timestamps(n, every_s, start="2024-05-01 10:00:00"):
    return pd.Timestamp(start) + pd.to_timedelta(np.arange(n) * every_s, unit="s")


TIMES = {
    "timestamp": lambda t: t.strftime("%Y-%m-%d %H:%M:%S.%f"),
    "datetime": lambda t: t.strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
    "Time (s)": lambda t: (t - t[0]).total_seconds(),
    "time_ms": lambda t: (t - t[0]) / pd.Timedelta("1ms"),
    "epoch": lambda t: t.as_unit("ns").astype("int64") / 1e9,
    "unix_ms": lambda t: t.as_unit("ns").astype("int64") // 10**6,
    "ts": lambda t: t.as_unit("ns").astype("int64"),
}


@pytest.mark.parametrize(
    ("name", "every_s", "suffix"),
    [
        *((name, 0.2, "csv") for name in TIMES),
        *((name, 0.0333, "parquet") for name in TIMES),
        *(("timestamp", every_s, "csv") for every_s in (2.0, 0.0101)),
    ],
)
def test_times_of_any_kind_and_sampling_keep_the_energy(
    tmp_path, name, every_s, suffix
):
    at = parse_timestamps(400, every_s)
    watts = 900 + 300 * np.sin(np.arange(400) / 9)
    table = pd.DataFrame({name: TIMES[name](at), "Power [kW]": watts / 1e3})
    path = tmp_path / f"job.{suffix}"
    getattr(table, f"to_{suffix}")(path, index=False)
    profile = load(path)
    assert profile.dt_ms == round(every_s * 1000)
    assert profile.provenance.sampling_interval_s == pytest.approx(every_s, abs=1e-3)
    seconds = profile.duration_ms / 1000
    if every_s in (0.2, 2.0):  # each row is the mean of its step
        assert profile.energy_j == pytest.approx(watts.sum() * every_s, rel=1e-6)
    else:
        elapsed_s = np.arange(400) * every_s
        grid_s = np.linspace(0, seconds, 200_001)
        expected_j = np.trapezoid(np.interp(grid_s, elapsed_s, watts), grid_s)
        assert profile.energy_j == pytest.approx(expected_j, rel=2e-4)


@pytest.mark.parametrize(
    ("header", "unit", "scale"),
    [
        ("power_w", None, 1),
        ("Power (Watts)", None, 1),
        ("node power [kW]", None, 1e3),
        ("power", "kW", 1e3),
        ("power_w", "kW", 1e3),
    ],
)
def test_the_unit_is_that_of_the_name_or_given(tmp_path, header, unit, scale):
    path = csv(tmp_path, f"t_s,{header}\n0,2\n1,3\n")
    np.testing.assert_allclose(
        load(path, power_unit=unit).power_w, np.array([2, 3]) * scale
    )
    path = csv(tmp_path, f"t_s,{header},cpu_w\n0,2,4\n1,3,4\n")
    if unit is None:  # several are summed where they are named
        both_w = load(path, power_column=[header, "cpu_w"]).power_w
        np.testing.assert_allclose(both_w, np.array([2, 3]) * scale + 4)


def test_rows_of_several_devices_are_summed_over_the_time_that_they_share(tmp_path):
    rows = [
        f"{t + 0.01 * g:g},{g},{100 * (g + 1)}" for t in range(30) for g in range(4)
    ]
    for name in ("gpu", "GPU index"):
        path = csv(tmp_path, "\n".join([f"time_s,{name},power_w", *rows]))
        with pytest.raises(
            LogFormatError, match=rf"'{name}' has 4 devices .*--device-column '{name}"
        ):
            load(path)
        profile = load(path, device_column=[name])
        np.testing.assert_allclose(profile.power_w, 1000.0)
        assert profile.provenance.counts["devices_summed"] == 4
        assert (profile.dt_ms, profile.power_w.size) == (1000, 29)


@pytest.mark.parametrize("other", ["gpu_w", "node_kw", "index", "gpu [W]"])
def test_power_of_parts_and_numbers_of_rows_tell_no_devices_apart(tmp_path, other):
    """A GPU's two levels of power are not two devices, whose sum would be twice the
    power."""
    level = [k if other == "index" else 400 + 200 * (k % 10 < 5) for k in range(100)]
    rows = "".join(f"{k},{300 + level[k]},{level[k]}\n" for k in range(100))
    profile = load(csv(tmp_path, f"t_s,power_w,{other}\n{rows}"))
    np.testing.assert_array_equal(
        profile.power_w, np.float32([300 + watts for watts in level])
    )
    assert "devices_summed" not in profile.provenance.counts


@pytest.mark.parametrize(
    ("name", "scale"),
    [("time_min", 1 / 60), ("Time [minutes]", 1 / 60), ("t_h", 1 / 3600)],
)
def test_times_in_minutes_and_hours_are_read_as_such(tmp_path, name, scale):
    rows = "".join(f"{k * scale!r},{1000 + k}\n" for k in range(300))
    profile = load(csv(tmp_path, f"{name},power_w\n{rows}"))
    assert profile.duration_ms == pytest.approx(300_000, abs=1000)
    assert profile.power_w.mean(dtype=float) == pytest.approx(1149.5, abs=1)


@pytest.mark.parametrize("pattern", ["%H:%M:%S.%f", " %-H:%M:%S"])
def test_times_of_the_day_without_a_date_go_on_past_midnight(tmp_path, pattern):
    words = parse_timestamps(600, 1.0, "2024-05-01 23:55:00").strftime(pattern)
    rows = "".join(f"{word},{1000 + k}\n" for k, word in enumerate(words))
    profile = load(csv(tmp_path, f"time,power_w\n{rows}"))
    np.testing.assert_array_equal(profile.power_w, 1000 + np.arange(600))
    with pytest.raises(
        LogFormatError, match=r"csv:602: column 'time' is '.*soon', expected a"
    ):
        load(csv(tmp_path, f"time,power_w\n{rows}soon,1\n"))


def test_what_is_missing_is_bridged_up_to_the_gap_and_counted(tmp_path):
    values = ["100"] * 140
    values[10], values[20:26] = "", ["n/a"] * 6
    text = "\n".join(["t_s,power_w", *(f"{t},{w}" for t, w in enumerate(values)), ",5"])
    profile = load(csv(tmp_path, text))
    np.testing.assert_allclose(profile.power_w, 100.0)
    assert profile.power_w.size == 140
    assert profile.provenance.counts == {
        "rows_without_time": 1,
        "rows_without_power": 7,
        "gaps_bridged": 2,
    }
    with pytest.raises(
        LogFormatError, match=r"csv:28: 7.0 s without a good reading, expected 5 s"
    ):
        load(csv(tmp_path, text), max_gap_s=5.0)


def test_another_step_keeps_the_energy_of_an_even_table_to_its_end(tmp_path):
    rows = "\n".join(f"{t},{100 + t}" for t in range(60))
    path = csv(tmp_path, f"t_s,power_w\n{rows}\n")
    assert load(path, step_ms=100).energy_j == pytest.approx(
        load(path).energy_j, rel=1e-6
    )


@pytest.mark.parametrize(
    ("name", "boundary"),
    [("devices", PowerBoundary.DEVICES), ("node_ac", PowerBoundary.NODE_AC)],
)
def test_boundary_of_a_table_is_the_one_of_its_name(tmp_path, name, boundary):
    found = load(csv(tmp_path, "t_s,power_w\n0,1\n1,2"), power_boundary=name).provenance
    assert found.power_boundary.startswith(boundary)


def test_boundary_in_other_words_is_refused_in_one_line(tmp_path):
    path = csv(tmp_path, "t_s,power_w\n0,1\n1,2")
    ended = call(
        *("profiles", "import", "plain", path, "--workload", "w", "--nodes", 2),
        *("--boundary", "device power", "--out", tmp_path / "library"),
    )
    assert ended.code == 2
    assert "'device power'" in ended.problem
    assert all(name in ended.problem for name in ("devices", "gpus", "cpus", "node_ac"))
