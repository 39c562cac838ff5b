"""Loads of a site: jobs, request services, replicas; each lowers to segments of power."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from diploee.base.errors import WorkloadError as WorkloadError
    from diploee.loads.base import Load as Load
    from diploee.loads.import_counts import ImportCounts as ImportCounts
    from diploee.loads.jobs.job_log import JobLog as JobLog
    from diploee.loads.jobs.source import StreamMatch as StreamMatch
    from diploee.loads.services.banks import Bank as Bank
    from diploee.loads.services.banks import BankLoad as BankLoad
    from diploee.loads.services.curves import LatencyCurve as LatencyCurve
    from diploee.loads.services.curves import PowerCurve as PowerCurve
    from diploee.loads.services.request_trace import RequestTrace as RequestTrace
    from diploee.loads.services.samples import repeating_samples as repeating_samples
else:
    from diploee.base.fronts import front

    __all__, __getattr__, __dir__ = front(__name__)
