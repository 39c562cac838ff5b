"""The program in one line: scenario -> jobs and services -> segments -> power -> metrics -> files.

`simulate` is the line itself. Each step is a function of another module that takes tables and
returns tables; here they are only joined, timed and written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Executor
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np

from diploee.inference import ServicePlan, load_curves, plan_services, service_columns
from diploee.metrics import FacilityMetrics, queue_metrics, request_metrics
from diploee.metrics.grid import GridMetrics
from diploee.outputs import (
    FACILITY_FILE,
    MANIFEST,
    METRICS_FILE,
    FacilityFile,
    Run,
    build_manifest,
    default_folder,
    expected_mb,
    new_run_folder,
    open_run,
    serving_entries,
    write_jobs,
    write_json,
    write_zooms,
)
from diploee.plausibility import run_warnings
from diploee.power import PowerBlock, lower_jobs, power_blocks, serving_segments
from diploee.profiles import ProfileLibrary, Provenance
from diploee.scenario import Scenario
from diploee.schedule import Engine, Schedule, schedule_jobs
from diploee.tables import Float64Array, concat
from diploee.watch import Stopwatch, Update, Watch
from diploee.workload import JobTable, generate_jobs, open_classes


def simulate(
    scenario: Scenario,
    out: Path | str | None = None,
    *,
    library: ProfileLibrary | None = None,
    engine: Engine = "simpy",
    force: bool = False,
    zooms: bool = False,
    jobs_file: bool = True,
    n_threads: int | None = None,
    executor: Executor | None = None,
    watch: Watch | None = None,
) -> Run:
    """Simulate a scenario and write its run folder.

    Parameters
    ----------
    scenario : Scenario
        What to simulate.
    out : path, optional
        The run folder; ``runs/<scenario>-<hash>`` by default.
    library : ProfileLibrary, optional
        Power profiles of the jobs; the shipped reference profiles by default.
    engine : {"simpy", "compiled"}
        Scheduler; both give the same start times.
    force : bool
        Replace a run folder that exists.
    zooms : bool
        Also keep the worst windows at 0.1 s in ``zooms/``.
    jobs_file : bool
        Write ``jobs.parquet``, the largest file of a run.
    n_threads : int, optional
        Threads of the power stage; as many as there are cores, at most four, by default.
    executor : concurrent.futures.Executor, optional
        Computes the power blocks instead of threads, as `power_blocks` says.
    watch : Watch, optional
        Told of the stages and their progress.

    Returns
    -------
    Run
        The finished run, read back from its folder.

    Raises
    ------
    InputError
        If the scenario, the profiles or the output folder are not usable.
    OutputError
        If the folder can't be written; nothing is kept then.
    """
    library = library or ProfileLibrary.open()
    clock = Stopwatch(watch or Watch())

    def default() -> Path:
        return default_folder(scenario.name, scenario.sha256())

    has_jobs, has_requests = bool(scenario.streams), bool(scenario.request_streams)
    with new_run_folder(Path(out or default()), force, None if out else default) as new:
        folder = new.folder
        with clock.stage("plan services", has_requests):
            curves = load_curves(scenario)
            plans = plan_services(scenario, curves)
        with clock.stage("generate jobs", has_jobs):
            workload = generate_jobs(scenario, library, _simulated_utilization(scenario))
            library = workload.library  # with the profiles that the streams made
        with clock.stage("schedule", has_jobs) as update:
            schedule = schedule_jobs(workload.jobs, scenario, engine, _progress(scenario, update))
        services = sum(len(plan.services) for plan in plans)
        new.needed_mb = expected_mb(
            scenario.n_intervals, scenario.resolution_ms, services,
            len(workload.jobs) if jobs_file else 0,
        )  # fmt: skip
        with clock.stage("power") as update:
            load = lower_jobs(schedule, library, scenario)
            serving = serving_segments(plans, curves, scenario, library)
            segments = concat([load.segments, serving.segments])
            blocks = power_blocks(
                segments, scenario, serving.library, n_threads=n_threads, executor=executor
            )
            used = np.unique(segments.profile_id).tolist()
            readings = [serving.library.entries[k].provenance for k in used]
            metrics = _write_power(folder, scenario, blocks, readings, schedule, plans, update)
        with clock.stage("zooms", zooms):
            if zooms:
                metrics["zooms"] = write_zooms(folder, scenario, serving.library, segments)
        with clock.stage("write jobs", has_jobs and jobs_file):
            if has_jobs and jobs_file:
                write_jobs(
                    folder,
                    scenario,
                    schedule,
                    _with_busy_factor(load.energy_j(library), schedule, scenario),
                    workload.classes,
                    library.ids,
                )
        warnings = run_warnings(scenario, library, workload, schedule, plans, metrics)
        manifest = build_manifest(
            scenario, library, engine, workload.classes, workload.matches, warnings
        ) | serving_entries(plans, curves)
        write_json(folder / METRICS_FILE, metrics)
        write_json(folder / MANIFEST, {**manifest, "timing": clock.stages})
    return open_run(new.place)


def check(scenario: Scenario, library: ProfileLibrary) -> int:
    """Read and check all that a run of a scenario needs, without simulating.

    Returns
    -------
    int
        Number of job classes.

    Raises
    ------
    InputError
        What `simulate` would refuse before its first job: a missing or damaged profile or curve, a
        latency cap or a target of requests out of reach.
    """
    classes, library = open_classes(scenario, library)
    for index in {index for c in classes for index in c.profile_ids}:
        _ = library[index]  # reads the file and checks its values
    plan_services(scenario, load_curves(scenario))
    return len(classes)


def _with_busy_factor(
    energy_j: Float64Array, schedule: Schedule, scenario: Scenario
) -> Float64Array:
    factors = [
        scenario.facility.node_type_of(pool).busy_power_factor for pool in scenario.pool_names()
    ]
    of_jobs: Float64Array = energy_j * np.array(factors)[schedule.jobs.pool_id]
    return of_jobs


def _simulated_utilization(scenario: Scenario) -> Callable[[JobTable], float]:
    """Return what ``match: simulated`` matches: the occupancy of the scheduled jobs' pool."""
    pools = list(scenario.facility.pools.values())

    def utilization(jobs: JobTable) -> float:
        schedule = schedule_jobs(jobs, scenario, "compiled")
        n_nodes = pools[int(jobs.pool_id[0])].n_nodes if len(jobs) else 1
        return schedule.mean_utilization(n_nodes)

    return utilization


