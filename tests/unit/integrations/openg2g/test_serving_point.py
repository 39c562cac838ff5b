"""Operating points: Eq. 5, the solved batch, low rates, sampled curves, bad input."""

from __future__ import annotations

import numpy as np
import pytest
from benchmark_builders import ITL, POWER, THROUGHPUT, tiny_fits
from hypothesis import given
from hypothesis import strategies as st

from diploee.base.errors import InputError
from diploee.integrations.openg2g import LogisticModel, ServingFits, operating_points
from diploee.integrations.openg2g.operating_curves import (
    logistic_curves,
    sampled_operating_points,
)
from diploee.loads.services.capacity import max_request_rate_rps
from diploee.loads.services.curves import LatencyCurve, PowerCurve
from diploee.scenario import LogisticService

TOKENS = 200.0
FITS = tiny_fits()
LLAMA_70B = ServingFits(  # 4 x H100, least squares of public leaderboard figures
    power=LogisticModel(868, 0.884, 6.953, 1725),
    itl=LogisticModel(0.11162, 1.441, 9.018, 0.01968),
    throughput=LogisticModel(8581, 0.562, 7.209, -330.3),
    smallest_batch=8,
    largest_batch=1024,
)


@given(st.floats(8, 256))
def test_point_solves_the_throughput_for_the_batch(batch):
    rate_rps = float(THROUGHPUT.eval(batch)) / TOKENS
    point = operating_points(FITS, rate_rps, TOKENS)
    assert float(point.batch) == pytest.approx(batch, rel=1e-6)
    assert float(point.power_w) == pytest.approx(float(POWER.eval(batch)))
    assert float(point.itl_s) == pytest.approx(float(ITL.eval(batch)))
    assert float(point.served_rps) == pytest.approx(rate_rps)
    assert float(point.throughput_tps) == pytest.approx(rate_rps * TOKENS)
    # Little's law.
    assert float(point.latency_s * point.served_rps) == pytest.approx(batch, rel=1e-6)


def test_rates_above_the_highest_are_served_at_the_highest():
    highest = FITS.max_request_rate_rps(TOKENS)
    assert highest == float(THROUGHPUT.eval(256)) / TOKENS
    points = operating_points(FITS, [highest, 10 * highest], TOKENS)
    assert points.served_rps.tolist() == [highest, highest]
    assert points.rate_rps.tolist() == [highest, 10 * highest]
    for name in ("batch", "power_w", "itl_s", "latency_s"):
        values = getattr(points, name)
        assert values[0] == values[1]


def test_below_the_smallest_batch_power_runs_to_idle_and_latency_stays():
    bend_rps = float(THROUGHPUT.eval(8)) / TOKENS
    shares = np.array([0.0, 0.25, 0.5, 1.0])
    points = operating_points(FITS, shares * bend_rps, TOKENS, idle_power_w=150.0)
    smallest_w = float(POWER.eval(8))
    assert np.allclose(points.power_w, 150 + shares * (smallest_w - 150))
    assert np.allclose(points.batch, 8 * shares)
    assert np.allclose(points.itl_s, float(ITL.eval(8)))
    assert np.allclose(points.latency_s, 8 / bend_rps)
    without = operating_points(FITS, shares * bend_rps, TOKENS)
    assert np.allclose(without.power_w, smallest_w)


def test_everything_is_continuous_and_rises_with_the_rate():
    rate_rps = np.linspace(0, FITS.max_request_rate_rps(TOKENS), 5_001)
    points = operating_points(FITS, rate_rps, TOKENS, idle_power_w=200.0)
    for name in ("batch", "power_w", "itl_s", "throughput_tps"):
        steps = np.diff(getattr(points, name))
        assert (steps >= -1e-9).all(), name
        assert steps.max() < 0.01 * np.ptp(getattr(points, name)), name


def test_quoted_figures_of_llama_70b_are_met():
    # 8, 32, 128, 512 and 1024 sequences drew 1765, 1794, 2184, 2493 and 2548 W.
    rates = LLAMA_70B.throughput.eval([8, 32, 128, 512, 1024]) / 350
    points = operating_points(LLAMA_70B, rates, 350)
    assert np.allclose(points.batch, [8, 32, 128, 512, 1024], rtol=1e-9)
    # The fit's residuals are 33 W in root mean square; the largest is at 32 sequences,
    # 62 W.
    assert np.abs(points.power_w - [1765, 1794, 2184, 2493, 2548]).max() < 65


# --- sampled curves


