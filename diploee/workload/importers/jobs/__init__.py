"""Job logs of real systems, one small importer per format, all by one set of rules.

A file becomes clean text (`text_file`), its rows columns of strings (`text_table`, `json_list`),
these numbers and times (`values`, `stamps`, `clock`), and these jobs (`rules`, `repeats`). A
format's own module only says which column is what; `read` chooses among them.
"""

from diploee.workload.importers.jobs.read import JOB_LOG_FORMATS, read_job_log

__all__ = ["JOB_LOG_FORMATS", "read_job_log"]
