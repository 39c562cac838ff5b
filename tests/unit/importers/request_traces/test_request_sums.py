"""The arrays that requests are summed into: steps that grow, token bins."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from diploee.importers import read_request_trace
from diploee.importers.request_traces.request_counts import (
    EDGES,
    RequestCounts,
    bin_indices,
)

requests = st.lists(
    st.lists(
        st.tuples(st.integers(-3000, 3000), st.integers(0, 2)), min_size=1, max_size=30
    ),
    min_size=1,
    max_size=6,
)


@pytest.mark.slow
@given(batches=requests)
def test_steps_are_counted_wherever_they_lie(
    batches: list[list[tuple[int, int]]],
) -> None:
    counts = RequestCounts()
    for batch in batches:
        steps, service = (
            np.array(column, dtype=np.int64) for column in zip(*batch, strict=True)
        )
        counts.add(steps, service)
    first, found = counts.steps(Path("trace"), 3, 1000)
    every = [row for batch in batches for row in batch]
    assert first == min(step for step, _ in every)
    assert found.shape == (3, max(step for step, _ in every) - first + 1)
    expected = np.zeros_like(found)
    for step, service_ in every:
        expected[service_, step - first] += 1
    assert np.array_equal(found, expected)


def test_every_length_has_its_bin() -> None:
    assert EDGES[0] == 0 and EDGES[-1] == 2**31
    assert (np.diff(EDGES) > 0).all()
    assert np.array_equal(EDGES[:129], np.arange(129))
    wide = EDGES[EDGES >= 1024]
    assert np.diff(wide).max() <= 0.012 * wide[-1]
    assert (np.diff(wide) / wide[:-1]).max() < 0.012
    lengths = np.concatenate((np.arange(70_000), EDGES[:-1], EDGES[1:] - 1))
    place = bin_indices(lengths)
    assert (EDGES[place] <= lengths).all()
    assert (lengths < EDGES[place + 1]).all()


def test_token_sums_are_exact_for_each_service() -> None:
    rng = np.random.default_rng(3)
    counts = RequestCounts()
    lengths, service = rng.integers(0, 2**31, 5000), rng.integers(0, 3, 5000)
    counts.add(lengths[:1], service[:1])
    counts.add(lengths[1:], service[1:])
    for index, found in enumerate(counts.lengths(4)):
        mine = lengths[service == index]
        assert found.total_tokens == int(mine.sum())
        assert found.n_requests.sum() == mine.size
        assert np.isnan(found.mean) == (index == 3)
    assert np.isnan(found.quantile([0.5, 0.9])).all()  # the fourth has no request


@pytest.mark.parametrize(
    ("times_s", "span_s"),
    [
        (np.arange(0.05, 7_200, 0.1), (0, 7_200)),  # cut at round moments
        (np.arange(37, 337) * 1.0, (37, 337)),  # at none: one gap after the last
        ([3.2, 3.3, 3.5, 3.6], (3, 3.733)),
        ([5.01, 5.02, 5.02, 5.03], (5, 5.04)),
        (np.repeat(np.arange(0, 3_540, 3), 4), (0, 3_540)),  # stamps rounded to 3 s
    ],
)
def test_a_trace_begins_and_ends_near_its_outer_requests(
    tmp_path: Path, times_s: Any, span_s: tuple[float, float]
) -> None:
    path = tmp_path / "trace.csv"
    path.write_text("\n".join(["time_s", *(f"{t:.3f}" for t in times_s)]) + "\n")
    for step_s in (1, 60):
        trace = read_request_trace(path, step_s=step_s)
        assert trace.own_span_ms == tuple(round(t * 1000) for t in span_s)
        assert trace.n_requests.sum() == len(times_s)


def test_a_request_that_was_cut_short_is_left_out_and_counted(tmp_path: Path) -> None:
    whole = [
        f'{{"timestamp": {t}, "input_length": 5, "output_length": 7}}' for t in range(9)
    ]
    rows = ["time_ms,input_tokens", *(f"{t},5" for t in range(9))]
    for lines in (whole, rows):
        path = tmp_path / "trace"
        path.write_text("\n".join(lines)[: -25 if lines is whole else -2])
        trace = read_request_trace(path, time_unit="ms")
        assert trace.counts.dropped == {"truncated last line": 1}
        assert trace.n_requests.sum() == 8
        path.write_text("\n".join(lines))
        assert read_request_trace(path, time_unit="ms").n_requests.sum() == 9
