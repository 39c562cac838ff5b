"""Every measure gives the same wherever its series is cut, and what brute force gives."""  # noqa: E501

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from zoneinfo import ZoneInfo

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from diploee.base.clock import WallClock
from diploee.base.measures.distribution import (
    RELATIVE_ERROR,
    CountAbove,
    Distribution,
    Energy,
    Exceedance,
    FirstMaximum,
    HoursAbove,
    RunningMaximum,
    SignedHistogram,
)
from diploee.base.measures.ramps_and_swings import (
    Rainflow,
    RollingRanges,
    SignalHistogram,
    TurningPoints,
    differences_over,
    ramps,
    ranges,
    rolling_ranges,
)
from diploee.base.measures.spectrum import Spectrum, band_rms, line_amplitude
from diploee.base.measures.streaming import (
    Chunk,
    ClockSums,
    MeasureRunner,
    Signal,
    power,
    to_quanta,
)
from diploee.grid.limits.kinds.changes import BandFilter, RunningFilter
from diploee.metrics.run_metrics import GridMetrics
from diploee.profiles.profile import Provenance

GOOD = Provenance("measured", "", "", 0.1, 0.1, 4.4)
BAND = BandFilter(low_hz=0.01, high_hz=0.2)
STEP_MS = 1_000
CLOCK = WallClock(
    datetime(2018, 11, 4, 0, 30, tzinfo=ZoneInfo("America/Chicago")), STEP_MS
)

whole = st.integers(-(2**40), 2**40)
series = arrays(np.int64, st.integers(1, 120), elements=st.integers(0, 12))
cuts = st.lists(st.integers(0, 6_000), max_size=6)


def pieces(values, places):
    """Cut values at places, those that lie inside them."""
    edges = sorted(
        {0, values.size, *(place for place in places if place < values.size)}
    )
    return [(low, values[low:high]) for low, high in pairwise(edges)]


