"""nvidia-smi logs: every header and value variant, GPUs by column or rhythm, energy by
theory."""

from datetime import datetime, timedelta

import numpy as np
import pytest

from diploee.base.errors import LogFormatError
from diploee.importers.power_logs.nvidia_smi import gpu_of_rows, import_nvidia_smi
from diploee.profiles.profile import PowerBoundary

START = datetime(2025, 5, 14, 8, 50, 19, 56_000)
HEADER = "timestamp, power.draw [W], utilization.gpu [%], memory.used [MiB]"


def stamp(t_s):
    moment = START + timedelta(seconds=float(t_s))
    return moment.strftime("%Y/%m/%d %H:%M:%S.") + f"{moment.microsecond // 1000:03d}"


def smi(t_s, *gpus_w, header=HEADER, unit=" W", within_s=0.002, rng=None):
    """One row per GPU and tick; `gpus_w` functions of time or numbers."""
    lines = [header] if header else []
    for t in t_s:
        for number, power in enumerate(gpus_w):
            late_s = within_s * number
            if rng is not None:
                late_s = rng.uniform(0, within_s) + number / 1e4
            moment = round(t + late_s, 3)
            watts = power(moment) if callable(power) else power
            lines.append(f"{stamp(moment)}, {watts:.2f}{unit}, 97 %, 71234 MiB")
    return lines


def put(folder, lines, name="smi.csv", end="\n"):
    path = folder / name
    path.write_text("\n".join(lines) + end)
    return path


def load(*paths, **options):
    return import_nvidia_smi(paths, workload="w", profile_id="p", **options)


def repairs(profile):
    return {cause: n for cause, n in profile.provenance.counts.items() if n}


T_S = np.arange(0, 20.05, 0.1)


@pytest.mark.parametrize(
    ("header", "unit"),
    [
        (HEADER, " W"),
        (HEADER.replace(", ", ","), "W"),
        ("timestamp, power.draw, utilization.gpu, memory.used", ""),
        (HEADER.replace("power.draw", "power.draw.instant"), " W"),
    ],
)
def test_units_and_headers_in_every_variant(tmp_path, header, unit):
    profile = load(put(tmp_path, smi(T_S, 300, 500, header=header, unit=unit)))
    np.testing.assert_allclose(profile.power_w, 800, rtol=1e-6)
    assert (profile.n_nodes, profile.dt_ms) == (1, 100)
    assert profile.power_w.size == 199  # the second GPU begins 2 ms later
    assert repairs(profile) == {}
    assert profile.provenance.power_boundary == PowerBoundary.GPUS


def test_the_drivers_average_stands_in_the_provenance(tmp_path):
    averaged = load(put(tmp_path, smi(T_S, 300))).provenance
    assert (averaged.averaging_window_s, averaged.bandwidth_hz) == (1.0, 0.44)
    assert "the driver averages it over 1 s" in averaged.notes
    header = HEADER.replace("power.draw", "power.draw.instant")
    instant = load(put(tmp_path, smi(T_S, 300, header=header))).provenance
    assert (instant.averaging_window_s, instant.bandwidth_hz) == (0.0, 0.0)
    assert (instant.sampling_interval_s, instant.meter.kind) == (0.1, "instant")
    given = load(put(tmp_path, smi(T_S, 300)), averaging_window_s=0.5).provenance
    assert given.bandwidth_hz == 0.88


def test_the_average_goes_before_instantaneous_power_which_folds(tmp_path):
    lines = ["timestamp, power.draw [W], power.draw.instant [W]"]
    lines += [f"{stamp(t)}, 100 W, 200 W" for t in T_S]
    assert load(put(tmp_path, lines)).mean_power_w == pytest.approx(100)
    lines = [line.replace("100 W", "[N/A]") for line in lines]
    assert load(put(tmp_path, lines)).mean_power_w == pytest.approx(200)


def test_the_meter_is_that_of_the_gpu_that_is_given_else_of_the_column_of_names(
    tmp_path,
):
    rows = [f"{stamp(t)}, NVIDIA H200, 100 W" for t in T_S]
    path = put(tmp_path, ["timestamp, name, power.draw [W]", *rows])
    for gpu, model, window_s, bandwidth_hz in (
        (None, "NVIDIA H200", 1.01, 0.44),
        ("A100", "A100", 0.025, 0.0),
    ):
        found = load(path, gpu=gpu).provenance
        assert (found.gpu_model, found.meter.gpu) == (model, model)
        assert (found.meter.window_s, found.bandwidth_hz) == (window_s, bandwidth_hz)


