from __future__ import annotations

import json
import re

import numpy as np
import pytest
from builders import tiny_run
from command_line import call
from limit_runs import check, only

from diploee.base.errors import InputError
from diploee.grid.limits.check import FINER, LONGER
from diploee.grid.limits.report import COVERAGE
from diploee.profiles import known_meter


def test_ramp_beyond_its_limit_is_given_with_time_and_duration(run_of):
    power_mw = np.full(600, 2.0)
    power_mw[300:] = 3.0
    report = check(
        run_of(power_mw, 1), ramps=[{"interval": "10 s", "up_mw_per_s": 0.06}]
    )
    result = only(report)
    # The ramp is a triangle of 10 s to both sides of the step, 0.1 MW/s high.
    assert (result.violations, result.duration_s) == (1, 7.0)
    assert result.worst[0].value == pytest.approx(0.1)
    # A ramp's time is the start of its window, of the earlier of its two means.
    assert result.worst[0].time == "2018-01-01T00:04:50+00:00"
    assert (result.worst[0].begin[11:19], result.worst[0].end[11:19]) == (
        "00:04:47",
        "00:04:54",
    )
    (section,) = report.sections()
    (row,) = section.tables[0].lines()
    assert row == (
        "1. ramp up over 10 s, adjacent means",
        *("not met", "0.06 MW/s", "0.1 MW/s", "167 %"),
        *("2018-01-01 00:04:50", "1, 7 s in all"),
    )
    assert "NOT MET" in section.tables[0].title and not report.is_met
    assert all(cell in report._repr_html_() for cell in row)


def test_up_and_down_and_both_units_are_separate_limits(run_of):
    power_mw = np.full(600, 2.0)
    power_mw[300:] = 1.0
    limit = {"interval": "10 s", "up_mw_per_min": 0.1, "down_mw_per_min": 5.0}
    up, down = check(run_of(power_mw, 1), ramps=[limit]).results
    assert (up.violations, down.violations) == (0, 1)
    assert down.worst[0].value == pytest.approx(6.0)
    assert (up.verdict, up.limit, up.value) == ("met", 0.1, 0)


def test_each_swing_is_a_violation_of_its_own(run_of):
    power_mw = np.full(1000, 2.0)
    power_mw[[200, 500]] = [2.5, 2.8]
    result = only(
        check(run_of(power_mw, 1), swings=[{"window": "10 s", "max_mw": 0.4}])
    )
    assert (result.violations, result.duration_s) == (2, 20.0)
    assert [w.value for w in result.worst] == pytest.approx([0.8, 0.5])
    assert result.worst[0].begin == "2018-01-01T00:08:11+00:00"


def test_band_level_names_the_worst_window(run_of):
    power_mw = np.full(3600, 2.0)
    power_mw[1500:2100] += 0.02 * np.sin(2 * np.pi * 0.15 * np.arange(600))
    limit = {"low_hz": 0.1, "high_hz": 0.25, "max_rms_mw": 0.013}
    result = only(check(run_of(power_mw, 1), band_rms=[limit]))
    assert result.violations == 1
    assert result.worst[0].time == "2018-01-01T00:25:00+00:00"
    assert result.worst[0].value == pytest.approx(0.02 / np.sqrt(2), rel=1e-3)


def test_peaks_of_the_resolution_and_of_clock_intervals(run_of):
    power_mw = np.full(180, 2.0)
    power_mw[70:80] = 5.0  # five minutes before 01:15, five after
    limits = [
        {"max_mw": 4},
        {"max_mw": 2.9, "interval": "15 min"},
        {"max_mw": 3, "interval": "1 h"},
    ]
    short, quarter, hour = check(run_of(power_mw, 60), peaks=limits).results
    assert (short.violations, short.duration_s, short.worst[0].value) == (1, 600.0, 5.0)
    assert (quarter.violations, quarter.duration_s) == (1, 1800.0)
    assert quarter.worst[0].value == pytest.approx(2 + 3 * 5 / 15)
    assert hour.violations == 0


