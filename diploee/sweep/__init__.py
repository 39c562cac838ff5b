"""Sweeps and ensembles: axes and draws to scenarios, scenarios to executors, runs to a summary."""

from diploee.callable_modules import callable_module
from diploee.sweep.cluster import run_on_dask
from diploee.sweep.execute import SweepProgress, SweepResult, run_sweep
from diploee.sweep.expand import MAX_RUNS, PlannedRun, expand
from diploee.sweep.loading import (
    Sweep,
    find_sweep,
    load_ensemble,
    load_sweep,
    shipped_sweeps,
    sweep_from_dict,
)
from diploee.sweep.local import run_locally, usable_cores
from diploee.sweep.python import sweep
from diploee.sweep.spec import SweepSpec
from diploee.sweep.task import Executor, Outcome, RunTask, in_process, run_task

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

callable_module(__name__, sweep)
