"""Tables of columns: their Arrow round trip and the shapes they refuse."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from builders import job_table
from hypothesis import given
from hypothesis import strategies as st

from diploee.power import Segments
from diploee.schedule.context import JobTable
from diploee.tables import Table, concat

INT16 = st.integers(-(2**15), 2**15 - 1)


def equal(first: Table, second: Table) -> bool:
    return type(first) is type(second) and first.to_arrow().equals(second.to_arrow())


@given(rows=st.lists(st.tuples(st.integers(-(2**63), 2**63 - 1), INT16), max_size=20))
def test_a_table_comes_back_from_arrow_with_its_types_and_values(
    rows: list[tuple[int, int]],
) -> None:
    submit_ms, pool_id = (np.array([row[k] for row in rows], dtype=np.int64) for k in (0, 1))
    jobs = job_table(submit_ms, np.ones(len(rows)), np.ones(len(rows)), pool_id=pool_id)
    again = JobTable.from_arrow(jobs.to_arrow())
    assert equal(again, jobs)
    assert again.submit_ms.tolist() == submit_ms.tolist()
    assert again.pool_id.dtype == np.int16


def test_a_table_without_rows_comes_back_from_arrow() -> None:
    assert equal(Segments.from_arrow(Segments.empty().to_arrow()), Segments.empty())


def test_a_table_comes_back_from_arrow_in_chunks_in_another_order_and_beside_other_columns() -> (
    None
):
    jobs = job_table([1, 2, 3], [1, 1, 1], [5, 5, 5])
    halves = [jobs.take(slice(0, 1)), jobs.take(slice(1, 3))]
    chunked = pa.concat_tables([half.to_arrow() for half in halves])
    chunked = chunked.select(chunked.column_names[::-1]).append_column("more", pa.array([0, 0, 0]))
    assert equal(JobTable.from_arrow(chunked), jobs)
    assert equal(concat(halves), jobs)


def test_an_arrow_table_that_misses_a_column_is_refused() -> None:
    with pytest.raises(KeyError, match="submit_ms"):
        JobTable.from_arrow(job_table([1], [1], [5]).to_arrow().drop_columns(["submit_ms"]))


def test_columns_of_unequal_length_are_refused() -> None:
    with pytest.raises(ValueError, match=r"JobTable.n_nodes: shape \(1,\), expected \(2,\)"):
        job_table([1, 2], [1], [5, 5])
