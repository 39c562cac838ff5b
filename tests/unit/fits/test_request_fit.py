"""Fits of traces drawn from known rates give those rates back within their confidence
limits."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import numpy as np
import pytest
from scipy import stats
from serving_builders import plan_of, request_rates, serving_data

from diploee.base.clock import Zone
from diploee.base.errors import WorkloadError
from diploee.base.rng import named_rng
from diploee.base.tables import Float64Array
from diploee.base.units import HOURS_PER_WEEK
from diploee.fits.binned_counts import count_steps
from diploee.fits.calendar import DAYS_OF_MONTH
from diploee.fits.confidence_limits import poisson_limits
from diploee.fits.overdispersion import compute_dispersion
from diploee.fits.requests.fit import RequestFit, fit_requests, trim_trace
from diploee.fits.requests.scenario_entry import request_stream
from diploee.loads.import_counts import ImportCounts
from diploee.loads.services.curves import nearest_length
from diploee.loads.services.request_trace import RequestTrace, TokenLengths
from diploee.runs.sections import as_lines
from diploee.scenario import Scenario, scenario_from_dict

MONDAY = datetime(2024, 1, 1, tzinfo=UTC)
MINUTES_PER_WEEK = 10_080
WEIGHTS = (
    1
    + 0.6 * np.sin(np.arange(HOURS_PER_WEEK) / 24 * 2 * np.pi)
    + np.repeat([0.2, 0.3, 0.2, 0.1, 0.0, -0.3, -0.3], 24)
)
WEIGHTS /= WEIGHTS.mean()


def trace_of(
    n_requests: Float64Array,
    start: datetime | None = MONDAY,
    step_s: int = 60,
    lengths: tuple[TokenLengths, ...] = (),
    services: tuple[str, ...] = ("all",),
    offset_min: int = 0,
) -> RequestTrace:
    origin_ms = 0 if start is None else int(start.timestamp() * 1000)
    of = ("trace.csv", "azure-llm", services, origin_ms, start is None, step_s * 1000)
    rows = np.atleast_2d(np.asarray(n_requests, dtype=np.float64))
    counts, zone = ImportCounts(0, 0), Zone("", offset_min)
    return RequestTrace(*of, rows, lengths, lengths, counts, zone=zone)


def minutes(
    n_weeks: float, rate_per_min: float, weights: Float64Array = WEIGHTS
) -> Float64Array:
    """Expected requests of minutes from Monday 00:00 on, constant within the hour."""
    minute = np.arange(int(n_weeks * MINUTES_PER_WEEK))
    return rate_per_min * weights[minute // 60 % HOURS_PER_WEEK]


def share_within(fit: RequestFit, weights: Float64Array) -> float:
    return float(((fit.week_low <= weights) & (weights <= fit.week_high)).mean())


def binomial_low(n: int, p: float) -> float:
    """Return the share of successes that chance undercuts once in a million."""
    return float(stats.binom.ppf(1e-6, n, p)) / n


@pytest.mark.parametrize("n_weeks", [1, 4])
def test_poisson_requests_give_their_weights_back_within_the_limits(
    n_weeks: int,
) -> None:
    rng = named_rng(0, "test", "poisson", n_weeks)
    expected = minutes(n_weeks, 20)
    fit = fit_requests(trace_of(rng.poisson(expected)))
    assert fit.calendar.detail == "hour_of_week"
    assert share_within(fit, WEIGHTS) >= binomial_low(HOURS_PER_WEEK, 0.95)
    total = expected.sum()
    assert fit.week_rate_rps * 60 == pytest.approx(20, rel=5 / np.sqrt(total))
    assert fit.mean_rate_rps == pytest.approx(fit.n_requests / (n_weeks * 604_800))
    assert fit.calendar.week_weight.mean() == pytest.approx(1)
    assert fit.dispersion.low <= 1 <= fit.dispersion.high
    assert fit.dispersion.poisson_p_value > 1e-4
    assert fit.fluctuation is not None
    assert fit.calendar.month_weight is None


def test_rare_requests_too_give_their_weights_back_within_the_limits() -> None:
    rng = named_rng(0, "test", "rare")
    fit = fit_requests(trace_of(rng.poisson(minutes(2, 0.02))))
    assert share_within(fit, WEIGHTS) >= binomial_low(HOURS_PER_WEEK, 0.95)
    assert (fit.week_low <= fit.calendar.week_weight).all()
    assert (fit.week_high > 0).all()


def test_local_time_moves_the_weights() -> None:
    there = fit_requests(trace_of(minutes(2, 10), offset_min=-7 * 60))
    assert there.calendar.week_weight == pytest.approx(np.roll(WEIGHTS, -7), rel=0.1)
    half = fit_requests(trace_of(minutes(2, 10), offset_min=330)).calendar.week_weight
    between = (np.roll(WEIGHTS, 5) + np.roll(WEIGHTS, 6)) / 2
    assert half == pytest.approx(between, rel=0.1)


def test_a_relative_trace_begins_at_the_stated_hour_of_the_week() -> None:
    """Its first step is at its origin, which is Wednesday 05:00."""
    expected = np.roll(minutes(2, 10), -(48 + 5) * 60)
    fit = fit_requests(trace_of(expected, None), zero_hour_of_week=53)
    assert fit.calendar.week_weight == pytest.approx(WEIGHTS, rel=0.1)
    assert fit.calendar.month_weight is None


@pytest.mark.parametrize(
    ("n_hours", "detail"),
    [(168, "hour_of_week"), (166, "hour_of_day"), (22, "uniform")],
)
def test_weights_are_as_fine_as_the_span_allows(n_hours: int, detail: str) -> None:
    fit = fit_requests(trace_of(minutes(1, 50)[: n_hours * 60]))
    assert fit.calendar.detail == detail
    assert fit.calendar.week_weight.mean() == pytest.approx(1)
    n_slots = {"hour_of_week": 168, "hour_of_day": 24, "uniform": 1}[detail]
    assert np.array_equal(
        fit.calendar.week_weight, np.resize(fit.calendar.week_weight[:n_slots], 168)
    )
    assert fit.week_hours.sum() == pytest.approx(n_hours - 2 / 60)


@pytest.mark.slow
def test_months_that_go_over_into_each_other_are_no_scatter_of_requests() -> None:
    data = serving_data({"duration": "365 d"})
    month = [1.6, 0.5, 1.25, 0.6, *[1] * 8]
    data["request_streams"]["chat"]["calendar"] = {
        "hour_of_day": [1] * 24,
        "month": month,
    }
    rates = minute_means(scenario_from_dict(data))
    counts = named_rng(0, "test", "months without steps").poisson(rates * 20)
    fit = fit_requests(trace_of(counts, datetime(2018, 1, 1, tzinfo=UTC)), months=True)
    assert fit.dispersion.index < 1.02
    # What is left: hours are weighted before the months are laid; in steps it is 0.1.
    assert fit.hourly_dispersion.relative_std < 0.02
    assert fit.fluctuation is not None and fit.fluctuation.relative_std.low == 0
    assert fit.weeks is not None and not fit.weeks.is_significant


def test_months_of_a_part_of_the_year_are_refused() -> None:
    trace = trace_of(minutes(4, 5), datetime(2024, 1, 10, tzinfo=UTC))
    assert fit_requests(trace).calendar.month_weight is None
    with pytest.raises(WorkloadError, match=r"not hold month 3 .10 of 12 are missing"):
        fit_requests(trace, months=True)


@pytest.mark.slow
def test_months_of_a_whole_year_are_fitted_unless_they_are_not_wanted() -> None:
    rng = named_rng(0, "test", "year")
    start = datetime(2024, 1, 1, tzinfo=UTC)
    flat = minutes(53, 1)
    season = 1 + 0.5 * np.cos(np.arange(flat.size) / flat.size * 2 * np.pi)
    trace = trace_of(rng.poisson(flat * season), start)
    fit = fit_requests(trace)
    assert fit.calendar.month_weight is not None and fit.month_low is not None
    assert fit.month_high is not None
    written = request_stream(fit, pool="main")["calendar"]["month"]
    assert written == pytest.approx(fit.calendar.month_weight, abs=1e-4)
    day = np.datetime64("2024-01-01") + np.arange(flat.size) // 1440
    month = day.astype("datetime64[M]").astype(int) % 12
    truth = np.bincount(month, season) / np.bincount(month)
    truth /= truth @ DAYS_OF_MONTH / 365
    spread = fit.month_high - fit.month_low  # twice the limits
    assert (np.abs(fit.calendar.month_weight - truth) <= spread).all()
    assert fit.calendar.months is not None and fit.calendar.months.is_significant
    assert fit_requests(trace, months=False).calendar.month_weight is None
    even = fit_requests(trace_of(rng.poisson(flat), start)).calendar
    assert even.month_weight is None
    assert even.months is not None and not even.months.is_significant


def test_a_trace_is_trimmed_to_local_times() -> None:
    start = datetime(2024, 1, 1, tzinfo=UTC)
    trace = trace_of(minutes(3, 5), start, offset_min=60)
    cut = trim_trace(trace, datetime(2024, 1, 8), datetime(2024, 1, 15, 0, 0, 30))
    assert cut.span_ms == 7 * 86_400_000
    assert count_steps(cut).start_ms[0] == 1_704_672_000_000  # 2024-01-08 local
    week = trace.requests_of()[7 * 1440 - 60 :][: 7 * 1440]
    assert cut.requests_of().sum() == week.sum()
    assert trim_trace(trace, None, None) is trace
    with pytest.raises(
        WorkloadError, match=r"no step from 2030-01-01.*from 2024-01-01"
    ):
        trim_trace(trace, datetime(2030, 1, 1), None)


def test_the_calendar_is_chosen_by_held_out_weeks_or_given() -> None:
    rng = named_rng(0, "test", "calendar")
    flat = trace_of(rng.poisson(np.full(6 * 7 * 1440, 0.5)))
    free = fit_requests(flat).calendar
    assert (free.detail, len(free.shape.deviance)) == ("uniform", 4)
    assert fit_requests(flat, calendar="hour_of_week").calendar.detail == "hour_of_week"
    found = fit_requests(trace_of(rng.poisson(minutes(6, 20)))).calendar
    assert found.detail == "hour_of_week"


@pytest.mark.parametrize("index", [1.0, 3.0, 40.0])
@pytest.mark.parametrize("mean", [0.5, 30.0])
def test_the_dispersion_index_covers_the_true_one(index: float, mean: float) -> None:
    """200 traces of gamma-mixed counts: the 95 % limits hold the truth about as often
    as they say.

    The terms of few rare counts are skewed, which costs a few percent of coverage.
    """
    rng = named_rng(0, "test", "index", int(index), int(mean * 10))
    n, hits = 4000, 0
    means = []
    for _ in range(200):
        rate = mean if index == 1 else rng.gamma(mean / (index - 1), index - 1, n)
        counts = rng.poisson(rate, n).astype(float)
        found = compute_dispersion(counts, np.full(n, counts.mean()), 1, 0.95)
        hits += found.low <= index <= found.high
        means.append(found.index)
    assert hits / 200 >= binomial_low(200, 0.88)
    half = 5 * np.std(means) / np.sqrt(200)
    assert np.mean(means) == pytest.approx(index, abs=half)


def test_over_dispersed_requests_widen_the_limits_and_give_their_jitter_back() -> None:
    """Each minute's rate has a gamma factor with a relative standard deviation of 0.5."""  # noqa: E501
    rng = named_rng(0, "test", "gamma")
    flat = np.ones(HOURS_PER_WEEK)
    expected = minutes(6, 20, flat) * rng.gamma(4, 1 / 4, 6 * MINUTES_PER_WEEK)
    fit = fit_requests(trace_of(rng.poisson(expected)))
    assert fit.dispersion.low <= 1 + 20 / 4 <= fit.dispersion.high
    assert fit.dispersion.poisson_p_value < 1e-9
    assert share_within(fit, flat) >= binomial_low(HOURS_PER_WEEK, 0.95)
    assert fit.fluctuation is not None
    assert fit.fluctuation.relative_std.value == pytest.approx(0.5, rel=0.03)
    assert fit.fluctuation.correlation_time_s is None
    assert fit.dispersion.relative_std == pytest.approx(0.5, rel=0.03)


