"""Simulation of a site into a run folder (`simulate`), and its dry run (`check`).

`check` reads and checks all inputs of a run without simulating it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import Any

from diploee.base.boundary import named_errors
from diploee.base.column_specs import catalogue
from diploee.base.errors import EarlyStopError, InputError, RunTooLongError
from diploee.base.files import whole_folder
from diploee.base.progress import Progress, Stopwatch, stage
from diploee.base.units import MS_PER_DAY, S_PER_MIN, W_PER_MW
from diploee.facility.base import POWER, Block
from diploee.facility.weather import Weather
from diploee.loads.jobs.job_streams import JobStreams
from diploee.loads.services.plan import ServicePlanner
from diploee.metrics.at_step import StepExtremes
from diploee.metrics.attribution import LOAD_COLUMNS, Attribution
from diploee.metrics.causes import Causes
from diploee.metrics.flexibility import FlexibilityMetrics, flexibility_metrics
from diploee.metrics.min_mean_max import Aggregates
from diploee.metrics.run_metrics import RunMetrics
from diploee.metrics.voltage_change import voltage_sink
from diploee.power.blocks import Window
from diploee.power.extreme_windows import EventWindowSearch
from diploee.runs.folder import (
    LIMITS_FILE,
    MANIFEST,
    METRICS_FILE,
    RUN_FOLDER,
    default_folder,
    write_json,
)
from diploee.runs.parquet_files import (
    FACILITY_FILE,
    JOBS_FILE,
    NODES_FILE,
    FacilityFile,
    JobsFile,
    NodeAllocationsFile,
    write_event_windows,
)
from diploee.scenario.models import Scenario
from diploee.simulation.cost_forecast import START_S, Forecast, duration, forecast_run
from diploee.simulation.layout_power import (
    PARTS_FILE,
    LayoutStatistics,
    NodeAllocations,
)
from diploee.simulation.manifest import build_manifest
from diploee.simulation.pipeline import Pipeline
from diploee.simulation.plausibility import (
    implausible_contracts,
    overfull_pools,
    unanswered_events,
)
from diploee.simulation.prepared import NO_WATCH, PreparedSite, Sink


def output_folder(scenario: Scenario) -> Path:
    """Return the default run folder of a scenario."""
    return default_folder(scenario.name, scenario.sha256())


def simulate(
    site: PreparedSite, out: Path | str | None = None, watch: Stopwatch | None = None
) -> Path:
    """Simulate a site, write its run folder, and return the folder.

    Parameters
    ----------
    site : PreparedSite
        The site to simulate, with its options.
    out : path, optional
        The run folder; ``runs/<scenario>-<hash>`` by default.
    watch : Stopwatch, optional
        Times the stages; it includes those before the run.

    Raises
    ------
    InputError
        If the profiles or the output folder are not usable, or the run takes too long.
    OutputError
        If the folder can't be written; no output is then left.
    """
    watch, options = watch or Stopwatch(Progress()), site.options
    run_folder = output_folder(site.requested) if out is None else Path(out)
    with whole_folder(run_folder, options.force, kind=RUN_FOLDER) as new:
        with watch.stage("plan"):
            copied_site = site.with_fresh_state()
            pipeline = _open_pipeline(site, watch)
        scenario = site.scenario
        for text in overfull_pools(
            scenario.facility, scenario.clock, pipeline.jobs.streams
        ):
            watch.progress.tell(text)
        with watch.stage("simulate") as update, ExitStack() as closing:
            peak_mw = cache(partial(_peak_mw, copied_site))
            observer_sinks = site.watch.open(
                pipeline, site.rated_power_w, peak_mw, watch.progress.tell
            )
            run_sinks = _RunSinks(pipeline, site, new, closing)
            windows = run_sinks.watch_windows(
                pipeline.windows(options.window_days, update)
            )
            at_step = (*run_sinks.at_step, *observer_sinks)
            blocks = pipeline.blocks(windows, options.n_threads)
            if options.until_decided:
                blocks = _until_decided(blocks, site, observer_sinks)
            for block in pipeline.averaged_blocks(blocks, at_step):
                block = run_sinks.causes.by_load(block) if options.by_load else block
                with watch.lap("files and metrics"):
                    for sink in run_sinks.sinks:
                        sink.add(block)
                    for sink in options.sinks:
                        with named_errors("add", _sink_error):
                            sink.add(block)
        metrics = run_sinks.collect_metrics(watch)
        manifest = build_manifest(pipeline, site, metrics)
        hashes = {METRICS_FILE: write_json(new / METRICS_FILE, metrics)}
        if observer_sinks:
            content = site.watch.content(observer_sinks, metrics)
            hashes[LIMITS_FILE] = write_json(new / LIMITS_FILE, content)
        manifest |= {"results_sha256": hashes, "timing": watch.stages}
        write_json(new / MANIFEST, manifest)
    return run_folder


def _until_decided(
    blocks: Iterator[Block], site: PreparedSite, observer_sinks: Sequence[Any]
) -> Iterator[Block]:
    """Yield blocks; raise `EarlyStopError` once compliance results are final."""
    clock = site.scenario.clock
    for block in blocks:
        yield block  # the observers' sinks have received it after this
        if block.end_ms < clock.horizon_ms and all(
            sink.is_decided for sink in observer_sinks
        ):
            end = f"{clock.wall.at(block.end_ms):%Y-%m-%d %H:%M}"
            error = EarlyStopError(f"not met; stopped at {end}, no run folder is kept")
            error.reports = tuple(sink.report({}) for sink in observer_sinks)
            raise error


def _open_pipeline(site: PreparedSite, watch: Stopwatch) -> Pipeline:
    """Return the pipeline of a site with all options applied.

    Raises an error if the run would take too long.
    """
    options, scenario, pipeline = site.options, site.scenario, Pipeline.open(site)
    if options.by_load:
        pipeline = replace(pipeline, columns=catalogue(pipeline.columns, LOAD_COLUMNS))
    if options.before_stores:
        pipeline = pipeline.with_before_stores()
    pipeline.jobs.watch = watch
    if options.at_most_s is not None or scenario.step_ms < scenario.resolution_ms:
        watch.progress.forecast(_time_text(pipeline, site))
    return pipeline


def _sink_error(text: str) -> InputError:
    """Return an error of a caller's sink."""
    return InputError(f"sinks: a sink{text}")


