"""The guard of all power logs: energy is kept within its limits, or the log is refused."""  # noqa: E501

import json
from datetime import datetime, timedelta
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from command_line import call
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from diploee.base.errors import InputError
from diploee.importers.power_logs.generic_csv import import_plain
from diploee.importers.power_logs.nvidia_smi import import_nvidia_smi
from diploee.importers.power_logs.read import FORMATS, read_profiles
from diploee.importers.power_logs.repairs import (
    MAX_LOST_ENERGY,
    MAX_LOST_TIME,
    PowerLog,
    RepairCount,
    is_alternating,
    sort_timestamps,
)

MONDAY, SUNDAY = datetime(2024, 3, 4, 9), datetime(2024, 11, 3, 0, 30)


def wave_w(t_s, device=0):
    """Power of a device in time: known, and never the same on two devices."""
    return np.round(300 + 40 * device + 50 * np.sin(np.asarray(t_s) / 37 + device), 2)


def smi_rows(t_s, names, power_w, start=MONDAY):
    stamps = [start + timedelta(seconds=float(t)) for t in t_s]
    return [
        f"{at:%Y/%m/%d %H:%M:%S}.{at.microsecond // 1000:03d}, {name}, {watts:.2f} W"
        for at, name, watts in zip(stamps, names, power_w, strict=True)
    ]


def smi(folder, rows, columns="index", name="smi.csv"):
    path = folder / name
    path.write_text(
        "\n".join([f"timestamp, {columns}, power.draw [W]", *rows, ""]), "utf-8"
    )
    return path


def of_smi(path, **options):
    return import_nvidia_smi([path], workload="w", **options)


def plain(folder, text, **options):
    path = folder / "table.csv"
    path.write_text(text, "utf-8")
    return import_plain(path, workload="w", **({"n_nodes": 1} | options))


def machines(n_hosts, n_gpus, in_blocks, n_ticks=60):
    """Time, GPU and number of each row of several machines with GPUs of the same
    indices."""
    ticks, hosts, gpus = np.arange(n_ticks), np.arange(n_hosts), np.arange(n_gpus)
    axes = (hosts, ticks, gpus) if in_blocks else (ticks, hosts, gpus)
    first, second, gpu = (axis.ravel() for axis in np.meshgrid(*axes, indexing="ij"))
    host, tick = (first, second) if in_blocks else (second, first)
    return tick + 0.1 * host + 0.01 * gpu, gpu, host * n_gpus + gpu


@pytest.mark.parametrize(
    ("n_hosts", "n_gpus", "in_blocks"), [(2, 1, True), (4, 4, False)]
)
def test_machines_with_gpus_of_the_same_indices_are_summed(
    tmp_path, n_hosts, n_gpus, in_blocks
):
    t_s, gpu, number = machines(n_hosts, n_gpus, in_blocks)
    path = smi(tmp_path, smi_rows(t_s, gpu, 300 + number))
    n_devices = n_hosts * n_gpus
    profile = of_smi(path, **({"n_gpus": n_devices} if in_blocks else {}))
    total_w = 300 * n_devices + sum(range(n_devices))
    np.testing.assert_allclose(profile.power_w, total_w, rtol=1e-6)
    assert (
        profile.n_nodes == profile.provenance.counts["machines_in_one_log"] == n_hosts
    )


def test_two_blocks_of_one_index_are_refused_unless_a_header_parts_them(tmp_path):
    t_s, gpu, number = machines(2, 1, in_blocks=True, n_ticks=5)
    rows = smi_rows(t_s, gpu, 300 + number)
    with pytest.raises(InputError, match=r"4 rows of GPU 0 behind .*query 'uuid'"):
        of_smi(smi(tmp_path, rows))
    rows.insert(5, "timestamp, index, power.draw [W]")
    assert of_smi(smi(tmp_path, rows)).mean_power_w == pytest.approx(601)


@pytest.mark.parametrize("columns", ["index, uuid", "hostname, index"])
def test_a_name_of_its_own_or_of_its_machine_tells_a_gpu(tmp_path, columns):
    t_s, gpu, number = machines(2, 4, in_blocks=False)
    hosts = number // 4
    names = {
        "index, uuid": [f"{g}, GPU-{n}" for g, n in zip(gpu, number, strict=True)],
        "hostname, index": [f"n{h}, {g}" for h, g in zip(hosts, gpu, strict=True)],
    }[columns]
    profile = of_smi(
        smi(tmp_path, smi_rows(t_s, names, 300 + number), columns), n_gpus=8
    )
    np.testing.assert_allclose(profile.power_w, 8 * 300 + 28, rtol=1e-6)
    assert profile.n_nodes == 2


