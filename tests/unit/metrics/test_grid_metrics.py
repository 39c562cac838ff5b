"""Demand, ramps, ranges and spectra of a power series, on signals whose values are
known."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import numpy as np
import pytest
from builders import tiny_run
from scipy import signal

from diploee.base.errors import InputError
from diploee.base.measures.distribution import Distribution
from diploee.base.measures.spectrum import window_spectra
from diploee.grid.limits import Limits
from diploee.metrics.run_metrics import GridMetrics
from diploee.profiles import ProfileLibrary
from diploee.profiles.profile import Provenance

START = datetime(2018, 1, 1, tzinfo=UTC)
LATE = datetime(2018, 1, 31, 22, tzinfo=UTC)
MW = 1e6
PUBLISHED = Provenance("reference", "", "", 0.2, 1.0, 0.44)


def grid(power_w, step_ms, start=START, pools_w=None, **options):
    metrics = GridMetrics(step_ms, start, **{"rated_power_w": 10 * MW} | options)
    metrics.add(0, np.asarray(power_w, dtype=float), pools_w)
    return metrics


def grid_block(power_w, step_ms, start=START, **options):
    return grid(power_w, step_ms, start, **options).block()


def late_metrics(power_w, step_ms=60_000, start=LATE, pools_w=None):
    return grid(power_w, step_ms, start, pools_w)


def spectrum_of(power_w, step_ms, readings=(PUBLISHED,)):
    metrics = grid(power_w, step_ms, readings=readings)
    return metrics, metrics.block()["spectrum"]


def test_maximum_demand_is_the_largest_clock_interval():
    power_w = np.full(240, 2 * MW)
    power_w[50:70] = 5 * MW  # 22:50 to 23:10
    block = late_metrics(power_w).block()
    mean_mw = 2 + 3 * 20 / 240
    entries = block["maximum_demand"]["intervals"]
    found = {e["interval_min"]: (e["max_mw"], e["time"][11:16]) for e in entries}
    assert found == {15: (4.0, "22:45"), 30: (3.0, "22:30"), 60: (2.5, "22:00")}
    assert block["mean_mw"] == pytest.approx(mean_mw)
    assert [e["load_factor"] for e in entries] == pytest.approx(
        [mean_mw / x for x in (4, 3, 2.5)]
    )
    assert block["load_factor"] == pytest.approx(mean_mw / 5)


def test_part_of_a_clock_interval_is_no_demand():
    power_w = np.full(60, 1 * MW)
    power_w[:10] = 9 * MW  # 22:20 to 22:30
    block = late_metrics(power_w, start=LATE.replace(minute=20)).block()
    demand = block["maximum_demand"]
    found = {e["interval_min"]: e["max_mw"] for e in demand["intervals"]}
    assert found == {15: 1.0, 30: 1.0}
    assert [entry["interval_min"] for entry in demand["absent"]] == [60]


def test_peaks_are_given_by_local_month_with_their_time():
    power_w = np.full(240, 2 * MW)
    power_w[[30, 31]] = 4 * MW
    power_w[150] = 7 * MW
    block = late_metrics(power_w).block()
    assert block["monthly_peaks"] == {
        "2018-01": {"max_mw": 4.0, "time": "2018-01-31T22:30:00+00:00"},
        "2018-02": {"max_mw": 7.0, "time": "2018-02-01T00:30:00+00:00"},
    }
    assert block["peak"] == block["monthly_peaks"]["2018-02"]
    headroom = {"rated_mw": 10.0, "mw": 3.0, "fraction": pytest.approx(0.3)}
    assert block["headroom"] == headroom
    monthly = block["maximum_demand"]["intervals"][0]["monthly"]
    assert list(monthly) == ["2018-01", "2018-02"]
    assert monthly["2018-02"]["time"] == "2018-02-01T00:30:00+00:00"


def test_coincidence_factor_is_the_common_peak_over_the_sum_of_peaks():
    one, two = np.array([1.0, 3.0, 2.0]) * MW, np.array([4.0, 1.0, 3.5]) * MW
    metrics = late_metrics(one + two, pools_w={"one": one, "two": two})
    block = metrics.block()["coincidence"]
    assert block["factor"] == pytest.approx(5.5 / 7)
    assert block["together"] == {"max_mw": 5.5, "time": "2018-01-31T22:02:00+00:00"}
    assert block["pools"]["two"] == {"max_mw": 4.0, "time": "2018-01-31T22:00:00+00:00"}
    assert late_metrics(one).block()["coincidence"] is None


def test_load_duration_curve_falls_from_peak_to_minimum():
    power_w = np.arange(101.0) * MW / 20
    load = Distribution()
    load.add(power_w)
    curve = late_metrics(power_w).block(load)["load_duration_curve"]
    percents = curve["percent_of_time"]
    assert set(range(101)) < set(percents) and percents == sorted(percents)
    assert min(np.diff(percents)) < 0.1  # a year's highest hours are a thousandth of it
    assert curve["exceeded_mw"] == pytest.approx((100 - np.array(percents)) / 20)
    assert late_metrics(power_w).block()["load_duration_curve"] is None


def test_facility_without_a_rating_has_no_headroom():
    block = grid_block(np.zeros(60), 60_000, rated_power_w=0.0)
    assert block["headroom"] is None
    assert block["load_factor"] is None
    assert block["rainflow"]["threshold_mw"] == 0.001


def ramp(block, interval_s):
    (found,) = [r for r in block["ramps"]["intervals"] if r["interval_s"] == interval_s]
    return found


def test_steady_rise_has_its_rate_at_every_length():
    block = grid_block(np.arange(3 * 3600) * 100.0, 1_000)  # 100 W/s = 6 kW/min
    for interval_s in (2, 10, 60, 300, 600, 900, 3600):
        entry = ramp(block, interval_s)
        assert entry["up"]["max_mw"] == pytest.approx(interval_s * 1e-4, rel=1e-12)
        assert entry["up"]["max_mw_per_min"] == pytest.approx(0.006, rel=1e-12)
        assert entry["up"]["p99_mw_per_min"] == pytest.approx(0.006, rel=1e-12)
        assert entry["down"]["max_mw"] == 0
        assert entry["down"]["time"] is None


def test_step_is_found_exactly_with_its_time():
    def before(second, interval_s):
        return (START + timedelta(seconds=second - interval_s)).isoformat()

    power_w = np.full(7200, 2 * MW)
    power_w[4000:] = 5 * MW
    power_w[5000:] = 1 * MW
    block = grid_block(power_w, 1_000)
    for interval_s in (2, 10, 60, 300, 600, 900):
        entry = ramp(block, interval_s)
        assert entry["up"]["max_mw"] == 3.0
        assert entry["up"]["time"] == before(4000, interval_s)
        assert entry["down"]["max_mw"] == 4.0
        assert entry["down"]["max_mw_per_min"] == pytest.approx(4.0 * 60 / interval_s)
        assert entry["down"]["time"] == before(5000, interval_s)
        assert entry["lower_bound"] is False


def test_slow_readings_mark_ramps_as_lower_bounds():
    slow = Provenance("measured", "", "", 10.0, 10.0, 0.0443)
    block = grid_block(np.ones(7200), 1_000, readings=[slow])
    ramps, ranges = block["ramps"]["intervals"], block["rolling_range"]["windows"]
    assert [r["interval_s"] for r in ramps if r["lower_bound"]] == [2, 10]
    assert [r["window_s"] for r in ranges if r["lower_bound"]] == [2, 10]


def test_rolling_range_of_a_pulse_is_exact_in_every_window():
    power_w = np.full(3000, 4 * MW)
    power_w[1000:1005] = 1 * MW  # half a second
    power_w[2000:2300] += np.arange(300) * 1000.0
    windows = grid_block(power_w, 100)["rolling_range"]["windows"]
    assert [w["window_s"] for w in windows] == [2, 10, 60]
    assert [w["max_mw"] for w in windows] == [3, 3, 3]
    # The first window that holds the pulse's first value ends with it.
    begin = START + timedelta(seconds=100 - 1.9)
    assert windows[0]["time"] == begin.isoformat("T", "milliseconds")


@pytest.mark.parametrize(
    ("block", "n_values", "step_ms", "key", "found", "reason"),
    [
        ("ramps", 600, 60_000, "interval_s", [60, 300, 600, 900, 3600], "shorter than"),
        ("ramps", 40, 60_000, "interval_s", [60, 300, 600, 900], "the run is shorter"),
        ("rolling_range", 600, 2_000, "window_s", [10, 60], "fewer than 2 values"),
        ("maximum_demand", 10, 7_000, "interval_min", [], "no multiple of the run's"),
        ("maximum_demand", 10, 3_600_000, "interval_min", [60], "shorter than the run"),
    ],
)
def test_what_the_series_does_not_hold_is_absent_with_the_reason(
    block, n_values, step_ms, key, found, reason
):
    block = grid_block(np.ones(n_values), step_ms)[block]
    held = block.get("intervals", block.get("windows"))
    assert [entry[key] for entry in held] == found
    assert any(entry["reason"].startswith(reason) for entry in block["absent"])
    assert not {entry[key] for entry in block["absent"]} & set(found)


def test_run_that_starts_off_its_own_clock_has_no_demand():
    metrics = late_metrics(np.ones(100), start=LATE.replace(second=30))
    late = metrics.block()["maximum_demand"]
    assert late["intervals"] == []
    assert "off its own clock" in late["absent"][0]["reason"]


def test_times_are_local():
    zone = timezone(timedelta(hours=-7))
    power_w = np.ones(300)
    power_w[90:] = 2.0
    block = grid_block(power_w, 60_000, start=datetime(2018, 1, 1, tzinfo=zone))
    assert ramp(block, 60)["up"]["time"] == "2018-01-01T01:29:00-07:00"


def test_blocks_must_follow_on_each_other():
    metrics = grid(np.ones(10), 60_000)
    with pytest.raises(ValueError, match=r"starts at 600000 ms, found 660000 ms"):
        metrics.add(660_000, np.ones(10))


def test_power_that_is_not_finite_is_refused():
    with pytest.raises(InputError, match="finite"):
        grid([1.0, np.nan], 60_000)


def test_nothing_added_gives_no_block():
    with pytest.raises(ValueError, match="no power"):
        GridMetrics(60_000, START, rated_power_w=MW).block()


def test_one_ramp_has_one_time_in_metrics_and_limits_by_either_definition(tmp_path):
    run = tiny_run(tmp_path / "run", {"duration": "6 h"})
    told = ramp(run.metrics["grid"], 60)["up"]["time"]
    for between in ("adjacent_means", "end_points"):  # alike at the run's own interval
        limit = {"interval": "1 min", "up_mw_per_min": 1e-6, "between": between}
        (result,) = run.limits(Limits.model_validate({"ramps": [limit]})).results
        assert result.time == told


def sines(amplitudes_w, frequencies_hz, duration_s=3600, step_s=0.5):
    t_s = (np.arange(int(duration_s / step_s)) + 0.5) * step_s
    pairs = zip(amplitudes_w, frequencies_hz, strict=True)
    waves = [a * np.sin(2 * np.pi * f * t_s + f) for a, f in pairs]
    return 5 * MW + np.sum(waves, axis=0)


def test_windows_equal_scipys_periodogram():
    rng = np.random.default_rng(0)
    for n in (600, 601):
        windows = rng.normal(size=(3, n)).cumsum(axis=1)
        frequency_hz, psd = window_spectra(windows, 500)
        expected_hz, expected = signal.periodogram(
            windows, 2.0, "hann", detrend="linear"
        )
        np.testing.assert_allclose(frequency_hz, expected_hz)
        np.testing.assert_allclose(psd, expected, rtol=1e-9, atol=1e-9 * expected.max())


def test_full_spectrum_sums_to_the_weighted_variance():
    # Parseval, for any signal: the sum over all bins is the mean square under the Hann
    # window.
    windows = np.random.default_rng(1).normal(size=(4, 1200)).cumsum(axis=1)
    frequency_hz, psd = window_spectra(windows, 500)
    weight = np.square(signal.get_window("hann", 1200))
    level = signal.detrend(windows, axis=-1)
    expected = (weight * level**2).sum(axis=-1) / weight.sum()
    np.testing.assert_allclose(psd.sum(axis=-1) * frequency_hz[1], expected, rtol=1e-12)


def test_bands_and_lines_have_the_rms_of_the_sines_in_them():
    amplitudes_w, frequencies_hz = [5e4, 4e4, 3e4], [1 / 240, 1 / 10.5, 0.2]
    _, block = spectrum_of(sines(amplitudes_w, frequencies_hz), 500)
    for band, amplitude_w in zip(block["bands"][:3], amplitudes_w, strict=True):
        rms_mw = amplitude_w / np.sqrt(2) / MW
        # A window of 10 minutes holds 2.5 periods of the slowest: detrending takes some
        # of it.
        near = pytest.approx(rms_mw, rel=0.08 if band["low_hz"] == 0.001 else 2e-3)
        for name in ("rms_p50_mw", "rms_p99_mw", "rms_max_mw"):
            assert band[name] == near
    fast = [line for line in block["lines"] if line["frequency_hz"] > 0.01]
    found_hz = [line["frequency_hz"] for line in fast]
    found_w = [line["rms_mw"] * MW * np.sqrt(2) for line in fast]
    assert found_hz == pytest.approx(frequencies_hz[1:], rel=1e-3)
    assert found_w == pytest.approx(amplitudes_w[1:], rel=0.01)


def test_white_noise_has_its_density_and_no_lines():
    noise_w = np.random.default_rng(5).normal(0, 1e4, 24 * 7200)
    metrics, block = spectrum_of(noise_w, 500)
    # One-sided density of white noise: variance over the Nyquist frequency; 287
    # windows, so the mean over 180 bins lies within 3 standard errors of about 0.45 %.
    spectrum = metrics.spectrum
    inside = (spectrum.frequency_hz > 0.1) & (spectrum.frequency_hz < 0.4)
    density = spectrum.mean_psd[inside].mean()
    assert density == pytest.approx(1e8 / MW**2, rel=0.015)
    assert block["lines"] == []


def test_mean_spectrum_holds_the_band_levels_and_nothing_above_what_is_flagged():
    # One window: the mean is its own
    noise_w = np.random.default_rng(6).normal(0, 1e4, 1200)
    _, block = spectrum_of(noise_w, 500)
    density = np.array(block["mean_psd_mw2_per_hz"])
    frequency_hz = np.arange(1, density.size + 1) * block["frequency_resolution_hz"]
    assert frequency_hz[-1] == pytest.approx(0.44)
    for band in block["bands"]:
        low_hz, high_hz = band["low_hz"] - 1e-6, band["high_hz"] - 1e-6
        inside = (frequency_hz > low_hz) & (frequency_hz < high_hz)
        rms_mw = np.sqrt(density[inside].sum() / 600)
        assert rms_mw == pytest.approx(band["rms_max_mw"])


def test_worst_window_is_where_the_burst_is():
    power_w = np.full(6 * 1200, 1 * MW)
    burst = slice(3 * 1200 + 600, 4 * 1200 + 600)  # 35 to 45 minutes: just one window
    power_w[burst] += 2e4 * np.sin(2 * np.pi * 0.15 * 0.5 * np.arange(1200))
    _, block = spectrum_of(power_w, 500)
    band = block["bands"][2]
    assert band["worst_window"] == "2018-01-01T00:35:00+00:00"
    assert band["worst_window_strongest_hz"] == pytest.approx(0.15)
    assert band["rms_max_mw"] == pytest.approx(0.02 / np.sqrt(2), rel=1e-3)


def test_one_second_readings_claim_nothing_above_a_quarter_hertz():
    _, block = spectrum_of(sines([1e4], [0.1]), 500)
    assert [b["high_hz"] for b in block["bands"]] == [0.01, 0.1, 0.25, 0.44]
    assert [b["flagged"] for b in block["bands"]] == [False, False, False, True]
    (reason,) = {b["reason"] for b in block["absent"]}
    assert reason == "the profiles support nothing above 0.44 Hz"


def test_better_readings_unlock_higher_bands():
    fast = Provenance("measured", "", "", 0.02, 0.1, 4.4)
    power_w = sines([1e4], [1.5], duration_s=1200, step_s=0.1)
    _, block = spectrum_of(power_w, 100, [fast])
    assert [b["flagged"] for b in block["bands"]] == [False] * 6
    rms_mw = block["bands"][-1]["rms_max_mw"]
    assert rms_mw == pytest.approx(0.01 / np.sqrt(2), rel=1e-3)
    _, block = spectrum_of(power_w, 100, [fast, PUBLISHED])
    assert len(block["bands"]) == 4


@pytest.mark.parametrize(
    ("step_ms", "n_bands", "reason"),
    [
        (1_000, 3, "the run's resolution of 1 s does not hold it"),
        (10_000, 1, "the run's resolution of 10 s does not hold it"),
        (60_000, 0, "the run's resolution of 60 s does not hold it"),
        (700, 0, "the run's resolution of 0.7 s does not divide 5 minutes"),
    ],
)
def test_coarse_resolution_leaves_bands_out_with_the_reason(step_ms, n_bands, reason):
    _, block = spectrum_of(np.ones(4_000), step_ms)
    assert len(block["bands"]) == n_bands
    assert block["absent"][0]["reason"] == reason
    assert len(block["bands"]) + len(block["absent"]) == 6


def test_short_run_has_no_bands_with_the_reason():
    _, block = spectrum_of(np.ones(100), 1_000)
    assert block["bands"] == []
    (reason,) = {b["reason"] for b in block["absent"]}
    assert reason == "the run holds no whole 10-minute window"


def test_llama_2_on_16_nodes_has_its_line_at_10_5_s():
    profile = ProfileLibrary.open().get("llama2_70b_lora-16n-1")
    _, block = spectrum_of(profile.power_w, profile.dt_ms, [profile.provenance])
    strongest = block["lines"][0]
    assert 10.3 < strongest["period_s"] < 10.7


def test_line_of_a_strictly_periodic_load_has_no_floor_and_says_so():
    t_s = np.arange(3600) + 0.5
    square_w = 5 * MW + MW * np.sign(np.cos(2 * np.pi * t_s / 60))
    lines = spectrum_of(square_w, 1000)[1]["lines"]
    assert lines[0]["frequency_hz"] == pytest.approx(1 / 60, rel=1e-4)
    assert lines[0]["rms_mw"] == pytest.approx(4 / np.pi / np.sqrt(2), rel=2e-3)
    for line in lines:
        assert (line["over_floor"] is None) == ("reason" in line)
        assert line["over_floor"] is None or line["over_floor"] < 1e12
    assert "strictly periodic" in lines[0]["reason"]
    # What only the transform's rounding shows is no line.
    sine_w = 5 * MW + MW * np.cos(2 * np.pi * t_s / 60)
    (line,) = spectrum_of(sine_w, 1000)[1]["lines"]
    assert line["rms_mw"] > 1e-8
