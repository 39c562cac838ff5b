"""Every kind of limit on signals whose value is known."""

from __future__ import annotations

import numpy as np
import pytest
from limit_runs import check, fake_run, only
from scipy import signal

from diploee.base.measures.streaming import Chunk
from diploee.base.metric import NONE
from diploee.grid.limits import load_limits
from diploee.grid.limits.check import FINER
from diploee.grid.limits.kinds.changes import BandFilter, RunningFilter
from diploee.grid.limits.report import check_limits

NO_FIGURE = "no figure was seen in the source"
BAND = {"low_hz": 0.1, "high_hz": 55}
RATED = "facility.rated_power_mw"
pytestmark = pytest.mark.usefixtures("any_run_is_a_year")


def high_pass(frequency_hz, edge_hz, order, rate_hz):
    """Response of a Butterworth high-pass, from its analogue poles and the bilinear
    transform."""
    k = np.arange(order)
    poles = np.exp(1j * np.pi * (2 * k + order + 1) / (2 * order))
    s = 1j * np.tan(np.pi * frequency_hz / rate_hz) / np.tan(np.pi * edge_hz / rate_hz)
    with np.errstate(divide="ignore", invalid="ignore"):
        response = 1 / np.prod(1 / s[:, None] - poles, axis=1)
    return np.where(frequency_hz == 0, 0, response)


def after_high_pass(period_mw, rate_hz, order=4):
    """Steady state of one period of a signal behind the filter, harmonic by harmonic."""  # noqa: E501
    frequency_hz = np.fft.rfftfreq(period_mw.size, 1 / rate_hz)
    response = high_pass(frequency_hz, BAND["low_hz"], order, rate_hz)
    return np.fft.irfft(np.fft.rfft(period_mw) * response, period_mw.size)


