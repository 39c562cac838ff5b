"""Importers of published CSV traces: Azure's LLM inference, and BurstGPT.

- Azure's traces of LLM inference of 2023 and 2024: timestamps of 2023 have seven
  decimals and no zone; those of 2024 have ``+00:00``, and decimals unless these are
  zero.
- BurstGPT: ``Timestamp`` is in seconds from midnight of the first day. Releases with
  the further columns ``Session ID`` and ``Elapsed time`` can be read too. Each model is
  a service. Rows without response tokens are failed requests.

References
----------
.. [1] https://github.com/Azure/AzurePublicDataset, AzureLLMInferenceDataset2023.md
   and 2024.md
.. [2] https://github.com/HPMLL/BurstGPT, arXiv:2401.17644
"""

from diploee.importers.request_traces.aggregate import csv_format

AZURE_LLM = csv_format(
    "azure-llm",
    "an Azure LLM inference trace",
    {"time": "TIMESTAMP", "input": "ContextTokens", "output": "GeneratedTokens"},
)
BURSTGPT = csv_format(
    "burstgpt",
    "a BurstGPT trace",
    {
        **{"time": "Timestamp", "service": "Model"},
        **{"input": "Request tokens", "output": "Response tokens"},
    },
    "s",
    zero_output_fails=True,
)
