"""The rate of requests: calendar and months, and the process around them against its
own law."""

from __future__ import annotations

import numpy as np
import pytest
from serving_builders import one_service, plan_of, request_rates, serving_scenario

from diploee.base.errors import ScenarioError, WorkloadError
from diploee.base.tables import Float64Array
from diploee.loads.jobs.rates import month_factors
from diploee.loads.services.request_rates import RequestRates
from diploee.scenario import Calendar, Fluctuation

CHAT = "request_streams.chat"
MINUTE_MS = 60_000
DAYS = 120


def share_of_mean(correlation_time_s: float, duration_s: float = 60.0) -> float:
    """Return the variance of means over a time against that of the instants, 0-1.

    Of a process whose correlation falls as ``exp(-t / tau)``:
    ``2 (a - 1 + exp(-a)) / a**2`` with ``a = duration / tau``.
    """
    a = duration_s / correlation_time_s
    return float(2 * (a + np.expm1(-a)) / a**2) if a > 1e-4 else 1 - a / 3


def relative_variance(
    spec: Fluctuation, rate_rps: float, reference_rps: float, duration_s: float = 60.0
) -> float:
    """Return the relative variance of means over a time at a request rate: the law of
    sizes.

    The Poisson part holds for times well above the distance of the nodes; what is
    faster is part of the samples of power.
    """
    tau_s = spec.correlation_time_s
    of_users = (
        spec.relative_std**2 * share_of_mean(tau_s, duration_s) / share_of_mean(tau_s)
    )
    size = spec.common_share + (1 - spec.common_share) * reference_rps / rate_rps
    return of_users * size + 1 / (rate_rps * duration_s)


def flat_rates(
    spec: dict[str, float], seed: int = 0, **changes: object
) -> RequestRates:
    scenario = serving_scenario(
        {
            f"{CHAT}.calendar": None,
            f"{CHAT}.fluctuation": spec,
            "duration": f"{DAYS} d",
            "seed": seed,
            **changes,
        }
    )
    return request_rates(scenario, "chat")


def minute_means(
    rates: RequestRates, row: int, probability: float, rps: float
) -> Float64Array:
    """Return the relative one-minute means of a service's rate."""
    rate_rps = rates.service_rate_rps(row, probability, rps)
    gaps_ms = np.diff(rates.times_ms)
    until = np.append(0.0, np.cumsum((rate_rps[1:] + rate_rps[:-1]) / 2 * gaps_ms))
    edges_ms = np.arange(0, rates.times_ms[-1] + 1, MINUTE_MS)
    in_minute = np.diff(np.interp(edges_ms, rates.times_ms, until))
    # Between nodes the cumulative requests are parabolas; over many minutes it makes no
    # odds.
    return in_minute / MINUTE_MS / (probability * rps)


@pytest.mark.parametrize("correlation_time_s", [60, 600, 1800])
def test_one_minute_means_have_the_standard_deviation_asked_for(
    correlation_time_s: float,
) -> None:
    rates = flat_rates({"relative_std": 0.06, "correlation_time_s": correlation_time_s})
    found = [minute_means(rates, row, 0.5, 1e6) for row in (0, 1)]
    both = (found[0] + found[1]) / 2
    # A day's worth of correlation times is sampled: the error of a standard deviation
    # is small.
    error = 4 * np.sqrt(correlation_time_s / (DAYS * 86_400)) + 0.005
    assert both.std() == pytest.approx(0.06, rel=error)
    assert both.mean() == pytest.approx(1, abs=4 * 0.06 * error)


def test_correlation_falls_to_one_e_th_after_its_time() -> None:
    rates = flat_rates(
        {"relative_std": 0.1, "correlation_time_s": 1200, "common_share": 1}
    )
    values = minute_means(rates, 0, 0.5, 1e6)
    values = values - values.mean()
    found = (values[20:] @ values[:-20]) / (values @ values)
    assert found == pytest.approx(np.exp(-1), abs=0.06)


