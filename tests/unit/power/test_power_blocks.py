"""Power from segments in small cases worked out by hand."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Executor, ProcessPoolExecutor
from dataclasses import replace
from multiprocessing import get_context
from typing import Any

import numpy as np
import pytest
from builders import job_energy_j, job_table, profile, tiny_library, tiny_scenario

from diploee.power import Segments
from diploee.power.blocks import Method
from diploee.power.direct import EnergyTables
from diploee.profiles import ProfileLibrary
from diploee.scenario import Scenario
from diploee.schedule import Schedule
from diploee.schedule.schedule import NEVER_MS
from diploee.steps import generate_jobs, job_segments, power_blocks, power_series, schedule_jobs

IDLE_W = 400


def segments_of(*rows: dict[str, Any]) -> Segments:
    defaults = {"pool_id": 0, "n_nodes": 1, "profile_id": 0, "offset_ms": 0, "weight": 1.0}
    names = ("start_ms", "end_ms", *defaults)
    full = [{**defaults, **row} for row in rows]
    return Segments(**{name: [row[name] for row in full] for name in names})


def site(duration: str = "10 s", resolution: str = "1 s", n_nodes: int = 2) -> Scenario:
    return tiny_scenario(
        {
            "duration": duration,
            "resolution": resolution,
            "facility.pools.main.n_nodes": n_nodes,
            "streams.training.classes": [{"workload": "a", "n_nodes": 1, "probability": 1}],
        }
    )


def it_power_w(segments: Segments, scenario: Scenario, *profiles: Any) -> list[float]:
    blocks = power_blocks(segments, scenario, ProfileLibrary(profiles))
    return np.concatenate([block.it_power_w[0] for block in blocks]).tolist()


RAMP = profile("a", [100, 200, 300, 400])


SLOW = profile("s", [100, 300], dt_ms=1_500)
CASES: dict[str, tuple[list[dict[str, Any]], str, Any, list[float]]] = {
    "idle nodes draw idle power": ([], "10 s", RAMP, [2 * IDLE_W] * 10),
    "a busy node draws its profile instead": (
        [{"start_ms": 2_000, "end_ms": 6_000}], "10 s", RAMP,
        [800, 800, 500, 600, 700, 800, 800, 800, 800, 800],
    ),
    # Second 1: 0.75 s of 100 W and 0.25 s of idle; second 2: 0.25 s of 100 W and 0.75 s of 200 W.
    "a start between two edges splits energy by time": (
        [{"start_ms": 1_250, "end_ms": 5_250}], "6 s", RAMP,
        [800, 75 + 500, 175 + 400, 275 + 400, 375 + 400, 100 + 700],
    ),
    # 0.2 s of 200 W and 0.2 s of 300 W; idle: one node the whole second, the other for 0.6 s.
    "a segment shorter than an interval keeps its energy": (
        [{"start_ms": 300, "end_ms": 700, "offset_ms": 1_800}], "1 s", RAMP, [40 + 60 + 400 + 240],
    ),
    "a segment from before the run is read from its offset": (
        [{"start_ms": 0, "end_ms": 2_000, "offset_ms": 2_000}], "3 s", RAMP, [700, 800, 800],
    ),
    "a profile is read at its own pace": (
        [{"start_ms": 0, "end_ms": 3_000}], "3 s", SLOW, [500, 600, 700],
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_intervals_hold_the_energy_of_profiles_and_idle_nodes(case: str) -> None:
    rows, duration, of, expected = CASES[case]
    assert it_power_w(segments_of(*rows), site(duration), of) == pytest.approx(expected)


def test_the_horizon_cuts_a_job() -> None:
    jobs = job_table([8_000], [1], [4_000])
    schedule = Schedule(jobs, np.array([8_000]), 10_000)
    library = ProfileLibrary([RAMP])
    segments = job_segments(schedule, library, site())
    assert segments.end_ms.tolist() == [10_000]
    assert job_energy_j(schedule, library, site()).tolist() == [300.0]
    assert it_power_w(segments, site(), RAMP)[-2:] == [500, 600]


def test_a_job_that_never_started_has_no_energy() -> None:
    schedule = Schedule(job_table([0, 0], [1, 1], [4_000, 4_000]), np.array([0, NEVER_MS]), 10_000)
    library = ProfileLibrary([RAMP])
    assert job_energy_j(schedule, library, site()).tolist() == [1_000.0, 0.0]
    assert len(job_segments(schedule, library, site())) == 1


def test_a_scaled_job_weighs_its_nodes_over_those_of_its_profile() -> None:
    wide = profile("w", [1_000, 2_000], n_nodes=4)
    schedule = Schedule(job_table([0], [10], [2_000]), np.array([0]), 10_000)
    library = ProfileLibrary([wide])
    segments = job_segments(schedule, library, site())
    assert segments.weight.tolist() == [2.5]
    assert job_energy_j(schedule, library, site()).tolist() == [7_500.0]
    assert it_power_w(segments, site("2 s", n_nodes=10), wide) == [2_500, 5_000]


def test_pools_are_kept_apart_and_sum_to_the_facility() -> None:
    scenario = tiny_scenario(
        {
            "duration": "4 s",
            "resolution": "1 s",
            "facility.pools.other": {"node_type": "node", "n_nodes": 3},
        }
    )
    segments = segments_of(
        {"start_ms": 0, "end_ms": 4_000, "pool_id": 1, "n_nodes": 2},
        {"start_ms": 0, "end_ms": 4_000, "pool_id": 0, "n_nodes": 1},
    )
    (block,) = power_blocks(segments, scenario, ProfileLibrary([RAMP]))
    assert block.it_power_w[0].tolist() == [11 * 400 + own for own in (100, 200, 300, 400)]
    assert block.it_power_w[1].tolist() == [1 * 400 + own for own in (100, 200, 300, 400)]
    assert block.busy_nodes[:, 0].tolist() == [1, 2]
    assert block.device_power_w.tolist() == block.it_power_w.sum(axis=0).tolist()


def test_busy_nodes_are_those_at_the_start_of_the_interval() -> None:
    segments = segments_of({"start_ms": 500, "end_ms": 2_000}, {"start_ms": 1_000, "end_ms": 3_500})
    (block,) = power_blocks(segments, site("4 s"), ProfileLibrary([RAMP]))
    assert block.busy_nodes[0].tolist() == [0, 2, 1, 1]
    assert block.mean_busy_nodes[0].tolist() == [0.5, 2, 1, 0.5]


def test_blocks_follow_each_other_to_the_horizon() -> None:
    blocks = list(power_blocks(Segments.empty(), site(), ProfileLibrary([RAMP]), 4))
    assert [block.device_power_w.size for block in blocks] == [4, 4, 2]
    starts_ms = np.concatenate([block.starts_ms for block in blocks])
    assert starts_ms.tolist() == [1_000 * k for k in range(10)]


def test_power_series_is_a_frame_with_zone_aware_interval_starts() -> None:
    scenario = tiny_scenario(
        {"duration": "3 s", "resolution": "1 s", "facility.utc_offset": "-07:00"}
    )
    segments = segments_of({"start_ms": 0, "end_ms": 3_000, "n_nodes": 3})
    frame = power_series(segments, scenario, ProfileLibrary([RAMP]))
    assert frame.index[0].isoformat() == "2018-01-01T00:00:00-07:00"
    assert frame.index.name == "timestamp"
    assert frame["it_power_w"].tolist() == [3_700, 3_800, 3_900]
    assert frame["utilization"].tolist() == [0.25] * 3
    assert frame["busy_nodes"].tolist() == [3] * 3


def test_profile_with_an_odd_step_leaves_the_other_tables_small() -> None:
    library = ProfileLibrary.open()
    odd = profile("odd-1n-1", [1_000.0] * 1_000, dt_ms=33)
    together = ProfileLibrary.in_order([*library.entries[:4], odd])
    alone = EnergyTables.build(together, range(4), 60_000)
    beside = EnergyTables.build(together, range(5), 60_000)
    assert beside.interval_j.size - alone.interval_j.size < 20 * 11 * 1_000


def test_busy_power_factor_scales_busy_nodes_and_leaves_idle_ones() -> None:
    scenario = tiny_scenario(
        {"duration": "2 s", "resolution": "1 s", "facility.node_types.node.busy_power_factor": 1.5}
    )
    n_idle = scenario.facility.n_nodes - 1
    library = ProfileLibrary([profile("draw-1n-1", [1_000.0])])
    jobs = generate_jobs(scenario, tiny_library()).jobs
    assert (jobs.power_factor == 1.5).all()
    job = replace(job_table([0], [1], [1_000]), power_factor=np.array([1.5]))
    schedule = Schedule(job, np.array([0]), scenario.horizon_ms)
    segments = job_segments(schedule, library, scenario)
    (block,) = power_blocks(segments, scenario, library)
    found_w = block.it_power_w[0].tolist()
    assert found_w == [1_500.0 + n_idle * IDLE_W, (n_idle + 1) * IDLE_W]
    assert job_energy_j(schedule, library, scenario).tolist() == [1_500.0]


@pytest.fixture(scope="module")
def processes() -> Iterator[Executor]:
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as executor:
        yield executor


@pytest.mark.slow
@pytest.mark.parametrize("method", ["direct", "spectral"])
def test_blocks_of_a_process_pool_equal_those_of_threads(
    method: Method, processes: Executor
) -> None:
    scenario = tiny_scenario({"duration": "12 h", "resolution": "1 s"})
    library = tiny_library()
    jobs = generate_jobs(scenario, library).jobs
    segments = job_segments(schedule_jobs(jobs, scenario, "compiled"), library, scenario)
    args = (segments, scenario, library, 10_000, method)
    remote = list(power_blocks(*args, executor=processes))
    local = list(power_blocks(*args))
    assert len(remote) == len(local)
    for there, here in zip(remote, local, strict=True):
        assert there.t0_ms == here.t0_ms
        assert there.it_power_w.tobytes() == here.it_power_w.tobytes()
        assert there.busy_nodes.tolist() == here.busy_nodes.tolist()


@pytest.mark.parametrize(("n_samples", "dt_ms"), [(100, 1_000), (241, 1_000), (47, 2_500)])
def test_tabled_energies_are_those_between_the_edges_of_each_interval(
    n_samples: int, dt_ms: int
) -> None:
    power_w = np.random.default_rng(1).integers(500, 2_500, n_samples)
    only = profile("tune-1n", power_w, dt_ms=dt_ms)
    tables = EnergyTables.build(ProfileLibrary([only]), [0], 10_000)
    per_step = 10_000 // int(tables.grid_ms[0])
    rows_j = tables.interval_j.reshape(per_step + 1, -1)
    cumulative_j = tables.cumulative_j
    for phase in range(per_step + 1):
        edges = np.arange(rows_j.shape[1] + 1) * per_step - phase
        at_edges_j = cumulative_j[np.clip(edges, 0, cumulative_j.size - 1)]
        assert (rows_j[phase] == np.diff(at_edges_j)).all()