def test_weeks_that_differ_widen_the_limits() -> None:
    """Each hour has a random factor: minutes scatter little, hours much."""
    rng = named_rng(0, "test", "hours")
    factor = np.repeat(rng.gamma(25, 1 / 25, 8 * HOURS_PER_WEEK), 60)
    fit = fit_requests(trace_of(rng.poisson(minutes(8, 20) * factor)))
    assert fit.hourly_dispersion.index > 20
    assert share_within(fit, WEIGHTS) >= binomial_low(HOURS_PER_WEEK, 0.92)


def test_limits_of_totals_are_those_of_poisson() -> None:
    low, high = poisson_limits(np.array([0.0, 1.0, 10.0, 1000.0]), 1.0, 0.95)
    # Garwood's exact limits, by their definition as tail probabilities.
    for n, a, b in zip([0, 1, 10, 1000], low, high, strict=True):
        assert stats.poisson.cdf(n, b) == pytest.approx(0.025)
        assert n == 0 or stats.poisson.sf(n - 1, a) == pytest.approx(0.025)
    assert low[0] == 0


def test_the_highest_step_is_the_peak() -> None:
    n_requests = np.full(600, 6.0)
    n_requests[77] = 120
    fit = fit_requests(trace_of(n_requests))
    assert fit.peak_rate_rps == 2
    assert fit.peak_ms == MONDAY.timestamp() * 1000 + 77 * 60_000
    assert fit.trace.span_ms == 600 * 60_000