@pytest.mark.parametrize("share", [0.0, 0.3, 1.0])
def test_services_share_the_common_part(share: float) -> None:
    rates = flat_rates(
        {"relative_std": 0.1, "common_share": share, "reference_rate_rps": 5e5}
    )
    coding, conversation = (minute_means(rates, row, 0.5, 1e6) for row in (0, 1))
    assert np.corrcoef(coding, conversation)[0, 1] == pytest.approx(share, abs=0.06)


@pytest.mark.parametrize("factor", [0.1, 1, 10, 100])
def test_fluctuation_falls_with_the_size_as_the_law_says(factor: float) -> None:
    spec = {"relative_std": 0.1, "common_share": 0.2, "reference_rate_rps": 1000.0}
    found = minute_means(flat_rates(spec), 0, 0.4, factor * 2500).std()
    expected = relative_variance(Fluctuation(**spec), factor * 1000, 1000) ** 0.5
    assert found == pytest.approx(expected, rel=0.04)


def test_poisson_noise_of_few_requests_is_in_the_rate() -> None:
    rates = flat_rates({"relative_std": 0.0})
    quarters = minute_means(rates, 0, 0.4, 2.5).reshape(-1, 15).mean(axis=1)
    assert quarters.std() == pytest.approx(1 / np.sqrt(15 * 60), rel=0.1)


def test_every_week_is_new() -> None:
    values = minute_means(
        flat_rates({"relative_std": 0.1, "common_share": 1}), 0, 0.5, 1e6
    )
    weeks = values[: 17 * 10_080].reshape(17, 10_080)
    among = np.corrcoef(weeks)[np.triu_indices(17, 1)]
    assert np.abs(among).max() < 0.25
    assert abs(among.mean()) < 0.02


def test_shorter_run_meets_the_same_fluctuation() -> None:
    spec = {"relative_std": 0.1}
    long, short = flat_rates(spec), flat_rates(spec, duration="30 h")
    inside = long.times_ms < 24 * 3_600_000
    same = short.times_ms < 24 * 3_600_000
    assert np.array_equal(long.times_ms[inside], short.times_ms[same])
    found = [
        r.service_rate_rps(0, 0.5, 1e4)[mask]
        for r, mask in ((long, inside), (short, same))
    ]
    assert found[0] == pytest.approx(found[1], rel=1e-12)


def test_rates_are_positive_however_large_the_fluctuation() -> None:
    rates = flat_rates({"relative_std": 3.0}, duration="2 d")
    assert (rates.service_rate_rps(0, 0.5, 10) > 0).all()
    assert np.isfinite(rates.service_rate_rps(0, 0.5, 1e-320)).all()


def test_former_jitter_is_read_as_a_fluctuation_but_not_beside_one() -> None:
    key = f"{CHAT}.minute_jitter_relative_std"
    scenario = serving_scenario({key: 0.1})
    assert scenario.request_streams["chat"].active_fluctuation == Fluctuation(
        relative_std=0.1
    )
    (warning,) = plan_of(scenario).warnings
    assert warning.startswith(f"{key} froze one factor")
    with pytest.raises(
        ScenarioError, match="give one of 'fluctuation', 'minute_jitter_relative_std'"
    ):
        serving_scenario({key: 0.1, f"{CHAT}.fluctuation": {"relative_std": 0.1}})


CALENDAR = "request_streams.chat.calendar"
HOUR_MS = 3_600_000


def test_weights_on_a_line_give_rates_on_that_line() -> None:
    rates = request_rates(
        serving_scenario({CALENDAR: {"hour_of_day": list(range(1, 25))}}), "chat"
    )
    hour = rates.times_ms / HOUR_MS
    inside = (hour > 1) & (hour < 23)
    ramp = hour + 0.5  # hour h has mean h + 1, h + 0.5 hours into the day
    ratio = (rates.relative_mean / ramp)[inside]
    assert np.ptp(ratio) == pytest.approx(0, abs=1e-9)