def test_daily_energy_counts_whole_local_days(run_of):
    power_mw = np.full(60, 1.0)
    power_mw[24:48] = 2.0
    result = only(check(run_of(power_mw, 3600), daily_energy_mwh=30))
    assert (result.violations, result.duration_s, result.unit) == (1, 86_400.0, "MWh")
    assert result.worst[0].value == pytest.approx(48)
    assert result.worst[0].time == "2018-01-02T00:00:00+00:00"


ONES, TENTHS, COARSER = (
    (np.ones(600), 60),
    (np.ones(12_000), 0.1),
    (np.arange(100.0), 300),
)
LOW = {"low_hz": 5e-4, "high_hz": 0.005}
PAST = "nothing is modelled above 0.44 Hz"
NO_BIN = "holds no bin of a 10-minute window (multiples of 1/600 Hz)"
COARSE = "the run's step of 60 s does not hold it"
NO_PEAK = "a percentage of the peak needs the peak of a whole year"
IN_BAND = {"low_hz": 0.1, "high_hz": 0.25, "max_rms_mw": 1}
UNSEEN = [
    (ONES, "ramps", {"interval": "10 s", "up_mw_per_s": 1}, "shorter than the run's"),
    (ONES, "swings", {"window": "1 min", "max_mw": 1}, "fewer than 2 values at the"),
    (ONES, "band_rms", IN_BAND, COARSE),
    (ONES, "band_rms", IN_BAND | {"low_hz": 5, "high_hz": 55}, PAST),
    (TENTHS, "band_rms", IN_BAND | {"low_hz": 0.5, "high_hz": 1.0}, PAST),
    (TENTHS, "band_rms", IN_BAND | {"low_hz": 0.2001, "high_hz": 0.2002}, NO_BIN),
    (TENTHS, "lines", {"low_hz": 1, "high_hz": 55, "max_amplitude_mw": 3.5}, PAST),
    (
        TENTHS,
        "swings",
        {"window": "5 s", "max_mw": 1, "filter": {"low_hz": 5, "high_hz": 9}},
        PAST,
    ),
    (COARSER, "lines", LOW | {"max_amplitude_mw": 1}, NO_BIN),
    (ONES, "power_factor", {"min_lagging": 0.95}, "the run has no reactive power"),
    (ONES, "peaks", {"max_mw": {"mw": 20, "percent_of_peak": 5}}, NO_PEAK),
    ((np.zeros(120), 60), "load_factor", {"min": 0.5}, "there is no load"),
]


@pytest.mark.parametrize(("power", "kind", "limit", "reason"), UNSEEN)
def test_limit_that_the_run_can_not_show_is_inconclusive_for_the_reason(
    run_of, power, kind, limit, reason
):
    report = check(run_of(*power), **{kind: [limit]})
    assert report.verdict == "inconclusive" and not report.not_met and not report.is_met
    (cells,) = report.sections()[0].tables[0].rows.values()
    verdict, why = (str(cells[of].value) for of in ("Verdict", COVERAGE))
    assert reason in why
    assert verdict == "not covered" or "; " in why.partition(reason)[2] + reason


def test_day_of_a_shorter_run_and_part_of_a_peak_below_zero_are_no_limits(run_of):
    report = check(run_of(*ONES), peaks=[{"max_mw": 2}], daily_energy_mwh=1)
    assert [result.key for result in report.results] == ["peaks.0"]
    assert [of.reason for of in report.unchecked] == [f"the run is too short{LONGER}"]
    ramps = [{"interval": "1 min", "mw_per_min": {"percent_of_peak": 2}}]
    report = check(run_of(np.repeat([-12.0, -10.0], 300), 1, peak=-10.0), ramps=ramps)
    ((key, text, reason, _),) = report.unchecked
    assert (key, text) == ("ramps.0", "ramp over 60 s") and reason.startswith(NO_PEAK)


