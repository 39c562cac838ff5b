"""Calendar weights and the scatter of hourly counts, checked on counts of known origin."""  # noqa: E501

from __future__ import annotations

from datetime import datetime
from typing import get_args

import numpy as np
import pytest
from builders import tiny_library, tiny_scenario
from fit_logs import HOUR_MS, MONDAY_MS, job_log, submissions
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from diploee import generate_jobs
from diploee.base.errors import WorkloadError
from diploee.fits.binned_counts import BinnedCounts, count_hours
from diploee.fits.calendar import fit_calendar, week_limits
from diploee.fits.jobs.job_log_fit import fit_job_log
from diploee.fits.overdispersion import DispersionFit, fit_dispersion
from diploee.fits.week_shape import Detail
from diploee.scenario import ClassRule

MONDAY = np.datetime64("2018-01-01T00", "h")
WEEK = 168
BY_HOUR = 1.2 + np.sin(np.arange(WEEK) / 24 * 2 * np.pi)


def hours(counts: np.ndarray, first: np.datetime64 = MONDAY) -> BinnedCounts:
    at = int(first.astype(np.int64)) + np.arange(counts.size)
    return BinnedCounts(
        HOUR_MS, at * HOUR_MS, np.asarray(counts, dtype=np.int64), np.ones(counts.size)
    )


def scatter_of(counts: BinnedCounts, weeks_differ: bool = False) -> DispersionFit:
    fit = fit_calendar(counts)
    found = fit_dispersion(
        counts.counts,
        fit.expected,
        counts.start_ms // (24 * HOUR_MS),
        fit.n_parameters,
        fit.n_day_parameters,
        weeks_differ=weeks_differ,
    )
    assert found is not None
    return found


def gamma_counts(
    rng: np.random.Generator, mean: np.ndarray, dispersion: float
) -> np.ndarray:
    factor = rng.gamma(1 / dispersion, dispersion, mean.size) if dispersion else 1.0
    return rng.poisson(mean * factor)


def test_equal_weeks_give_their_counts_as_weights() -> None:
    week = np.arange(WEEK)
    fit = fit_calendar(hours(np.tile(week, 3)), choice="hour_of_week")
    np.testing.assert_allclose(fit.week_weight, week / week.mean(), atol=0.15)
    np.testing.assert_allclose(fit.expected.sum(), 3 * week.sum())
    assert fit.mean_rate == pytest.approx(week.mean())
    assert (fit.detail, fit.month_weight) == ("hour_of_week", None)


def test_weeks_are_local_and_begin_on_monday() -> None:
    """One job every Thursday at 17:30 local time, seven hours behind UTC."""
    submit_ms = (
        MONDAY_MS + (np.arange(4) * WEEK + 3 * 24 + 17 + 7) * HOUR_MS + HOUR_MS // 2
    )
    log = job_log(submit_ms, utc_offset_min=-420)
    fit = fit_job_log(
        log,
        [ClassRule(workload="tune")],
        tiny_library(),
        start=datetime(2018, 1, 1),
        end=datetime(2018, 1, 29),
    )
    assert np.flatnonzero(fit.arrivals.calendar.week_weight).tolist() == [3 * 24 + 17]
    assert fit.arrivals.jobs_per_day == pytest.approx(1 / 7)


@pytest.mark.parametrize(
    ("n_hours", "allowed"), [(2 * WEEK, 4), (2 * WEEK - 1, 2), (48, 2), (47, 1)]
)
def test_short_spans_allow_fewer_weights(n_hours: int, allowed: int) -> None:
    span = hours(100 * (np.arange(n_hours) % 24) + 100)
    fit = fit_calendar(span)
    np.testing.assert_allclose(fit.week_weight.mean(), 1)
    assert fit.detail == ("uniform" if allowed == 1 else "hour_of_day")
    days = fit.week_weight.reshape(7, 24)
    np.testing.assert_allclose(days, days[[0] * 7])
    for k, choice in enumerate(get_args(Detail)):
        if k < allowed:
            assert fit_calendar(span, choice=choice).detail == choice
            continue
        with pytest.raises(
            WorkloadError, match=f"calendar {choice}: .* less than twice"
        ):
            fit_calendar(span, choice=choice)


DAYS = np.array([1.2, 1.3, 1.2, 1.1, 1.0, 0.6, 0.6])
ODD_HOURS = np.where(np.arange(WEEK) % 7 == 3, 2.5, 0.75)