def test_a_copy_of_a_log_and_of_its_rows_is_refused(tmp_path):
    rows = smi_rows(range(60), [0] * 60, wave_w(range(60)))
    shorter = [row.replace(" W", "") for row in rows[:-3]]
    paths = [smi(tmp_path, of, name=f"{k}.csv") for k, of in enumerate((rows, shorter))]
    with pytest.raises(
        InputError, match=r"1.csv: GPU 0 has the name or the readings .*0.csv"
    ):
        import_nvidia_smi(paths, workload="w")
    without_index = [row.replace(", 0,", ",") for row in rows for _ in "ab"]
    for text in (rows * 2, [row for row in rows for _ in "ab"], without_index):
        path = smi(tmp_path, text)
        if text is without_index:
            path.write_text(path.read_text("utf-8").replace(" index,", ""), "utf-8")
        with pytest.raises(InputError, match="copies"):
            of_smi(path)


def test_a_gpu_that_ends_early_is_refused_or_left_out(tmp_path):
    rows = [(t, gpu) for t in range(40) for gpu in range(2) if gpu == 0 or t < 4]
    t_s, gpu = np.array(rows).T
    path = smi(tmp_path, smi_rows(t_s, gpu, 300 + gpu))
    problem = (
        r"GPU 1, .* of 39\.0 s that others cover: 85\.7% of the energy .*\(--devices\)"
    )
    with pytest.raises(InputError, match=problem):
        of_smi(path)
    alone = of_smi(path, devices=["0"])
    assert (alone.duration_ms, alone.mean_power_w) == (39_000, 300)
    assert of_smi(path, max_lost=0.93).duration_ms == 3_000


ZONES = {
    "America/New_York": "2024-11-02 12:00",
    "America/Santiago": "2024-04-06 06:00",
    "Europe/London": "2024-03-30 12:00",
}


@pytest.mark.parametrize("zone", ZONES)
@pytest.mark.parametrize("minutes", [15, 60])
def test_a_local_table_runs_on_through_the_changes_of_its_clock(
    tmp_path, zone, minutes
):
    n = 24 * 60 // minutes
    at = pd.date_range(
        pd.Timestamp(ZONES[zone], tz=zone), periods=n, freq=f"{minutes}min"
    )
    watts = wave_w(np.arange(n))
    rows = [f"{t:%Y-%m-%d %H:%M},{w}" for t, w in zip(at, watts, strict=True)]
    profile = plain(tmp_path, "\n".join(["timestamp,power_w", *rows, ""]))
    assert profile.duration_ms == 24 * 3_600_000
    np.testing.assert_array_equal(profile.power_w, watts.astype(np.float32))
    (repair,) = profile.provenance.repairs
    assert (repair.n_rows, repair.time_s) == (1, 3_600)
    if repair.cause == "repeated_hours" and minutes < 60:  # sorted, none tells them
        with pytest.raises(InputError, match=r"hour twice \(write offsets from UTC"):
            plain(tmp_path, "\n".join(["timestamp,power_w", *sorted(rows), ""]))


def test_logs_of_which_one_ends_before_the_clock_changes_are_refused(tmp_path):
    t_s = np.arange(0, 4 * 3_600, 60)
    local_s = np.where(t_s < 5_400, t_s, t_s - 3_600)
    paths = [
        smi(tmp_path, smi_rows(at, [0] * at.size, 300 + 0 * at, SUNDAY), name=name)
        for name, at in (("a.csv", local_s), ("b.csv", local_s[90:]))
    ]
    with pytest.raises(InputError, match="not in all logs"):
        import_nvidia_smi(paths, workload="w", max_lost=1.0)


def test_a_clock_set_back_in_the_middle_is_refused_at_its_row(tmp_path):
    t_s = np.arange(0, 60, 0.1)
    back_s = np.where(t_s < 30, t_s, t_s - 5.05)
    rows = "".join(f"{t:.2f},{300 + 100 * (k >= 300)}\n" for k, t in enumerate(back_s))
    with pytest.raises(
        InputError, match=r"table.csv:\d+: .*set back .*--max-lost 0\.1"
    ):
        plain(tmp_path, f"t_s,power_w\n{rows}")


def test_rows_in_another_order_lose_nothing(tmp_path):
    t_s = np.arange(200)
    for order in (
        t_s[::-1],
        np.roll(t_s, 77),
        np.random.default_rng(1).permutation(200),
    ):
        rows = "".join(f"{t},{w}\n" for t, w in zip(order, wave_w(order), strict=True))
        profile = plain(tmp_path, f"t_s,power_w\n{rows}")
        np.testing.assert_array_equal(profile.power_w, wave_w(t_s).astype(np.float32))


