"""`Distribution`: blocks change nothing; percentiles are numpy's or within the error."""  # noqa: E501

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from diploee.base.measures import distribution
from diploee.base.measures.distribution import Distribution

PERCENTS = (0, 10, 50, 90, 99.9, 100)

values_lists = st.lists(
    st.one_of(
        st.floats(-1e7, 1e7, allow_nan=False),
        st.sampled_from([0.0, 1.0, 1.0, 2_840.0, 1e-9, 1e7]),
    ),
    min_size=1,
    max_size=60,
)


def distribution_of(*parts: list[float]) -> Distribution:
    found = Distribution()
    for part in parts:
        found.add(np.array(part, dtype=np.float64))
    return found


def check_moments(found: Distribution, values: list[float]) -> None:
    scale = max(*map(abs, values), 1e-300)
    assert found.count == len(values)
    assert found.mean == pytest.approx(np.mean(values), rel=1e-12)
    assert found.std == pytest.approx(np.std(values), rel=1e-9, abs=1e-12 * scale)
    assert (found.min, found.max) == (min(values), max(values))


@given(st.lists(values_lists, min_size=1, max_size=5))
@settings(max_examples=80)
def test_blocks_give_what_one_pass_gives(parts: list[list[float]]) -> None:
    found = distribution_of(*parts)
    values = [value for part in parts for value in part]
    check_moments(found, values)
    assert found.percentile_error == 0
    assert found.percentiles(*PERCENTS) == np.percentile(values, PERCENTS).tolist()


@pytest.fixture(scope="module")
def small_memory() -> Callable[[], pytest.MonkeyPatch]:
    """Few values are kept, and few bins, so that short series reach the histogram."""

    def patch() -> pytest.MonkeyPatch:
        monkeypatch = pytest.MonkeyPatch()
        monkeypatch.setattr(distribution, "EXACT_VALUES", 20)
        monkeypatch.setattr(distribution, "N_BINS", 1 << 10)
        return monkeypatch

    return patch


@given(st.lists(values_lists, min_size=1, max_size=6))
@settings(max_examples=80)
def test_histogram_percentiles_stay_within_the_stated_error(
    small_memory: Callable[[], pytest.MonkeyPatch], parts: list[list[float]]
) -> None:
    values = [value for part in parts for value in part]
    monkeypatch = small_memory()
    try:
        found = distribution_of(*parts)
        check_moments(found, values)
        scale = max(map(abs, values))
        exact = np.percentile(values, PERCENTS)
        error = np.abs(np.array(found.percentiles(*PERCENTS)) - exact).max()
        assert error <= found.percentile_error * (1 + 1e-12)
        if found.percentile_error:
            assert found.percentile_error <= scale / (1 << 8) or scale < 1e-200
        else:
            assert len(values) <= 20
    finally:
        monkeypatch.undo()
