"""The run folder: its default place, what it may hold, how large it gets, its manifest.

`manifest.json` says from where every number comes; equal runs differ in `timing`.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from importlib.metadata import version
from itertools import chain, count
from math import inf
from pathlib import Path
from typing import Any

import numpy as np

from diploee.base.columns import Columns, as_entries
from diploee.base.errors import InputError, one_line, shown
from diploee.base.files import FolderKind
from diploee.base.metric import Metric
from diploee.base.model import assumed_keys
from diploee.base.units import MS_PER_S
from diploee.base.version import full_version
from diploee.loads.jobs import StreamClass, StreamMatch
from diploee.loads.services.curves import Curves
from diploee.loads.services.samples import PROVENANCE
from diploee.loads.services.service_plan import ServicePlan
from diploee.profiles.library import ProfileLibrary
from diploee.scenario.models import Scenario

SCHEMA_VERSION = 1
METRICS_FILE = "metrics.json"
RECORDED_PACKAGES = ("numpy", "numba", "pyarrow", "scipy", "simpy")
MANIFEST = "manifest.json"
LIMITS_FILE = "limits.json"
ENTRIES = (
    "facility.parquet",
    "jobs.parquet",
    "nodes.parquet",
    "parts.parquet",
    MANIFEST,
    METRICS_FILE,
    LIMITS_FILE,
    "zooms/*.parquet",
)
"""All that a run folder may hold, as patterns; with anything else it is never replaced."""  # noqa: E501

RUN_FOLDER = FolderKind(
    "a run folder",
    MANIFEST,
    ("schema_version", "scenario_sha256"),
    lambda _manifest: ENTRIES,
)


def default_folder(name: str, sha256: str, parent: Path = Path("runs")) -> Path:
    """Return ``runs/<name>-<first 8 of the hash>``, numbered where it exists."""
    first = parent / f"{name}-{sha256[:8]}"
    others = (first.with_name(f"{first.name}-{n}") for n in count(2))
    return next(
        folder for folder in chain([first], others) if not os.path.lexists(folder)
    )


def run_files(folder: Path) -> list[Path]:
    """Return the files of a run folder that are there."""
    return [path for pattern in ENTRIES for path in folder.glob(pattern)]


def refuse_in_run(place: Path | str, folder: Path, option: str = "--out") -> None:
    """Refuse a place for a file within a run folder."""
    if Path(place).resolve().is_relative_to(folder.resolve()):
        raise InputError(
            f"{option}: {place} lies in the run folder {folder}, which could not be "
            "replaced by --force with other files in it; choose a place beside it"
        )


BYTES_PER_INTERVAL = 10
"""Of `facility.parquet`, measured on year-long runs; smooth 0.1 s series compress to
half."""
BYTES_PER_SERVICE = 12
BYTES_PER_JOB = 13


def expected_mb(n_intervals: int, step_ms: int, n_services: int, n_jobs: int) -> float:
    """Estimate the size of a run's files [MB], to about a factor of two.

    A service has five columns; `n_jobs` is 0 where `jobs.parquet` is not written.
    """
    per_interval = float(BYTES_PER_INTERVAL + BYTES_PER_SERVICE * n_services)
    if step_ms < MS_PER_S:
        per_interval /= 2
    return (per_interval * n_intervals + BYTES_PER_JOB * n_jobs) / 1e6


def build_manifest(
    scenario: Scenario,
    library: ProfileLibrary,
    columns: Columns,
    metrics: Sequence[Metric],
    input_hashes: Mapping[str, str],
    engine: str,
    classes: Sequence[StreamClass],
    matches: Sequence[StreamMatch],
    warnings: Sequence[str],
) -> dict[str, Any]:
    """Return the manifest of a run, without its `timing`.

    Its metrics are those of its stages.
    """
    used = sorted({index for c in classes for index in c.profile_ids})
    return {
        "schema_version": SCHEMA_VERSION,
        "diploee_version": full_version(),
        "versions": {
            "python": platform.python_version(),
            **{
                package: version(package)
                for package in (*RECORDED_PACKAGES, *_further(scenario))
            },
        },
        "scenario_name": scenario.name,
        "scenario_sha256": scenario.sha256(),
        "scenario": scenario.model_dump(mode="json"),
        "seed": scenario.seed,
        "engine": engine,
        "workload": [asdict(match) for match in matches],
        "classes": [_class_entry(c, library) for c in classes],
        "profiles": _profile_entries(library, used),
        **({"input_files": dict(input_hashes)} if input_hashes else {}),
        "columns": as_entries(columns),
        **({"assumed": assumed} if (assumed := _assumed(scenario)) is not None else {}),
        **({"ranges": ranges} if (ranges := scenario.ranges()) else {}),
        **({"metrics": [asdict(metric) for metric in metrics]} if metrics else {}),
        "warnings": list(warnings),
    }


def _assumed(scenario: Scenario) -> list[str] | None:
    """Return the assumed keys of the chain of power and of synchronous jobs.

    None without both.
    """
    parts: dict[str, Any] = (
        {"facility": scenario.facility} if scenario.facility.has_ac_power else {}
    )
    for name, spec in scenario.streams.items():
        if spec.synchronous is not None:
            parts[f"streams.{name}.synchronous"] = spec.synchronous
    keys = [key for at, part in parts.items() for key in assumed_keys(part, at)]
    return keys if parts else None


def _further(scenario: Scenario) -> tuple[str, ...]:
    """Return the packages that give the scenario holidays and weather, if any."""
    calendars = [stream.calendar for stream in scenario.streams.values()]
    calendars += [stream.calendar for stream in scenario.request_streams.values()]
    weather = scenario.facility.weather
    return (
        *(("holidays",) if any(calendar.holidays for calendar in calendars) else ()),
        *(("pvlib",) if weather is not None and weather.kind == "file" else ()),
    )


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
            f"scaled linearly from {c.job_class.profile_n_nodes} nodes: a coherent "
            "upper bound of the swings, not a forecast"
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


def write_json(path: Path, content: dict[str, Any]) -> str:
    """Write JSON with a line per key, and return its SHA-256."""
    data = f"{json.dumps(content, indent=2, ensure_ascii=False, default=_plain)}\n".encode()  # noqa: E501
    path.write_bytes(data)
    return hashlib.sha256(data).hexdigest()


def _plain(value: object) -> Any:
    """Return a number of numpy's as Python's; refuse what JSON can't hold."""
    if isinstance(value, np.generic):
        return value.item()
    raise InputError(
        f"a result is {one_line(shown(value))}, expected numbers, text or lists"
    )