def test_lengths_are_summed_up_per_service_and_choose_the_output_length() -> None:
    edges = np.arange(2001)
    short = TokenLengths(edges, np.bincount([20] * 9 + [30], minlength=2000), 210)
    long = TokenLengths(edges, np.bincount([700] * 5 + [900] * 5, minlength=2000), 8000)
    none = TokenLengths(edges, np.zeros(2000, dtype=np.int64), 0)
    n_requests = np.ones((3, 60)) * np.array([[1], [3], [0]])
    lengths, services = (short, long, none), ("code", "chat", "x")
    fit = fit_requests(trace_of(n_requests, lengths=lengths, services=services))
    code, chat, other = fit.services
    assert (code.share, chat.share, other.share) == (0.25, 0.75, 0)
    assert code.output_tokens is not None and chat.output_tokens is not None
    of = code.output_tokens
    assert (of.mean, of.p50, of.n_requests) == (21, 20, 10)
    assert (chat.output_tokens.mean, chat.output_tokens.p99) == (800, 900)
    assert (code.output_length, chat.output_length) == (256, 1024)
    assert other.output_tokens is None and other.output_length is None
    remarks = "\n".join(fit.sections()[0].notes)
    assert "256, is 12 times too long" in remarks and "1024, is" not in remarks


@pytest.mark.parametrize(
    ("mean", "length"),
    [(0, 256), (361, 256), (363, 512), (724, 512), (5000, 1024)],
)
def test_the_nearest_length_is_nearest_by_ratio(mean: float, length: int) -> None:
    assert nearest_length(mean) == length


