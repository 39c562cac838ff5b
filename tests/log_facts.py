"""Facts of a job log by short names, for tables of cases."""

from __future__ import annotations

from typing import Any

import numpy as np

from diploee.loads.jobs.job_log import STATES, JobLog


def check_log(log: JobLog, **expected: Any) -> None:
    """Compare facts of a log with those of a case: columns of its jobs, counts,
    attributes."""
    for name, value in expected.items():
        if name == "states":
            assert [STATES[index] for index in log.jobs.state_id] == value
        elif name == "kinds":
            assert [log.types[index] for index in log.jobs.type_id] == value
        elif name in ("dropped", "repaired"):
            assert getattr(log.counts, name) == value
        elif name == "noted":
            assert log.counts.noted.items() >= value.items()
        elif hasattr(log.jobs, name):
            np.testing.assert_array_equal(getattr(log.jobs, name), value)
        else:
            assert getattr(log, name) == value, name
