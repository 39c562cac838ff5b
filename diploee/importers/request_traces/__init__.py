"""Importers of request traces, with one module per file format.

Each row is one request. ``TRACE_FORMATS.register`` adds a format.
"""

from diploee.importers.request_traces.read import TRACE_FORMATS as TRACE_FORMATS
from diploee.importers.request_traces.read import (
    read_request_trace as read_request_trace,
)
