"""The profile library: its order, appending to it, and what its files hold."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from builders import profile, tiny_library
from hypothesis import given, settings
from hypothesis import strategies as st

from diploee.errors import ProfileError
from diploee.profiles import ProfileLibrary
from diploee.profiles.store import read_profile, write_profile


def test_a_library_is_in_the_order_of_its_ids() -> None:
    assert tiny_library().ids == ("draw-1n-1", "tune-2n-1", "tune-2n-2", "tune-4n-1")


def test_an_extended_library_keeps_the_indices_and_appends_in_the_given_order() -> None:
    base, added = tiny_library(), [profile("z", [3.0]), profile("a", [1.0]), profile("m", [2.0])]
    extended = base.extended(added)
    assert extended.ids == (*base.ids, "z", "a", "m")
    assert len(extended) == len(base) + 3
    assert [extended[k] for k in range(4)] == [base[k] for k in range(4)]
    assert extended[5] is extended.get("a") is added[1]
    assert extended.entries == (*base.entries, *added)
    assert extended.select("m", 1) == (6,)
    assert len(base) == 4


def test_a_library_may_be_extended_by_nothing_and_again() -> None:
    twice = (
        tiny_library().extended([]).extended([profile("a", [1.0])]).extended([profile("a", [2.0])])
    )
    assert twice.ids[4:] == ("a", "a")
    assert twice[5].power_w[0] == 2
    assert twice.get("a") is twice[4]


def test_an_ordered_library_may_be_empty_and_be_extended() -> None:
    empty = ProfileLibrary.in_order([])
    assert (len(empty), empty.ids, empty.entries) == (0, (), ())
    assert empty.extended([profile("z", [3.0]), profile("a", [1.0])]).ids == ("z", "a")


def test_a_library_to_draw_from_needs_profiles_of_different_ids() -> None:
    with pytest.raises(ProfileError, match="at least one"):
        ProfileLibrary([])
    with pytest.raises(ProfileError, match="two profiles have the id 'a'"):
        ProfileLibrary([profile("a", [1.0]), profile("b", [1.0]), profile("a", [2.0])])


@pytest.mark.parametrize(
    ("power_w", "stored"),
    [
        ([0, 7, 2_400], pa.int32()),
        ([0, 2**31 - 128], pa.int32()),  # the largest float32 below 2^31
        ([0, 2**31], pa.float32()),
        ([0, 3e38], pa.float32()),
        ([0.5, 7], pa.float32()),
        ([-0.0, 7], pa.float32()),
    ],
)
def test_whole_watts_are_stored_as_integers_where_they_fit(
    tmp_path: Path, power_w: list[float], stored: pa.DataType
) -> None:
    path = tmp_path / "a.parquet"
    write_profile(profile("a", power_w), path)
    assert pq.read_schema(path).field("power_w").type == stored
    assert read_profile(path).power_w.tobytes() == np.float32(power_w).tobytes()


@pytest.mark.slow
@settings(max_examples=40)
@given(
    power_w=st.lists(
        st.floats(-0.0, width=32, allow_infinity=False) | st.integers(0, 2**33), min_size=1
    )
)
def test_every_profile_comes_back_as_it_was_written(
    tmp_path_factory: pytest.TempPathFactory, power_w: list[float]
) -> None:
    path = tmp_path_factory.getbasetemp() / "any.parquet"
    written = profile("a", power_w)
    write_profile(written, path, force=True)
    assert read_profile(path).sha256 == written.sha256
