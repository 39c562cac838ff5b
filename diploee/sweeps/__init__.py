"""Sweeps and ensembles: axes and draws to scenarios, scenarios to executors, runs to a summary."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from diploee.sweeps.cluster import run_on_dask as run_on_dask
    from diploee.sweeps.draws import DRAWS as DRAWS
    from diploee.sweeps.draws import Draw as Draw
    from diploee.sweeps.execute import SweepResult as SweepResult
    from diploee.sweeps.execute import run_sweep as run_sweep
    from diploee.sweeps.execute import sweep as sweep
    from diploee.sweeps.expand import PlannedRun as PlannedRun
    from diploee.sweeps.loading import Sweep as Sweep
    from diploee.sweeps.loading import load_ensemble as load_ensemble
    from diploee.sweeps.loading import load_sweep as load_sweep
    from diploee.sweeps.loading import sweep_from_dict as sweep_from_dict
    from diploee.sweeps.local import run_locally as run_locally
    from diploee.sweeps.spec import SweepAxis as SweepAxis
    from diploee.sweeps.spec import SweepSpec as SweepSpec
    from diploee.sweeps.task import Executor as Executor
    from diploee.sweeps.task import RunTask as RunTask
else:
    from diploee.base.fronts import front

    __all__, __getattr__, __dir__ = front(__name__)
