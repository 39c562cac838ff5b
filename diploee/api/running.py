"""Simulation of a scenario, given by name, file or content, to a finished run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated

from pydantic import InstanceOf

from diploee.api.finished import Run, open_run
from diploee.api.sites import AnyProfiles, AnyScenario, Values, site_of, with_values
from diploee.base.arguments import (
    UNCHECKED,
    AnyDuration,
    AnyTime,
    as_list,
    checked_arguments,
)
from diploee.base.errors import InputError
from diploee.base.files import check_output_folder
from diploee.base.progress import Progress, Stopwatch, usual_progress
from diploee.facility.base import Stage
from diploee.grid.limits.file import AnyLimits
from diploee.loads.base import OpenLoad
from diploee.loads.inputs import Inputs
from diploee.runs.folder import RUN_FOLDER
from diploee.scenario.loading import (
    target_values,
)
from diploee.schedule.context import Controller
from diploee.schedule.policy import Policy
from diploee.schedule.schedule import Engine
from diploee.simulation import run as simulation
from diploee.simulation.prepared import (
    RunOptions,
    Sink,
)


@checked_arguments
def run(
    scenario: AnyScenario,
    out: Path | str | None = None,
    *,
    start: AnyTime | None = None,
    duration: AnyDuration | None = None,
    resolution: AnyDuration | None = None,
    step: AnyDuration | None = None,
    seed: int | None = None,
    limits: AnyLimits = (),
    target_utilization: float | None = None,
    values: Values = (),
    profiles: AnyProfiles = (),
    engine: Engine | None = "simpy",
    force: bool = False,
    event_windows: bool = False,
    by_load: bool = False,
    before_stores: bool = False,
    jobs_file: bool = True,
    nodes_file: bool = False,
    until_decided: bool = False,
    n_threads: int | None = None,
    window_days: float | None = None,
    at_most_s: float | None = None,
    at_most_mb: float | None = None,
    policies: Annotated[Mapping[str, Policy] | None, UNCHECKED] = None,
    stages: Annotated[Sequence[Stage], UNCHECKED] = (),
    controller: Annotated[Controller | None, UNCHECKED] = None,
    loads: Annotated[Sequence[OpenLoad], UNCHECKED] = (),
    sinks: Annotated[Sequence[Sink], UNCHECKED] = (),
    inputs: Annotated[Inputs | None, UNCHECKED] = None,
    progress: InstanceOf[Progress] | None = None,
) -> Run:
    """Simulate a scenario and write its run folder; a notebook shows the progress.

    Parameters
    ----------
    scenario : Scenario, mapping, path or str
        A scenario, its content as a dict, its file, or the name of a shipped one such
        as ``"colocation_10mw"``.
    out : path, optional
        The run folder; ``runs/<scenario>-<hash>`` by default.
    start : datetime.date or str, optional
        Start of the run, local time.
    duration, resolution, step : str or datetime.timedelta, optional
        Duration of the run, such as ``"8 weeks"``, interval of the series, and time
        step of the simulation.
    seed : int, optional
        Random seed.
    limits : Limits, path or str, or a list of these
        Limits to check during the run, at the step that they need, in addition to the
        scenario's limits: names of presets such as ``"ercot_nprr1191"``, or files.
    target_utilization : float, optional
        Target mean node occupancy (0-1) of the scenario's only stream.
    values : mapping or sequence of str, optional
        Values of other keys by dotted key, such as
        ``{"facility.pools.h100.n_nodes": 100}``.
    profiles : ProfileLibrary, path, or sequence of path
        Power profiles of the jobs; the shipped reference profiles by default.
    engine : {"simpy", "compiled"}
        Scheduler; both give the same start times. None selects the faster one.
    force : bool
        Replace a run folder that exists.
    event_windows : bool
        Also write the extreme windows at 0.1 s in ``zooms/``.
    by_load : bool
        Also write the power of each stream and service, and aggregates by job class.
    before_stores : bool
        Also write the load upstream of batteries and ramp limits, in double precision,
        as `diploee.grid.dynamics.Site` needs.
    jobs_file, nodes_file : bool
        Write ``jobs.parquet``, the largest file of a run, and ``nodes.parquet``, the
        node allocations of jobs and services over time.
    until_decided : bool
        Stop the run with an `EarlyStopError` as soon as every file of limits is
        violated, in both variants of a large job. The `reports` of the error are the
        compliance results so far.
    n_threads : int, optional
        Threads of the power stage; by default the number of cores, at most four. 0 runs
        all stages on one core.
    window_days : float, optional
        Length of the windows in which the run is simulated [d], a multiple of 0.25.
        Shorter windows need less memory; results do not change.
    at_most_s, at_most_mb : float, optional
        Refuse a run with a longer forecast time [s] or a larger forecast memory [MB].
    policies : mapping of str to Policy, optional
        Custom scheduling policies by name of the pool.
    stages : sequence of Stage
        Custom stages of the facility, after those of the scenario.
    controller : Controller, optional
        Custom controller, which acts on the jobs of all pools before the policies do.
    loads : sequence of callable
        Functions that return custom loads, from the scenario, its inputs and the
        profile library.
    sinks : sequence of Sink
        Custom consumers of the run's blocks of results.
    inputs : Inputs, optional
        All input data of the run, including profiles, if these were read before.
    progress : Progress, optional
        Receiver of the stages of the run and their progress.

    Returns
    -------
    Run
        The finished run, read back from its folder.

    Raises
    ------
    ScenarioError
        If the scenario or a value is invalid; the text names the key.
    InputError
        If an argument, the profiles or the output folder are not usable, or the run's
        forecast is too long.
    OutputError
        If the folder can't be written; no partial folder remains.
    EarlyStopError
        If `until_decided` stops the run; no folder remains.
    """
    roots = {
        "start": start,
        "duration": duration,
        "resolution": resolution,
        "step": step,
        "seed": seed,
    }
    changes = {key: value for key, value in roots.items() if value is not None}
    resolved = with_values(scenario, values, changes)
    if target_utilization is not None:
        target = target_values(resolved, target_utilization)
        names = dict.fromkeys(target, "target_utilization")
        resolved = with_values(scenario, values, changes | target, names)
    for key, objects in (("loads", loads), ("facility.stages", stages)):
        if any(isinstance(item, str) for item in as_list(objects)):
            raise InputError(
                f"{key.rpartition('.')[2]}: must be objects or classes, found text; "
                f"give names and import paths by values={{'{key}': [...]}}"
            )
    options = RunOptions(
        engine=engine,
        policies=policies,
        stages=stages,
        controller=controller,
        loads=loads,
        sinks=sinks,
        force=force,
        event_windows=event_windows,
        by_load=by_load,
        before_stores=before_stores,
        jobs_file=jobs_file,
        nodes_file=nodes_file,
        n_threads=n_threads,
        window_days=window_days,
        at_most_s=at_most_s,
        at_most_mb=at_most_mb,
        until_decided=until_decided,
    )
    watch = Stopwatch(progress or usual_progress())
    with watch.stage("read inputs"):
        if out is not None:  # check before reading
            check_output_folder(out, force, kind=RUN_FOLDER)
        site = site_of(resolved, profiles, options, inputs, limits)
        if until_decided and not site.watch.models:
            raise InputError("--until-decided: has no use without --limits")
    return open_run(simulation.simulate(site, out, watch))
