"""Importers of job logs of real systems, one module per format, with common rules.

A format's module maps columns to a `RawLog`, `read` detects the format of a file, and
`rules` turns rows into jobs. ``JOB_LOG_FORMATS.register`` adds a format.
"""

from diploee.importers.job_logs.read import JOB_LOG_FORMATS as JOB_LOG_FORMATS
from diploee.importers.job_logs.read import read_job_log as read_job_log
