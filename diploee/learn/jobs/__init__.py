"""Fitting job logs: from what a scheduler recorded to the distributions of a scenario."""

from diploee.learn.jobs.arrivals import ArrivalFit
from diploee.learn.jobs.class_fits import ClassFit, NodeCountFit
from diploee.learn.jobs.job_log_fit import JobLogFit, fit_job_log

__all__ = ["ArrivalFit", "ClassFit", "JobLogFit", "NodeCountFit", "fit_job_log"]