class _RunSinks:
    """Files and metrics of a run folder, as sinks of its pipeline."""

    def __init__(
        self,
        pipeline: Pipeline,
        site: PreparedSite,
        folder: Path,
        closing: ExitStack,
    ) -> None:
        self._pipeline, self._folder, self._options = pipeline, folder, site.options
        options = site.options
        scenario, clock, jobs = (
            pipeline.scenario,
            pipeline.scenario.written_clock,
            pipeline.jobs,
        )
        self._file_header = {
            "scenario": scenario.name,
            "scenario_sha256": scenario.sha256(),
            "seed": scenario.seed,
        }
        series = FacilityFile(
            folder / FACILITY_FILE, clock, pipeline.columns, self._file_header
        )
        closing.enter_context(series)
        model = pipeline.model.at(scenario.resolution_ms)
        attribution = Attribution(
            scenario, pipeline.model, jobs, pipeline.services, pipeline.further
        )
        self.causes = Causes(attribution, pipeline.stages)
        jobs.sinks.append(self.causes.add_jobs)
        self._metrics = RunMetrics(
            scenario.facility,
            clock,
            site.rated_power_w,
            pipeline.readings,
            pipeline.stages,
            self.causes,
            jobs.transient,
        )
        self.at_step: list[Sink] = [self._metrics.stages]
        self._extremes: StepExtremes | None = None
        if scenario.step_ms < scenario.resolution_ms:
            self._extremes = StepExtremes(scenario.clock, jobs.transient)
            self.at_step.append(self._extremes)
        grid = scenario.site.short_circuit
        if voltage := voltage_sink(grid, scenario.clock, jobs.transient):
            self.at_step.append(voltage)
        self._voltage = voltage
        classes = jobs.streams.classes if options.by_load else ()
        self._aggregates = Aggregates(
            model,
            classes,
            [scenario.streams[job_class.stream].pool for job_class in classes],
        )
        jobs.sinks.append(self._aggregates.add_jobs)
        self.sinks: list[Sink] = [series, self._metrics, self._aggregates]
        if options.jobs_file and scenario.streams:
            streams = jobs.streams
            file = JobsFile(
                folder / JOBS_FILE, scenario, streams.classes, streams.library.ids
            )
            closing.callback(file.close)
            jobs.sinks.append(
                lambda window: file.add(
                    window.submitted, window.started, window.energy_j
                )
            )
        self._layout, layout = None, scenario.facility.layout
        if options.nodes_file or layout:
            allocations = NodeAllocations(pipeline)
        if layout:
            self._layout = LayoutStatistics(allocations, model, layout)
        if options.nodes_file:
            nodes = NodeAllocationsFile(
                folder / NODES_FILE, scenario, jobs.streams.classes, allocations.labels
            )
            allocations.sinks.append(nodes.add)
            closing.callback(nodes.close)
            closing.callback(lambda: nodes.add(allocations.remaining()))
        self._flexibility: FlexibilityMetrics | None = None
        if pipeline.is_measured:
            flexibility = flexibility_metrics(
                scenario, site.inputs.signals, jobs.streams.classes
            )
            jobs.sinks.append(flexibility.add_jobs)
            other_jobs = (pipeline.undisturbed or pipeline).jobs
            other_jobs.sinks.append(partial(flexibility.add_jobs, is_baseline=True))
            self.sinks.append(flexibility)
            self._flexibility = flexibility
        self._search: EventWindowSearch | None = None

    def watch_windows(self, windows: Iterator[Window]) -> Iterator[Window]:
        """Yield the windows, after layout statistics and event search."""
        pipeline = self._pipeline
        if self._layout is not None:
            windows = self._layout.watch(windows)
        if not self._options.event_windows:
            return windows
        self._search = EventWindowSearch(
            pipeline.model, pipeline.stages, transient=pipeline.jobs.transient
        )
        return self._search.watch(windows)

    def collect_metrics(self, watch: Stopwatch) -> dict[str, Any]:
        """Return the metrics of the run, and write its event windows."""
        pipeline = self._pipeline
        result = self._metrics.blocks(pipeline.loads, pipeline.energy_j)
        result["aggregates"] = self._aggregates.block()
        if self._extremes is not None:
            result["grid"]["at_step"] = self._extremes.block()
        if self._voltage is not None:
            result["grid"]["voltage_change"] = self._voltage.block()
        if self._flexibility is not None:
            result["flexibility"] = self._flexibility.block()
        if self._layout is not None:
            result["layout"] = self._layout.write(self._folder / PARTS_FILE)
        if self._search is not None:
            with watch.stage("zooms"):
                clock, header = pipeline.scenario.clock, self._file_header
                result["zooms"] = write_event_windows(
                    self._folder,
                    self._search,
                    clock,
                    pipeline.columns,
                    header,
                    self.causes,
                )
        return result