def serving_entries(plans: Sequence[ServicePlan], curves: Curves) -> dict[str, Any]:
    """Return the manifest's `requests`, `services` and `curves`.

    Nothing without request streams. Curve files are given by name and SHA-256, not by
    path, so that the manifest does not depend on the machine.
    """
    if not plans:
        return {}
    return {
        "requests": [asdict(plan.match) for plan in plans],
        "services": {
            f"{plan.stream}.{service.name}": {
                "reserved_nodes": service.reserved_nodes,
                "nodes_per_instance": service.nodes_per_instance,
                # No limit is null: JSON knows no infinity.
                **{
                    k: None if v == inf else v
                    for k, v in asdict(service.capacity).items()
                },
            }
            for plan in plans
            for service in plan.services
        },
        "curves": {
            file.name: {"sha256": file.sha256}
            for of_service in curves.values()
            for file in of_service.files
        },
        **_sample_entries(curves),
    }


def _sample_entries(curves: Curves) -> dict[str, Any]:
    """Return the sources of measured power samples, by service and rate."""
    measured = {
        ".".join(names): {
            f"{sample.rate_rps:g}": asdict(sample.provenance)
            for sample in of_service.power.samples
        }
        for names, of_service in curves.items()
        if of_service.power.samples
    }
    return {
        **({"power_samples": measured} if measured else {}),
        **(
            {"serving_samples": asdict(PROVENANCE)}
            if len(measured) < len(curves)
            else {}
        ),
    }