def scenario_with(fit: RequestFit, **changes: object) -> dict[str, object]:
    data = serving_data({"duration": "4 weeks", **changes})
    return {**data, "request_streams": {"chat": request_stream(fit, pool="main")}}


def minute_means(scenario: Scenario) -> np.ndarray:
    """Return the relative rate of stream `chat` at the middle of each minute."""
    rates = request_rates(scenario, "chat")
    middle_ms = np.arange(30_000, scenario.horizon_ms, 60_000)
    return np.interp(middle_ms, rates.times_ms, rates.relative_mean)


def test_the_fragment_loads_and_its_rates_have_the_fitted_hourly_means() -> None:
    rng = named_rng(0, "test", "fragment")
    fit = fit_requests(trace_of(rng.poisson(minutes(9, 30))))
    data = scenario_with(fit, start="2018-05-07")  # a Monday
    data["request_streams"]["chat"].pop("fluctuation", None)
    scenario = scenario_from_dict(data)
    spec = scenario.request_streams["chat"]
    assert spec.request_rate_rps == pytest.approx(fit.week_rate_rps, rel=1e-5)
    rates = minute_means(scenario)
    hourly = rates.reshape(4, HOURS_PER_WEEK, 60).mean(axis=(0, 2))
    # Weights are rounded; minutes hold the line's value at their middle.
    assert hourly == pytest.approx(fit.calendar.week_weight, abs=2e-3)
    assert fit.sections()[0].title.startswith("Fitted to trace.csv (azure-llm), ")