def _progress(scenario: Scenario, update: Update) -> Callable[[int, int], None]:
    def report(now_ms: int, n_jobs: int) -> None:
        date = scenario.start + timedelta(milliseconds=now_ms)
        update(now_ms / scenario.horizon_ms, f"{date:%Y-%m-%d}  {n_jobs:,} jobs")

    return report


def _write_power(
    folder: Path,
    scenario: Scenario,
    blocks: Iterable[PowerBlock],
    readings: Sequence[Provenance],
    schedule: Schedule,
    plans: list[ServicePlan],
    update: Update,
) -> dict[str, Any]:
    """Stream the power blocks to file and metrics; return the metrics."""
    whole, of_pools = _accumulators(scenario)
    pools = scenario.pool_names()
    grid = GridMetrics(
        scenario.resolution_ms,
        scenario.start_with_zone,
        rated_power_w=scenario.facility.rated_power_w,
        readings=readings,
    )
    with FacilityFile(folder / FACILITY_FILE, scenario, scenario.resolution_ms) as file:
        for block in blocks:
            span = (block.t0_ms, block.dt_ms, block.facility_power_w.size)
            queued = {"queued_jobs": schedule.queued_at(block.starts_ms)}
            file.write(block, queued | service_columns(plans, *span))
            whole.add(block.facility_power_w, block.mean_busy_nodes.sum(axis=0))
            for k, of_pool in enumerate(of_pools.values()):
                of_pool.add(block.it_power_w[k], block.mean_busy_nodes[k])
            of_pool_w = dict(zip(pools, block.it_power_w, strict=True))
            grid.add(block.t0_ms, block.facility_power_w, of_pool_w)
            done_ms = block.t0_ms + block.facility_power_w.size * block.dt_ms
            date = scenario.start + timedelta(milliseconds=done_ms)
            update(done_ms / scenario.horizon_ms, f"{date:%Y-%m-%d}")
    metrics = whole.blocks() | _work_metrics(scenario, schedule, plans)
    metrics["grid"] = grid.block(whole.power_w)
    if of_pools:
        metrics["pools"] = {
            name: of_pool.blocks() | _work_metrics(scenario, schedule, plans, name)
            for name, of_pool in of_pools.items()
        }
    return metrics


def _work_metrics(
    scenario: Scenario, schedule: Schedule, plans: list[ServicePlan], pool: str | None = None
) -> dict[str, Any]:
    """Return the `jobs` and `requests` blocks of the facility or a pool, where it has any."""
    blocks: dict[str, Any] = {}
    if any(pool in (None, jobs.pool) for jobs in scenario.streams.values()):
        of_pool = schedule if pool is None else schedule.of_pool(scenario.pool_names().index(pool))
        blocks["jobs"] = queue_metrics(of_pool)
    if asked := [plan for plan in plans if pool in (None, plan.pool)]:
        blocks["requests"] = request_metrics(asked)
    return blocks


def _accumulators(scenario: Scenario) -> tuple[FacilityMetrics, dict[str, FacilityMetrics]]:
    """Return the accumulators of the whole facility, and of each pool if there are several."""
    facility, step_ms = scenario.facility, scenario.resolution_ms
    whole = FacilityMetrics(facility.n_nodes, facility.rated_power_w, step_ms)
    if len(facility.pools) == 1:
        return whole, {}
    return whole, {
        name: FacilityMetrics(pool.n_nodes, facility.pool_rated_power_w(name), step_ms)
        for name, pool in facility.pools.items()
    }
