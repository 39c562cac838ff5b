"""The tables of a report: metrics with units, and from where every number comes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from diploee.errors import plural
from diploee.loads.jobs.synchronous_metrics import SYNCHRONOUS_METRICS
from diploee.loads.services.metrics import SERVICE_METRICS
from diploee.metric import NONE, Metric, flatten
from diploee.metrics.catalogue import table_metrics
from diploee.neighbours.replica_catalogue import REPLICA_METRICS
from diploee.reports.content import PageTable
from diploee.reports.data import RunData
from diploee.reports.words import interval, moment
from diploee.units import W_PER_MW, power_unit


def key_figures(run: RunData) -> tuple[tuple[str, str, str], ...]:
    """Return the figures that head the page of one run: number, unit, meaning.

    Those that people ask for come first; the other main metrics follow.
    """
    values, unit = dict(flatten(run.metrics)), power_unit(run.max_w)
    means = f", {interval(run.resolution_ms)} means"
    return _asked_figures(run) + tuple(
        (m.show(values[m.key]), m.suffix, m.label + (means if m.of_means else ""))
        for m in (m.sized(unit) for m in table_metrics("main", own=run.run.stage_metrics))
        if values.get(m.key) is not None and m.key not in _ASKED
    )


_ASKED = ("power.max_mw", "power.energy_mwh", "power.peak_to_average_ratio", "power.load_factor")
"""Keys that `_asked_figures` gives in its own words."""


def _asked_figures(run: RunData) -> tuple[tuple[str, str, str], ...]:
    """Return peak, demand, load factor, worst ramps, headroom and energy: number, unit, meaning."""
    grid, power = run.metrics.get("grid") or {}, run.metrics["power"]
    unit = power_unit(run.max_w)
    per = W_PER_MW / unit.watts
    means, found = f"{interval(run.resolution_ms)} means", []

    def add(value_mw: float | None, meaning: str, unit_of: str = unit.power) -> None:
        if value_mw is not None:
            value = value_mw * per
            found.append((f"{value:,.3f}" if value < 1e3 else f"{value:,.0f}", unit_of, meaning))

    def at(event: Mapping[str, Any]) -> str:
        """Return the time of an event; its date stays on one line."""
        return moment(event.get("time"), run.resolution_ms).replace("-", "\N{NON-BREAKING HYPHEN}")

    add(power["max_mw"], f"peak, {means}, {at(grid.get('peak') or {})}")
    curve = grid.get("load_duration_curve") or {}
    shares, values_mw = curve.get("percent_of_time", ()), curve.get("exceeded_mw", ())
    exceeded = dict(zip(shares, values_mw, strict=False))
    add(exceeded.get(0.1), f"P99.9 of {means}: exceeded 0.1 % of the time")
    demands = (grid.get("maximum_demand") or {}).get("intervals", ())
    if demand := next((entry for entry in demands if entry["interval_min"] == 15), None):
        add(demand["max_mw"], f"15-minute demand (clock), {at(demand)}")
    if (load_factor := power.get("load_factor")) is not None:
        found.append((f"{load_factor:.3f}", "", f"load factor, of the peak of {means}"))
    ramps = {e["interval_s"]: e for e in (grid.get("ramps") or {}).get("intervals", ())}
    for length_s, name in ((60, "1 min"), (600, "10 min")):
        if ramp := ramps.get(length_s):
            up, down = (f"{ramp[way]['max_mw'] * per:,.3f}" for way in ("up", "down"))
            found.append((f"{up} / {down}", unit.power, f"worst rise / drop within {name}"))
    if headroom := grid.get("headroom"):
        words = f"headroom, {100 * headroom['fraction']:.0f} % of rated power"
        add(headroom["mw"], words)
    add(power["energy_mwh"], "energy", f"{unit.power}h")
    return tuple(found)


def metrics_table(runs: Sequence[RunData]) -> PageTable:
    """Return the metrics, a column for each run; rows that no run has are left out."""
    unit = power_unit(max(run.max_w for run in runs))
    values = [dict(flatten(run.metrics)) for run in runs]
    own = [metric for run in runs for metric in run.run.stage_metrics]
    rows = tuple(
        (metric.heading, *(metric.show(of_run.get(metric.key)) for of_run in values))
        for metric in (metric.sized(unit) for metric in table_metrics(own=own))
        if any(of_run.get(metric.key) is not None for of_run in values)
    )
    has_jobs = any(run.metrics.get("jobs") for run in runs)
    queued = " Queued: started later than submitted." if has_jobs else ""
    resolutions = sorted({interval(run.resolution_ms) for run in runs})
    return PageTable(
        "Metrics",
        ("", *(run.label for run in runs)),
        rows,
        f"Peaks and ratios are of {' or '.join(resolutions)} means, over the whole period. Node "
        "occupancy: busy nodes over all nodes."
        f"{queued}"
        f"{_boundary(runs)}",
        halves=len(runs) == 1,
    )


def _boundary(runs: Sequence[RunData]) -> str:
    found = dict.fromkeys(run.run.boundary() for run in runs)
    return "".join(f" Power boundary: {text}." for text in found)


def services_table(runs: Sequence[RunData]) -> PageTable | None:
    """Return a row for each service of each run; None where the metrics name no service."""
    found = [(run, (run.metrics.get("requests") or {}).get("services") or {}) for run in runs]
    note = "Rates are means over the whole period."
    return _owners_table("Service", found, SERVICE_METRICS, note)


def synchronous_table(runs: Sequence[RunData]) -> PageTable | None:
    """Return a row for each stream of synchronous jobs of each run; None where there is none."""
    found = [(run, run.metrics.get("synchronous") or {}) for run in runs]
    note = "Effective training time: progress over the time that the jobs hold their nodes."
    return _owners_table("Synchronous stream", found, SYNCHRONOUS_METRICS, note)


def replica_tables(runs: Sequence[RunData]) -> list[PageTable]:
    """Return a table of the models of replica streams, and one of the streams."""
    blocks = [(run, run.metrics.get("replicas") or {}) for run in runs]
    note = "Violations are of the cap, or of half the band of the voltage."
    tables = (
        _owners_table(
            owner, [(run, block.get(key) or {}) for run, block in blocks],
            [m for m in REPLICA_METRICS if m.key.startswith(f"replicas.{key}")], note,
        )
        for owner, key in (("Replicated model", "models"), ("Replica stream", "streams"))
    )  # fmt: skip
    return [table for table in tables if table is not None]


def _owners_table(
    owner: str,
    found: Sequence[tuple[RunData, Mapping[str, Any]]],
    metrics: Sequence[Metric],
    note: str,
) -> PageTable | None:
    """Return the metrics of each owner of each run; None where there is none.

    Whichever are more are the rows, so that the table is not cut.
    """
    columns = [metric for metric in metrics if metric.view != "detail"]
    rows = []
    for run, of_run in found:
        for name, of_owner in of_run.items():
            label = f"{run.label}: {name}" if len(found) > 1 else name
            values = dict(flatten(of_owner))
            cells = (m.show(values.get(m.key.partition(">.")[2])) for m in columns)
            rows.append((label, *cells))
    if not rows:
        return None
    header = (owner, *(metric.heading.replace(", stream <stream>", "") for metric in columns))
    if len(rows) < len(columns):
        header, *rows = zip(header, *rows, strict=True)
    return PageTable(f"{owner}s", header, tuple(rows), note)


def provenance_table(runs: Sequence[RunData]) -> PageTable:
    """Return from where the numbers come, a column for each run."""
    columns = [_provenance(run) for run in runs]
    labels = dict.fromkeys(label for column in columns for label in column)
    rows = tuple((label, *(column.get(label, NONE) for column in columns)) for label in labels)
    return PageTable("Provenance", ("", *(run.label for run in runs)), rows, numeric=False)


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
        "Device rating [MW]": facility.get("rated_power_mw"),
        "Scheduler engine": manifest.get("engine"),
        "diploee": manifest.get("diploee_version"),
        "Libraries": ", ".join(f"{name} {version}" for name, version in versions.items()),
        "Power profiles": _profiles(manifest.get("profiles") or {}),
        "Serving curves": ", ".join(sorted(manifest.get("curves") or {})),
        "Serving samples": _serving_samples(manifest.get("serving_samples") or {}),
        "Measured serving samples": "; ".join(
            f"{service} at {', '.join(rates)} requests/s"
            for service, rates in (manifest.get("power_samples") or {}).items()
        ),
        "Power boundary": run.run.boundary(),
        "Run folder": run.run.folder.absolute().name,
    }
    return {label: str(value) for label, value in found.items() if value not in (None, "")}


def _start(scenario: dict[str, Any]) -> str:
    facility = scenario.get("facility") or {}
    zone = facility.get("time_zone") or f"UTC{facility.get('utc_offset', '+00:00')}"
    return f"{str(scenario.get('start', NONE)).replace('T', ' ')} ({zone})"


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
    origins = [entry.get("provenance") or {} for entry in profiles.values()]
    if n_scaled := sum(origin.get("power_factor", 1) != 1 for origin in origins):
        parts.append(f"{n_scaled} of other GPUs, scaled by the TDP (not measured on these nodes)")
    return "; ".join(parts)


def _serving_samples(samples: dict[str, Any]) -> str:
    if not samples:
        return ""
    kind = str(samples.get("kind", ""))
    return f"{_KINDS.get(kind, kind)}; {samples.get('source', '')}"


def warnings_of(runs: Sequence[RunData]) -> tuple[str, ...]:
    """Return each warning of the runs once, with the runs that have it where there are several."""
    told: dict[str, list[str]] = {}
    for run in runs:
        for warning in dict.fromkeys(map(str, run.manifest.get("warnings") or ())):
            told.setdefault(warning, []).append(run.label)
    if len(runs) == 1:
        return tuple(told)
    return tuple(
        f"{f'all {len(runs)} runs' if len(of) == len(runs) else ', '.join(of)}: {warning}"
        for warning, of in told.items()
    )


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
