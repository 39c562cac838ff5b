"""Deconvolution: loads of known submissions give these submissions back."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from builders import stream_classes, tiny_library, tiny_scenario

from diploee import simulate
from diploee.base.clock import RunClock
from diploee.base.errors import WorkloadError
from diploee.base.tables import Float64Array
from diploee.fits.deconvolution import (
    PARTS_PER_H,
    RecoveredWeights,
    expected_load,
    mean_job,
    recover_weights,
)
from diploee.loads.jobs.rates import hourly_rates
from diploee.loads.jobs.source import draw_submissions
from diploee.profiles import ProfileLibrary
from diploee.scenario import Calendar, Scenario, load_scenario
from diploee.schedule.job_table import DRAW_MS

HOUR_S = 3_600
BY_HOUR = (
    1.2 + np.sin(np.arange(168) / 24 * 2 * np.pi) + 0.5 * (np.arange(168) % 7 == 0)
)
LASTING = {
    "lognormal": [{"weight": 1, "median_s": 5_000, "sigma": 0.8}],
    "max_s": 100_000,
}
MONDAY = np.datetime64("2018-01-01T00", "h")

KINDS: dict[str, Mapping[str, Any]] = {
    "profiles": {},
    "drawn durations": {
        f"streams.training.classes.{k}.duration": LASTING for k in range(3)
    },
    "start-up": {"streams.training.startup": {"quantiles_s": {0: 100, 1: 2_000}}},
}


def week() -> Float64Array:
    weights = np.array(
        load_scenario("colocation_10mw").streams["training"].calendar.week_weights()
    )
    return np.asarray(weights / weights.mean())


def job_of(kind: str = "profiles") -> Float64Array:
    return mean_job(tiny_scenario(KINDS[kind]), tiny_library())


@pytest.mark.parametrize("kind", KINDS)
def test_mean_job_sums_to_the_mean_node_time(kind: str) -> None:
    scenario, library = tiny_scenario(KINDS[kind]), tiny_library()
    startup, node_s = scenario.streams["training"].startup, 0.0
    for c in stream_classes(scenario, library)[0]:
        one = c.job_class
        run_s = np.mean([library[k].duration_ms for k in c.profile_ids]) / 1000
        run_s = run_s if one.duration is None else one.duration.mean_s()
        late_s = 0.0 if startup is None else startup.mean_s()
        node_s += one.probability * one.n_nodes * (run_s + late_s)
    assert job_of(kind).sum() * HOUR_S / PARTS_PER_H == pytest.approx(
        node_s, rel=1.1e-3
    )


def test_a_job_on_half_of_a_nodes_gpus_keeps_half_a_node_busy() -> None:
    one: dict[str, Any] = {"workload": "draw", "n_nodes": 1, "probability": 1}
    changes = KINDS["start-up"] | {"facility.pools.main.allocate": "gpus"}
    whole, half = (
        mean_job(
            tiny_scenario(changes | {"streams.training.classes": [of]}), tiny_library()
        )
        for of in (one, one | {"n_gpus": 2})
    )
    np.testing.assert_allclose(2 * half, whole)


@pytest.mark.parametrize("kind", KINDS)
def test_mean_job_is_the_mean_of_many_jobs_of_one_hour(kind: str) -> None:
    scenario, n = tiny_scenario(KINDS[kind]), 60_000
    stream, rng, job = (
        scenario.streams["training"],
        np.random.default_rng(0),
        job_of(kind),
    )
    rate = np.repeat(np.arange(job.size // PARTS_PER_H) == 0, PARTS_PER_H) / PARTS_PER_H
    expected = np.convolve(rate, job)[: job.size].reshape(-1, PARTS_PER_H).mean(axis=1)
    found, squares = np.zeros(expected.size), np.zeros(expected.size)
    edges = np.arange(expected.size + 1) * HOUR_S
    for c in stream_classes(scenario, tiny_library())[0]:
        own_s = np.array([tiny_library()[k].duration_ms / 1000 for k in c.profile_ids])
        model = c.job_class.duration
        run_s = rng.choice(own_s, n) if model is None else model.draw(rng, n)
        if stream.startup is not None:
            run_s = run_s + stream.startup.draw(rng, n)
        begin_s = rng.random(n) * HOUR_S
        upto = np.clip(edges[:, None], begin_s, begin_s + run_s) - begin_s
        share = c.job_class.n_nodes * np.diff(upto, axis=0) / HOUR_S
        found += c.job_class.probability * share.mean(axis=1)
        squares += (c.job_class.probability * share.std(axis=1)) ** 2 / n
    assert np.all(np.abs(found - expected) < 5 * np.sqrt(squares) + 1e-5)


@pytest.mark.slow
def test_expected_load_is_that_of_jobs_drawn_at_the_rates() -> None:
    scenario, rate = tiny_scenario(), np.array([0.0, 1, 6, 3, 0, 0, 2, 2, 5, 0, 0, 0])
    clock = RunClock(
        datetime(2018, 1, 1), UTC, rate.size * HOUR_S * 1000, HOUR_S * 1000
    )
    rates = hourly_rates(Calendar(hour_of_day=(*rate, *[0.0] * 12)), clock)
    rng, found = np.random.default_rng(0), np.zeros(rate.size)
    per_day = 24e5 * rate.mean()
    for c in stream_classes(scenario, tiny_library())[0]:
        n_spans = np.unique(rates.edges_ms[:-1] // DRAW_MS).size
        begin_s = draw_submissions([rng] * n_spans, rates, per_day)[0] / 1000
        run_s = rng.choice(
            [tiny_library()[k].duration_ms / 1000 for k in c.profile_ids], begin_s.size
        )
        upto = np.clip(
            np.arange(rate.size + 1)[:, None] * HOUR_S, begin_s, begin_s + run_s
        )
        ran = np.diff(upto.sum(axis=1)) / HOUR_S
        found += c.job_class.probability * c.job_class.n_nodes * ran
    expected = expected_load(rate, job_of())
    np.testing.assert_allclose(found / 1e5, expected, atol=0.005 * expected.max())


@pytest.mark.parametrize("kind", KINDS)
def test_an_expected_load_gives_its_rates_exactly(kind: str) -> None:
    job = job_of(kind)
    # Jobs of the week before run, too
    load = expected_load(np.tile(100 * BY_HOUR, 9), job)[168:]
    found = recover_weights(load, MONDAY, job)
    np.testing.assert_allclose(found.hour_of_week, BY_HOUR / BY_HOUR.mean(), rtol=1e-4)
    assert found.jobs_per_day == pytest.approx(24 * 100 * BY_HOUR.mean(), rel=1e-5)
    np.testing.assert_allclose(
        found.fitted[found.first :], load[found.first :], rtol=1e-4
    )
    # Each week says the same: the limits close.
    np.testing.assert_allclose(
        found.hour_of_week_low, found.hour_of_week_high, atol=1e-3
    )


@pytest.mark.slow
def test_limits_hold_the_weights_of_a_scattered_load() -> None:
    rate, job = np.tile(100 * BY_HOUR, 24), job_of()
    truth, inside, count_inside = BY_HOUR / BY_HOUR.mean(), [], []
    for seed in range(3):
        rng = np.random.default_rng(seed)
        weeks = rng.gamma(100, 0.01, 24).repeat(168)
        found = recover_weights(
            expected_load(rng.poisson(rate * weeks) * 1.0, job), MONDAY, job
        )
        inside.append(
            (found.hour_of_week_low <= truth) & (truth <= found.hour_of_week_high)
        )
        per_day = 24 * 100 * BY_HOUR.mean()
        count_inside.append(
            found.jobs_per_day_low <= per_day <= found.jobs_per_day_high
        )
        assert np.median(found.hour_of_week_high - found.hour_of_week_low) < 0.3
    assert 0.9 <= np.mean(inside) <= 0.99
    assert sum(count_inside) >= 2


@pytest.mark.slow
def test_months_are_recovered_with_the_week() -> None:
    hours, job = MONDAY + np.arange(8_760), job_of()
    month = np.array([1.4, 0.6, 0.8, 1.0, 1.2, 1.5, 0.7, 0.9, 1.1, 1.0, 0.5, 1.3])
    of_hour = month[hours.astype("datetime64[M]").astype(int) % 12]
    load = expected_load(40 * np.resize(BY_HOUR, 8_760) * of_hour, job)
    found = recover_weights(load, MONDAY, job)
    assert found.month is not None
    days = np.array([31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31])
    np.testing.assert_allclose(found.month, month / (month @ days / 365), rtol=1e-3)
    np.testing.assert_allclose(found.hour_of_week, BY_HOUR / BY_HOUR.mean(), rtol=1e-3)
    wanted = 24 * 40 * BY_HOUR.mean() * (month @ days / 365)
    assert found.jobs_per_day == pytest.approx(wanted, rel=1e-3)
    assert recover_weights(load, MONDAY, job, months=False).month is None


def recovered(
    scenario: Scenario, library: ProfileLibrary, folder: Path
) -> RecoveredWeights:
    """Return what the load of a scenario's run gives, checked against what the run was
    given."""
    run = simulate(
        scenario, folder, library=library, engine="compiled", jobs_file=False
    )
    busy = (
        run.facility()["utilization"].resample("1h").mean() * scenario.facility.n_nodes
    )
    found = recover_weights(
        busy.to_numpy(), busy.index[0].to_datetime64(), mean_job(scenario, library)
    )
    assert np.corrcoef(found.hour_of_week, week())[0, 1] > 0.99
    per_day = run.manifest["workload"][0]["jobs_per_day"]
    assert found.jobs_per_day == pytest.approx(per_day, rel=0.01)
    off = busy.to_numpy()[found.first :] - found.fitted[found.first :]
    assert off.var() < 0.05 * busy.var()
    # What the fit does not explain is chance: it has no course of its own over the
    # week.
    assert off[: 7 * 168].reshape(-1, 168).mean(axis=0).std() < 0.2 * busy.std()
    return found


def test_an_own_run_gives_its_weights_back(tmp_path: Path) -> None:
    changes = {
        "duration": "8 weeks",
        "resolution": "600 s",
        "facility.pools.main.n_nodes": 1_500,
        "streams.training.target_utilization": 0.2,
        "streams.training.calendar": {"hour_of_week": week().tolist()},
    }
    recovered(tiny_scenario(changes), tiny_library(), tmp_path / "own")


@pytest.mark.slow
def test_the_shipped_year_at_20_percent_gives_its_weights_back(tmp_path: Path) -> None:
    values = {"streams.training.target_utilization": 0.2}
    scenario = load_scenario("colocation_10mw", values=values)
    found = recovered(scenario, ProfileLibrary.open(), tmp_path / "year")
    month = np.array(scenario.streams["training"].calendar.month_weights())
    assert found.month is not None
    np.testing.assert_allclose(found.month, month, rtol=0.03)


def test_what_cannot_be_recovered_is_one_line() -> None:
    load, job = np.full(8 * 168, 0.2), job_of()
    for given, months, text in (
        (load[:300], None, "12.5 days, .* expected at least 2 weeks"),
        (0 * load, None, "without busy nodes"),
        (np.append(load, np.nan), None, "with gaps"),
        (load, True, "month 3 .10 of 12 are missing"),
    ):
        with pytest.raises(WorkloadError, match=text) as caught:
            recover_weights(given, MONDAY, job, months)
        assert "\n" not in str(caught.value)
    two = {"streams.more": tiny_scenario().streams["training"].model_dump(mode="json")}
    with pytest.raises(WorkloadError, match="expected one stream of jobs"):
        mean_job(tiny_scenario(two), tiny_library())