@pytest.mark.parametrize(
    ("week", "detail"),
    [
        (np.ones(WEEK), "uniform"),
        (BY_HOUR, "hour_of_day"),
        (np.outer(DAYS, BY_HOUR[:24]).ravel(), "day_and_hour"),
        (ODD_HOURS, "hour_of_week"),
    ],
)
def test_the_calendar_is_the_coarsest_that_predicts(
    week: np.ndarray, detail: str
) -> None:
    found = []
    for seed in range(5):
        mean = 5 * np.tile(week / week.mean(), 12)
        counts = gamma_counts(np.random.default_rng(seed), mean, 0.3)
        fit = fit_calendar(hours(counts))
        found.append(fit.detail)
        assert list(fit.shape.deviance) == list(get_args(Detail))
    assert found.count(detail) >= 4


def test_smoothed_weights_of_hours_are_nearer_to_the_truth_than_free_ones() -> None:
    rng = np.random.default_rng(1)
    truth = np.outer(DAYS, BY_HOUR[:24]).ravel() * rng.lognormal(0, 0.1, WEEK)
    truth /= truth.mean()
    counts = gamma_counts(rng, np.tile(3 * truth, 10), 0.5)
    free = counts.reshape(10, WEEK).mean(axis=0) / counts.mean()
    fit = fit_calendar(hours(counts), choice="hour_of_week")
    off = [np.sqrt(((w - truth) ** 2).mean()) for w in (free, fit.week_weight)]
    assert off[1] < 0.7 * off[0]
    counts[500] += 996  # one burst is not to make a Thursday hour weigh 13
    assert fit_calendar(hours(counts)).detail != "hour_of_week"