def test_energy_of_a_known_signal_is_exact_to_the_sampling(tmp_path):
    """The trapezoid rule of a sine of 0.2 Hz at 0.1 s reads its amplitude 0.13 % low."""  # noqa: E501
    rng = np.random.default_rng(1)

    def power(t):
        return 400 + 200 * np.sin(2 * np.pi * 0.2 * t)

    t_s = np.arange(0, 60.05, 0.1)
    profile = load(put(tmp_path, smi(t_s, power, 100, 250, rng=rng)))
    assert profile.mean_power_w == pytest.approx(750, rel=2e-3)
    power_w = profile.power_w[:550]
    spectrum = np.abs(np.fft.rfft(power_w - power_w.mean())) / 275
    line = np.argmax(spectrum)
    assert line == 11  # 0.2 Hz in 55 s
    assert spectrum[line] == pytest.approx(200, rel=5e-3)


@pytest.mark.parametrize(
    ("n_gpus", "jitter_s"), [(1, 0.02), (2, 0.0), (3, 0.02), (16, 0.02)]
)
def test_gpus_are_inferred_from_the_ticks(n_gpus, jitter_s):
    rng = np.random.default_rng(n_gpus)
    ticks_s = np.arange(400) * 0.1 + rng.uniform(0, jitter_s, 400)
    late_s = np.arange(n_gpus) * 0.001 + rng.uniform(0, 0.0005, (400, n_gpus))
    stamps = ticks_s[:, None] + late_s
    gpu, found = gpu_of_rows(np.rint(stamps.ravel() * 1e6).astype(np.int64))
    assert found == n_gpus
    np.testing.assert_array_equal(gpu, np.tile(np.arange(n_gpus), 400))


def test_ticks_that_alternate_are_not_taken_for_more_gpus():
    steps = np.tile([0.098, 0.102], 200)
    ticks_s = np.cumsum(steps)
    stamps = np.repeat(ticks_s, 4) + np.tile([0, 0.001, 0.002, 0.003], 400)
    assert gpu_of_rows(np.rint(stamps * 1e6).astype(np.int64))[1] == 4
    assert gpu_of_rows(np.rint(ticks_s * 1e6).astype(np.int64))[1] == 1


def test_incomplete_ticks_are_dropped_and_counted(tmp_path):
    lines = smi(T_S, 100, 200, 300, 400)
    del lines[50], lines[100:102]  # one GPU of a tick, two of another
    profile = load(put(tmp_path, lines))
    np.testing.assert_allclose(profile.power_w, 1000, rtol=1e-6)
    assert repairs(profile) == {"rows_of_incomplete_ticks": 5, "gaps_bridged": 8}


def test_a_column_tells_the_gpus_apart_in_any_order(tmp_path):
    lines = ["index, timestamp, power.draw [W]"]
    for number, t in enumerate(T_S):
        rows = [f"{i}, {stamp(t)}, {100 * (i + 1)}.00 W" for i in range(3)]
        lines += rows if number % 2 else rows[::-1]
    profile = load(put(tmp_path, lines))
    np.testing.assert_allclose(profile.power_w, 600, rtol=1e-6)
    with pytest.raises(LogFormatError, match="3 GPUs by their column, expected 4"):
        load(put(tmp_path, lines), n_gpus=4)


def test_given_number_of_gpus_reads_ticks_that_do_not_show(tmp_path):
    even = enumerate(np.arange(0, 10, 0.05))  # two GPUs in turn, each 50 ms later
    rows = [f"{stamp(t)}, {100 + 200 * (i % 2)}, 1 %, 2 MiB" for i, t in even]
    path = put(tmp_path, [HEADER, *rows])
    np.testing.assert_allclose(load(path, n_gpus=2).power_w, 400, rtol=1e-6)
    with pytest.raises(LogFormatError, match="ticks do not have the rows of 3 GPUs"):
        load(put(tmp_path, smi(T_S, 1, 2, 3, 4)), n_gpus=3)


@pytest.mark.parametrize("failed", ["[N/A]", "N/A", "[Unknown Error]", "", "-9.00 W"])
def test_failed_reads_are_bridged_and_counted(tmp_path, failed):
    lines = smi(T_S, lambda t: 100 + 10 * t)
    for row in (20, 21, 22):
        lines[row] = f"{lines[row].split(',')[0]}, {failed}, 97 %, 71234 MiB"
    profile = load(put(tmp_path, lines))
    assert repairs(profile) == {"failed_reads": 3, "gaps_bridged": 1}
    np.testing.assert_allclose(profile.power_w, 100 + 10 * (T_S[:-1] + 0.05), rtol=1e-3)


