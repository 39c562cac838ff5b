"""Filling a run time that is not the profile's own: start, looped steady part, end."""

from __future__ import annotations

import numpy as np
import pytest
from builders import job_energy_j, job_table, profile, tiny_scenario
from hypothesis import given
from hypothesis import strategies as st

from diploee.profiles import ProfileLibrary
from diploee.profiles.flat import flat_profile
from diploee.profiles.looping import Phases, fill_run_times, find_phases
from diploee.schedule import Schedule
from diploee.simulation.steps import job_segments, power_series

PHASES = Phases(steady_ms=2_000, ending_ms=7_000, duration_ms=8_000)
# 2 s of start at 100 W, 5 s of steady part, 1 s of end at 50 W
STEPPED = profile("stepped", [100, 100, 900, 1_000, 1_100, 1_000, 900, 50])


def played(run_ms: int, of: Phases = PHASES) -> list[tuple[int, int, int]]:
    """Return (into, offset, length) of each stretch [s]."""
    found = fill_run_times(np.array([run_ms]), of)
    columns = (found.into_ms, found.offset_ms, found.length_ms)
    return [tuple(int(v) // 1_000 for v in row) for row in zip(*columns, strict=True)]  # type: ignore[misc]


STEADY = Phases(0, 8_000, 8_000)
CASES: dict[str, tuple[int, Phases, list[tuple[int, int, int]]]] = {
    "as long as its profile": (8, PHASES, [(0, 0, 8)]),
    "longer, with a part of a loop": (
        15,
        PHASES,
        [(0, 0, 7), (7, 2, 5), (12, 2, 2), (14, 7, 1)],
    ),
    "longer by whole loops": (13, PHASES, [(0, 0, 7), (7, 2, 5), (12, 7, 1)]),
    "shorter": (5, PHASES, [(0, 0, 4), (4, 7, 1)]),
    "too short for its start and end": (2, PHASES, [(0, 0, 1), (1, 2, 1)]),
    "too short for its start": (3, PHASES, [(0, 0, 1), (1, 2, 1), (2, 7, 1)]),
    "steady throughout": (20, STEADY, [(0, 0, 8), (8, 0, 8), (16, 0, 4)]),
}


@pytest.mark.parametrize("case", CASES)
def test_a_run_loops_or_cuts_the_steady_part_and_keeps_start_and_end(case: str) -> None:
    run_s, of, expected = CASES[case]
    assert played(run_s * 1_000, of) == expected


@given(
    st.integers(1, 30_000),
    st.integers(0, 9_000),
    st.integers(1, 9_000),
    st.integers(0, 3_000),
)
def test_mean_power_does_not_jump_where_the_start_begins_to_be_cut(
    run_ms: int, steady: int, loop: int, tail: int
) -> None:
    of = Phases(steady, steady + loop, steady + loop + tail)
    found = fill_run_times(np.array([run_ms]), of)
    in_start = np.clip(steady - found.offset_ms, 0, found.length_ms).sum()
    body = run_ms - (tail if run_ms >= steady + tail else 0)
    own = run_ms == of.duration_ms
    most = min(steady, max(body // 2, int(steady * min(run_ms / of.duration_ms, 1))))
    assert in_start == (steady if own else most)


@pytest.mark.slow
@given(
    st.lists(st.integers(1, 100_000), min_size=1, max_size=5),
    st.integers(0, 5_000),
    st.integers(1, 5_000),
    st.integers(0, 5_000),
)
def test_stretches_join_without_gap_and_stay_inside_the_profile(
    run_ms: list[int], steady: int, loop: int, tail: int
) -> None:
    of = Phases(steady, steady + loop, steady + loop + tail)
    found = fill_run_times(np.array(run_ms), of)
    assert (found.length_ms > 0).all()
    assert (found.offset_ms >= 0).all()
    assert (found.offset_ms + found.length_ms <= of.duration_ms).all()
    for row, length in enumerate(run_ms):
        own = found.row == row
        ends = found.into_ms[own] + found.length_ms[own]
        assert found.into_ms[own].tolist() == [0, *ends[:-1].tolist()]
        assert ends[-1] == length


def test_phases_are_where_the_one_minute_mean_reaches_the_usual_level() -> None:
    power_w = np.concatenate(
        [np.full(300, 100.0), np.full(3_000, 1_000.0), np.full(120, 100.0)]
    )
    found = find_phases(profile("p", power_w))
    assert found.steady_ms == pytest.approx(300_000, abs=30_000)
    assert found.ending_ms == pytest.approx(3_300_000, abs=30_000)
    assert found.duration_ms == 3_420_000


def test_the_energy_of_a_looped_job_is_that_of_its_stretches() -> None:
    swing = 1_000 + 100 * np.sin(np.arange(3_000))
    phased = profile(
        "p", np.concatenate([np.full(300, 100.0), swing, np.full(120, 50.0)])
    )
    of, library = find_phases(phased), ProfileLibrary([phased])
    schedule = Schedule(job_table([0], [1], [9_000_000]), np.array([0]), 10_800_000)
    scenario = tiny_scenario({"duration": "3 h", "resolution": "1 s"})
    segments = job_segments(schedule, library, scenario)
    own_w = (
        power_series(segments, scenario, library)["it_power_w"].to_numpy()[:9_000]
        - 11 * 400
    )
    assert job_energy_j(schedule, library, scenario) == pytest.approx([own_w.sum()])
    first, loop = of.steady_ms // 1_000, (of.ending_ms - of.steady_ms) // 1_000
    np.testing.assert_allclose(own_w[:first], phased.power_w[:first])
    np.testing.assert_allclose(own_w[first + loop :][:loop], own_w[first:][:loop])
    np.testing.assert_allclose(own_w[-100:], phased.power_w[-100:])


def test_a_start_up_holds_its_nodes_at_idle_power() -> None:
    jobs = job_table([0], [2], [18_000])
    jobs = type(jobs)(**{**jobs.__dict__, "startup_ms": np.array([10_000])})
    library = ProfileLibrary([STEPPED]).extended([flat_profile()])
    scenario = tiny_scenario({"duration": "20 s", "resolution": "1 s"})
    schedule = Schedule(jobs, np.array([0]), 20_000)
    frame = power_series(job_segments(schedule, library, scenario), scenario, library)
    assert frame["busy_nodes"].tolist() == [2] * 18 + [0] * 2
    idle_w, others_w = 12 * 400, 10 * 400
    assert frame["it_power_w"].to_numpy()[:10] == pytest.approx([idle_w] * 10)
    own_w = frame["it_power_w"].to_numpy()[10:18] - others_w
    assert own_w == pytest.approx(2 * STEPPED.power_w)
    energy_j = job_energy_j(schedule, library, scenario)
    assert energy_j == pytest.approx([10 * 800 + 2 * STEPPED.energy_j])


def test_a_job_far_longer_than_the_run_costs_no_more_than_the_run() -> None:
    library = ProfileLibrary([STEPPED])
    long_ms = [10**13, 8_000 * 40 + 5_000]
    schedule = Schedule(
        job_table([0, 0], [1, 1], long_ms), np.array([1_000, 1_000]), 60_000
    )
    segments = job_segments(schedule, library, tiny_scenario())
    assert len(segments) < 40
    ends = {int(end) for end in segments.end_ms}
    assert max(ends) == 60_000
    first, second = job_energy_j(schedule, library, tiny_scenario())
    assert first == pytest.approx(second)
