"""`Run.blocks`: any columns, step and part of the series, as exact means of what is
stored."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from unittest import mock

import numpy as np
import pytest
from builders import tiny_run
from hypothesis import given, settings
from hypothesis import strategies as st

from diploee import Run
from diploee.base.errors import InputError
from diploee.runs import SeriesBlock

START = datetime(2018, 1, 1)
N_MINUTES = 180
COLUMNS = ["facility_power_w", "utilization"]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Three hours in minutes; local time is seven hours behind UTC."""
    folder = tmp_path_factory.mktemp("blocks") / "run"
    return tiny_run(folder, {"duration": "3 h", "facility.utc_offset": "-07:00"})


def joined(blocks: list[SeriesBlock], column: str) -> np.ndarray:
    return np.concatenate([block.columns[column] for block in blocks])


@pytest.mark.slow
@settings(max_examples=40)
@given(
    st.integers(0, N_MINUTES - 1).flatmap(
        lambda first: st.tuples(st.just(first), st.integers(first + 1, N_MINUTES))
    ),
    st.integers(1, 200),
    st.integers(1, 200),
)
def test_any_part_at_any_step_holds_the_means_of_the_stored_values(
    run: Run, rows: tuple[int, int], n_rows: int, batch_rows: int
) -> None:
    span = tuple(START + timedelta(minutes=row) for row in rows)
    with mock.patch("diploee.runs.series.BATCH_ROWS", batch_rows):
        blocks = list(run.blocks(COLUMNS, step_ms=n_rows * 60_000, span=span))
    edges = np.arange(rows[0], rows[1], n_rows)
    for column in COLUMNS:
        stored = run.facility([column])[column].to_numpy(np.float64)
        expected = [stored[a : min(a + n_rows, rows[1])].mean() for a in edges]
        np.testing.assert_allclose(joined(blocks, column), expected, rtol=1e-12)
    starts_ms = np.concatenate([block.starts_ms for block in blocks])
    first_ms = int(datetime(2018, 1, 1, 7, tzinfo=UTC).timestamp() * 1_000)
    np.testing.assert_array_equal(starts_ms, first_ms + edges * 60_000)


def test_the_whole_run_comes_at_its_own_step_by_default(run: Run) -> None:
    with mock.patch("diploee.runs.series.BATCH_ROWS", 7):
        blocks = list(run.blocks(["busy_nodes"]))
    assert joined(blocks, "busy_nodes").dtype == np.float64
    np.testing.assert_array_equal(
        joined(blocks, "busy_nodes"), run.facility()["busy_nodes"]
    )


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"columns": ["power"]}, "column 'power' is missing (found: 'timestamp', "),
        ({"step_ms": 90_000}, "a step of 90 s is no multiple of the run's 60 s"),
        (
            {"span": (None, datetime(2018, 1, 2))},
            "span: 2018-01-02T00:00:00 lies outside the run",
        ),
        ({"span": (datetime(2018, 1, 1, 0, 0, 30), None)}, "lies within an interval"),
        (
            {"span": (datetime(2018, 1, 1, 2), datetime(2018, 1, 1, 1))},
            "must begin before it ends",
        ),
    ],
)
def test_what_a_run_does_not_hold_is_named(
    run: Run, arguments: dict[str, object], words: str
) -> None:
    with pytest.raises(InputError) as caught:
        run.blocks(**{"columns": COLUMNS, **arguments})  # type: ignore[arg-type]
    assert words in str(caught.value)


def test_a_moment_with_a_zone_is_that_moment(run: Run) -> None:
    span = (datetime(2018, 1, 1, 8, tzinfo=UTC), None)
    (block,) = run.blocks(COLUMNS, span=span)
    assert block.starts_ms[0] == span[0].timestamp() * 1_000
    assert block.starts_ms.size == 120


def test_a_run_moved_elsewhere_is_read_there(run: Run, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"manifest\.json: no such file"):
        Run(tmp_path).blocks(COLUMNS)
