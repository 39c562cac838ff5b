"""Manifest of a run, `manifest.json`: the provenance of every number.

Manifests of equal runs differ in `timing` only.
"""

from __future__ import annotations

import platform
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from importlib.metadata import version
from math import inf
from typing import Any

from diploee.base.column_specs import column_dicts
from diploee.base.model import assumed_keys
from diploee.base.version import full_version
from diploee.loads.jobs import StreamClass
from diploee.loads.services.curves import Curves
from diploee.loads.services.samples import PROVENANCE
from diploee.loads.services.service_plan import ServicePlan
from diploee.metrics.catalogue import added_metrics
from diploee.profiles.library import ProfileLibrary
from diploee.runs.folder import SCHEMA_VERSION
from diploee.scenario.models import Scenario
from diploee.simulation.pipeline import Pipeline
from diploee.simulation.plausibility import run_warnings
from diploee.simulation.prepared import PreparedSite

# Packages whose versions are in every manifest
RECORDED_PACKAGES = ("numpy", "numba", "pyarrow", "scipy", "simpy")


def build_manifest(
    pipeline: Pipeline, site: PreparedSite, metrics: dict[str, Any]
) -> dict[str, Any]:
    """Return the manifest of a run with its metrics, without `timing`.

    Declared metrics include those of the run's stages.
    """
    jobs, inputs, scenario = pipeline.jobs, site.inputs, pipeline.scenario
    library, classes = jobs.streams.library, jobs.streams.classes
    size, declared_metrics = (
        site.requested.facility.size,
        [*pipeline.stages.metrics, *added_metrics()],
    )
    assumed, ranges = _assumed_keys(scenario), scenario.ranges()
    packages = (*RECORDED_PACKAGES, *_package_versions(scenario))
    # The scenario is at its requested size
    return {
        "schema_version": SCHEMA_VERSION,
        "diploee_version": full_version(),
        "versions": {
            "python": platform.python_version(),
            **{package: version(package) for package in packages},
        },
        "scenario_name": scenario.name,
        "scenario_sha256": scenario.sha256(),
        "scenario": scenario.model_dump(mode="json"),
        "seed": scenario.seed,
        "engine": site.engine,
        "workload": [asdict(match) for match in jobs.streams.matches()],
        "classes": [_class_entry(c, library) for c in classes],
        "profiles": _profile_entries(
            library, sorted({index for c in classes for index in c.profile_ids})
        ),
        **({"input_files": dict(inputs.hashes)} if inputs.hashes else {}),
        "columns": column_dicts(pipeline.columns),
        **({} if assumed is None else {"assumed": assumed}),
        **({"ranges": ranges} if ranges else {}),
        **(
            {"metrics": [asdict(metric) for metric in declared_metrics]}
            if declared_metrics
            else {}
        ),
        "warnings": run_warnings(pipeline, inputs, metrics),
        **_serving_entries(pipeline.plans, inputs.curves),
        **({"own_parts": list(map(asdict, site.own_parts))} if site.own_parts else {}),
        **({"size": size.model_dump(mode="json")} if size is not None else {}),
    }


def _assumed_keys(scenario: Scenario) -> list[str] | None:
    """Return the assumed keys of the power chain and of synchronous jobs.

    The result is None if the scenario has neither.
    """
    models: dict[str, Any] = (
        {"facility": scenario.facility} if scenario.facility.has_ac_power else {}
    )
    for name, spec in scenario.streams.items():
        if spec.synchronous is not None:
            models[f"streams.{name}.synchronous"] = spec.synchronous
    keys = [
        key
        for key_prefix, model in models.items()
        for key in assumed_keys(model, key_prefix)
    ]
    return keys if models else None


def _package_versions(scenario: Scenario) -> tuple[str, ...]:
    """Return the names of the packages for holidays and weather, if used."""
    calendars = [stream.calendar for stream in scenario.streams.values()]
    calendars += [stream.calendar for stream in scenario.request_streams.values()]
    weather = scenario.facility.weather
    return (
        *(("holidays",) if any(calendar.holidays for calendar in calendars) else ()),
        *(("pvlib",) if weather is not None and weather.kind == "file" else ()),
    )


def _class_entry(c: StreamClass, library: ProfileLibrary) -> dict[str, Any]:
    """Return the manifest entry of a job class."""
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
    """Return the manifest entries of profiles."""
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


def _serving_entries(plans: Sequence[ServicePlan], curves: Curves) -> dict[str, Any]:
    """Return the `requests`, `services` and `curves` entries of the manifest.

    Empty without request streams. Curve files are identified by name and SHA-256, not
    by path, so that the manifest does not depend on the machine.
    """
    if not plans:
        return {}
    return {
        "requests": [asdict(plan.match) for plan in plans],
        "services": {
            f"{plan.stream}.{service.name}": {
                "reserved_nodes": service.reserved_nodes,
                "nodes_per_instance": service.nodes_per_instance,
                # An infinite limit is null, as JSON has no infinity
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
            for service_curves in curves.values()
            for file in service_curves.files
        },
        **_sample_entries(curves),
    }


def _sample_entries(curves: Curves) -> dict[str, Any]:
    """Return the sources of measured power samples, by service and request rate."""
    measured = {
        ".".join(names): {
            f"{sample.rate_rps:g}": asdict(sample.provenance)
            for sample in service_curves.power.samples
        }
        for names, service_curves in curves.items()
        if service_curves.power.samples
    }
    return {
        **({"power_samples": measured} if measured else {}),
        **(
            {"serving_samples": asdict(PROVENANCE)}
            if len(measured) < len(curves)
            else {}
        ),
    }