@pytest.mark.parametrize("relative_std", [None, 1e-9])
def test_minutes_about_a_bend_of_the_calendar_have_their_own_mean(
    relative_std: float | None,
) -> None:
    weights = np.array([1.0, 9.0, 1.0, 5.0, 0.5, 8.0] * 4)
    changes: dict[str, object] = {CALENDAR: {"hour_of_day": weights.tolist()}}
    if relative_std:
        changes["request_streams.chat.fluctuation"] = {"relative_std": relative_std}
    scenario = serving_scenario({**changes, **one_service(), "duration": "1 d"})
    # A line: at the hour the mean of both sides, at most twice the smaller; at the half
    # what the hour still lacks. The day before and after are the same.
    after = np.roll(weights, -1)
    at_end = np.minimum((weights + after) / 2, 2 * np.minimum(weights, after))
    at_half = 2 * weights - (np.roll(at_end, 1) + at_end) / 2
    half_hours = np.append(
        np.column_stack([np.roll(at_end, 1), at_half]).ravel(), at_end[-1]
    )
    seconds = np.interp(np.arange(86_400) + 0.5, np.arange(49) * 1_800, half_hours)
    minutes = seconds.reshape(-1, 60).mean(axis=1)
    rate_rps = 1e6 if relative_std else 400.0  # many requests: no Poisson noise
    rates = request_rates(scenario, "chat")
    times_ms = np.arange(86_400) * 1_000 + 500
    found = (
        np.interp(times_ms, rates.times_ms, rates.service_rate_rps(0, 1.0, rate_rps))
        / rate_rps
    )
    expected = minutes / minutes.mean()
    of_minutes = found.reshape(-1, 60).mean(axis=1)
    assert of_minutes == pytest.approx(expected, rel=1e-2 if relative_std else 2e-5)


def test_nodes_lie_on_no_clock() -> None:
    drawn_ms = request_rates(
        serving_scenario({"duration": "14 d"}), "chat"
    ).sample_times_ms
    assert drawn_ms is not None
    into_minute = drawn_ms[1:-1] % MINUTE_MS // 6_000
    counts = np.bincount(into_minute, minlength=10)
    expected = counts.sum() / 10
    # Chi-square, 9 degrees, 0.1 %
    assert ((counts - expected) ** 2 / expected).sum() < 27.9


def test_months_go_over_into_each_other_without_a_step_and_keep_their_totals() -> None:
    month = (1.0, 2.0, 0.5, 1.0, 0.0, 3.0, 1.0, 1.0, 1.0, 1.0, 1.0, 4.0)
    hour = np.arange("2018-01", "2019-01", dtype="datetime64[h]")
    factor = month_factors(Calendar(month=month), hour.astype(np.int64))
    # Half a week from one level to the mean of the two, the level a little off the
    # weight.
    assert np.abs(np.diff(factor)).max() <= 1.1 * 3 / 84
    number = hour.astype("datetime64[M]").astype(int) % 12
    for index, weight in enumerate(month):
        assert factor[number == index].mean() == pytest.approx(weight, abs=1e-9)
    assert (factor >= 0).all()


def test_part_of_a_year_has_the_months_of_the_whole() -> None:
    calendar = Calendar(month=(1.0, 2.0, 0.5) * 4)
    hour = np.arange("2018-01", "2019-01", dtype="datetime64[h]").astype(np.int64)
    whole = month_factors(calendar, hour)
    assert month_factors(calendar, hour[2000:2100]) == pytest.approx(
        whole[2000:2100], abs=1e-12
    )


def test_span_of_weight_zero_is_refused() -> None:
    month = [0.0] + [1.0] * 11
    with pytest.raises(
        WorkloadError, match=r"^request_streams\.chat\.calendar: .* weight zero"
    ):
        request_rates(serving_scenario({CALENDAR: {"month": month}}), "chat")
