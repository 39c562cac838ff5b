"""Azure LLM inference traces of 2023 and 2024: ``TIMESTAMP,ContextTokens,GeneratedTokens``.

Stamps of 2023 have seven decimals and no zone, those of 2024 ``+00:00`` and no decimals where they
are zero; both are read as UTC. Stamps are so fine that an equal row is the same request again.

References
----------
.. [1] https://github.com/Azure/AzurePublicDataset, AzureLLMInferenceDataset2023.md and 2024.md
"""

from __future__ import annotations

from diploee.workload.importers.requests.csv_header import Header
from diploee.workload.importers.requests.csv_lines import CsvColumns
from diploee.workload.importers.requests.totals import Rules

NAME = "azure-llm"
RULES = Rules(is_relative=False, exact_stamps=True)


def is_header(header: Header) -> bool:
    """Return whether a file with this header is such a trace."""
    return header.has("TIMESTAMP", "ContextTokens", "GeneratedTokens")


def columns(header: Header) -> CsvColumns:
    """Return the columns to read.

    Raises
    ------
    LogFormatError
        If one is missing.
    """
    return CsvColumns(
        header.names,
        time=header.place("TIMESTAMP"),
        time_unit="stamp",
        input_tokens=header.place("ContextTokens"),
        output_tokens=header.place("GeneratedTokens"),
    )
