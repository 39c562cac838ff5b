"""Sweeps and ensembles: axes and draws to scenarios, scenarios to executors, runs to a summary."""

from diploee.sweeps.cluster import run_on_dask
from diploee.sweeps.execute import SweepProgress, SweepResult, run_sweep
from diploee.sweeps.expand import MAX_RUNS, PlannedRun, expand
from diploee.sweeps.loading import (
    Sweep,
    find_sweep,
    load_ensemble,
    load_sweep,
    shipped_sweeps,
    sweep_from_dict,
)
from diploee.sweeps.local import run_locally, usable_cores
from diploee.sweeps.python import sweep
from diploee.sweeps.spec import SweepSpec
from diploee.sweeps.task import Executor, Outcome, RunTask, in_process, run_task

__all__ = [
    "MAX_RUNS",
    "Executor",
    "Outcome",
    "PlannedRun",
    "RunTask",
    "Sweep",
    "SweepProgress",
    "SweepResult",
    "SweepSpec",
    "expand",
    "find_sweep",
    "in_process",
    "load_ensemble",
    "load_sweep",
    "run_locally",
    "run_on_dask",
    "run_sweep",
    "run_task",
    "shipped_sweeps",
    "sweep",
    "sweep_from_dict",
    "usable_cores",
]