def test_appended_and_cut_logs_are_read(tmp_path):
    lines = smi(T_S[:100], 100, 200) + smi(T_S[100:], 100, 200)
    path = put(tmp_path, ["a warning of the driver", *lines, f"{stamp(30)}, 9"], end="")
    profile = load(path)
    np.testing.assert_allclose(profile.power_w, 300, rtol=1e-6)
    assert repairs(profile) == {"repeated_headers": 1, "cut_rows": 1}


def test_implausible_readings_and_stamps_that_jump_are_bridged(tmp_path):
    lines = smi(np.arange(0, 60, 0.1), 100)
    lines[10] = lines[10].replace("100.00", "65535.00")
    lines[30] = lines[5].replace("100.00", "300.00")
    profile = load(put(tmp_path, lines))
    np.testing.assert_allclose(profile.power_w, 100, rtol=1e-6)
    assert repairs(profile) == {
        "rows_at_a_repeated_time": 1,
        "readings_above_2500_w": 1,
        "gaps_bridged": 1,
    }


def test_files_are_nodes_and_are_summed_over_the_time_they_share(tmp_path):
    one = put(tmp_path, smi(T_S, 100, 100), "a.csv")
    other = put(tmp_path, smi(T_S + 5, 300, 300), "b.csv")
    with pytest.raises(
        LogFormatError, match=r"of 25\.0 s that others cover: .* 40\.0% of the time"
    ):
        load(one, other)
    profile = load(one, other, max_lost=0.41)
    assert profile.n_nodes == 2
    assert profile.duration_ms == 14_900
    np.testing.assert_allclose(profile.power_w, 800, rtol=1e-6)
    # 5 s at either end
    assert repairs(profile) == {"seconds_that_not_all_gpus_cover": 10}
    (cut,) = profile.provenance.repairs
    assert (cut.cause, round(cut.time_s)) == ("ends_that_not_all_devices_cover", 10)
    assert cut.energy_j == pytest.approx(5 * 200 + 5 * 600, rel=1e-3)
    apart = put(tmp_path, smi(T_S + 500, 300), "c.csv")
    with pytest.raises(
        LogFormatError, match=r"c.csv: .*a.csv: .* share 0 s, expected a step of 100"
    ):
        load(one, apart)


def test_a_constant_for_the_cpus_is_added_per_node_and_named(tmp_path):
    path = put(tmp_path, smi(T_S, 400))
    profile = load(path, n_nodes=2, add_w=250)
    np.testing.assert_allclose(profile.power_w, 900, rtol=1e-6)
    assert profile.provenance.power_boundary.startswith(
        "GPU power as measured, plus a constant 250"
    )


@pytest.mark.parametrize(
    ("lines", "problem"),
    [
        (["timestamp, utilization.gpu [%]", f"{stamp(0)}, 9 %"], r":1: .*'power.draw"),
        ([HEADER], r"smi.csv:1: a header without rows"),
        (smi([0.0], 100), r"GPU 0 has 1 good reading in 1 row"),
        ([*smi(T_S, 100), f"{stamp(30)}, much, 1 %, 1"], r":203: column .* is 'much'"),
        ([*smi(T_S, 100), f"{stamp(9999)}, 5 W, 1 %, 1"], r":203: 9,979.0 s without"),
        ([*smi(T_S, 100), "5 W, 1 %"], r"smi.csv:203: 2 fields, expected 4"),
        ([HEADER, *[f"{stamp(t)}, [N/A], 1 %, 1" for t in T_S]], r"and no row has"),
    ],
)
def test_bad_logs_are_refused_in_one_line_with_the_place(tmp_path, lines, problem):
    with pytest.raises(LogFormatError, match=problem):
        load(put(tmp_path, lines))


def test_a_folder_gives_all_logs_in_it_and_an_empty_one_is_refused(tmp_path):
    logs = tmp_path / "job"
    logs.mkdir()
    for number, name in enumerate(("node1.csv", "node2.log")):
        put(logs, smi(T_S, 100.0 * (number + 1)), name)
    (logs / "notes.md").write_text("not a log")
    profile = load(logs)
    assert profile.n_nodes == 2
    np.testing.assert_allclose(profile.power_w, 300.0)
    (tmp_path / "empty").mkdir()
    with pytest.raises(LogFormatError, match=r"empty: no '\*.csv', .* in this folder"):
        load(tmp_path / "empty")
