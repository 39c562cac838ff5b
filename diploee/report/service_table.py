"""The table of the inference services: what each was asked for, served, and how fast."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from diploee.report.charts import Table
from diploee.report.data import RunData
from diploee.report.words import number

_COLUMNS = (
    ("Reserved nodes", "reserved_nodes", "{:,.0f}"),
    ("Highest rate per instance [1/s]", "max_request_rate_rps", "{:g}"),
    ("Mean instances in use", "mean_instances", "{:,.1f}"),
    ("Incoming requests [1/s]", "incoming_rps", "{:,.1f}"),
    ("Served requests [1/s]", "effective_rps", "{:,.1f}"),
    ("Unserved requests [1/s]", "incomplete_rps", "{:,.1f}"),
    ("Time with unserved requests [h]", "hours_with_unserved_requests", "{:,.1f}"),
    ("Mean latency [s]", "latency_s.mean", "{:.2f}"),
    ("99th percentile of latency [s]", "latency_s.p99", "{:.2f}"),
)
"""Header, key in the metrics, format."""


def services_table(runs: Sequence[RunData]) -> Table | None:
    """Return a row for each service of each run; None where the metrics name no service."""
    rows = []
    for run in runs:
        services = (run.metrics.get("requests") or {}).get("services") or {}
        for name, values in services.items():
            label = f"{run.label}: {name}" if len(runs) > 1 else name
            rows.append((label, *(number(_at(values, key), form) for _, key, form in _COLUMNS)))
    if not rows:
        return None
    header = ("Service", *(name for name, *_ in _COLUMNS))
    return Table("Services", header, tuple(rows), "Rates are means over the whole period.")


def _at(values: Any, key: str) -> Any:
    for part in key.split("."):
        values = values.get(part) if isinstance(values, dict) else None
    return values
