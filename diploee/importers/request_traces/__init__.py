"""Importers of request traces, one module per foreign format; each row becomes one request.

``TRACE_FORMATS.register`` adds a format from outside.
"""

from diploee.importers.request_traces.read import TRACE_FORMATS, read_request_trace

__all__ = ["TRACE_FORMATS", "read_request_trace"]
