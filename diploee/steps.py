"""The steps of the model one by one, each over a whole run in memory: for notebooks and tests.

`simulate` joins the same parts window by window, in memory that does not grow with the run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from diploee.annexes import annex
from diploee.columns import Columns, catalogue, with_boundary
from diploee.errors import InputError, LogFormatError, one_line, one_of
from diploee.facility import Block, Stage, Stages, Weather
from diploee.facility.base import POWER, REACTIVE, check_order
from diploee.inputs import Inputs, load_inputs
from diploee.loads.jobs import StreamClass, StreamMatch, Utilization
from diploee.loads.jobs.load import open_streams, simulations
from diploee.loads.jobs.lowering import JobLoad, lower_jobs
from diploee.loads.jobs.pieces import PiecesOf
from diploee.loads.services import SERVICE_COLUMNS, Curves, RequestRates, ServicePlan
from diploee.loads.services import plan_services as plan_streams
from diploee.loads.services import request_rates as rates_of
from diploee.loads.services.banks import ServingLoad
from diploee.loads.services.banks import serving_segments as lower_services
from diploee.power import (
    AC_COLUMNS,
    PHASE_COLUMNS,
    POWER_COLUMNS,
    PowerBlock,
    PowerModel,
    Segments,
    power_stream,
)
from diploee.power.block_source import Method
from diploee.power.occupancy import absent_nodes
from diploee.profiles import ProfileLibrary
from diploee.profiles.flat import FLAT_ID
from diploee.profiles.profile import NODE_AC_POWER
from diploee.scenario import Scenario
from diploee.scenario.size import site_of, sized
from diploee.schedule import QUEUE_COLUMNS, ActedSchedule, Engine, Schedule
from diploee.schedule.controller import FairCaps
from diploee.schedule.job_table import JobTable
from diploee.schedule.policy import Policy, twin_of
from diploee.schedule.schedule import Cluster, in_order_of_submission
from diploee.tables import Float64Array, concat
from diploee.units import MS_PER_H, MS_PER_MIN, W_PER_MW

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, eq=False)
class Workload:
    """The jobs of a run and how their number was found.

    Parameters
    ----------
    jobs : JobTable
        Jobs in the order of submission.
    classes : tuple of StreamClass
        Classes by `class_id`.
    matches : tuple of StreamMatch
        One per stream.
    library : ProfileLibrary
        Profiles by `profile_id`: those given, then those that the streams made.
    pieces_of : callable, optional
        Gives what a synchronous job plays, by class and number.
    """

    jobs: JobTable
    classes: tuple[StreamClass, ...]
    matches: tuple[StreamMatch, ...]
    library: ProfileLibrary
    pieces_of: PiecesOf | None = None


def fastest_engine(scenario: Scenario, inputs: Inputs) -> Engine:
    """Return the engine that gives a schedule soonest: compiled where all of it has a twin."""
    policies = [pool.scheduler.open() for pool in scenario.facility.pools.values()]
    if flexible_controller(scenario, inputs) or not all(map(twin_of, policies)):
        return "simpy"
    return "compiled"


def flexible_controller(
    scenario: Scenario, inputs: Inputs, further: Sequence[Stage] = ()
) -> FairCaps | None:
    """Return the controller that a scenario asks for; None where it has nothing to answer."""
    signals = inputs.signals
    flexibility = scenario.flexibility
    if flexibility is None or flexibility.is_off or not flexibility.has_something_to_answer:
        return None
    overhead, has_sources = None, False
    if scenario.facility.has_ac_power or scenario.facility.stages or further:
        stages, _ = open_stages(scenario, further, inputs.weather)
        has_sources = any(c.role == "source" for stage in stages for c in stage.columns)
        overhead = meter_power(scenario, stages)
    return FairCaps(
        flexibility.events_in(scenario.clock),
        signals.get("cap"),
        flexibility.follow,
        signals,
        overhead,
        has_sources,
    )


def meter_power(scenario: Scenario, stages: Stages) -> Callable[[int, float], tuple[float, float]]:
    """Return what the meter shows at a time [ms] for a power of all devices, and sources give [W].

    ASSUMPTION: all nodes draw the same share of their ratings, and stages stand as at their start
    [J]; a controller asks again when either has changed.
    """
    facility = scenario.facility
    pools = [(pool.n_nodes, facility.node_type_of(name)) for name, pool in facility.pools.items()]
    sources = [column.name for s in stages for column in s.columns if column.role == "source"]

    @lru_cache(maxsize=4096)
    def at(hour: int, devices_w: float) -> tuple[float, float]:
        share = devices_w / facility.nodes_power_w if facility.nodes_power_w else 0.0
        ac_w = devices_w
        if facility.has_ac_power:
            ac_w = sum(n * float(node.ac_power_w(node.rated_power_w * share)) for n, node in pools)
        columns = {"it_power_w": np.array([devices_w]), POWER: np.array([ac_w])}
        if facility.has_ac_power:
            reactive_var = np.array([facility.reactive_power_var])
            columns |= {"it_ac_power_w": columns[POWER], REACTIVE: reactive_var}
        time_ms = min(max(hour * MS_PER_H, 0), scenario.horizon_ms - MS_PER_MIN)
        passed, _ = stages.apply(Block(time_ms, MS_PER_MIN, columns), stages.start())
        given_w = sum(float(passed.columns[name][0]) for name in sources)
        return float(passed.columns[POWER][0]), given_w

    step_w = max(facility.nodes_power_w / 1000, 1.0)

    def meter_w(time_ms: int, devices_w: float) -> tuple[float, float]:
        near_w = max(round(devices_w / step_w), 1) * step_w
        shown_w, given_w = at(time_ms // MS_PER_H, near_w)
        # What is drawn grows with the devices; what sources give does not.
        return (shown_w + given_w) / near_w * devices_w - given_w, given_w

    return meter_w


def generate_jobs(
    scenario: Scenario,
    library: ProfileLibrary | None = None,
    simulated_utilization: Utilization | None = None,
) -> Workload:
    """Generate the list of jobs of all streams.

    Parameters
    ----------
    scenario : Scenario
        What to generate.
    library : ProfileLibrary, optional
        Profiles that the classes draw from; they give the durations.
    simulated_utilization : callable, optional
        Schedules the jobs of a stream with ``match: simulated``, day after day, and returns the
        mean node occupancy (0-1) of its pool; its own scheduler by default.

    Returns
    -------
    Workload
        Jobs in the order of submission; simultaneous ones in the order of their streams.

    Raises
    ------
    InputError
        If a class has no profile, a log can't be read or does not fit its rules, or a target can't
        be reached; the text says by how much. Or if the scenario has a `facility.size`, which
        `diploee.run` alone settles; so with all steps.
    """
    _refuse("generate_jobs", scenario)
    streams = open_streams(scenario, load_inputs(scenario, library))
    found = simulations(scenario)
    if simulated_utilization is not None:
        found = dict.fromkeys(found, simulated_utilization)
    streams.settle(found)
    jobs = concat(list(streams.windows(1)))
    return Workload(jobs, streams.classes, streams.matches(), streams.library, streams.pieces)


def stream_classes(
    scenario: Scenario, library: ProfileLibrary | None = None
) -> tuple[tuple[StreamClass, ...], ProfileLibrary]:
    """Return the classes of all job streams, and the library that their profiles are indices of.

    Raises
    ------
    ProfileError
        If the library has no profile for a class.
    """
    streams = open_streams(scenario, load_inputs(scenario, library))
    return streams.classes, streams.library


def schedule_jobs(
    jobs: JobTable,
    scenario: Scenario,
    engine: Engine = "simpy",
    policies: Mapping[str, Policy] | None = None,
) -> Schedule:
    """Schedule jobs on the pools of a scenario; for arguments and errors see `Cluster`.

    Raises
    ------
    InputError
        If the scenario has flexibility, which `diploee.run` alone follows.
    """
    _refuse("schedule_jobs", scenario, "flexibility")
    begin_ms = scenario.clock.begin_ms
    cluster = Cluster(
        scenario.facility.pools,
        scenario.horizon_ms,
        engine,
        policies,
        begin_ms,
        scenario.standing_nodes(),
        slots_per_node=scenario.facility.slots,
    )
    started = cluster.advance(jobs, scenario.horizon_ms)
    return in_order_of_submission([started], jobs, scenario.horizon_ms)


def job_load(
    schedule: Schedule,
    library: ProfileLibrary,
    scenario: Scenario,
    pieces_of: PiecesOf | None = None,
) -> JobLoad:
    """Lower started jobs to segments and keep whose they are; errors as in `job_segments`."""
    _refuse("job_segments", scenario)
    if isinstance(schedule, ActedSchedule):
        raise InputError(
            "job_segments: the jobs were stopped, slowed or resized by a policy that acts; use "
            "diploee.run(...), which lowers them"
        )
    jobs = schedule.jobs
    lacks_flat = jobs.startup_ms.any() and FLAT_ID not in library.ids
    if lacks_flat or jobs.profile_id.max(initial=-1) >= len(library.ids):
        raise InputError(
            f"job_segments: jobs play profiles that the library of {len(library.ids)} does not "
            "have, such as variants, smoothed ones and start-ups; give the library of "
            "generate_jobs(...), workload.library"
        )
    if jobs.synchronous_id.any() and pieces_of is None:
        raise InputError(
            "job_segments: what synchronous jobs play is not known; give that of "
            "generate_jobs(...), pieces_of=workload.pieces_of"
        )
    return lower_jobs(schedule, library, scenario.facility, pieces_of)


def job_segments(
    schedule: Schedule,
    library: ProfileLibrary,
    scenario: Scenario,
    pieces_of: PiecesOf | None = None,
) -> Segments:
    """Return what the jobs of a schedule draw, as segments of power profiles.

    Parameters
    ----------
    schedule : Schedule
        Jobs and their start times, such as `schedule_jobs` gives.
    library : ProfileLibrary
        Profiles that the jobs refer to: `Workload.library`.
    scenario : Scenario
        What nodes the jobs are on, and how they share them.
    pieces_of : callable, optional
        Gives what synchronous jobs play: `Workload.pieces_of`.

    Raises
    ------
    InputError
        If jobs play a profile that the library does not have, are synchronous without `pieces_of`,
        or were stopped, slowed or resized; or if the scenario has services or replicas. All of that
        `diploee.run` alone takes in.
    """
    _refuse("job_segments", scenario, "request_streams", "replica_streams")
    return job_load(schedule, library, scenario, pieces_of).segments


def job_energy_j(
    schedule: Schedule,
    library: ProfileLibrary,
    scenario: Scenario,
    pieces_of: PiecesOf | None = None,
) -> Float64Array:
    """Return the energy of each job up to the horizon [J], shape (n,); 0 = never started."""
    return job_load(schedule, library, scenario, pieces_of).energy_j(library)


def _refuse(step: str, scenario: Scenario, *left_out: str) -> None:
    """Refuse a scenario with a size, which a run settles, or with parts that a step leaves out."""
    facility = scenario.facility
    has = {
        "facility.size": facility.size,
        "facility.stages": facility.stages,
        "facility.node_types.<name>.ac_power": facility.has_ac_power,
        "request_streams": scenario.request_streams,
        "replica_streams": scenario.replica_streams,
        "flexibility": scenario.flexibility,
    }
    if found := [key for key in ("facility.size", *left_out) if has[key]]:
        raise InputError(
            f"{step}: leaves {one_of(found)} of scenario '{scenario.name}' out, and its numbers "
            "would be those of another site; use diploee.run(...), which takes all of it"
        )


def load_curves(scenario: Scenario) -> Curves:
    """Read or compute the curves of all services of a scenario."""
    inputs = load_inputs(scenario, ProfileLibrary.in_order([]))
    return inputs.curves


def plan_services(
    scenario: Scenario,
    curves: Curves | None = None,
    inputs: Inputs | None = None,
    answering: bool = False,
) -> list[ServicePlan]:
    """Plan instances and served requests of all request streams of a scenario.

    Flexible services answer the scenario's events where they are `answering`.
    """
    _refuse("plan_services", scenario)
    inputs = inputs or load_inputs(scenario, ProfileLibrary.in_order([]))
    flexibility = scenario.flexibility
    return plan_streams(
        scenario.request_streams,
        scenario.facility,
        scenario.clock,
        scenario.seed,
        curves if curves is not None else inputs.curves,
        inputs.traces,
        flexibility.spans_ms(scenario.clock) if answering and flexibility else (),
    )


def open_stages(
    scenario: Scenario, further: Sequence[Stage] = (), weather: Weather | None = None
) -> tuple[Stages, Columns]:
    """Return the stages of a facility, and the catalogue of the columns that a run gives.

    Raises
    ------
    InputError
        If a stage takes the name of another column, or stands where it does not belong.
    """
    facility = scenario.facility
    check_order([*facility.stages, *further])
    site = site_of(scenario, scenario.clock, weather)
    stages = Stages([*(spec.open(site) for spec in facility.stages), *further])
    services = SERVICE_COLUMNS if scenario.request_streams else ()
    if scenario.replica_streams:
        services = (*services, *annex("replica_columns_of")(scenario.replica_streams))
    power = (*POWER_COLUMNS, *AC_COLUMNS) if facility.has_ac_power else POWER_COLUMNS
    if facility.has_phases:
        power = (*power, *PHASE_COLUMNS)
    columns = catalogue(power, QUEUE_COLUMNS, services)
    if facility.has_ac_power:
        columns = with_boundary(columns, POWER, NODE_AC_POWER)
    return stages, stages.extend(columns)


def settle(scenario: Scenario, inputs: Inputs, further: Sequence[Stage] = ()) -> Scenario:
    """Return the site of a scenario as every run of it has it: in its size, whatever its span.

    A site that is settled stays as it is. Errors are those of `sized`, and a `LogFormatError` where
    a signal's cap is below what the nodes draw without a job.
    """
    settled = sized(scenario, inputs.weather_year, further)
    if scenario.flexibility is not None and "cap" in inputs.signals:
        lowest_mw = float(inputs.signals["cap"].values.min())
        idle_mw = settled.facility.idle_power_w / W_PER_MW
        if lowest_mw < idle_mw:
            given = scenario.flexibility.signals.given()["cap"]
            raise LogFormatError(
                f"{one_line(given.file)}: a cap of {lowest_mw:g} MW, expected at least the "
                f"{idle_mw:.4g} MW that the nodes draw without a job"
            )
    return settled


def request_rates(scenario: Scenario, name: str) -> RequestRates:
    """Return the request rate of a stream in time, for any mean rate."""
    _refuse("request_rates", scenario)
    inputs = load_inputs(scenario, ProfileLibrary.in_order([]))
    spec = scenario.request_streams[name]
    standing = scenario.facility.pools[spec.pool].standing(scenario.clock)
    return rates_of(spec, name, scenario.clock, scenario.seed, inputs.traces, standing)


def serving_segments(
    plans: list[ServicePlan],
    curves: Curves,
    scenario: Scenario,
    library: ProfileLibrary | None = None,
) -> ServingLoad:
    """Lower the plans of all request streams to segments, behind the profiles of a library."""
    _refuse("serving_segments", scenario)
    library = library or ProfileLibrary.in_order([])
    return lower_services(plans, curves, scenario.facility, scenario.seed, library)


def power_blocks(
    segments: Segments,
    scenario: Scenario,
    library: ProfileLibrary,
    block_intervals: int | None = None,
    method: Method = "auto",
    step_ms: int | None = None,
    span_ms: tuple[int, int] | None = None,
    n_threads: int | None = None,
    executor: Executor | None = None,
) -> Iterator[PowerBlock]:
    """Sum the segments of a whole run; arguments and errors as of `power_stream`.

    Parameters
    ----------
    segments : Segments
        Loads of all pools.
    scenario : Scenario
        Pools, idle power, span and resolution.
    library : ProfileLibrary
        Profiles that the segments refer to.
    method : {"auto", "direct", "spectral"}
        How whole jobs at their profile's sampling step are added; ``auto`` takes the cheaper.
    step_ms : int, optional
        Interval [ms] other than the scenario's resolution.
    block_intervals, span_ms, n_threads, executor
        As of `power_stream`.
    """
    _refuse("power_blocks", scenario)
    used = tuple(np.unique(segments.profile_id).tolist())
    model = PowerModel(
        scenario.facility,
        library,
        used,
        step_ms or scenario.resolution_ms,
        scenario.horizon_ms,
        method,
        absent=absent_nodes(scenario),
    )
    yield from power_stream(
        model,
        [(segments, scenario.horizon_ms)],
        span_ms=span_ms,
        n_threads=n_threads,
        executor=executor,
        block_intervals=block_intervals,
    )


def power_series(segments: Segments, scenario: Scenario, library: ProfileLibrary) -> pd.DataFrame:
    """Sum segments and idle nodes into the power of the facility's devices.

    Parameters
    ----------
    segments : Segments
        Loads of all pools, such as `job_segments` gives.
    scenario : Scenario
        Pools, idle power, span and resolution.
    library : ProfileLibrary
        Profiles that the segments refer to.

    Returns
    -------
    pandas.DataFrame
        Indexed by `timestamp` (zone-aware, start of the interval): `it_power_w` (mean over the
        interval [W]), `busy_nodes` (at the interval's start) and `utilization` (mean over the
        interval, 0-1); `facility_power_w` is the same as `it_power_w`, as no stage is passed.

    Raises
    ------
    InputError
        If the scenario has services, replicas, stages or AC power, which `diploee.run` alone takes
        in.
    """
    import pandas as pd

    _refuse(
        "power_series",
        scenario,
        "facility.stages",
        "facility.node_types.<name>.ac_power",
        "request_streams",
        "replica_streams",
    )
    blocks = list(power_blocks(segments, scenario, library))
    index = pd.date_range(
        scenario.start_with_zone,
        periods=scenario.n_intervals,
        freq=pd.Timedelta(milliseconds=scenario.resolution_ms),
        name="timestamp",
    )
    power_w = np.concatenate([block.device_power_w for block in blocks])
    utilization = [block.utilization(scenario.facility) for block in blocks]
    return pd.DataFrame(
        {
            "it_power_w": power_w,
            "facility_power_w": power_w,
            "busy_nodes": np.concatenate([block.busy_nodes.sum(axis=0) for block in blocks]),
            "utilization": np.concatenate(utilization),
        },
        index=index,
    )
