"""BurstGPT: ``Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type``.

``Timestamp`` is in seconds from midnight of the first day; the releases with ``Session ID`` and
``Elapsed time`` are read too. Each model is a service. Rows without response tokens are failed
requests. Stamps are whole seconds, so that equal rows may well be different requests.

References
----------
.. [1] https://github.com/HPMLL/BurstGPT, arXiv:2401.17644
"""

from __future__ import annotations

from diploee.workload.importers.requests.csv_header import Header
from diploee.workload.importers.requests.csv_lines import CsvColumns
from diploee.workload.importers.requests.totals import Rules

NAME = "burstgpt"
RULES = Rules(is_relative=True, zero_output_fails=True)


def is_header(header: Header) -> bool:
    """Return whether a file with this header is such a trace."""
    return header.has("Timestamp", "Model", "Request tokens", "Response tokens")


def columns(header: Header) -> CsvColumns:
    """Return the columns to read.

    Raises
    ------
    LogFormatError
        If one is missing.
    """
    return CsvColumns(
        header.names,
        time=header.place("Timestamp"),
        time_unit="s",
        input_tokens=header.place("Request tokens"),
        output_tokens=header.place("Response tokens"),
        service=header.place("Model"),
    )
