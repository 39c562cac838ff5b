"""Importers of request traces, one module per foreign format; each row becomes one request."""

from diploee.workload.importers.requests.reading import TRACE_FORMATS, read_request_trace

__all__ = ["TRACE_FORMATS", "read_request_trace"]
