"""Generated submissions against the statistics of the Poisson process that they claim
to be.

Each test rejects at 0.1 %; the seeds are fixed, so that a pass stays a pass.
"""

from __future__ import annotations

import numpy as np
import pytest
from builders import tiny_library, tiny_scenario
from scipy import integrate, stats

from diploee import generate_jobs
from diploee.loads.jobs.rates import hourly_rates
from diploee.scenario import Scenario, load_scenario
from diploee.simulation.steps import Workload

REJECT_BELOW = 0.001
MS_PER_H = 3_600_000
N_WEEKS = 12
SEEDS = range(3)


def calendar_scenario(seed: int) -> Scenario:
    """Twelve weeks with the hour-of-week weights of the shipped scenario, from a
    Wednesday on."""
    shipped = load_scenario("colocation_10mw").streams["training"].calendar
    return tiny_scenario(
        {
            "start": "2018-01-03",
            "duration": f"{7 * N_WEEKS} d",
            "seed": seed,
            "facility.pools.main.n_nodes": 300,
            "streams.training.calendar": {"hour_of_week": list(shipped.week_weights())},
        }
    )


@pytest.fixture(scope="module", params=SEEDS)
def generated(request: pytest.FixtureRequest) -> tuple[Scenario, Workload]:
    scenario = calendar_scenario(request.param)
    return scenario, generate_jobs(scenario, tiny_library())


def counts_per_hour(workload: Workload, scenario: Scenario) -> np.ndarray:
    n_hours = scenario.horizon_ms // MS_PER_H
    return np.bincount(workload.jobs.submit_ms // MS_PER_H, minlength=n_hours)


def week_of(scenario: Scenario) -> np.ndarray:
    """Weights in the order of the run's hours: it starts on a Wednesday at 00:00."""
    return np.roll(scenario.streams["training"].calendar.week_weights(), -48)


def test_counts_per_hour_of_the_week_follow_the_calendar(
    generated: tuple[Scenario, Workload],
) -> None:
    scenario, workload = generated
    counts = counts_per_hour(workload, scenario).reshape(N_WEEKS, 168).sum(axis=0)
    weights = week_of(scenario)
    assert counts[weights == 0].sum() == 0
    expected = weights / weights.sum() * counts.sum()
    enough = expected >= 5
    observed, wanted = list(counts[enough]), list(expected[enough])
    if expected[~enough].sum() > 0:  # the rarest hours share one cell
        observed.append(counts[~enough].sum())
        wanted.append(expected[~enough].sum())
    assert len(observed) > 150
    assert stats.chisquare(observed, wanted).pvalue > REJECT_BELOW


def test_counts_of_single_hours_scatter_as_poisson(
    generated: tuple[Scenario, Workload],
) -> None:
    """Index of dispersion: the scatter over weeks of each hour of the week is its mean."""  # noqa: E501
    scenario, workload = generated
    counts = counts_per_hour(workload, scenario).reshape(N_WEEKS, 168)
    means = counts.mean(axis=0)
    busy = means >= 2
    dispersion = ((counts - means) ** 2).sum(axis=0)[busy] / means[busy]
    freedom = (N_WEEKS - 1) * busy.sum()
    p_value = 2 * min(
        stats.chi2.cdf(dispersion.sum(), freedom),
        stats.chi2.sf(dispersion.sum(), freedom),
    )
    assert p_value > REJECT_BELOW


def test_submissions_go_as_the_rate_within_the_hour(
    generated: tuple[Scenario, Workload],
) -> None:
    """In time that runs as fast as the rate, submissions are uniform; before that they
    are not."""
    scenario, workload = generated
    rates = hourly_rates(scenario.streams["training"].calendar, scenario.clock)
    every_ms = np.arange(0, scenario.horizon_ms + 1, 10_000)
    until = integrate.cumulative_trapezoid(rates.at(every_ms), every_ms, initial=0)
    submit_ms = workload.jobs.submit_ms + 0.5
    first_ms = submit_ms // MS_PER_H * MS_PER_H
    at, begin, end = (
        np.interp(ms, every_ms, until)
        for ms in (submit_ms, first_ms, first_ms + MS_PER_H)
    )
    assert stats.kstest((at - begin) / (end - begin), "uniform").pvalue > REJECT_BELOW
    rises = (end - begin > 0) & (
        np.roll(rates.relative_rate, -1)[(first_ms // MS_PER_H).astype(int)]
        > 1.5 * rates.relative_rate[(first_ms // MS_PER_H).astype(int)]
    )
    assert (
        stats.kstest((submit_ms - first_ms)[rises] / MS_PER_H, "uniform").pvalue
        < REJECT_BELOW
    )
    # Accurate to the millisecond, not to the second.
    digits = np.bincount(workload.jobs.submit_ms % 10, minlength=10)
    assert stats.chisquare(digits).pvalue > REJECT_BELOW


def test_classes_are_drawn_by_probability(generated: tuple[Scenario, Workload]) -> None:
    _, workload = generated
    counts = np.bincount(workload.jobs.class_id, minlength=len(workload.classes))
    shares = np.array([c.job_class.probability for c in workload.classes])
    assert stats.chisquare(counts, shares * counts.sum()).pvalue > REJECT_BELOW


def test_replicates_are_drawn_evenly(generated: tuple[Scenario, Workload]) -> None:
    _, workload = generated
    for class_id, c in enumerate(workload.classes):
        drawn = workload.jobs.profile_id[workload.jobs.class_id == class_id]
        counts = [int((drawn == profile_id).sum()) for profile_id in c.profile_ids]
        assert sum(counts) == drawn.size
        if len(counts) > 1:
            assert stats.chisquare(counts).pvalue > REJECT_BELOW


def test_classes_do_not_depend_on_the_hour(
    generated: tuple[Scenario, Workload],
) -> None:
    _, workload = generated
    day = workload.jobs.submit_ms // (24 * MS_PER_H) % 7
    table = np.zeros((7, len(workload.classes)))
    np.add.at(table, (day, workload.jobs.class_id), 1)
    assert stats.chi2_contingency(table).pvalue > REJECT_BELOW


def test_given_daily_count_is_the_mean_of_the_drawn_counts() -> None:
    wanted, n_days = 50.0, 2
    counts = [
        len(
            generate_jobs(
                tiny_scenario(
                    {
                        "seed": seed,
                        "streams.training.target_utilization": None,
                        "streams.training.jobs_per_day": wanted,
                    }
                ),
                tiny_library(),
            ).jobs
        )
        for seed in range(200)
    ]
    total = sum(counts)
    p_value = 2 * min(
        stats.poisson.cdf(total, 200 * n_days * wanted),
        stats.poisson.sf(total - 1, 200 * n_days * wanted),
    )
    assert p_value > REJECT_BELOW
