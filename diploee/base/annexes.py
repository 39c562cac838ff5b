"""Names that the core opens and never imports: one table, each line read on first use."""

from __future__ import annotations

from importlib import import_module
from typing import Any

PLACES = {
    "ALL_REPLICA_COLUMNS": "diploee.integrations.replica_catalogue",
    "JOB_LOG_FORMATS": "diploee.importers.job_logs",
    "REPLICA_METRICS": "diploee.integrations.replica_catalogue",
    "TRACE_FORMATS": "diploee.importers.request_traces",
    "RecurringJobs": "diploee.integrations.zeus.recurring_jobs",
    "ReplicasLoad": "diploee.integrations.openg2g.replicas.load",
    "load_batches": "diploee.importers.serving.batches",
    "load_curves": "diploee.importers.serving.service_curves",
    "load_replica_data": "diploee.integrations.openg2g.replicas.load",
    "part_tables": "diploee.simulation.layout_power",
    "picture": "diploee.reports.build",
    "read_cooling_points": "diploee.importers.site_tables",
    "read_event": "diploee.importers.site_tables",
    "read_job_log": "diploee.importers.job_logs",
    "read_reactive_table": "diploee.importers.site_tables",
    "read_request_trace": "diploee.importers.request_traces",
    "read_signal": "diploee.importers.signals",
    "read_weather": "diploee.importers.weather_files",
    "read_zeus_inputs": "diploee.integrations.zeus.recurring_jobs",
    "replica_columns_of": "diploee.integrations.replica_catalogue",
    "report": "diploee.reports.build",
    "ride_through": "diploee.grid.dynamics.answer",
}
"""Module of each name."""


def annex(name: str) -> Any:
    """Return what an annex has under a name of `PLACES`."""
    return getattr(import_module(PLACES[name]), name)
