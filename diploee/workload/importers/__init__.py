"""Readers of foreign logs of jobs and requests, one file per format.

Names are imported on first use: the command line lists its options without loading them.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from diploee.workload.importers.jobs import JOB_LOG_FORMATS as JOB_LOG_FORMATS
    from diploee.workload.importers.jobs import read_job_log as read_job_log
    from diploee.workload.importers.requests import TRACE_FORMATS as TRACE_FORMATS
    from diploee.workload.importers.requests import read_request_trace as read_request_trace

_HOMES = {
    "JOB_LOG_FORMATS": "jobs",
    "TRACE_FORMATS": "requests",
    "read_job_log": "jobs",
    "read_request_trace": "requests",
}

__all__ = list(_HOMES)


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(f"diploee.workload.importers.{_HOMES[name]}"), name)
    raise AttributeError(f"module 'diploee.workload.importers' has no attribute '{name}'")
