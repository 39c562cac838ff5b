"""Power from segments in small cases worked out by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from builders import job_energy_j, job_table, profile, tiny_library, tiny_scenario

from diploee import generate_jobs
from diploee.power import Segments
from diploee.power.blocks import PowerModel, power_stream
from diploee.power.direct import EnergyTables, add_directly, energies_within
from diploee.profiles import ProfileLibrary
from diploee.scenario import Scenario
from diploee.schedule import Schedule
from diploee.simulation.steps import (
    job_segments,
    power_blocks,
    power_series,
    schedule_jobs,
)

IDLE_W = 400


def segments_of(*rows: dict[str, Any]) -> Segments:
    defaults = {
        "pool_id": 0,
        "n_nodes": 1,
        "profile_id": 0,
        "offset_ms": 0,
        "weight": 1.0,
    }
    names = ("start_ms", "end_ms", *defaults)
    full = [{**defaults, **row} for row in rows]
    return Segments(**{name: [row[name] for row in full] for name in names})


def it_power_w(segments: Segments, scenario: Scenario, *profiles: Any) -> list[float]:
    blocks = power_blocks(segments, scenario, ProfileLibrary(profiles))
    return np.concatenate([block.it_power_w[0] for block in blocks]).tolist()


RAMP = profile("a", [100, 200, 300, 400])


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
    assert block.it_power_w[0].tolist() == [
        11 * 400 + own for own in (100, 200, 300, 400)
    ]
    assert block.it_power_w[1].tolist() == [
        1 * 400 + own for own in (100, 200, 300, 400)
    ]
    assert block.busy_nodes[:, 0].tolist() == [1, 2]
    assert block.starts_ms.tolist() == [0, 1_000, 2_000, 3_000]
    assert block.device_power_w.tolist() == block.it_power_w.sum(axis=0).tolist()


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


def test_at_the_step_of_profiles_energies_are_those_of_brute_force() -> None:
    rng = np.random.default_rng(3)
    library = ProfileLibrary.in_order(
        [profile("a", rng.uniform(100, 900, 40), dt_ms=100)]
    )
    tables = EnergyTables.build(library, [0], 100)
    assert tables.interval_j.size == 0
    starts_ms = rng.integers(-3_000, 5_000, 30)
    offset_ms = rng.integers(0, 2_000, 30) * (np.arange(30) % 2)
    ends_ms = starts_ms + rng.integers(1, 4_500, 30)
    segments = segments_of(
        *(
            {"start_ms": int(a), "end_ms": int(z), "offset_ms": int(o), "weight": 1.5}
            for a, z, o in zip(starts_ms, ends_ms, offset_ms, strict=True)
        )
    )
    found_j = np.zeros((1, 60))
    add_directly(segments, tables, 0, found_j)
    each = [
        energies_within(segments, tables, k * 100, (k + 1) * 100).sum()
        for k in range(60)
    ]
    np.testing.assert_allclose(found_j[0], each, rtol=1e-12, atol=1e-9)


def test_busy_power_factor_scales_busy_nodes_and_leaves_idle_ones() -> None:
    scenario = tiny_scenario(
        {
            "duration": "2 s",
            "resolution": "1 s",
            "facility.node_types.node.busy_power_factor": 1.5,
        }
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


def test_jobs_whose_transforms_do_not_fit_in_memory_are_added_directly(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    scenario, library = (
        tiny_scenario({"duration": "12 h", "resolution": "1 s"}),
        tiny_library(),
    )
    jobs = generate_jobs(scenario, library).jobs
    segments = job_segments(
        schedule_jobs(jobs, scenario, "compiled"), library, scenario
    )
    used = tuple(range(len(library.entries)))
    powers_w = []
    for n_held in (4, 2, 0):  # of four profiles, the longest first
        monkeypatch.setattr(
            "diploee.power.blocks.MAX_SPECTRA_BYTES", n_held * 16 * (2**17 + 1)
        )
        model = PowerModel(scenario.facility, library, used, 1_000, scenario.horizon_ms)
        assert model.spectral_ids == [0, 2, 1, 3][:n_held]
        blocks = power_stream(model, [(segments, scenario.horizon_ms)])
        powers_w.append(np.concatenate([block.it_power_w[0] for block in blocks]))
    assert powers_w[1] == pytest.approx(powers_w[0], rel=1e-9)
    assert powers_w[2] == pytest.approx(powers_w[0], rel=1e-9)