def rough_power_w(seed, n):
    """Return power with steps, a cycle, noise and stretches of equal values."""
    rng = np.random.default_rng(seed)
    level = np.repeat(rng.integers(0, 5, n // 40 + 1), 40)[:n] * 2e5
    noise = rng.normal(0, 2e4, n) * (np.arange(n) % 300 < 200)
    return 2e6 + level + 3e4 * np.sin(np.arange(n) * 2 * np.pi / 10.5) + noise


@dataclass
class Fed:
    """A measure of values, fed by a signal."""

    into: object
    signal: Signal = power
    n_window: int = 1

    def add(self, stretch):
        found = self.signal(stretch)
        if found is not None and found.values.size:
            if isinstance(self.into, Distribution):
                self.into.add(found.values.astype(float))
            elif isinstance(self.into, Exceedance):
                self.into.add(found.values, found.first_ms)
            else:
                self.into.add(found.values, found.first_ms, STEP_MS)

    def result(self):
        if isinstance(self.into, Distribution):
            moments = round(self.into.mean), round(self.into.std)  # right to 1e-12
            return self.into.count, moments, self.into.percentiles(0, 50, 99, 100)
        if isinstance(self.into, Exceedance):
            found = self.into
            return (
                found.n_events,
                found.duration_ms,
                found.largest,
                found.largest_ms,
                found.worst(),
            )
        return self.into.result()


def filtered(running):
    return Fed(
        Exceedance(1e6, STEP_MS), lambda stretch: ranges(20)(running.filter(stretch))
    )


MEASURES = {
    "ramps": lambda: SignalHistogram(ramps(60), 120),
    "differences": lambda: SignalHistogram(differences_over(10), 11),
    "ranges": lambda: SignalHistogram(ranges(30), 30),
    "ranges of several windows": lambda: RollingRanges([2, 10, 60]),
    "rainflow": lambda: Rainflow(5e4),
    "sums of clock quarters": lambda: ClockSums(CLOCK, 900_000),
    "sums of the hours of a change of the clock": lambda: ClockSums(CLOCK, 3_600_000),
    "spectrum": lambda: Spectrum(STEP_MS, ((0.001, 0.01), (0.1, 0.25))),
    "energy above a level": lambda: Fed(Exceedance(2.6e6 * 64, STEP_MS)),
    "duration of ramps": lambda: Fed(Exceedance(1e9, STEP_MS), ramps(10), 20),
    "a band's worst windows": lambda: Fed(
        Exceedance(0.01, 300_000), band_rms((0.05, 0.2)), 600
    ),
    "swings of a band": lambda: filtered(RunningFilter(BAND.sections(STEP_MS), 20)),
    "lines": lambda: Fed(Exceedance(0.01, 300_000), line_amplitude((0.05, 0.2)), 600),
    "largest": lambda: Fed(FirstMaximum()),
    "distribution": lambda: Fed(Distribution()),
}
"""Every measure of the package that takes a series."""


def plain(value):
    """Return a result as what `==` compares."""
    if isinstance(value, SignedHistogram):
        return plain(vars(value))
    if isinstance(value, dict):
        return {key: plain(of) for key, of in value.items()}
    if isinstance(value, tuple | list):
        return [plain(of) for of in value]
    return value.tolist() if isinstance(value, np.ndarray) else value


def measured(name, values, places, since_ms=0):
    measure = MEASURES[name]()
    fed = MeasureRunner(STEP_MS, [measure])
    for low, piece in pieces(values, places):
        fed.add(low * STEP_MS, piece, since_ms)
    extra = (
        (measure.classes, measure.largest_ms) if isinstance(measure, Rainflow) else ()
    )
    return plain((measure.result(), *extra))


@pytest.mark.parametrize("name", MEASURES)
@settings(max_examples=8)
@given(seed=st.integers(0, 99), places=cuts, since_ms=st.sampled_from([0, 777_000]))
def test_a_measure_gives_the_same_wherever_its_series_is_cut(
    name, seed, places, since_ms
):
    values = to_quanta(rough_power_w(seed, 6_000))
    assert measured(name, values, places, since_ms) == measured(
        name, values, [], since_ms
    )


@given(seed=st.integers(0, 99), places=cuts)
def test_totals_of_a_column_are_those_of_its_blocks(seed, places):
    power_w = rough_power_w(seed, 1_000)
    totals = (Energy(), RunningMaximum(), CountAbove(2.5e6), HoursAbove(2.5e6))
    for _, piece in pieces(power_w, places):
        for total in totals:
            total.add(piece, STEP_MS)
    above = int((power_w > 2.5e6).sum())
    expected = [power_w.sum() / 3.6e9, power_w.max(), above, above / 3_600]
    assert [total.result() for total in totals] == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("name", MEASURES)
def test_a_measure_sees_nothing_of_what_is_left_out_at_the_start(name):
    values = to_quanta(rough_power_w(3, 6_000))
    other = np.where(np.arange(values.size) < 1_800, 10 * values, values)
    of = [measured(name, v, [500, 1_700, 4_000], 1_800_000) for v in (values, other)]
    assert of[0] == of[1]


@given(
    arrays(np.int64, st.integers(1, 60), elements=whole),
    st.integers(1, 12),
    st.integers(1, 60),
)
def test_ramps_equal_brute_force(values, n, n_new):
    n_new = min(n_new, values.size)
    sums, first_ms, _ = ramps(n)(Chunk(values, n_new, values.size * 100, 100))
    edges = [k for k in range(n, values.size - n + 1) if k + n > values.size - n_new]
    expected = [int(values[k : k + n].sum() - values[k - n : k].sum()) for k in edges]
    assert sums.tolist() == expected
    assert not edges or first_ms == (edges[0] - n) * 100


@given(arrays(np.int64, st.integers(1, 60), elements=whole), st.integers(1, 60))
def test_rolling_ranges_equal_brute_force(values, n_new):
    n_new, sizes = min(n_new, values.size), [2, 5, 11]
    found = rolling_ranges(Chunk(values, n_new, values.size, 1), sizes)
    for size, of_size in zip(sizes, found, strict=True):
        ends = range(max(size, values.size - n_new + 1), values.size + 1)
        assert of_size.tolist() == [int(np.ptp(values[e - size : e])) for e in ends]


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
    points, swings = TurningPoints(threshold), Counter()
    for low, piece in pieces(values, places):
        for closed in points.add(piece, low, 1):
            swings.update(closed[0].tolist())
    assert swings == closed_by_brute_force(values.tolist(), threshold)


@given(arrays(np.int64, st.integers(1, 200), elements=whole), st.floats(0, 100))
def test_percentile_is_within_its_error(values, percent):
    histogram = SignedHistogram()
    histogram.add(values, 0)
    rank = max(int(np.ceil(percent / 100 * values.size)), 1)
    exact = int(np.sort(values)[rank - 1])
    assert (
        abs(histogram.percentile(percent) - exact) <= abs(exact) * RELATIVE_ERROR + 0.5
    )
    assert (histogram.min, histogram.max) == (values.min(), values.max())
    assert (histogram.min_at, histogram.max_at) == (values.argmin(), values.argmax())


@given(
    arrays(
        np.float64, st.integers(1, 150), elements=st.sampled_from([0.0, 1.0, 2.0, 3.0])
    ),
    cuts,
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
        )
    )[:5]
    assert [(-e.worst, e.begin_ms, e.end_ms, e.worst_ms) for e in found.worst()] == [
        (size, b * 100, e * 100, at * 100) for size, b, e, at in worst
    ]


@given(arrays(np.float64, st.integers(1, 50), elements=st.floats(0, 1e10)))
def test_quanta_keep_power_within_their_rounding(power_w):
    assert (
        np.abs(to_quanta(power_w) / 64 - power_w).max()
        <= 1 / 128 + power_w.max() * 1e-15
    )


def metrics_of(power_w, step_ms, places):
    metrics = GridMetrics(step_ms, CLOCK.start, rated_power_w=5e6, readings=[GOOD])
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
