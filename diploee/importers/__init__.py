"""Readers of foreign files, one file per format: job logs, request traces, power, benchmarks.

Names are imported on first use: the command line lists its options without loading them.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from diploee.importers.job_logs import JOB_LOG_FORMATS as JOB_LOG_FORMATS
    from diploee.importers.job_logs import read_job_log as read_job_log
    from diploee.importers.request_traces import TRACE_FORMATS as TRACE_FORMATS
    from diploee.importers.request_traces import read_request_trace as read_request_trace

_HOMES = {
    "JOB_LOG_FORMATS": "job_logs",
    "TRACE_FORMATS": "request_traces",
    "read_job_log": "job_logs",
    "read_request_trace": "request_traces",
}

__all__ = list(_HOMES)


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(f"diploee.importers.{_HOMES[name]}"), name)
    raise AttributeError(f"module 'diploee.importers' has no attribute '{name}'")
