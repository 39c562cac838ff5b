"""Importers of job logs of real systems, one per format, under common rules.

A format's own module says which column is what (`raw_log`), `read` chooses among them,
and `rules` and `repeats` tell which rows are jobs. ``JOB_LOG_FORMATS.register`` adds a
format from outside.
"""

from diploee.importers.job_logs.read import JOB_LOG_FORMATS as JOB_LOG_FORMATS
from diploee.importers.job_logs.read import read_job_log as read_job_log
