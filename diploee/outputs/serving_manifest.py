"""What the manifest says about request streams: rates, capacities, and the curve files used."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from diploee.inference import Curves, ServicePlan
from diploee.inference.samples import PROVENANCE


def serving_entries(plans: Sequence[ServicePlan], curves: Curves) -> dict[str, Any]:
    """Return the manifest's `requests`, `services` and `curves`; nothing without request streams.

    Curve files are given by name and SHA-256, not by path, so that the manifest does not depend on
    the machine.
    """
    if not plans:
        return {}
    return {
        "requests": [asdict(plan.match) for plan in plans],
        "services": {
            f"{plan.stream}.{name}": {
                "reserved_nodes": int(plan.reserved_nodes[row]),
                "nodes_per_instance": int(plan.nodes_per_instance[row]),
                **asdict(plan.capacities[row]),
            }
            for plan in plans
            for row, name in enumerate(plan.services)
        },
        "curves": {
            file.name: {"sha256": file.sha256}
            for of_service in curves.values()
            for file in of_service.files
        },
        "serving_samples": asdict(PROVENANCE),
    }
