"""From logs, traces and loads to what a scenario asks for: fits and deconvolution."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from diploee.fits.calendar import FitChoices as FitChoices
    from diploee.fits.deconvolution import RecoveredWeights as RecoveredWeights
    from diploee.fits.deconvolution import mean_job as mean_job
    from diploee.fits.deconvolution import recover_weights as recover_weights
    from diploee.fits.jobs.arrivals import ArrivalFit as ArrivalFit
    from diploee.fits.jobs.arrivals import JobFitOptions as JobFitOptions
    from diploee.fits.jobs.class_fits import ClassFit as ClassFit
    from diploee.fits.jobs.job_log_fit import JobLogFit as JobLogFit
    from diploee.fits.jobs.job_log_fit import fit_job_log as fit_job_log
    from diploee.fits.requests.fit import fit_requests as fit_requests
else:
    from diploee.base.fronts import front

    __all__, __getattr__, __dir__ = front(__name__)
