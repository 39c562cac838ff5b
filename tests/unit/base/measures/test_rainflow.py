from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from diploee.base.measures.ramps_and_swings import Rainflow, TurningPoints
from diploee.base.measures.streaming import QUANTA_PER_W, Chunk

ASTM_SERIES = [-2, 1, -3, 5, -1, 3, -4, 4, -2]
"""Points A to I of the example in ASTM E1049-85 (2017), Figure 6."""
ASTM_COUNTS = {3: 0.5, 4: 1.5, 6: 0.5, 8: 1.0, 9: 0.5}
"""Its rainflow counts (5.4.4), range to cycles; the PyPI package `rainflow` 3.2 gives
the same."""


def count(series, threshold_w=0.5):
    """Return closed swings of each range and the residue's half-cycles of each range
    [W]."""
    closed, scale = Counter(), QUANTA_PER_W
    points = TurningPoints(int(np.ceil(threshold_w * scale)))
    for swings in points.add(np.round(np.array(series) * scale).astype(np.int64), 0, 1):
        closed.update(swings[0].tolist())
    halves = Counter(np.abs(np.diff(points.residue)).tolist())
    return {k / scale: n for k, n in closed.items()}, {
        k / scale: n for k, n in halves.items()
    }


def rainflow_of(values, threshold_w=1.0, end_ms=None, step_ms=1):
    rainflow = Rainflow(threshold_w)
    values = np.asarray(values, dtype=np.int64) * 64
    rainflow.add(Chunk(values, values.size, end_ms or values.size, step_ms))
    return rainflow


def cycles(series):
    closed, halves = count(series, 1e-6)
    return {k: closed.get(k, 0) + halves.get(k, 0) / 2 for k in sorted(closed | halves)}


def test_astm_example_gives_the_standards_table():
    assert cycles(ASTM_SERIES) == ASTM_COUNTS


def test_half_cycles_of_the_astm_example_are_no_events():
    closed, halves = count(ASTM_SERIES)
    assert closed == {4: 1}
    assert halves == {3: 1, 4: 1, 8: 2, 9: 1, 6: 1}


def test_package_rainflow_counts_the_same():
    rainflow = pytest.importorskip("rainflow")
    series = np.random.default_rng(3).integers(0, 50, 2_000)
    assert cycles(series) == dict(rainflow.count_cycles(series))


def test_noise_below_the_threshold_is_no_event():
    rng = np.random.default_rng(0)
    noise = rng.uniform(-1, 1, 5_000)
    swing = 10 * np.sin(np.arange(5_000) * 2 * np.pi / 500)
    closed, halves = count(noise + swing, threshold_w=3.0)
    large = sum(n for size, n in halves.items() if size >= 3)
    # Ten periods have 19 half swings from their first maximum to their last minimum,
    # and two ends.
    assert 2 * sum(closed.values()) + large == 21
    assert min(closed) > 17


def test_largest_swing_is_given_with_its_times():
    rainflow = rainflow_of([0, 9, 2, 8, 0, 9], end_ms=1_600, step_ms=100)
    assert rainflow.result().count == 2
    assert rainflow.result().max == 9 * 64
    assert rainflow.largest_ms == (1_100, 1_400)


def test_more_swings_than_a_batch_holds_are_all_counted():
    zigzag = np.tile([0, 5], 20_000)
    assert rainflow_of([9, *zigzag, 9]).result().count == 19_999


def test_many_swings_closed_by_one_value_are_all_counted():
    spiral = [k if k % 2 else -k for k in range(20_000, 0, -1)]
    assert rainflow_of([*spiral, 30_000]).result().count == 9_999


def test_threshold_must_be_positive():
    with pytest.raises(ValueError, match="more than 0 W"):
        Rainflow(0.0)
