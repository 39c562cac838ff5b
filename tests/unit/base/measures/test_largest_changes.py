"""The largest rise and fall between any two readings: against all pairs, and against
pandas."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from builders import tiny_library, tiny_run, tiny_scenario
from hypothesis import given
from hypothesis import strategies as st

from diploee import run as simulate
from diploee.base.measures.ramps_and_swings import LargestChanges
from diploee.base.measures.streaming import MeasureRunner

STEP_MS = 100


def measured(values: np.ndarray, n: int, edges: list[int]) -> LargestChanges:
    measure = LargestChanges(n)
    series = MeasureRunner(STEP_MS, [measure])
    for begin, end in pairwise([0, *edges, values.size]):
        series.add(begin * STEP_MS, values[begin:end])
    return measure


@given(
    values=st.lists(st.integers(-50, 50), min_size=1, max_size=60),
    n=st.integers(1, 70),
    cuts=st.lists(st.integers(0, 60), max_size=6),
)
def test_largest_changes_are_those_of_all_pairs_however_a_series_is_cut(
    values: list[int], n: int, cuts: list[int]
) -> None:
    edges = sorted(min(cut, len(values)) for cut in cuts)
    measure = measured(np.array(values, dtype=np.int64), n, edges)
    pairs = [
        (values[k] - values[j], j, k)
        for k in range(len(values))
        for j in range(max(k - n, 0), k + 1)
    ]
    for (size, first_ms, last_ms), sign in zip(measure.result(), (1, -1), strict=True):
        assert size == max(sign * change for change, *_ in pairs)
        first, last = first_ms // STEP_MS, last_ms // STEP_MS
        assert sign * (values[last] - values[first]) == size and 0 <= last - first <= n


@given(
    seed=st.integers(0, 2**32 - 1),
    n=st.sampled_from([1, 600, 6_000, 30_000]),
    first=st.integers(0, 9),
)
def test_largest_changes_of_a_long_series_are_those_of_rolling_extremes(
    seed: int, n: int, first: int
) -> None:
    walk = np.random.default_rng(seed).integers(-50, 51, 20_000).cumsum()
    measure = measured(walk, n, [first * 2_000])
    rolling = pd.Series(walk).rolling(n + 1, min_periods=1)
    (rise, *_), (fall, *_) = measure.result()
    assert rise == (walk - rolling.min()).max()
    assert fall == (rolling.max() - walk).max()


@pytest.mark.parametrize("resolution", ["60 s", "420 s"])
def test_a_rise_within_ten_minutes_is_never_less_than_one_within_a_minute(
    tmp_path: Path, resolution: str
) -> None:
    run = tiny_run(tmp_path / "run", {"duration": "84 h", "resolution": resolution})
    step_s = run.scenario.resolution_ms / 1000
    power_mw = run.facility()["facility_power_w"].astype(float) / 1e6
    power_mw = power_mw.iloc[-(-round(run.transient_h * 3600) // round(step_s)) :]
    changes = run.metrics["grid"]["changes"]
    of = {entry["window_s"]: entry for entry in changes["windows"]}
    for window_s, entry in of.items():
        n = int(window_s // step_s) + 1
        lowest = power_mw.rolling(n, min_periods=1).min()
        highest = power_mw.rolling(n, min_periods=1).max()
        rise_mw, fall_mw = (power_mw - lowest).max(), (highest - power_mw).max()
        at = [pd.Timestamp(entry["up"][name]) for name in ("time", "until")]
        assert pd.Timedelta(0) < at[1] - at[0] <= pd.Timedelta(seconds=window_s)
        found = [
            entry["up"]["max_mw"],
            entry["up"]["cause"]["change_mw"],
            power_mw[at[1]] - power_mw[at[0]],
            entry["down"]["max_mw"],
        ]
        assert found == pytest.approx([rise_mw] * 3 + [fall_mw], abs=2e-8)
    if resolution == "60 s":
        ramps = {
            r["interval_s"]: r["up"]["max_mw"]
            for r in run.metrics["grid"]["ramps"]["intervals"]
        }
        assert of[600.0]["up"]["max_mw"] >= max(
            of[60.0]["up"]["max_mw"], ramps[60.0], ramps[300.0]
        )
    else:
        assert list(of) == [600.0]
        assert changes["absent"][0]["window_s"] == 60


def test_steps_that_a_run_does_not_write_have_their_own_largest_change(
    tmp_path: Path,
) -> None:
    seen: list[np.ndarray] = []

    class Sink:
        def add(self, block: object) -> None:
            seen.append(block.columns["facility_power_w"])  # type: ignore[attr-defined]

    fine = tiny_scenario({"duration": "6 h", "resolution": "10 s"})
    coarse = tiny_scenario({"duration": "6 h", "step": "10 s"})
    simulate(fine, tmp_path / "fine", profiles=tiny_library(), sinks=[Sink()])
    run = simulate(coarse, tmp_path / "coarse", profiles=tiny_library())
    power_mw = (
        pd.Series(np.concatenate(seen)).iloc[round(run.transient_h * 360) :] / 1e6
    )
    rise = (power_mw - power_mw.rolling(61, min_periods=1).min()).max()
    grid = run.metrics["grid"]
    assert grid["at_step"]["changes"]["600s"]["up"]["max_mw"] == pytest.approx(rise)
    assert rise >= grid["changes"]["windows"][1]["up"]["max_mw"]
