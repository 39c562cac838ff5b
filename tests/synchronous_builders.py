"""Small sites of synchronous jobs: ``from synchronous_builders import ...``."""

from __future__ import annotations

from typing import Any

from diploee.scenario import Scenario, scenario_from_dict

NODE = {
    "n_gpus": 8,
    "gpu_tdp_w": 700,
    "n_cpus": 2,
    "cpu_tdp_w": 350,
    "idle_power_w": 708,
}
RATED_W, CPUS_W, IDLE_W = 5_600.0, 708 * 700 / 6_300, 708.0


def synchronous_scenario(
    *jobs: dict[str, Any],
    n_nodes: int,
    synchronous: dict[str, Any] | None = None,
    stream: dict[str, Any] | None = None,
    **keys: Any,
) -> Scenario:
    """Return a site of one pool and a stream ``pretraining`` of synchronous jobs."""
    block = {"jobs": list(jobs), **(synchronous or {})}
    own = {"pool": "main", "synchronous": block, **(stream or {})}
    return scenario_from_dict(
        {
            "name": "synchronous",
            "start": "2026-01-01",
            "facility": {
                "node_types": {"node": NODE},
                "pools": {"main": {"node_type": "node", "n_nodes": n_nodes}},
            },
            "streams": {"pretraining": own},
            **keys,
        }
    )
