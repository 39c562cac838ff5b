"""`manifest.json`: from where every number of a run comes; equal runs differ in `timing`."""

from __future__ import annotations

import json
import platform
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import Any

from diploee import __version__
from diploee.outputs.folder import MANIFEST
from diploee.profiles import ProfileLibrary
from diploee.scenario import Scenario, input_hashes
from diploee.workload import StreamClass, StreamMatch

SCHEMA_VERSION = 1
METRICS_FILE = "metrics.json"
RECORDED_PACKAGES = ("numpy", "numba", "pyarrow", "scipy", "simpy")


def build_manifest(
    scenario: Scenario,
    library: ProfileLibrary,
    engine: str,
    classes: Sequence[StreamClass],
    matches: Sequence[StreamMatch],
    warnings: Sequence[str],
) -> dict[str, Any]:
    """Return the manifest of a run, without its `timing`."""
    used = sorted({index for c in classes for index in c.profile_ids})
    files = input_hashes(scenario)
    return {
        "schema_version": SCHEMA_VERSION,
        "diploee_version": __version__,
        "versions": {
            "python": platform.python_version(),
            **{package: version(package) for package in RECORDED_PACKAGES},
        },
        "scenario_name": scenario.name,
        "scenario_sha256": scenario.sha256(),
        "scenario": scenario.model_dump(mode="json"),
        "seed": scenario.seed,
        "engine": engine,
        "workload": [asdict(match) for match in matches],
        "classes": [_class_entry(c, library) for c in classes],
        "profiles": _profile_entries(library, used),
        **({"input_files": files} if files else {}),
        "power_boundary": "it_power_w is the devices' power (GPUs and CPU packages); "
        "facility_power_w equals it, as no conversion, cooling or other load is modelled",
        "warnings": list(warnings),
    }


def _class_entry(c: StreamClass, library: ProfileLibrary) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "stream": c.stream,
        "class": c.job_class.name,
        "probability": c.job_class.probability,
        "profile_ids": [library.ids[index] for index in c.profile_ids],
    }
    if c.extrapolation_ratio != 1:
        entry["extrapolation_ratio"] = c.extrapolation_ratio
        entry["extrapolation"] = (
            f"scaled linearly from {c.job_class.profile_n_nodes} nodes: a coherent upper bound of "
            "the swings, not a forecast"
        )
    return entry


def _profile_entries(library: ProfileLibrary, used: Iterable[int]) -> dict[str, Any]:
    return {
        library.ids[index]: {
            "workload": library.entries[index].workload,
            "n_nodes": library.entries[index].n_nodes,
            "dt_s": library.entries[index].dt_ms / 1000,
            "duration_s": library.entries[index].duration_ms / 1000,
            "sha256": library.entries[index].sha256,
            "provenance": asdict(library.entries[index].provenance),
        }
        for index in used
    }


def write_json(path: Path, content: dict[str, Any]) -> None:
    """Write JSON with a line per key."""
    path.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


__all__ = ["MANIFEST", "METRICS_FILE", "SCHEMA_VERSION", "build_manifest", "write_json"]