def largest_range(period_mw, n_window):
    wound = np.tile(period_mw, 2 + n_window // period_mw.size)
    return max(np.ptp(wound[k : k + n_window]) for k in range(period_mw.size))


PERIODS = {
    "a sine in the band": np.sin(2 * np.pi * np.arange(50) / 50),
    "a sine below the band": np.sin(2 * np.pi * np.arange(400) / 400),
    "the square wave of a training job, just below": np.repeat([1.0, -1.0], 53),
    "a square wave in the band": np.repeat([1.0, -1.0], 15),
}


@pytest.mark.parametrize("order", [1, 4])
@pytest.mark.parametrize("name", PERIODS)
def test_swing_behind_the_filter_is_that_of_its_harmonics(run_of, name, order):
    period = PERIODS[name]
    run = run_of(100 + 10 * np.tile(period, 12_000 // period.size), 0.1)
    limit = {"window": "5 s", "max_mw": 10, "filter": BAND | {"order": order}}
    result = only(check(run, swings=[limit]))
    expected = 10 * largest_range(after_high_pass(period, 10, order), 50)
    assert result.value == pytest.approx(expected, rel=2e-3, abs=1e-4)
    assert bool(result.violations) == (expected > 10)
    assert f"causal Butterworth of order {order}, started at rest" in result.text
    assert f"without the filter {10 * largest_range(period, 50):.4g} MW" in result.text


def test_level_and_start_pass_no_high_pass(run_of):
    limit = {"window": "5 s", "max_mw": 10, "filter": BAND}
    result = only(check(run_of(np.full(3_000, 500.0), 0.1), swings=[limit]))
    assert result.value < 1e-6
    assert "its first 28.8 s left out" in result.text


def test_a_band_is_judged_to_where_profiles_have_detail_and_says_so(run_of):
    waves = 100 + 10 * np.sin(2 * np.pi * 0.2 * np.arange(6_000) / 10)
    swings = [{"window": "5 s", "max_mw": 30, "filter": BAND}]
    report = check(run_of(waves, 0.1), swings=swings)
    assert report.verdict == "met"
    assert only(report).scope.startswith("to 0.44 Hz on measured detail")
    swings[0]["max_mw"] = 15
    assert check(run_of(waves, 0.1), swings=swings).verdict == "not met"
    swings[0]["filter"] = {"low_hz": 0.05, "high_hz": 0.2}
    swings[0]["max_mw"] = 30
    assert check(run_of(waves, 0.1), swings=swings).verdict == "met"


def test_two_definitions_of_a_ramp_differ_as_they_should(run_of):
    # Up by 60 MW within L = 10 min, then level: end points see all of it. At x L into
    # the ramp the mean of the L after is (1 - x^2) / 2 + x of it, that before x^2 / 2:
    # the difference is largest in the middle, 3/4.
    power_mw = np.concatenate(
        [np.full(1_800, 10.0), 10 + np.linspace(0, 60, 601), [70.0] * 1_800]
    )
    limit = {"interval": "10 min", "mw_per_min": 5}
    definitions = ["end_points", "adjacent_means"]
    ends, means = check(
        run_of(power_mw, 1),
        ramps=[limit | {"between": between} for between in definitions],
    ).results
    assert ends.value == pytest.approx(6.0, rel=1e-6) and ends.violations
    assert means.value == pytest.approx(6.0 * 0.75, rel=1e-3) and not means.violations
    assert "end points" in ends.text and "end points" not in means.text


@pytest.mark.parametrize("percent", [50, 99])
def test_percentile_of_ramps_is_that_of_their_sizes(run_of, percent):
    rng = np.random.default_rng(1)
    power_mw = (100 + np.cumsum(rng.normal(0, 1, 600))).astype(np.float32)
    limit = {"interval": "1 min", "mw_per_min": 0.8, "percentile": percent}
    result = only(check(run_of(power_mw, 60), ramps=[limit]))
    sizes = np.abs(np.diff(power_mw.astype(float)))
    assert result.value == pytest.approx(
        np.percentile(sizes, percent, method="inverted_cdf"), rel=2e-3
    )
    assert result.verdict == ("not met" if result.value > 0.8 else "met")
    assert result.text == f"P{percent} of ramp either way over 60 s, adjacent means"


@pytest.mark.parametrize(
    ("size_mw", "duration_s", "verdict"),
    [
        (60, 100, "not met"),
        (60, 140, "met"),
        (200, 380, "not met"),
        (200, 420, "met"),
        (49, 1, "met"),
        (-60, 100, "not met"),
        (51, 1, "not met"),
    ],
)
def test_change_is_limited_only_above_its_size(run_of, size_mw, duration_s, verdict):
    slope = 300 + np.linspace(0, size_mw, duration_s + 1)
    power_mw = np.concatenate([np.full(500, 300.0), slope, np.full(500, slope[-1])])
    report = check(run_of(power_mw, 1), changes=[{"above_mw": 50, "max_mw_per_s": 0.5}])
    assert report.verdict == verdict
    assert only(report).window_s == 100


def test_lesser_of_sizes_names_what_they_are_parts_of(run_of):
    limit = {"mw": 20, "percent_of_peak": 5}
    power_mw = np.repeat([100.0, 90.0], 300)
    rates = {"down_mw_per_min": limit, "up_mw_per_min": {"mw": 8}}
    ramps = [{"interval": "1 min", **rates}]
    up, down = check(run_of(power_mw, 1, peak=100.0), ramps=ramps).results
    assert (up.limit, down.limit) == (8, 5)
    assert "lesser of 20 MW and 5 % of the peak (the peak 100 MW)" in down.text
    peaks = [{"max_mw": {"percent_of_nominal": 90}}]
    result = only(check(run_of(power_mw, 1, **{RATED: 120.0}), peaks=peaks))
    assert result.limit == pytest.approx(108)
    assert "device rating (as given), 120 MW" in result.text


def test_line_has_the_amplitude_of_its_sine_and_noise_has_none(run_of):
    t_s = np.arange(36_000) / 10
    line_mw = 3 * np.sin(2 * np.pi * 0.1234 * t_s)
    noise_mw = np.random.default_rng(3).normal(0, 1, t_s.size)
    slow_mw = 30 * np.sin(2 * np.pi * 0.02 * t_s)
    lines = [{"low_hz": 0.1, "high_hz": 0.25, "max_amplitude_mw": 2.5}]
    loud = check(run_of(100 + line_mw + slow_mw + 0.1 * noise_mw, 0.1), lines=lines)
    assert only(loud).value == pytest.approx(3, rel=0.02) and loud.verdict == "not met"
    quiet = check(run_of(100 + 10 * noise_mw + slow_mw, 0.1), lines=lines)
    assert only(quiet).value == 0 and quiet.verdict == "met"


def test_power_factor_and_reactive_power_of_each_side(run_of):
    reactive = np.array([30.0, 40.0, -40.0, 0.0] * 25)
    run = run_of(np.full(100, 100.0), 60, reactive_mvar=reactive)
    report = check(
        run,
        power_factor=[{"min_lagging": 0.95, "min_leading": 0.9}],
        reactive_power=[{"min_mvar": -35, "max_mvar": 45}],
    )
    lagging, leading, most, least = report.results
    factor = pytest.approx(1 / np.hypot(1, 0.4))
    assert (lagging.value, lagging.violations) == (factor, 25)
    assert lagging.duration_s == 25 * 60
    assert (leading.value, leading.violations) == (factor, 0)
    assert (most.value, least.value) == pytest.approx((40, -40))
    assert (most.verdict, least.verdict) == ("met", "not met")


def test_load_factor_is_mean_over_maximum_demand_or_nominal(run_of):
    power_mw = np.concatenate([np.full(150, 60.0), np.full(30, 120.0)])
    limits = [
        {"min": 0.6},
        {"min": 0.6, "interval": "1 h"},
        {"min": 0.3, "of": "nominal"},
    ]
    run = run_of(power_mw, 60, **{RATED: 200.0})
    quarter, hour, nominal = check(run, load_factor=limits).results
    assert quarter.value == pytest.approx(70 / 120) and quarter.verdict == "not met"
    assert hour.value == pytest.approx(70 / 90) and hour.verdict == "met"
    assert nominal.value == pytest.approx(0.35) and nominal.verdict == "met"


def test_minimum_take_looks_at_whole_months(run_of):
    # From 1 January: 31 days at 90, 28 at 60, then a part of March.
    power_mw = np.repeat([90.0, 60.0, 10.0], [31 * 24, 28 * 24, 24])
    limit = {"min_mw": {"percent_of_nominal": 80}, "interval": "1 h"}
    result = only(check(run_of(power_mw, 3600, **{RATED: 100.0}), minimum_take=[limit]))
    assert (result.violations, result.worst[0].value) == (1, 60)
    worst = result.worst[0]
    assert (worst.begin[:10], worst.end[:10]) == ("2018-02-01", "2018-03-01")
    # From 15 January on only February is whole.
    start = {"start": "2018-01-15", RATED: 100.0}
    power_mw = np.repeat([50.0, 60.0, 10.0], [17 * 24, 28 * 24, 24])
    late = only(check(run_of(power_mw, 3600, **start), minimum_take=[limit]))
    assert (late.violations, late.value, late.time[:10]) == (1, 60, "2018-02-01")
    short = check(run_of(power_mw[:24], 3600, **{RATED: 100.0}), minimum_take=[limit])
    assert short.verdict == "inconclusive"


def test_what_is_of_the_whole_run_is_at_no_time(run_of):
    run = run_of(100 + np.arange(3_600) / 3_600, 1)
    ramp = {"interval": "10 s", "mw_per_min": 1, "percentile": 75}
    percentile, factor = check(run, ramps=[ramp], load_factor=[{"min": 0.999}]).results
    assert (percentile.time, factor.time) == ("", "")
    assert percentile.value == pytest.approx(1 / 60, rel=0.01) and factor.violations
    assert {of.cells(1)["When"] for of in (percentile, factor)} == {NONE}


def test_ends_of_means_as_long_as_the_ramp_are_a_lower_bound(run_of):
    report = check(
        run_of(np.full(60, 100.0), 60),
        ramps=[
            {"interval": length, "between": "end_points", "mw_per_min": 1}
            for length in SPANS
        ],
        changes=[{"above_mw": 50, "max_mw_per_s": 0.5}],
    )
    bound = f"lower bound: means over 60 s smear steps under 120 s{FINER}"
    assert [result.note for result in report.results] == [bound, "", bound]


SPANS = ("1 min", "2 min")


def step_mw(size_mw, duration_s, level=200.0, step_s=1, rest_s=1_800):
    rest = np.full(int(rest_s / step_s), level)
    slope = level + np.linspace(0, size_mw, int(duration_s / step_s) + 1)
    return np.concatenate([rest, slope, rest + size_mw, slope[::-1], rest]), step_s


def fall_mw(size_mw, duration_s, level=200.0):
    """Return a slow rise, and a fall over a time."""
    rise = level + np.linspace(0, size_mw, 1_201)
    fall = level + np.linspace(size_mw, 0, int(duration_s) + 1)
    return np.concatenate(
        [rise, np.full(600, rise[-1]), fall, np.full(600, level)]
    ), 1.0


def wave_mw(amplitude_mw, frequency_hz):
    return 200 + amplitude_mw * np.sin(
        2 * np.pi * frequency_hz * np.arange(12_000) / 10
    ), 0.1


JUST_AT = {
    "ercot_lcl_2026_06": (
        "swings.0",
        lambda x: wave_mw(5 * x / high_pass_gain(0.2), 0.2),
    ),
    "ieso_3_0": ("swings.0", lambda x: step_mw(5 * x, 1)),
    "ieso_3_0 ": ("ramps.0", lambda x: step_mw(20 * x, 60)),
    "ieso_3_0  ": ("lines.0", lambda x: wave_mw(2.5 * x, 0.2)),
    "caiso_straw_2026_06": ("ramps.0", lambda x: step_mw(200 * x, 600)),
    "southern": ("swings.0", lambda x: step_mw(10 * x, 1)),
    "southern ": ("ramps.1", lambda x: step_mw(2_000 * x, 6_000, rest_s=60)),
    "lipa": ("band_rms.0", lambda x: wave_mw(10 * np.sqrt(2) * x, 0.2)),
    "atc_spp": ("changes.0", lambda x: step_mw(50 * x, 99)),
    "atc_spp ": ("swings.0", lambda x: step_mw(25 * x, 1)),
    "aeso": ("ramps.0", lambda x: step_mw(10 * x, 60)),
    "ercot_nprr1191": ("ramps.0", lambda x: step_mw(4 * x, 60)),
    "ercot_nprr1191 ": ("ramps.0", lambda x: fall_mw(10 * x, 60)),
    "southern  ": ("ramps.0", lambda x: step_mw(20 * x, 60)),
}


def high_pass_gain(frequency_hz):
    return float(abs(high_pass(np.array([frequency_hz]), 0.1, 4, 10))[0])


@pytest.mark.parametrize("name", JUST_AT)
def test_preset_tells_just_inside_from_just_outside(run_of, name):
    key, signal = JUST_AT[name]
    limits = load_limits(name.strip())
    for x, violated in ((0.97, False), (1.03, True)):
        run = run_of(*signal(x), peak=200.0, **{RATED: 2_000.0})
        report = check_limits(run, limits)
        found = {result.key for result in report.not_met}
        assert (key in found) == violated, report.results
        assert report.verdict == "not met" or not violated
        said = [of.source for of in report.results]
        said += [of.reason for of in (*report.unchecked, *report.outside)]
        assert all("secondary source" in text or NO_FIGURE in text for text in said)


FAST = {"window": "5 s"}
ENDS = {"interval": "1 min", "between": "end_points"}


def test_what_a_rule_limits_without_a_figure_is_named_beside_its_verdict(run_of):
    power_mw, step_s = step_mw(1, 60)
    report = check_limits(run_of(power_mw, step_s), load_limits("southern"))
    assert report.verdict == "met" and "1 not covered" in report.counts_text()
    assert report.outside[-1][:3] == ("not_stated.0", "limits by band", NO_FIGURE)


@pytest.mark.parametrize(
    ("kind", "limit", "kept"),
    [
        ("swings", FAST | {"max_mw": 25}, True),
        ("swings", FAST | {"max_mw": 9}, False),
        ("swings", FAST | {"max_mw": 25, "filter": BAND}, False),
        ("swings", FAST | {"max_mw": {"mw": 25, "percent_of_peak": 5}}, False),
        ("changes", {"above_mw": 50, "max_mw_per_s": 0.5}, True),
        ("ramps", ENDS | {"mw_per_min": 20}, True),
        ("ramps", ENDS | {"up_mw_per_min": 20, "down_mw_per_min": 9}, False),
        ("band_rms", {"low_hz": 5, "high_hz": 55, "max_rms_mw": 20}, True),
    ],
)
def test_load_below_what_is_limited_keeps_it_at_any_bandwidth(
    tmp_path, kind, limit, kept
):
    power_mw = np.tile([2.0, 9.4], 30)
    changes = {"facility.rated_power_mw": 10.0}
    run = fake_run(tmp_path, power_mw, 60, peak=9.4, **changes)
    report = check(run, **{kind: [limit]})
    assert (report.verdict == "met") == kept, report.results
    texts = [of.text for of in (*report.results, *report.unchecked)]
    assert ("the whole load, at most 10 MW, is below it" in texts[0]) == kept


@pytest.mark.parametrize("band", [(0.001, 4.9), (0.1, 4.0), (0.02, 55.0)])
def test_a_filter_of_any_order_is_scipy_s(band):
    low_hz, high_hz = band
    edges, kind = (band, "bandpass") if high_hz < 5 else (low_hz, "highpass")
    power = 1e8 + np.random.default_rng(0).normal(0, 1e6, 2000).cumsum()
    for order in range(1, 9):
        own = BandFilter(low_hz=low_hz, high_hz=high_hz, order=order).sections(100)
        running = RunningFilter(own, 2000)
        running.n_settling = 0
        found = [
            running.filter(Chunk(part, 1000, end_ms, 100)).new
            for part, end_ms in ((power[:1000], 100_000), (power[1000:], 200_000))
        ]
        sos = signal.butter(order, edges, kind, fs=10, output="sos")
        expected, _ = signal.sosfilt(sos, power, zi=signal.sosfilt_zi(sos) * power[0])
        assert np.concatenate(found) == pytest.approx(expected, rel=0, abs=2)
