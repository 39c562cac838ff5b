"""Azure LLM inference traces of 2023 and 2024: ``TIMESTAMP,ContextTokens,GeneratedTokens``.

Stamps of 2023 have seven decimals and no zone, those of 2024 ``+00:00`` and no decimals where they
are zero. Stamps are so fine that an equal row is the same request again.

References
----------
.. [1] https://github.com/Azure/AzurePublicDataset, AzureLLMInferenceDataset2023.md and 2024.md
"""

from diploee.importers.request_traces.rows import Rules
from diploee.importers.request_traces.totals import csv_format

FORMAT = csv_format(
    "azure-llm",
    "an Azure LLM inference trace",
    {"time": "TIMESTAMP", "input": "ContextTokens", "output": "GeneratedTokens"},
    "stamp",
    Rules(is_relative=False, exact_stamps=True),
)