def test_requests_drawn_from_a_scenario_give_its_weights_back() -> None:
    data = serving_data({"duration": "6 weeks"})
    data["request_streams"]["chat"]["calendar"] = {"hour_of_week": WEIGHTS.tolist()}
    rates = minute_means(scenario_from_dict(data))
    rng = named_rng(0, "test", "round trip")
    fit = fit_requests(
        trace_of(rng.poisson(rates * 50), datetime(2018, 1, 1, tzinfo=UTC))
    )
    found = np.array(request_stream(fit, pool="main")["calendar"]["hour_of_week"])
    half = (fit.week_high - fit.week_low) / 2
    assert (np.abs(found - WEIGHTS) <= 4 / 1.96 * half + 1e-4).all()
    assert np.corrcoef(found, WEIGHTS)[0, 1] > 0.99


def test_services_of_the_fragment_have_their_shares_lengths_and_plan() -> None:
    edges = np.arange(2001)
    lengths = tuple(
        TokenLengths(edges, np.bincount([n] * 10, minlength=2000), 10 * n)
        for n in (200, 500, 400)
    )
    names = ("GPT-4", "o'k: #1", "x")
    fit = fit_requests(trace_of(np.ones((3, 1500)), lengths=lengths, services=names))
    scenario = scenario_from_dict(scenario_with(fit, duration="1 d"))
    services = scenario.request_streams["chat"].services
    assert tuple(services) == names
    assert [service.output_tokens for service in services.values()] == [256, 512, 512]
    shares = sum(service.probability for service in services.values())
    assert shares == pytest.approx(1, abs=1e-9)
    plan = plan_of(scenario)
    assert any(service.served.n_instances.any() for service in plan.services)


@pytest.mark.parametrize(
    ("n_requests", "step_s", "offset_min", "message"),
    [
        (np.zeros(10), 60, 0, "no requests between the first and the last step"),
        (np.ones(10), 3600, 30, "steps of 3600 s, expected steps that divide the hour"),
    ],
)
def test_what_cannot_be_fitted_is_refused(
    n_requests: Float64Array, step_s: int, offset_min: int, message: str
) -> None:
    with pytest.raises(WorkloadError, match=f"^trace.csv: {message}"):
        fit_requests(trace_of(n_requests, step_s=step_s, offset_min=offset_min))


@pytest.mark.parametrize("n_steps", [1, 2, 70])
def test_a_trace_of_a_few_steps_is_fitted_without_limits_it_cannot_tell(
    n_steps: int,
) -> None:
    fit = fit_requests(trace_of(np.arange(1.0, n_steps + 1)))
    assert fit.calendar.detail == "uniform"
    assert np.isfinite(fit.calendar.week_weight).all()
    assert (fit.dispersion.high < np.inf) == (n_steps == 70)
    scenario_from_dict(scenario_with(fit))
    assert [*as_lines(fit.sections())]


def test_rates_instead_of_requests_are_said_to_be_such() -> None:
    fit = fit_requests(trace_of(np.full(100, 0.5)))
    assert not fit.is_counted
    assert any("rates, not requests" in note for note in fit.sections()[0].notes)


def test_hours_without_a_request_are_noted_where_there_should_be_many() -> None:
    rng = np.random.default_rng(4)
    counts = rng.poisson(minutes(1, 2)).astype(np.float64)
    counts[5000:6020] = 0  # 16 whole hours and the rest of two
    fit = fit_requests(trace_of(counts))
    assert (fit.n_dead_hours, fit.n_gaps) == (16, 1)
    told = "no request in 16 whole hours (1 gaps)"
    assert any(told in note for note in fit.sections()[0].notes)
    few = fit_requests(trace_of(rng.poisson(minutes(3, 0.005))))
    assert few.n_dead_hours == 0


def test_a_trace_of_minutes_is_fitted_to_the_rate_of_its_own_span() -> None:
    trace = trace_of(np.array([300.0, 600.0, 150.0]))
    own = (trace.origin_ms + 30_000, trace.origin_ms + 135_000)
    fit = fit_requests(replace(trace, own_span_ms=own))
    assert fit.mean_rate_rps == fit.week_rate_rps == pytest.approx(10)