def test_band_beyond_the_detail_of_the_profiles_is_judged_to_where_they_have_some(
    run_of,
):
    bands = [
        {"low_hz": 0.3, "high_hz": 5, "max_rms_mw": 1},
        {"low_hz": 0.2, "high_hz": 0.2001, "max_rms_mw": 1},
    ]
    beyond, narrow = check(run_of(*TENTHS), band_rms=bands).results
    assert beyond.verdict == "met"
    assert beyond.scope == "to 0.44 Hz on measured detail; means over 1 s ('p') decide"
    assert beyond.scope in beyond.cells(1)[COVERAGE] and narrow.scope == ""


def test_band_that_the_step_cuts_off_is_open_unless_what_is_seen_is_too_much(run_of):
    waves_mw = 2 + np.sin(2 * np.pi * 0.05 * np.arange(3600))
    for most_mw, verdict in ((1.0, "inconclusive"), (0.1, "not met")):
        bands = [{"low_hz": 0.01, "high_hz": 0.4, "max_rms_mw": most_mw}]
        result = only(check(run_of(waves_mw, 1), band_rms=bands))
        assert result.verdict == verdict
        assert (
            result.note
            == f"seen to 0.25 Hz of 0.01-0.4 Hz, as the run's step is 1 s{FINER}"
        )


def test_step_under_two_seconds_is_judged_on_what_the_meter_of_the_profiles_shows(
    run_of,
):
    report = check(run_of(np.ones(600), 0.1), swings=[{"window": "1 s", "max_mw": 1}])
    assert only(report).verdict == "met"
    assert only(report).scope == "means over 1 s ('p') smear steps under 2 s"


A100 = {
    "averaging_window_s": 0.025,
    "sampling_interval_s": 0.1,
    "bandwidth_hz": 0.0,
    "kind": "measured",
}


@pytest.mark.parametrize("micro_hz", [5.55, 6.02])
def test_a_line_that_readings_fold_gives_no_verdict_on_swings_and_one_on_levels(
    run_of, micro_hz
):
    """Micro-steps of 5.55 and 6.02 Hz through the meter of an A100 show lines at 4.45
    and 3.98."""
    fine_w = 100 + 10 * np.sin(2 * np.pi * micro_hz * np.arange(0, 1_300, 0.001))
    _, readings_w = known_meter("power.draw", "A100", 0.1).read(fine_w, 0.001)
    run = run_of(readings_w[:12_600], 0.1)
    low = {"low_hz": 1, "high_hz": 4.9}
    limits = {
        "lines": [low | {"max_amplitude_mw": 5}],
        "band_rms": [low | {"max_rms_mw": 5}],
        "swings": [{"window": "5 s", "max_mw": 10}],
        "ramps": [
            {"interval": "1 s", "mw_per_s": 5},
            {"interval": "1 min", "mw_per_min": 5},
        ],
        "peaks": [{"max_mw": 105}],
    }
    run.manifest["profiles"] = {"p": {"provenance": {"bandwidth_hz": None}}}
    read = check(run, **limits)
    swings = ["ramps.0", "swings.0", "band_rms.0", "lines.0"]
    if micro_hz == 6.02:  # what such a model covers ends at 4 Hz
        assert [result.key for result in read.not_met] == [*swings[1:], "peaks.0"]
    run.manifest["profiles"] = {"micro": {"provenance": A100}}
    folded = check(run, **limits)
    assert [result.key for result in folded.not_met] == ["peaks.0"]
    assert [key for key, *_ in folded.unchecked] == swings
    for *_, reason, _ in folded.unchecked:
        assert reason.startswith(
            "readings every 0.1 s fold ('micro'): fast swings show as slow"
        )
        assert "diploee profiles import" in reason


def test_a_part_of_a_year_can_only_show_that_limits_are_not_met(run_of):
    for days, most_mw, verdict in (
        (1, 2, "inconclusive"),
        (2, 2, "inconclusive"),
        (365, 2, "met"),
        (2, 0.5, "not met"),
    ):
        report = check(run_of(np.ones(24 * days), 3600), peaks=[{"max_mw": most_mw}])
        assert report.verdict == verdict and report.is_met == (verdict == "met")
        assert ("; 1 day of a year" in report.title) == (days == 1)
        assert ("; 2 days of a year" in report.title) == (days == 2)
        undecided = report.verdict == "inconclusive" and report.span_verdict == "met"
        assert ("only a whole one decides" in report.title) == undecided


