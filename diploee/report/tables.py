"""The tables of a report: metrics with units, and from where every number comes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from diploee.report.charts import Table
from diploee.report.data import RunData
from diploee.report.words import NONE, interval, number, plural

_Row = tuple[str, str, str, str, float]
ROWS: tuple[_Row, ...] = (
    ("Mean power [MW]", "power", "mean_mw", "{:.3f}", 1),
    ("Standard deviation of power [MW]", "power", "std_mw", "{:.3f}", 1),
    ("Median power [MW]", "power", "median_mw", "{:.3f}", 1),
    ("90th percentile of power [MW]", "power", "p90_mw", "{:.3f}", 1),
    ("Minimum power [MW]", "power", "min_mw", "{:.3f}", 1),
    ("Maximum power [MW]", "power", "max_mw", "{:.3f}", 1),
    ("Peak-to-average ratio [1]", "power", "peak_to_average_ratio", "{:.3f}", 1),
    ("Load factor [1]", "power", "load_factor", "{:.3f}", 1),
    ("Maximum over rated power [%]", "power", "max_over_rated", "{:.1f}", 100),
    ("Energy [MWh]", "power", "energy_mwh", "{:,.1f}", 1),
    ("Mean node occupancy [%]", "utilization", "mean", "{:.2f}", 100),
    ("Median node occupancy [%]", "utilization", "median", "{:.2f}", 100),
    ("90th percentile of node occupancy [%]", "utilization", "p90", "{:.2f}", 100),
    ("Maximum node occupancy [%]", "utilization", "max", "{:.2f}", 100),
    ("Jobs submitted per day [1/d]", "jobs", "submitted_per_day", "{:,.0f}", 1),
    ("Jobs that queued [%]", "jobs", "queued_fraction", "{:.2f}", 100),
    ("Mean queue time of queued jobs [h]", "jobs", "mean_queue_time_queued_h", "{:.3f}", 1),
    ("Mean queue time of all jobs [h]", "jobs", "mean_queue_time_all_h", "{:.3f}", 1),
    ("Longest queue time [h]", "jobs", "max_queue_time_h", "{:.2f}", 1),
    ("Jobs never started [1]", "jobs", "unstarted", "{:,.0f}", 1),
    ("Requests per day [million/d]", "requests", "per_day", "{:,.1f}", 1e-6),
    ("Incoming requests [1/s]", "requests", "incoming_rps", "{:,.1f}", 1),
    ("Served requests [1/s]", "requests", "effective_rps", "{:,.1f}", 1),
    ("Unserved requests [1/s]", "requests", "incomplete_rps", "{:,.1f}", 1),
)
"""Label, block and key of the metrics, format, factor."""


def key_figures(run: RunData) -> tuple[tuple[str, str, str], ...]:
    """Return the figures that head the page of one run: number, unit, meaning."""
    power, occupancy = run.metrics["power"], run.metrics["utilization"]
    jobs, requests = run.metrics.get("jobs") or {}, run.metrics.get("requests") or {}
    means = f"{interval(run.resolution_ms)} means"
    found = [
        (number(power["mean_mw"], "{:.2f}"), "MW", "mean power"),
        (number(power["max_mw"], "{:.2f}"), "MW", f"peak, {means}"),
        (number(power.get("load_factor"), "{:.2f}"), "", "load factor"),
        (number(power["energy_mwh"], "{:,.0f}"), "MWh", "energy"),
        (number(occupancy.get("mean"), "{:.1f}", 100), "%", "mean node occupancy"),
        (number(jobs.get("queued_fraction"), "{:.1f}", 100), "%", "of jobs queued"),
        (number(requests.get("incoming_rps"), "{:,.0f}"), "1/s", "incoming requests"),
    ]
    return tuple(figure for figure in found if figure[0] != NONE)


def metrics_table(runs: Sequence[RunData]) -> Table:
    """Return the metrics, a column for each run; rows that no run has are left out."""
    rows = []
    for label, block, key, pattern, factor in ROWS:
        found = [(run.metrics.get(block) or {}).get(key) for run in runs]
        if any(value is not None for value in found):
            rows.append((label, *(number(value, pattern, factor) for value in found)))
    has_jobs = any(run.metrics.get("jobs") for run in runs)
    queued = " Queued: started later than submitted." if has_jobs else ""
    resolutions = sorted({interval(run.resolution_ms) for run in runs})
    return Table(
        "Metrics",
        ("", *(run.label for run in runs)),
        tuple(rows),
        f"Peaks and ratios are of {' or '.join(resolutions)} means, over the whole period. Node "
        "occupancy: busy nodes over all nodes."
        f"{queued}"
        f"{_boundary(runs)}",
    )


def _boundary(runs: Sequence[RunData]) -> str:
    found = dict.fromkeys(str(run.manifest.get("power_boundary") or "") for run in runs)
    return "".join(f" Power boundary: {text}." for text in found if text)


def provenance_table(runs: Sequence[RunData]) -> Table:
    """Return from where the numbers come, a column for each run."""
    columns = [_provenance(run) for run in runs]
    labels = dict.fromkeys(label for column in columns for label in column)
    rows = tuple((label, *(column.get(label, NONE) for column in columns)) for label in labels)
    return Table("Provenance", ("", *(run.label for run in runs)), rows, numeric=False)


def _provenance(run: RunData) -> dict[str, str]:
    manifest = run.manifest
    scenario: dict[str, Any] = manifest.get("scenario") or {}
    facility: dict[str, Any] = scenario.get("facility") or {}
    versions: dict[str, Any] = manifest.get("versions") or {}
    found = {
        "Scenario": manifest.get("scenario_name"),
        "Description": scenario.get("description"),
        "Scenario hash (SHA-256)": manifest.get("scenario_sha256"),
        "Seed": manifest.get("seed"),
        "Start (local time)": _start(scenario),
        "Duration": scenario.get("duration"),
        "Resolution": interval(run.resolution_ms),
        "Nodes": _nodes(facility),
        "Rated power [MW]": facility.get("rated_power_mw"),
        "Scheduler engine": manifest.get("engine"),
        "diploee": manifest.get("diploee_version"),
        "Libraries": ", ".join(f"{name} {version}" for name, version in versions.items()),
        "Power profiles": _profiles(manifest.get("profiles") or {}),
        "Serving curves": ", ".join(sorted(manifest.get("curves") or {})),
        "Serving samples": _serving_samples(manifest.get("serving_samples") or {}),
        "Power boundary": manifest.get("power_boundary"),
        "Run folder": run.run.folder.absolute().name,
    }
    return {label: str(value) for label, value in found.items() if value not in (None, "")}


def _start(scenario: dict[str, Any]) -> str:
    offset = (scenario.get("facility") or {}).get("utc_offset", "+00:00")
    return f"{str(scenario.get('start', NONE)).replace('T', ' ')} (UTC{offset})"


def _nodes(facility: dict[str, Any]) -> str:
    pools: dict[str, Any] = facility.get("pools") or {}
    return ", ".join(f"{pool.get('n_nodes', 0):,} in pool {name}" for name, pool in pools.items())


_KINDS = {"reference": "reference (synthesised from published facts)", "measured": "measured"}


def _profiles(profiles: dict[str, Any]) -> str:
    """Return ``35 reference (...): llama2_70b_lora (15), ...`` for each kind."""
    parts = []
    for kind in ("measured", "reference"):
        workloads = Counter(
            str(entry.get("workload", profile_id))
            for profile_id, entry in profiles.items()
            if (entry.get("provenance") or {}).get("kind") == kind
        )
        if workloads:
            names = ", ".join(f"{name} ({count})" for name, count in sorted(workloads.items()))
            parts.append(f"{workloads.total()} {_KINDS[kind]}: {names}")
    return "; ".join(parts)


def _serving_samples(samples: dict[str, Any]) -> str:
    if not samples:
        return ""
    kind = str(samples.get("kind", ""))
    return f"{_KINDS.get(kind, kind)}; {samples.get('source', '')}"


def warnings_of(runs: Sequence[RunData]) -> tuple[str, ...]:
    """Return the warnings of all runs, named by run where there are several."""
    found = []
    for run in runs:
        for warning in run.manifest.get("warnings") or ():
            found.append(f"{run.label}: {warning}" if len(runs) > 1 else str(warning))
    return tuple(found)


def period(run: RunData) -> str:
    """Return what a run covers in words."""
    scenario = run.manifest.get("scenario") or {}
    start = str(scenario.get("start", "")).partition("T")[0]
    pools = (scenario.get("facility") or {}).get("pools") or {}
    n_nodes = sum(int(pool.get("n_nodes", 0)) for pool in pools.values())
    return (
        f"{scenario.get('duration', '')} from {start}, {interval(run.resolution_ms)} means, "
        f"{plural(n_nodes, 'node')}, seed {run.manifest.get('seed')}"
    )