def test_devices_that_nobody_named_are_not_summed(tmp_path):
    sensors = {"PS1": 500, "PS2": 500, "System": 1000}
    text = "".join(
        f"{t},{name},{w}\n" for t in range(60) for name, w in sensors.items()
    )
    table, named = f"t_s,place,power_w\n{text}", f"t_s,sensor,power_w\n{text}"
    place = {"device_column": ["place"]}
    for of, options, problem in (
        (named, {}, r"--device-column.*--devices"),
        (table, {}, r"--device-column.*--devices"),
        (table, place, r"'System' has the energy of the other 2 .*--devices"),
        (named, {"devices": ["PS3"]}, r"no device 'PS3' \(have: 'PS1'"),
        (table, {"devices": ["PS1"]}, r"no device .*--devices"),
    ):
        with pytest.raises(InputError, match=problem):
            plain(tmp_path, of, **options)
    for of, options, power_w in (
        (table, place | {"devices": list(sensors)}, 2_000),
        (table, place | {"devices": ["PS1", "PS2"]}, 1_000),
        (named, {"devices": ["System"]}, 1_000),
    ):
        assert plain(tmp_path, of, **options).mean_power_w == power_w


@pytest.mark.parametrize("columns", ["index", "", "index of two"])
@pytest.mark.parametrize(("apart", "levels"), [(0.5, (300, 340)), (0.45, (320, 320))])
def test_machines_read_in_turn_without_names_are_asked_for(
    tmp_path, columns, apart, levels
):
    noise_w = np.random.default_rng(5).normal(0, 5, 480)
    t_s = (np.arange(120)[:, None, None] + np.array([[0], [apart]]) + [0, 0.01]).ravel()
    gpu, machine = np.tile([0, 1], 240), np.tile([0, 0, 1, 1], 120)
    if columns != "index of two":
        t_s, machine, gpu, noise_w = t_s[::2], machine[::2], gpu[::2], noise_w[::2]
    watts = np.array(levels)[machine] + noise_w
    path = smi(tmp_path, smi_rows(t_s, gpu, watts))
    if not columns:
        text = path.read_text("utf-8")
        path.write_text(text.replace(" index,", "").replace(" 0,", ""), "utf-8")
    n_gpus = 2 * len(set(gpu))
    with pytest.raises(InputError, match=rf"alternates between .*--gpus {n_gpus}; "):
        of_smi(path)
    total_w = watts.mean() * n_gpus
    for n, power_w in ((n_gpus, total_w), (n_gpus // 2, total_w / 2)):
        assert of_smi(path, n_gpus=n).mean_power_w == pytest.approx(power_w, rel=0.01)


def test_a_noisy_or_slow_gpu_does_not_look_like_two():
    rng, t_us = np.random.default_rng(6), np.arange(400) * 1_000_000
    jitter_us = rng.normal(0, 20_000, 400).astype(np.int64)
    noise_w, slow_w = rng.normal(400, 30, 400), np.repeat(rng.random(200), 2)
    for watts in (wave_w(np.arange(400)), noise_w, slow_w):
        assert not is_alternating(t_us + jitter_us, watts)
    assert not is_alternating(
        np.arange(400) * 100_500 // 1_000 * 1_000, np.full(400, 300.0)
    )


def test_a_table_of_two_devices_in_turn_is_refused_or_said_to_be_of_one(tmp_path):
    rows = "".join(f"{t / 2},{300 + 100 * (t % 2)}\n" for t in range(100))
    text = f"t_s,power_w\n{rows}"
    with pytest.raises(InputError, match=r"csv:1: rows alternate .*--device-column ''"):
        plain(tmp_path, text)
    assert plain(tmp_path, text, device_column=[""]).mean_power_w == 350


def test_shuffled_rows_of_several_gpus_are_sorted(tmp_path):
    order = np.random.default_rng(1).permutation(400)
    profile = of_smi(
        smi(tmp_path, smi_rows(order // 2, order % 2, wave_w(order // 2, order % 2)))
    )
    whole_w = wave_w(np.arange(200)) + wave_w(np.arange(200), 1)
    assert profile.energy_j == pytest.approx(np.trapezoid(whole_w), rel=1e-5)


@pytest.mark.parametrize("step_s", [-2.5, -0.5, 1.5])
@pytest.mark.parametrize("reads", ["nvidia-smi", "plain"])
def test_a_small_step_of_the_clock_is_counted_in_time_and_energy(
    tmp_path, step_s, reads
):
    t_s = np.arange(1_000.0)
    watts, t_s[500:] = wave_w(t_s), t_s[500:] + step_s
    if reads == "plain":
        text = "".join(f"{t},{w}\n" for t, w in zip(t_s, watts, strict=True))
        profile = plain(tmp_path, f"t_s,power_w\n{text}")
    else:
        profile = of_smi(smi(tmp_path, smi_rows(t_s, [0] * t_s.size, watts)))
    repairs = profile.provenance.repairs
    assert sum(of.time_s for of in repairs) == pytest.approx(abs(step_s), abs=1e-6)
    assert sum(of.energy_j for of in repairs) == pytest.approx(
        abs(step_s) * watts[500], rel=0.05
    )


def test_a_late_reading_is_no_clock_that_was_set_back(tmp_path):
    t_s = np.arange(400.0) + 0.3 * (np.arange(400) % 50 == 7)
    profile = of_smi(smi(tmp_path, smi_rows(t_s, [0] * 400, wave_w(t_s))))
    assert profile.provenance.repairs == []


@pytest.mark.parametrize(
    ("first", "refused"), [("2024-04-06", True), ("2024-10-05", False)]
)
def test_half_an_hour_of_hourly_rows_is_refused_or_counted(tmp_path, first, refused):
    start = pd.Timestamp(f"{first} 12:00", tz="Australia/Lord_Howe")
    at = pd.date_range(start, periods=24, freq="60min")
    rows = [
        f"{t:%Y-%m-%d %H:%M},{w}"
        for t, w in zip(at, wave_w(np.arange(24)), strict=True)
    ]
    text = "\n".join(["timestamp,power_w", *rows, ""])
    if refused:
        with pytest.raises(InputError, match=r"table.csv:16: .*write offsets from UTC"):
            plain(tmp_path, text)
    else:
        (repair,) = plain(tmp_path, text).provenance.repairs
        assert (repair.cause, round(repair.time_s)) == ("gaps_bridged", 1_800)


def test_a_column_of_devices_found_by_its_name_can_be_left_out(tmp_path):
    rows = "".join(f"{t},n{t % 3},{wave_w(t)}\n" for t in range(60))
    profile = plain(tmp_path, f"t_s,node,power_w\n{rows}", device_column=[""])
    np.testing.assert_array_equal(
        profile.power_w, wave_w(np.arange(60)).astype(np.float32)
    )


def test_terminal_and_json_show_the_same_repairs_in_energy_and_time(tmp_path):
    t_s = np.delete(np.arange(400), [100])
    t_s[200] = t_s[199]
    path = smi(tmp_path, smi_rows(t_s, [0] * t_s.size, wave_w(t_s)))
    command = ("profiles", "import", "nvidia-smi", path, "--workload", "w", "--out")
    text = call(*command, tmp_path / "a").out
    (shown,) = json.loads(call(*command, tmp_path / "b", "--json").out)["profiles"]
    gaps, repair = sorted(shown["repairs"], key=lambda of: of["cause"])
    assert (gaps["cause"], gaps["n_rows"], gaps["time_s"]) == ("gaps_bridged", 2, 2)
    assert (repair["n_rows"], repair["time_s"]) == (1, 1.5)
    assert repair["energy_j"] == pytest.approx(1.5 * wave_w(t_s[200]), rel=1e-2)
    assert shown["counts"]["rows_at_a_repeated_time"] == 1
    share = f"{repair['energy_fraction']:.2%} of the energy"
    assert f"1 rows at a repeated time: {share}" in text


# --- every format, every damage -------------------------------------------------------


def write_nvidia_smi(folder, rows):
    t_s, device, power_w = rows.T
    smi(folder, smi_rows(t_s, device.astype(int), power_w))


def write_plain(folder, rows):
    text = "".join(
        f"{MONDAY + timedelta(seconds=t)},d{d:g},{w:.2f}\n" for t, d, w in rows
    )
    (folder / "table.csv").write_text(f"timestamp,device,power_w\n{text}", "utf-8")


def write_wattameter(folder, rows):
    """GPUs of a node whose CPUs are at rest; rows of its second GPU are those of its
    first."""
    stamp = "%Y-%m-%d_%H:%M:%S.%f"
    first = rows[rows[:, 1] == 0]
    lines = [
        (
            f"{MONDAY + timedelta(seconds=t):{stamp}} 1 {1000 * w:.0f} "
            f"{1000 * wave_w(t, 1):.0f}"
        )
        for t, _, w in first
    ]
    header = "# timestamp reading-time[ns] "
    (folder / "nvml_w.log").write_text(
        "\n".join([f"{header}gpu-0[mW] gpu-1[mW]", *lines, ""])
    )
    lines = [
        f"{MONDAY + timedelta(seconds=t):{stamp}} 1 {10**6 + t}" for t in range(N_ROWS)
    ]
    (folder / "rapl_w.log").write_text("\n".join([f"{header}cpu-0[uJ]", *lines, ""]))


def write_mlperf_power(folder, rows):
    run = folder / "s-ac" / "results" / "box" / "bert" / "power" / "run"
    run.mkdir(parents=True)
    for node in range(2):
        lines = [
            (
                f':::MLLOG {{"time_ms": {10**12 + 1000 * t:.0f}, "key": '
                f'"power_reading", "value": {w}}}'
            )
            for t, d, w in rows
            if d == node
        ]
        (run / f"node_{node}.txt").write_text("\n".join([*lines, ""]), "utf-8")


N_ROWS = 400
WRITERS = {
    "nvidia-smi": (write_nvidia_smi, "smi.csv", {"workload": "w"}),
    "plain": (
        write_plain,
        "table.csv",
        {"workload": "w", "n_nodes": 1, "device_column": ["device"]},
    ),
    "wattameter": (write_wattameter, "", {"workload": "w"}),
    "mlperf-power": (write_mlperf_power, "", {}),
}
WHOLE = np.array([(t, d, wave_w(t, d)) for t in range(N_ROWS) for d in range(2)])

place, length = st.integers(1, N_ROWS - 2), st.integers(1, N_ROWS // 2)
DAMAGES = {
    "cut": lambda rows, at, n: rows[
        (rows[:, 0] < at) | (rows[:, 0] >= min(at + n, N_ROWS - 1))
    ],
    "shuffled": lambda rows, at, n: np.random.default_rng((at, n)).permutation(rows),
    "doubled": lambda rows, at, n: np.concatenate((rows, rows[2 * at : 2 * (at + n)])),
    "doubled in place": lambda rows, at, n: np.repeat(
        rows, 1 + ((rows[:, 0] >= at) & (rows[:, 0] < at + n)), axis=0
    ),
    "a device stops": lambda rows, _, n: rows[
        (rows[:, 1] == 0) | (rows[:, 0] < N_ROWS - n)
    ],
    "a device starts late": lambda rows, _, n: rows[
        (rows[:, 1] == 1) | (rows[:, 0] >= n)
    ],
    "a clock set back": lambda rows, at, n: rows - [n, 0, 0] * (rows[:, :1] >= at),
    "a clock set back by an hour": lambda rows, at, _: (
        rows - [3_600, 0, 0] * (rows[:, :1] >= at)
    ),
    "a row astray": lambda rows, at, n: rows + [900 + n, 0, 0] * (rows[:, :1] == at),
}


def read_energy_j(folder, source_format, rows):
    """Energy of a log of a format [J]; None where it is refused."""
    write, name, options = WRITERS[source_format]
    write(folder, rows)
    try:
        (profile,) = read_profiles([folder / name], source_format, **options)
    except InputError:
        return None
    return profile.energy_j


def test_every_format_is_tried():
    # Which reads logs of WattAMeter
    assert set(WRITERS) == set(FORMATS) - {"nlr-genai"}


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("source_format", WRITERS)
@settings(max_examples=6, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(at=place, n=length)
def test_a_damaged_log_keeps_its_energy_or_is_refused(
    tmp_path_factory, source_format, damage, at, n
):
    rows = DAMAGES[damage](WHOLE, at, n)
    found_j = read_energy_j(tmp_path_factory.mktemp("log"), source_format, rows)
    if found_j is not None:
        whole_j = read_energy_j(tmp_path_factory.mktemp("log"), source_format, WHOLE)
        # At either end an interval may be left out, as readings are joined and not
        # held. What a device that ends early would have drawn nobody knows: there the
        # time is limited.
        most = MAX_LOST_TIME if damage.startswith("a device") else MAX_LOST_ENERGY
        assert found_j == pytest.approx(whole_j, rel=most + 2 / N_ROWS)


@given(st.lists(st.integers(0, 40), min_size=2, max_size=60))
def test_what_is_kept_and_lost_of_rows_is_all_of_them(times):
    t_us, every = np.array(times) * 1_000_000, np.arange(len(times))
    account = RepairCount(PowerLog(Path(), 60.0, max_lost=1.0), "", str)
    kept_us, kept = sort_timestamps(account, every, t_us, np.ones(t_us.size))
    assert (np.diff(kept_us) > 0).all()
    np.testing.assert_array_equal(kept_us, t_us[kept])
    lost = sum(n for cause, _, n, *_ in account.entries if cause != "rows_sorted")
    assert kept.size + lost == t_us.size
