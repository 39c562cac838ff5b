"""From logs, traces and loads to what a scenario asks for: fits and deconvolution."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from diploee.learn.calendar import FitChoices as FitChoices
    from diploee.learn.deconvolution import RecoveredWeights as RecoveredWeights
    from diploee.learn.deconvolution import mean_job as mean_job
    from diploee.learn.deconvolution import recover_weights as recover_weights
    from diploee.learn.jobs.arrivals import ArrivalFit as ArrivalFit
    from diploee.learn.jobs.arrivals import JobFitOptions as JobFitOptions
    from diploee.learn.jobs.class_fits import ClassFit as ClassFit
    from diploee.learn.jobs.job_log_fit import JobLogFit as JobLogFit
    from diploee.learn.jobs.job_log_fit import fit_job_log as fit_job_log
    from diploee.learn.requests.fit import fit_requests as fit_requests
else:
    from diploee.fronts import front

    __all__, __getattr__, __dir__ = front(__name__)
