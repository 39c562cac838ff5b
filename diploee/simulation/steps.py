"""Single steps of the simulation, each over a whole run in memory.

The steps are for notebooks and tests. Each calls the function that
`diploee.simulation.pipeline` calls window by window.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from diploee.base.errors import InputError, one_of
from diploee.base.tables import concat
from diploee.facility.base import POWER
from diploee.loads.inputs import Inputs
from diploee.loads.jobs import StreamClass, StreamMatch, Utilization
from diploee.loads.jobs.job_streams import JobStreams
from diploee.loads.jobs.load import simulations
from diploee.loads.jobs.lowering import GetSections, lower_jobs
from diploee.power.blocks import Method, PowerBlock, device_block, power_stream
from diploee.power.segments import Segments
from diploee.profiles.flat import FLAT_ID
from diploee.profiles.library import ProfileLibrary
from diploee.scenario.models import Scenario
from diploee.schedule.execution_intervals import PreemptiveSchedule
from diploee.schedule.job_table import JobTable
from diploee.schedule.policy import Policy
from diploee.schedule.schedule import Cluster, Engine, in_order_of_submission
from diploee.schedule.started import Schedule
from diploee.simulation.pipeline import power_model

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, eq=False)
class Workload:
    """Jobs of a run, and the match of their number with the target."""

    jobs: JobTable  # jobs in the order of submission
    classes: tuple[StreamClass, ...]  # job classes by `class_id`
    matches: tuple[StreamMatch, ...]  # job count of each stream
    # Profiles by `profile_id`: those of the library, then those of the streams
    library: ProfileLibrary
    # Function that returns a synchronous job's profile sections, by class and number
    pieces_of: GetSections | None = None


WINDOW_DRAWS = 28
"""Number of draw spans of six hours at a time, a week; it does not affect the jobs."""


def generate_jobs(
    scenario: Scenario, inputs: Inputs, simulated_utilization: Utilization | None = None
) -> Workload:
    """Generate the jobs of all streams; see `diploee.generate_jobs`."""
    _check_scenario("generate_jobs", scenario)
    streams = JobStreams(scenario, inputs)
    utilization_functions = simulations(scenario)
    if simulated_utilization is not None:
        utilization_functions = dict.fromkeys(
            utilization_functions, simulated_utilization
        )
    streams.set_job_counts(utilization_functions)
    jobs = concat(list(streams.windows(WINDOW_DRAWS)))
    return Workload(
        jobs, streams.classes, streams.matches(), streams.library, streams.sections
    )


def schedule_jobs(
    jobs: JobTable,
    scenario: Scenario,
    engine: Engine = "simpy",
    policies: Mapping[str, Policy] | None = None,
) -> Schedule:
    """Schedule jobs on the pools of a scenario.

    Parameters
    ----------
    jobs : JobTable
        Jobs in order of submission.
    scenario : Scenario
        Scenario with the pools and their queue disciplines.
    engine : {"simpy", "compiled"}
        SimPy, or the compiled loop with the same starts.
    policies : mapping of str to Policy, optional
        Custom policies by the name of their pool, in place of the scenario's.

    Raises
    ------
    InputError
        If the scenario has flexibility, which only `diploee.run` supports.
    """
    _check_scenario("schedule_jobs", scenario, "flexibility")
    started = Cluster.from_scenario(scenario, engine, policies).advance(
        jobs, scenario.horizon_ms
    )
    return in_order_of_submission([started], jobs, scenario.horizon_ms)


def job_segments(
    schedule: Schedule,
    library: ProfileLibrary,
    scenario: Scenario,
    pieces_of: GetSections | None = None,
) -> Segments:
    """Convert the jobs of a schedule to segments of power profiles.

    Parameters
    ----------
    schedule : Schedule
        Jobs and their start times, such as `schedule_jobs` returns.
    library : ProfileLibrary
        Profiles of the jobs: `Workload.library`.
    scenario : Scenario
        Node types of the jobs, and sharing of nodes.
    pieces_of : callable, optional
        Function that returns the profile sections of synchronous jobs:
        `Workload.pieces_of`.

    Raises
    ------
    InputError
        If jobs have a profile that is not in the library, are synchronous without
        `pieces_of`, or were stopped, slowed or resized; or if the scenario has services
        or replicas. Only `diploee.run` supports all of these.
    """
    _check_scenario("job_segments", scenario, "request_streams", "replica_streams")
    if isinstance(schedule, PreemptiveSchedule):
        raise InputError(
            "job_segments: the jobs were stopped, slowed or resized by a policy that "
            "acts; use diploee.run(...), which lowers them"
        )
    jobs = schedule.jobs
    lacks_flat = jobs.startup_ms.any() and FLAT_ID not in library.ids
    if lacks_flat or jobs.profile_id.max(initial=-1) >= len(library.ids):
        raise InputError(
            f"job_segments: jobs play profiles that the library of {len(library.ids)} "
            "does not have, such as variants, smoothed ones and start-ups; give the "
            "library of generate_jobs(...), workload.library"
        )
    if jobs.synchronous_id.any() and pieces_of is None:
        raise InputError(
            "job_segments: what synchronous jobs play is not known; give that of "
            "generate_jobs(...), pieces_of=workload.pieces_of"
        )
    return lower_jobs(schedule, library, scenario.facility, pieces_of).segments


def _check_scenario(step: str, scenario: Scenario, *omitted: str) -> None:
    """Raise an error if a scenario has a size, or loads that the step omits."""
    facility = scenario.facility
    has = {
        "facility.size": facility.size,
        "facility.stages": facility.stages,
        "facility.node_types.<name>.ac_power": facility.has_ac_power,
        "request_streams": scenario.request_streams,
        "replica_streams": scenario.replica_streams,
        "flexibility": scenario.flexibility,
    }
    if keys := [key for key in ("facility.size", *omitted) if has[key]]:
        raise InputError(
            f"{step}: leaves {one_of(keys)} of scenario '{scenario.name}' out, and "
            "its numbers would be those of another site; use diploee.run(...), which "
            "takes all of it"
        )


def power_blocks(
    segments: Segments,
    scenario: Scenario,
    library: ProfileLibrary,
    block_intervals: int | None = None,
    method: Method = "auto",
    step_ms: int | None = None,
    span_ms: tuple[int, int] | None = None,
    n_threads: int | None = None,
) -> Iterator[PowerBlock]:
    """Sum the segments of a whole run; see `power_stream` for arguments and errors.

    Parameters
    ----------
    segments : Segments
        Loads of all pools.
    scenario : Scenario
        Pools, idle power, span and resolution.
    library : ProfileLibrary
        Profiles that the segments refer to.
    method : {"auto", "direct", "spectral"}
        Method for whole jobs at their profile's sampling step; ``auto`` takes the
        cheaper method.
    step_ms : int, optional
        Interval [ms] other than the scenario's resolution.
    block_intervals, span_ms, n_threads
        See `power_stream`.
    """
    _check_scenario("power_blocks", scenario)
    sizes = {"block_intervals": block_intervals, "step_ms": step_ms}
    for name, size in (sizes | {"n_threads": n_threads}).items():
        if size is not None and not (isinstance(size, int) and size >= 1):
            raise InputError(f"{name}: must be a whole number from 1, found {size!r}")
    used = np.unique(segments.profile_id).tolist()
    yield from power_stream(
        power_model(scenario, library, used, step_ms=step_ms, method=method),
        [(segments, scenario.horizon_ms)],
        span_ms=span_ms,
        n_threads=n_threads,
        block_intervals=block_intervals,
    )


def power_series(
    segments: Segments, scenario: Scenario, library: ProfileLibrary
) -> pd.DataFrame:
    """Sum segments and idle nodes to the power of the facility's devices.

    Parameters
    ----------
    segments : Segments
        Loads of all pools, such as `job_segments` returns.
    scenario : Scenario
        Pools, idle power, span and resolution.
    library : ProfileLibrary
        Profiles that the segments refer to.

    Returns
    -------
    pandas.DataFrame
        Indexed by `timestamp` (zone-aware, start of the interval): `it_power_w` (mean
        over the interval [W]), `busy_nodes` (at the interval's start) and `utilization`
        (mean over the interval, 0-1). `facility_power_w` equals `it_power_w`, because
        no stage is applied.

    Raises
    ------
    InputError
        If the scenario has services, replicas, stages or AC power, which only
        `diploee.run` supports.
    """
    import pandas as pd

    _check_scenario(
        "power_series",
        scenario,
        "facility.stages",
        "facility.node_types.<name>.ac_power",
        "request_streams",
        "replica_streams",
    )
    blocks = power_blocks(segments, scenario, library)
    column_blocks = [device_block(block, scenario.facility).columns for block in blocks]
    index = pd.date_range(
        scenario.start_with_zone,
        periods=scenario.n_intervals,
        freq=pd.Timedelta(milliseconds=scenario.resolution_ms),
        name="timestamp",
    )
    names = ("it_power_w", POWER, "busy_nodes", "utilization")
    columns = {
        name: np.concatenate([block_columns[name] for block_columns in column_blocks])
        for name in names
    }
    return pd.DataFrame(columns, index=index)