def test_percentage_of_the_peak_is_of_the_contract_else_of_a_whole_year(run_of):
    limit = {"peaks": [{"max_mw": {"percent_of_peak": 80}}]}
    year = run_of(np.r_[np.ones(24 * 364), np.full(24, 2.0)], 3600, peak=2.0)
    assert only(check(year, **limit)).limit == pytest.approx(1.6)


def test_power_that_can_not_be_read_is_refused(run_of):
    run = run_of(np.ones(10), 60, column="other")
    with pytest.raises(InputError, match="column 'facility_power_w' is missing"):
        check(run, peaks=[{"max_mw": 1}])
    run = run_of([1.0, np.nan], 60)
    with pytest.raises(InputError, match="the value of row 1 is nan, expected a num"):
        check(run, peaks=[{"max_mw": 1}])


@pytest.fixture(scope="module")
def run_folder(tmp_path_factory):
    return tiny_run(tmp_path_factory.mktemp("runs") / "tiny").folder


def test_command_exits_with_3_or_4_on_request_only(run_folder, tmp_path):
    path = tmp_path / "limits.yaml"
    path.write_text(
        "peaks:\n  - {max_mw: 0.001}\n  - {max_mw: 100}\n", encoding="utf-8"
    )
    shown = call("limits", path, run_folder)
    assert shown.code == 0
    assert re.findall(r"^[12]. power, 60 s means +(not met|met)", shown.out, re.M) == [
        "not met",
        "met",
    ]
    title = "limits, on means of 60 s: NOT MET (1 not met, 1 met; 2 days of a year)"
    assert title in shown.out and "\nBoundary: " in shown.out
    assert "diploee battery" not in shown.out  # which is sized for no peak
    assert call("limits", path, run_folder, "--fail").code == 3
    path.write_text(
        "peaks: [{max_mw: 100}]\nswings: [{window: 1 s, max_mw: 1.0e-5}]\n", "utf-8"
    )
    unseen = call("limits", path, run_folder, "--fail")
    assert unseen.code == 4 and ": INCONCLUSIVE (" in unseen.out
    path.write_text("peaks:\n  - {max_mw: 100}\n", encoding="utf-8")
    assert call("limits", path, run_folder, "--fail").code == 4  # of two days
    year = tiny_run(tmp_path / "year", {"duration": "1 year"}).folder
    assert call("limits", path, year, "--fail").code == 0


@pytest.mark.parametrize(
    ("limits", "words"),
    [
        ("peaks: [{max_mw: 100}]", "diploee run SITE --limits L, of a whole year"),
        (
            "swings: [{window: 1 s, max_mw: 1.0e-5}]",
            "diploee run SITE --limits L, of a whole year, at the step that it needs",
        ),
        (
            "voltage_changes: [{max_percent: 3}]",
            "change what the reasons above name, then diploee run SITE --limits L, of "
            "a whole year",
        ),
        (
            "ramps: [{interval: 1 min, mw_per_min: 1.0e-5}]",
            "diploee run SITE --set 'resolution=6 s', then diploee battery on that run",
        ),
    ],
)
def test_command_names_the_next_step_by_what_is_missing(
    run_folder, tmp_path, limits, words
):
    path = tmp_path / "limits.yaml"
    path.write_text(f"{limits}\n", "utf-8")
    (last,) = re.findall(
        "^next: .*", call("limits", path, run_folder).out, re.MULTILINE
    )
    assert last == f"next: {words}".replace("SITE --limits L", f"SITE --limits {path}")


def test_command_prints_json(run_folder, tmp_path):
    path = tmp_path / "limits.yaml"
    path.write_text("daily_energy_mwh: 0.001\n", encoding="utf-8")
    content = json.loads(call("limits", path, run_folder, "--json").out)
    assert content["met"] is False
    assert content["results"][0]["violations"] == 1  # two days, one after the other
    assert content["results"][0]["duration_s"] == 2 * 86_400
