"""Nodes at their AC input: each node passes the model of its kind, and their sum is the
power."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
from builders import job_table, tiny_library, tiny_scenario

import diploee
from diploee.facility.node_power import AC_POWER, AcPowerSpec
from diploee.loads.jobs.lowering import lower_jobs
from diploee.power import Segments
from diploee.power.blocks import Method, PowerModel, power_stream
from diploee.power.node_ac import with_ac_profiles
from diploee.profiles import ProfileLibrary
from diploee.profiles.flat import flat_profile
from diploee.scenario import Scenario, load_scenario
from diploee.schedule import Schedule

FIXED_W, SLOPE = 130.0, 1.12


class Bent(AcPowerSpec):
    """A quadratic."""

    kind: Literal["bent"] = "bent"
    curvature: float = 2e-5

    def ac_power_w(
        self, device_power_w: Any, rated_power_w: float, idle_power_w: float
    ) -> Any:
        return FIXED_W + SLOPE * device_power_w + self.curvature * device_power_w**2

    def reactive_power_var(self, rated_power_w: float, idle_power_w: float) -> float:
        return -50.0


@pytest.fixture(autouse=True)
def _bent() -> Iterator[None]:
    AC_POWER.register(Bent)
    yield
    AC_POWER.added.pop("bent")


BENT = {"facility.node_types.node.ac_power": "bent"}


def _model(
    scenario: Scenario, library: ProfileLibrary, dt_ms: int, method: Method
) -> PowerModel:
    used = tuple(range(len(library)))
    library, ac = with_ac_profiles(scenario.facility, library, used, {})
    return PowerModel(
        scenario.facility, library, used, dt_ms, scenario.horizon_ms, method, ac
    )


def _jobs(library: ProfileLibrary, factor: float, startup_ms: int) -> Schedule:
    """Return fifty jobs that start on whole seconds, one after the other on nodes of
    their own."""
    rng = np.random.default_rng(5)
    profile_id = rng.integers(0, 4, 50)
    lengths_ms = np.array([entry.duration_ms for entry in library.entries])[profile_id]
    start_ms = np.sort(rng.integers(0, 10_000, 50)) * 1_000
    per_profile = np.array([entry.n_nodes for entry in library.entries])[profile_id]
    jobs = job_table(
        start_ms, per_profile * rng.integers(1, 4, 50), lengths_ms, profile_id
    )
    jobs = type(jobs)(
        **{
            name: getattr(jobs, name)
            for name in (
                "job_id",
                "submit_ms",
                "n_nodes",
                "pool_id",
                "class_id",
                "profile_id",
            )
        },
        duration_ms=lengths_ms + startup_ms,
        startup_ms=np.full(50, startup_ms),
        power_factor=np.full(50, factor),
    )
    return Schedule(jobs, start_ms, 20_000_000)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "factor", "startup_ms"), [("direct", 1.25, 7_000), ("spectral", 1.0, 0)]
)
def test_power_of_jobs_is_that_of_node_after_node(
    method: Method, factor: float, startup_ms: int
) -> None:
    n_nodes, horizon_s = 1_000, 20_000
    changes = {
        **BENT,
        "duration": f"{horizon_s} s",
        "resolution": "1 s",
        "facility.pools.main.n_nodes": n_nodes,
        "facility.node_types.node.busy_power_factor": factor,
    }
    scenario = tiny_scenario(changes)
    library = tiny_library().extended([flat_profile()])
    schedule = _jobs(library, factor, startup_ms)
    segments = lower_jobs(schedule, library, scenario.facility).segments
    model = _model(scenario, library, 1_000, method)
    blocks = list(power_stream(model, [(segments, scenario.horizon_ms)]))

    node = scenario.facility.node_types["node"]
    expected_w = np.full(horizon_s, n_nodes * node.ac_power_w(node.idle_power_w))
    for job in range(50):
        entry = library[int(schedule.jobs.profile_id[job])]
        nodes = int(schedule.jobs.n_nodes[job])
        first = int(schedule.start_ms[job] + startup_ms) // 1_000
        of_node_w = entry.power_w.astype(np.float64) / entry.n_nodes * factor
        of_node_w = of_node_w[: horizon_s - first]
        idle_ac_w = node.ac_power_w(node.idle_power_w)
        expected_w[first : first + of_node_w.size] += nodes * (
            np.array([node.ac_power_w(power_w) for power_w in of_node_w]) - idle_ac_w
        )
    found_w = np.concatenate(
        [b.it_ac_power_w[0] for b in blocks if b.it_ac_power_w is not None]
    )
    # Twins are kept in float32, as profiles are.
    np.testing.assert_allclose(found_w, expected_w, rtol=2e-7)


@pytest.mark.slow
@pytest.mark.parametrize("resolution", ["0.1 s", "60 s"])
@pytest.mark.parametrize("name", ["mixed_11mw", "chat_and_recurring"])
def test_straight_model_shifts_and_scales_the_devices_power(
    tmp_path: Path, name: str, resolution: str
) -> None:
    changes = ["duration=2 h", f"resolution={resolution}", "warm_up=1 day"]
    plain = load_scenario(name, changes)
    kinds = plain.facility.node_types
    straight = [
        f"facility.node_types.{kind}.ac_power={{kind: bent, curvature: 0}}"
        for kind in kinds
    ]
    before = diploee.run(plain, tmp_path / "plain", engine="compiled").facility()
    after = diploee.run(
        load_scenario(name, [*changes, *straight]), tmp_path / "ac", engine="compiled"
    ).facility()
    np.testing.assert_allclose(after["it_power_w"], before["it_power_w"], rtol=1e-7)
    expected_w = FIXED_W * plain.facility.n_nodes + SLOPE * before["it_power_w"]
    # Services between two measured rates scale the whole AC power, its fixed part too.
    np.testing.assert_allclose(after["it_ac_power_w"], expected_w, rtol=5e-4)
    assert after["facility_power_w"].equals(
        after["it_ac_power_w"].rename("facility_power_w")
    )
    assert (after["facility_reactive_var"] == -50.0 * plain.facility.n_nodes).all()


def test_profile_measured_at_the_ac_input_is_taken_as_it_is() -> None:
    from dataclasses import replace

    from diploee.profiles.profile import PowerBoundary

    scenario = tiny_scenario({**BENT, "duration": "600 s", "resolution": "1 s"})
    entry = tiny_library()[0]
    measured = replace(
        entry,
        provenance=replace(entry.provenance, power_boundary=PowerBoundary.NODE_AC),
    )
    library = ProfileLibrary.in_order([measured, flat_profile()])
    model = _model(scenario, library, 1_000, "direct")
    segments = Segments(
        start_ms=[0],
        end_ms=[600_000],
        pool_id=[0],
        n_nodes=[measured.n_nodes],
        profile_id=[0],
        offset_ms=[0],
        weight=[1.0],
    )
    (block,) = power_stream(model, [(segments, 600_000)])
    assert block.it_ac_power_w is not None
    idle_w = scenario.facility.node_types["node"].ac_power_w(400.0)
    own_w = block.it_ac_power_w[0] - (12 - measured.n_nodes) * idle_w
    np.testing.assert_allclose(own_w, measured.power_w[:600], rtol=1e-6)
