"""Grid metrics against brute force, and independent of how the series is cut."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime
from itertools import pairwise

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from diploee.metrics.grid import GridMetrics
from diploee.metrics.grid.histogram import RELATIVE_ERROR, SignedHistogram
from diploee.metrics.grid.quanta import Stretch, to_quanta
from diploee.metrics.grid.rainflow import Rainflow
from diploee.metrics.grid.ramps import ramp_sums
from diploee.metrics.grid.swings import rolling_ranges
from diploee.metrics.limits.exceedance import Exceedance
from diploee.profiles.profile import Provenance

START = datetime(2018, 1, 31, 23, tzinfo=UTC)
GOOD = Provenance("measured", "", "", 0.1, 0.1, 4.4)

whole = st.integers(-(2**40), 2**40)
series = arrays(np.int64, st.integers(1, 120), elements=st.integers(0, 12))
cuts = st.lists(st.integers(0, 2_000), max_size=6)


def pieces(values, places):
    """Cut values at places, those that lie inside them."""
    edges = sorted({0, values.size, *(place for place in places if place < values.size)})
    return [(low, values[low:high]) for low, high in pairwise(edges)]


def rough_power_w(seed, n):
    """Return power with steps, a cycle, noise and stretches of equal values."""
    rng = np.random.default_rng(seed)
    level = np.repeat(rng.integers(0, 5, n // 40 + 1), 40)[:n] * 2e5
    noise = rng.normal(0, 2e4, n) * (np.arange(n) % 300 < 200)
    return 2e6 + level + 3e4 * np.sin(np.arange(n) * 2 * np.pi / 10.5) + noise


def metrics_of(power_w, step_ms, places):
    metrics = GridMetrics(step_ms, START, rated_power_w=5e6, readings=[GOOD], swing_threshold_w=5e4)
    for low, piece in pieces(power_w, places):
        pools_w = {"a": piece * 0.25, "b": piece * 0.75}
        metrics.add(low * step_ms, piece, pools_w)
    return metrics


@settings(max_examples=30)
@given(st.integers(0, 99), st.sampled_from([500, 1_000, 60_000]), cuts)
def test_blocks_of_any_size_give_the_same_metrics(seed, step_ms, places):
    power_w = rough_power_w(seed, 2_000)
    one = metrics_of(power_w, step_ms, []).block()
    assert metrics_of(power_w, step_ms, places).block() == one


@given(arrays(np.int64, st.integers(1, 60), elements=whole), st.integers(1, 12), st.integers(1, 60))
def test_ramps_equal_brute_force(values, n, n_new):
    n_new = min(n_new, values.size)
    sums, first_ms = ramp_sums(Stretch(values, n_new, values.size * 100, 100), n)
    edges = [k for k in range(n, values.size - n + 1) if k + n > values.size - n_new]
    expected = [int(values[k : k + n].sum() - values[k - n : k].sum()) for k in edges]
    assert sums.tolist() == expected
    assert not edges or first_ms == edges[0] * 100


@given(arrays(np.int64, st.integers(1, 60), elements=whole), st.integers(1, 60))
def test_rolling_ranges_equal_brute_force(values, n_new):
    n_new, sizes = min(n_new, values.size), [2, 5, 11]
    found = rolling_ranges(Stretch(values, n_new, values.size, 1), sizes)
    for size, ranges in zip(sizes, found, strict=True):
        ends = range(max(size, values.size - n_new + 1), values.size + 1)
        assert ranges.tolist() == [int(np.ptp(values[e - size : e])) for e in ends]


def recorded(rainflow):
    """Let a counter keep its swings one by one."""
    swings, count = Counter(), rainflow._count
    rainflow._count = lambda found: (swings.update(found[0].tolist()), count(found))
    return swings


def closed_by_brute_force(values, threshold):
    """Four-point rule on a list: take out inner swings until none is left."""
    points = [v for k, v in enumerate(values) if k == 0 or v != values[k - 1]]
    found, k = Counter(), 0
    while k + 2 < len(points):  # turning points only
        if (points[k] < points[k + 1]) == (points[k + 1] < points[k + 2]):
            del points[k + 1]
            k = max(k - 1, 0)
        else:
            k += 1
    k = 0
    while k + 3 < len(points):
        outer, inner, after = np.abs(np.diff(points[k : k + 4]))
        if inner <= min(outer, after):
            found[int(inner)] += 1
            del points[k + 1 : k + 3]
            k = max(k - 2, 0)
        else:
            k += 1
    return Counter({size: n for size, n in found.items() if size >= threshold})


@settings(max_examples=150)
@given(series, st.lists(st.integers(1, 119), max_size=4), st.integers(1, 6))
def test_rainflow_equals_brute_force_in_blocks(values, places, threshold):
    expected = closed_by_brute_force(values.tolist(), threshold)
    quanta = values * 64
    streamed = Rainflow(threshold)
    swings = recorded(streamed)
    for low, piece in pieces(quanta, places):
        streamed.add(piece, low, 1)
    assert Counter({k // 64: n for k, n in swings.items()}) == expected


@given(arrays(np.int64, st.integers(1, 200), elements=whole), st.floats(0, 100))
def test_percentile_is_within_its_error(values, percent):
    histogram = SignedHistogram()
    histogram.add(values, 0)
    rank = max(int(np.ceil(percent / 100 * values.size)), 1)
    exact = int(np.sort(values)[rank - 1])
    assert abs(histogram.percentile(percent) - exact) <= abs(exact) * RELATIVE_ERROR + 0.5
    assert (histogram.min, histogram.max) == (values.min(), values.max())
    assert (histogram.min_at, histogram.max_at) == (values.argmin(), values.argmax())


@given(
    arrays(np.float64, st.integers(1, 150), elements=st.sampled_from([0.0, 1.0, 2.0, 3.0])), cuts
)
def test_events_equal_brute_force_whatever_the_blocks(values, places):
    found = Exceedance(0.5, 100)
    for low, piece in pieces(values, [place % 151 for place in places]):
        found.add(piece, low * 100)
    beyond = np.concatenate([[False], values > 0.5, [False]])
    begins = np.flatnonzero(beyond[1:] & ~beyond[:-1])
    ends = np.flatnonzero(~beyond[1:] & beyond[:-1])
    assert found.n_events == begins.size
    assert found.duration_ms == 100 * np.count_nonzero(values > 0.5)
    worst = sorted(
        (
            (-values[b:e].max(), b, e, b + values[b:e].argmax())
            for b, e in zip(begins, ends, strict=True)
        ),
    )[:5]
    assert [(-e.worst, e.begin_ms, e.end_ms, e.worst_ms) for e in found.worst()] == [
        (size, b * 100, e * 100, at * 100) for size, b, e, at in worst
    ]


@given(arrays(np.float64, st.integers(1, 50), elements=st.floats(0, 1e10)))
def test_quanta_keep_power_within_their_rounding(power_w):
    assert np.abs(to_quanta(power_w) / 64 - power_w).max() <= 1 / 128 + power_w.max() * 1e-15
