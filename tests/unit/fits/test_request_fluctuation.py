"""Fluctuation of a trace by its fit, against processes whose law is known."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from samples import AZURE
from serving_builders import one_service, plan_of, serving_scenario

from diploee.base.rng import named_rng
from diploee.base.tables import Float64Array
from diploee.fits.requests.fluctuation import FluctuationFit, fit_fluctuation
from diploee.importers.request_traces import read_request_trace
from diploee.loads.services.load import service_columns

CHAT = "request_streams.chat"


def generated(days: int, seed: int, **spec: float) -> tuple[Float64Array, Float64Array]:
    """Return Poisson counts of generated minutes by service, and their expectation."""
    scenario = serving_scenario(
        {
            f"{CHAT}.calendar": None,
            f"{CHAT}.fluctuation": spec,
            f"{CHAT}.overload": "degrade",
            "duration": f"{days} d",
            "seed": seed,
        }
    )
    columns = service_columns([plan_of(scenario)], 0, 60_000, days * 1440)
    names = ("coding", "conversation")
    rates = np.stack([columns[f"incoming_rps.{name}"] for name in names]).astype(float)
    counts = named_rng(seed, "test", "minutes").poisson(rates * 60).astype(float)
    return counts, np.array([[0.4], [0.6]]) * np.full(days * 1440, 400.0 * 60)


def fit_of(days: int, seed: int, **spec: float) -> FluctuationFit:
    found = fit_fluctuation(
        *generated(days, seed, **spec), freedom=1.0, confidence=0.95
    )
    assert found is not None
    return found


@pytest.mark.slow
@pytest.mark.parametrize(
    ("tau_s", "share"),
    [
        (300, 0.5),
        *(
            pytest.param(*each, marks=pytest.mark.slow)
            for each in ((900, 0.8), (1800, 0.0))
        ),
    ],
)
def test_fit_of_generated_requests_gives_time_share_and_size_back(
    tau_s: float, share: float
) -> None:
    spec = {"relative_std": 0.1, "correlation_time_s": tau_s, "common_share": share}
    fits = [fit_of(40, seed, **spec) for seed in range(4)]
    for name, true in (
        ("relative_std", 0.1),
        ("correlation_time_s", tau_s),
        ("common_share", share),
    ):
        found = [getattr(fit, name) for fit in fits]
        # Limits of 95 % miss one of four once in a while; straight lines between the
        # nodes cost a little of the variance of a minute.
        inside = [0.96 * e.low <= true <= 1.04 * e.high for e in found]
        assert sum(inside) >= 3, (name, found)
        assert np.mean([e.value for e in found]) == pytest.approx(
            true, rel=0.15, abs=0.06
        )


@pytest.mark.parametrize("rate_factor", [0.25, 4.0])
def test_fit_at_another_size_follows_the_law(rate_factor: float) -> None:
    spec = {
        "relative_std": 0.1,
        "common_share": 0.2,
        # The run has `rate_factor` times the reference
        "reference_rate_rps": 400 / rate_factor,
    }
    fit = fit_of(40, 0, **spec)
    expected = 0.1 * np.sqrt(0.2 + 0.8 / rate_factor)
    assert fit.relative_std.value == pytest.approx(expected, rel=0.1)


def test_poisson_counts_have_no_fluctuation() -> None:
    expected = np.full((1, 10_000), 30.0)
    counts = named_rng(1, "test", "poisson").poisson(expected).astype(float)
    fit = fit_fluctuation(counts, expected, 1.0, 0.99)
    assert fit is not None
    assert fit.relative_std.value == 0
    assert fit.correlation_time_s is None
    assert fit.common_share is None


def test_too_few_minutes_tell_nothing() -> None:
    counts = np.full((1, 20), 5.0)
    assert fit_fluctuation(counts, counts, 1.0, 0.95) is None


def autocorrelation(counts: Float64Array, n_lags: int) -> Float64Array:
    x = counts / counts.mean() - 1
    return np.array([(x[:-k] * x[k:]).sum() for k in range(1, n_lags + 1)]) / (x @ x)


def hour_error(seen: Float64Array) -> Float64Array:
    """Return how far an hour's autocorrelation lies from those that its fit gives, in
    their std."""
    n = seen.size
    fit = fit_fluctuation(seen[None], np.full((1, n), seen.mean()), 1 - 1 / n, 0.95)
    assert fit is not None
    time = fit.correlation_time_s
    scenario = serving_scenario(
        {
            **one_service(),
            f"{CHAT}.calendar": None,
            f"{CHAT}.request_rate_rps": fit.rate_rps,
            f"{CHAT}.overload": "degrade",
            f"{CHAT}.fluctuation": {
                "relative_std": fit.relative_std.value,
                "correlation_time_s": time.value if time else 5.0,
            },
            "duration": "200 h",
        }
    )
    columns = service_columns([plan_of(scenario)], 0, 60_000, 200 * 60)
    rates = columns["incoming_rps.coding"].astype(float)
    hours = (
        named_rng(0, "test", "hours").poisson(rates * 60).astype(float).reshape(200, 60)
    )
    drawn = np.array(
        [autocorrelation(hour[:n], 10) for hour in hours if hour[:n].sum()]
    )
    error: Float64Array = (autocorrelation(seen, 10) - drawn.mean(axis=0)) / drawn.std(
        axis=0
    )
    return error


def test_hour_of_generated_requests_is_met_within_its_own_error() -> None:
    counts, _ = generated(1, 5, relative_std=0.3, correlation_time_s=600)
    assert np.abs(hour_error(counts.sum(axis=0)[600:660])).max() < 3


@pytest.mark.parametrize("sample", ["published"], indirect=True)
def test_hour_of_azure_code_requests_is_met_over_its_first_minutes(
    sample: Callable[[str], Path],
) -> None:
    """Beyond them that hour has a beat of five minutes, which no such process has."""
    trace = read_request_trace(sample(AZURE))
    assert np.abs(hour_error(trace.n_requests[0][1:-1])[:4]).max() < 3