def test_sampled_curve_rises_to_the_highest_rate_and_has_the_bend():
    curve = sampled_operating_points(FITS, TOKENS)
    assert (np.diff(curve.rate_rps) > 0).all()
    assert curve.rate_rps.size == 21
    assert curve.rate_rps[-1] == FITS.max_request_rate_rps(TOKENS)
    bend_rps = float(THROUGHPUT.eval(8)) / TOKENS
    assert np.isclose(curve.rate_rps, bend_rps).sum() == 1
    assert (np.diff(curve.itl_s) >= 0).all()
    assert (np.diff(curve.latency_s) >= 0).all()


@pytest.mark.parametrize("fits", [FITS, LLAMA_70B])
def test_straight_lines_between_the_samples_miss_the_power_by_little(fits):
    curve = sampled_operating_points(fits, TOKENS, idle_power_w=290.0)
    rate_rps = np.linspace(curve.rate_rps[0], curve.rate_rps[-1], 2_000)
    exact_w = operating_points(fits, rate_rps, TOKENS, idle_power_w=290.0).power_w
    missed = np.interp(rate_rps, curve.rate_rps, curve.power_w) / exact_w - 1
    assert np.abs(missed).max() < 0.002


def test_instances_of_several_replicas_and_nodes_scale():
    curves = {"L": 900, "k": 0.9, "x0": 5, "b0": 600}
    itl = {"L": 100, "k": 1.4, "x0": 7, "b0": 20}
    tokens = {"L": 6000, "k": 0.6, "x0": 5, "b0": -200}
    data = {"power_w": curves, "itl_ms": itl, "throughput_tps": tokens}
    data |= {"smallest_batch": 8, "largest_batch": 256}

    def power_of(n_nodes=1, **given):
        service = LogisticService(**data | given)
        power, _ = logistic_curves("tiny", service, TOKENS, n_nodes, "mean_itl")
        return power

    one, split = power_of(), power_of(2)
    four = power_of(replicas_per_instance=4, other_node_power_w=130.0)
    assert np.allclose(four.rate_rps, 4 * one.rate_rps)
    assert np.allclose(four.mean_power_w, 4 * one.mean_power_w + 130)
    assert np.allclose(split.mean_power_w, one.mean_power_w / 2)
    assert np.allclose(split.rate_rps, one.rate_rps)


def test_services_rate_curves_hold_the_sampled_points():
    curve = sampled_operating_points(LLAMA_70B, 350)
    power = PowerCurve("llama", curve.rate_rps, curve.power_w, curve.power_w)
    latency = LatencyCurve("mean_itl", curve.rate_rps, curve.itl_s, curve.rate_rps)
    assert latency.largest_correction_s == 0
    assert latency.sustained_throughput_rps == pytest.approx(
        LLAMA_70B.max_request_rate_rps(350)
    )
    # Eq. 5 on the sampled curve is that of the logistic one, within its interpolation.
    for deadline_s in (0.03, 0.05, 0.08):
        exact = (
            float(LLAMA_70B.throughput.eval(LLAMA_70B.itl.inverse(deadline_s))) / 350
        )
        assert max_request_rate_rps(latency, deadline_s) == pytest.approx(
            exact, rel=0.005
        )
    assert (power.peak_power_w >= power.mean_power_w).all()


# --- bad input


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"rate_rps": -1.0}, "request rates must be numbers of 0 or more, found -1"),
        ({"rate_rps": [1, np.nan]}, r"found nan \(1 such rates\)"),
        ({"output_tokens": 0}, "tokens per request must be a number above 0, found 0"),
        ({"idle_power_w": 5_000.0}, "idle_power_w must be from 0 to the power at the"),
    ],
)
def test_wrong_point_is_one_clear_line(options, text):
    arguments = {"rate_rps": 1.0, "output_tokens": TOKENS} | options
    with pytest.raises(InputError, match=text):
        operating_points(FITS, **arguments)


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"smallest_batch": 0}, "batch sizes must be positive"),
        ({"largest_batch": 4}, "the smallest at most the largest; found 8 and 4"),
        ({"throughput": LogisticModel(-5, 1, 5, 100)}, "throughput must rise"),
        ({"itl": LogisticModel(-0.01, 1, 5, 0.1)}, "latency may not fall"),
        (
            {"smallest_batch": 0.5},
            "throughput falls to .* within batch sizes 0.5 to 256",
        ),
        ({"power": LogisticModel(10, 1, 5, -100)}, "power falls to"),
    ],
)
def test_wrong_curves_are_one_clear_line(changes, text):
    with pytest.raises(InputError, match=text):
        tiny_fits(**changes)
