from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest
from builders import job_table
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from diploee.base.tables import arrow_numbers, arrow_texts, as_numpy, concat

DTYPES = st.sampled_from(
    ["bool", "int8", "int16", "int32", "int64", "uint16", "float32", "float64"]
)
NUMBERS = npst.arrays(DTYPES, st.integers(0, 40))


@given(NUMBERS, st.data())
def test_numbers_are_those_that_pyarrow_makes(
    values: npt.NDArray[Any], data: st.DataObject
) -> None:
    missing = data.draw(st.none() | npst.arrays(np.bool_, values.size))
    strided = np.repeat(values, 2)[::2]
    for given_values in (values, strided):
        made = arrow_numbers(given_values, missing=missing)
        made.validate(full=True)
        # As text, so that NaN equals NaN.
        assert str(made.to_pylist()) == str(pa.array(values, mask=missing).to_pylist())


def test_numbers_may_be_time_stamps() -> None:
    kind = pa.timestamp("ms", "+02:00")
    made = arrow_numbers(np.array([0, 86_400_000]), kind, np.array([True, False]))
    assert made.equals(pa.array([None, 86_400_000], kind))


@pytest.mark.slow
@given(st.lists(st.text(alphabet=st.characters(exclude_categories=["Cs"]))))
def test_texts_are_those_that_pyarrow_makes(texts: list[str]) -> None:
    made = arrow_texts(texts)
    made.validate(full=True)
    assert made.equals(pa.array(texts, pa.string()))


@pytest.mark.slow
@given(NUMBERS, st.lists(st.integers(0, 40)), st.data())
def test_columns_come_back_however_they_are_cut(
    values: npt.NDArray[Any], cuts: list[int], data: st.DataObject
) -> None:
    missing = data.draw(st.none() | npst.arrays(np.bool_, values.size))
    edges = sorted({0, values.size, *(cut for cut in cuts if cut < values.size)})
    whole = pa.array(values, mask=missing)
    column = pa.chunked_array(
        [whole[a:b] for a, b in itertools.pairwise(edges)], whole.type
    )
    found = as_numpy(column, np.float64)
    expected = values.astype(np.float64)
    if missing is not None:
        expected[missing] = np.nan
    np.testing.assert_array_equal(found, expected)
    if missing is not None and values.dtype.kind == "i":
        filled = as_numpy(column, np.int64, -1)
        np.testing.assert_array_equal(filled, np.where(missing, -1, values))


def test_parts_of_a_table_join_to_the_whole_in_its_types() -> None:
    jobs = job_table([1, 2, 3], [1, 1, 1], [5, 5, 5], pool_id=[-(2**15), 0, 2**15 - 1])
    joined = concat([jobs.take(slice(0, 1)), jobs.take(slice(1, 3))])
    for name, values in vars(jobs).items():
        np.testing.assert_array_equal(getattr(joined, name), values, strict=True)


def test_columns_of_unequal_length_are_refused() -> None:
    with pytest.raises(
        ValueError, match=r"JobTable.n_nodes: shape \(1,\), expected \(2,\)"
    ):
        job_table([1, 2], [1], [5, 5])