def _peak_mw(site: PreparedSite) -> float:
    """Return a site's peak power: largest interval mean after the warm-up [MW]."""
    coarse, peak_w = site.scenario.model_copy(update={"step": None}), 0.0
    pipeline = Pipeline.open(
        replace(site.with_fresh_state().with_scenario(coarse), watch=NO_WATCH)
    )
    windows = pipeline.windows(None, lambda *_: None)
    for block in pipeline.blocks(windows, site.options.n_threads):
        n_transient = (
            max(pipeline.jobs.transient.end_ms - block.t0_ms, 0) // block.dt_ms
        )
        peak_w = max(peak_w, float(block.columns[POWER][n_transient:].max(initial=0.0)))
    return peak_w / W_PER_MW


def _time_text(pipeline: Pipeline, site: PreparedSite) -> str:
    """Return the text of a run's expected time and steps.

    Raises an error if the run would take longer than its limit.
    """
    scenario, options = pipeline.scenario, site.options
    at_most_s, at_most_mb = options.at_most_s, options.at_most_mb
    forecast = forecast_run(site, pipeline.jobs.streams.jobs_per_day, pipeline.plans)
    time_s = forecast.time_s
    if at_most_mb is not None and forecast.memory_mb > at_most_mb:
        raise InputError(
            f"the run takes {forecast.text()}, more than the {at_most_mb:,.0f} MB "
            "that it may; take fewer nodes or a shorter duration"
        )
    if at_most_s is None or time_s <= at_most_s:
        steps = f"computed in steps of {scenario.step_ms / 1000:g} s"
        limits_text = ""
        if site.watch.models:  # limits are first checked in the first block
            fraction = (
                pipeline.model.block_intervals * scenario.step_ms / scenario.horizon_ms
            )
            first_s = START_S + min(fraction, 1.0) * time_s
            limits_text = (
                f"; what is not met is said from about {duration(first_s)} on, what is "
                "met at the end"
            )
        return f"{steps}, on one core {forecast.text()}{limits_text}"
    days = scenario.horizon_ms / MS_PER_DAY
    n_days = max(int(days * at_most_s / time_s), 1)
    is_short = at_most_s < S_PER_MIN
    longest = f"{at_most_s:g} s" if is_short else f"{at_most_s / S_PER_MIN:g} min"
    error = RunTooLongError(
        f"the run takes about {duration(time_s)} in steps of "
        f"{scenario.step_ms / 1000:g} s, more than the {longest} of --at-most; raise "
        f"it, or set duration to '{n_days} d', which can only show that limits are not "
        "met, or a coarser step, which leaves some inconclusive"
    )
    error.time_s = time_s
    raise error


NEAR_TARGET = 0.02
"""Tolerance of a service plan's utilization in checks and forecasts."""


@dataclass(frozen=True)
class CheckedSite:
    """Result of a check of a scenario.

    `warnings` list pools with more requested nodes than they have, and events without
    response.
    """

    n_classes: int  # number of job classes
    forecast: Forecast  # expected time, memory and disk space
    weather_year: Weather | None  # weather of the whole year
    warnings: tuple[str, ...]  # warnings, one line each


@stage("validate")
def check(site: PreparedSite) -> CheckedSite:
    """Check all inputs of a run of a site, without simulating."""
    scenario = site.scenario
    streams = JobStreams(scenario, site.inputs)
    for index in {index for c in streams.classes for index in c.profile_ids}:
        _ = streams.library[index]  # reads and checks the file
    plans = [
        ServicePlanner(scenario, name, site.inputs, ()).plan(NEAR_TARGET)
        for name in scenario.request_streams
    ]
    RunMetrics(scenario.facility, scenario.clock, site.rated_power_w, (), site.stages)
    warnings = (
        *overfull_pools(scenario.facility, scenario.clock, streams),
        *unanswered_events(scenario, streams.classes),
        *implausible_contracts(scenario.facility, site.rated_power_w / W_PER_MW),
    )
    forecast = forecast_run(site, streams.jobs_per_day, plans)
    year = site.inputs.weather_year
    return CheckedSite(len(streams.classes), forecast, year, warnings)