@settings(max_examples=25)
@given(st.integers(0, 2**32), st.integers(0, 8_000), st.floats(0.2, 30))
def test_the_fit_matches_the_totals_of_hours_and_months(
    seed: int, late: int, jobs_per_hour: float
) -> None:
    rng = np.random.default_rng(seed)
    span = hours(
        rng.poisson(jobs_per_hour, 8_760 + 800), MONDAY + np.timedelta64(late, "h")
    )
    fit = fit_calendar(span, months=True, choice="day_and_hour")
    assert fit.month_weight is not None
    for group in (span.hour_of_week % 24, span.hour_of_week // 24, span.month):
        np.testing.assert_allclose(
            np.bincount(group, fit.expected),
            np.bincount(group, span.counts),
            rtol=1e-6,
            atol=1e-6,
        )


def test_months_need_all_twelve_and_to_differ_more_than_weeks_do() -> None:
    season = 20 + 6 * np.cos(np.arange(8_760) / 8_760 * 2 * np.pi)
    assert fit_calendar(hours(season)).month_weight is not None
    assert fit_calendar(hours(season[: 8_760 - 24 * 6])).month_weight is None
    assert fit_calendar(hours(np.ones(8_760))).month_weight is None
    asked = fit_calendar(hours(np.ones(8_760 - 24 * 6)), months=True)
    np.testing.assert_allclose(asked.month_weight, np.ones(12))
    with pytest.raises(WorkloadError, match=r"month 7 \(6 of 12 are missing\)"):
        fit_calendar(hours(np.ones(181 * 24)), months=True)


def test_months_of_weeks_that_differ_by_themselves_are_left_out_and_reported() -> None:
    rng = np.random.default_rng(1)
    kept = 0
    for _ in range(40):
        weekly = np.repeat(rng.lognormal(0, 0.3, 53), WEEK)[:8_760]
        found = fit_calendar(hours(rng.poisson(5 * weekly)), choice="uniform")
        assert found.months is not None
        assert (found.month_weight is not None) == found.months.is_significant
        kept += found.months.is_significant
    assert kept <= 4  # 1 % of them by chance, weeks that are cut by months a few more
    assert not found.months.is_significant and found.months.within == "weeks"


def test_where_years_repeat_months_are_compared_with_those_of_other_years() -> None:
    rng = np.random.default_rng(2)
    slow = np.interp(
        np.arange(2 * 8_760), np.arange(0, 2 * 8_760 + 1, 1_460), rng.random(13) + 0.5
    )
    wandering = fit_calendar(hours(50 * slow), choice="uniform")
    assert wandering.months is not None and wandering.month_weight is None
    assert (wandering.months.within, wandering.months.freedom) == ("years", (11, 12))
    repeated = fit_calendar(hours(50 * np.tile(slow[:8_760], 2)), choice="uniform")
    assert repeated.month_weight is not None


@pytest.mark.parametrize("dispersion", [0.0, 2.0])
@pytest.mark.parametrize("n_weeks", [3, 30])
def test_limits_of_the_weights_hold_what_they_promise(
    dispersion: float, n_weeks: int
) -> None:
    rng = np.random.default_rng(5)
    inside = n = 0
    for _ in range(30):
        span = hours(gamma_counts(rng, np.tile(BY_HOUR * 4, n_weeks), dispersion))
        fit = fit_calendar(span, choice="hour_of_day")
        low, high = week_limits(fit, 0.9, dispersion)
        wanted = BY_HOUR / BY_HOUR.mean()
        # Relative to the mean of the log: its own error is left out of the limits.
        wanted = wanted * BY_HOUR.mean() * 4 / span.counts.mean()
        inside += int(((low <= wanted) & (wanted <= high)).sum())
        n += WEEK
    assert stats.binom.sf(n - inside - 1, n, 0.1) > 0.001
    assert inside / n < 0.98


@pytest.mark.slow
@pytest.mark.parametrize("dispersion", [0.0, 0.2, 2.0])
@pytest.mark.parametrize("n_weeks", [3, 40])
def test_dispersion_is_hardly_biased_by_the_fitted_weights(
    dispersion: float, n_weeks: int
) -> None:
    rng = np.random.default_rng(6)
    found = []
    for _ in range(30):
        span = hours(gamma_counts(rng, np.tile(BY_HOUR * 5, n_weeks), dispersion))
        index = scatter_of(span).index
        found.append((index - 1) / span.counts.mean())  # the estimate, below 0 too
    error = np.std(found) / np.sqrt(len(found))
    assert abs(np.mean(found) - dispersion) < 4 * error + 0.02 * dispersion


@pytest.mark.parametrize("week", [0.0, 0.2])
def test_hours_days_and_weeks_are_distinguished(week: float) -> None:
    rng = np.random.default_rng(16)
    found = []
    for _ in range(20):
        mean = np.tile(BY_HOUR * 5, 40) * np.repeat(rng.gamma(5, 0.2, 40 * 7), 24)
        mean *= np.repeat(rng.gamma(1 / week, week, 40), WEEK) if week else 1.0
        span = hours(gamma_counts(rng, mean, 0.5))
        found.append(scatter_of(span, weeks_differ=week > 0))
    for name, wanted in (("dispersion", 0.5), ("day", 0.2)):
        values = [getattr(s, name) for s in found]
        assert np.mean(values) == pytest.approx(wanted, rel=0.1)
    inside = sum(s.low <= 0.5 <= s.high for s in found)
    inside += sum(s.day_low <= 0.2 <= s.day_high for s in found)
    assert stats.binom.cdf(inside, 40, 0.95) > 0.001


@pytest.mark.slow
@pytest.mark.parametrize("dispersion", [0.0, 0.5])
def test_limits_of_the_dispersion_hold_what_they_promise(dispersion: float) -> None:
    rng = np.random.default_rng(7)
    month = np.linspace(0.5, 1.5, 12)
    year = hours(np.zeros(8_760))
    mean = 6 * BY_HOUR[year.hour_of_week] * month[year.month]
    found = [scatter_of(hours(gamma_counts(rng, mean, dispersion))) for _ in range(30)]
    inside = sum(s.low <= dispersion <= s.high for s in found)
    assert stats.binom.cdf(inside, len(found), 0.95) > 0.001
    by_index = sum(
        s.index_low <= 1 + dispersion * mean.mean() <= s.index_high for s in found
    )
    assert stats.binom.cdf(by_index, len(found), 0.95) > 0.001


def test_poisson_counts_pass_their_tests_and_others_do_not() -> None:
    rng = np.random.default_rng(8)
    mean = np.tile(BY_HOUR * 6, 12)
    poisson = [scatter_of(hours(rng.poisson(mean))).poisson_p_value for _ in range(50)]
    assert sum(p < 0.05 for p in poisson) <= 8  # 5 % of 50, at 0.1 %
    assert scatter_of(hours(gamma_counts(rng, mean, 0.3))).poisson_p_value < 1e-6


def test_regular_submissions_have_an_index_below_one() -> None:
    found = scatter_of(hours(np.full(20 * WEEK, 4)))
    assert found.index_high < 1
    assert (found.dispersion, found.low) == (0, 0)
    assert found.poisson_p_value > 0.99


def test_too_little_to_tell_is_no_number() -> None:
    day = np.arange(2 * WEEK) // 24
    one = np.array([1] + [0] * (2 * WEEK - 1))
    assert fit_dispersion(one, one * 1.0, day, 1) is None
    assert fit_dispersion(one + 1, one + 1.0, day, 2 * WEEK) is None
    assert fit_dispersion(one[:48] + 1, one[:48] + 1.0, day[:48], 1) is None


@pytest.mark.parametrize("keep", [1.0, 0.2])
def test_generated_dispersion_survives_thinning(keep: float) -> None:
    """Fewer jobs of the same stream scatter with the same dispersion."""
    scenario = tiny_scenario(
        {
            "start": "2018-01-01",
            "duration": "30 weeks",
            "seed": 11,
            "streams.training.target_utilization": None,
            "streams.training.jobs_per_day": 400 * keep,
            "streams.training.dispersion": 0.7,
        }
    )
    submit_ms = generate_jobs(scenario, tiny_library()).jobs.submit_ms
    found = scatter_of(hours(np.bincount(submit_ms // HOUR_MS, minlength=30 * WEEK)))
    assert found.low <= 0.7 <= found.high < 1.2


def test_the_first_and_last_hour_count_as_far_as_the_log_covers_them() -> None:
    minute = HOUR_MS // 60
    local_ms = np.array([-30, 10, 20, 70, 185]) * minute
    span, inside = count_hours(local_ms)
    assert span.counts.tolist() == [1, 2, 1, 0, 1]
    assert inside.all()
    # Half a mean distance, 26.9 minutes, before the first and after the last.
    np.testing.assert_allclose(
        span.coverage, [56.9 / 60, 1, 1, 1, 31.9 / 60], atol=1e-3
    )
    assert span.first_hour == np.datetime64("1969-12-31T23", "h")
    span, inside = count_hours(
        local_ms, datetime(1970, 1, 1, 0, 15), datetime(1970, 1, 1, 2, 45), inside
    )
    assert (span.counts.tolist(), inside.sum()) == ([1, 1, 0], 2)
    assert span.coverage.tolist() == [0.75, 1, 0.75]
    assert span.covered_hours == 2.5


def test_a_log_of_less_than_an_hour_takes_its_clock_hours_as_covered() -> None:
    minute = HOUR_MS // 60
    for minutes, n_hours in (([59, 59, 60], 2), ([7], 1), ([7, 50], 1)):
        span, inside = count_hours(np.array(minutes) * minute)
        assert (span.covered_hours, inside.sum()) == (n_hours, len(minutes))


def test_parts_of_hours_do_not_bias_rate_weights_or_scatter() -> None:
    """Logs that begin and end within an hour, at a submission, as all logs do."""
    rng = np.random.default_rng(12)
    rates, weights = [], []
    for _ in range(40):
        submit_ms = submissions(rng.poisson(np.full(2 * WEEK + 3, 2.0)), rng)
        submit_ms = submit_ms[submit_ms > submit_ms[0] + 40 * HOUR_MS // 60]
        span, inside = count_hours(submit_ms)
        fit = fit_calendar(span)
        assert inside.all()
        assert fit.expected.sum() == pytest.approx(submit_ms.size)
        rates.append(fit.mean_rate)
        weights.append(fit.week_weight[0])
    assert abs(np.mean(rates) - 2) < 4 * np.std(rates) / np.sqrt(40) + 1e-3
    assert abs(np.mean(weights) - 1) < 4 * np.std(weights) / np.sqrt(40)


def test_a_span_without_jobs_is_refused() -> None:
    log = job_log(submissions(np.ones(48, np.int64), np.random.default_rng(0)))
    rules, library = [ClassRule(workload="tune")], tiny_library()
    span = {"start": datetime(2019, 1, 1), "end": datetime(2019, 1, 2)}
    with pytest.raises(WorkloadError, match=r"from 2019-01-01 .* to 2019-01-02.*2018"):
        fit_job_log(log, rules, library, **span)
    with pytest.raises(WorkloadError, match="no job is left to fit"):
        fit_job_log(job_log([]), rules, library)


def test_a_span_of_more_than_forty_years_is_refused_and_a_long_gap_is_reported() -> (
    None
):
    at_ms = submissions(np.ones(48, np.int64), np.random.default_rng(0))
    rules, library = [ClassRule(workload="tune")], tiny_library()
    span = {"start": datetime(2018, 1, 1), "end": datetime(2018, 2, 1)}
    for years in (-47, 53):
        log = job_log(np.append(at_ms, at_ms[0] + years * 365 * 24 * HOUR_MS))
        with pytest.raises(WorkloadError, match=r"expected 40 years at most; .*--from"):
            fit_job_log(log, rules, library)
        fit_job_log(log, rules, library, **span)
    gap = fit_job_log(
        job_log(np.append(at_ms, at_ms[0] + 365 * 24 * HOUR_MS)), rules, library
    )
    assert any("363 days without a submission" in note for note in gap.notes)
