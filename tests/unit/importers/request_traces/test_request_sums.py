"""The arrays that requests are summed into: steps that grow, token bins."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from diploee.importers.request_traces.step_counts import StepCounts
from diploee.importers.request_traces.token_bins import EDGES, TokenCounts, bins_of

requests = st.lists(
    st.lists(st.tuples(st.integers(-3000, 3000), st.integers(0, 2)), min_size=1, max_size=30),
    min_size=1,
    max_size=6,
)


@given(batches=requests)
def test_steps_are_counted_wherever_they_lie(batches: list[list[tuple[int, int]]]) -> None:
    counts = StepCounts()
    n_services = 0
    for batch in batches:
        steps, service = (np.array(column, dtype=np.int64) for column in zip(*batch, strict=True))
        n_services = max(n_services, int(service.max()) + 1)
        counts.add(steps, service, n_services)
    first, found = counts.result(3)
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
    place = bins_of(lengths)
    assert (EDGES[place] <= lengths).all()
    assert (lengths < EDGES[place + 1]).all()
    assert np.array_equal(bins_of(lengths[:65_536]), place[:65_536])


def test_token_sums_are_exact_for_each_service() -> None:
    rng = np.random.default_rng(3)
    counts = TokenCounts()
    lengths, service = rng.integers(0, 2**31, 5000), rng.integers(0, 3, 5000)
    counts.add(lengths[:1], np.zeros(1, dtype=np.int64), 1)
    counts.add(lengths[1:], service[1:], 3)
    service[0] = 0
    for index, found in enumerate(counts.lengths(4)):
        mine = lengths[service == index]
        assert found.total_tokens == int(mine.sum())
        assert found.n_requests.sum() == mine.size
        assert np.isnan(found.mean) == (index == 3)
    assert np.isnan(found.quantile([0.5, 0.9])).all()  # the fourth has no request
