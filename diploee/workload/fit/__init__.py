"""Fitting job logs: from what a scheduler recorded to the distributions of a scenario."""

from diploee.workload.fit.arrivals import ArrivalFit
from diploee.workload.fit.class_fits import ClassFit, NodeCountFit
from diploee.workload.fit.job_log_fit import JobLogFit, fit_job_log

__all__ = ["ArrivalFit", "ClassFit", "JobLogFit", "NodeCountFit", "fit_job_log"]
