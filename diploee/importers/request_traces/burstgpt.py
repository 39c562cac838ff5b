"""BurstGPT: ``Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type``.

``Timestamp`` is in seconds from midnight of the first day; the releases with ``Session ID`` and
``Elapsed time`` are read too. Each model is a service. Rows without response tokens are failed
requests. Stamps are whole seconds, so that equal rows may well be different requests.

References
----------
.. [1] https://github.com/HPMLL/BurstGPT, arXiv:2401.17644
"""

from diploee.importers.request_traces.rows import Rules
from diploee.importers.request_traces.totals import csv_format

FORMAT = csv_format(
    "burstgpt",
    "a BurstGPT trace",
    {
        **{"time": "Timestamp", "service": "Model"},
        **{"input": "Request tokens", "output": "Response tokens"},
    },
    "s",
    Rules(is_relative=True, zero_output_fails=True),
)
