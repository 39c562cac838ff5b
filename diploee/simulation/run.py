"""Simulation of a site into a run folder (`simulate`), and its dry run (`check`).

`check` resolves all that a run needs without simulating.
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
from diploee.base.units import MS_PER_DAY, W_PER_MW
from diploee.facility.base import POWER, Block
from diploee.facility.weather import Weather
from diploee.loads.jobs.streams import JobStreams
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


def output_folder(asked: Scenario) -> Path:
    """Return the run folder for an optional output path."""
    return default_folder(asked.name, asked.sha256())


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
    place = output_folder(site.asked) if out is None else Path(out)
    with whole_folder(place, options.force, kind=RUN_FOLDER) as new:
        with watch.stage("plan"):
            kept = site.with_fresh_state()
            pipeline = _open_pipeline(site, watch)
        scenario = site.scenario
        for text in overfull_pools(
            scenario.facility, scenario.clock, pipeline.jobs.streams
        ):
            watch.progress.tell(text)
        with watch.stage("simulate") as update, ExitStack() as closing:
            peak_mw = cache(partial(_peak_mw, kept))
            seen = site.watch.open(
                pipeline, site.rated_power_w, peak_mw, watch.progress.tell
            )
            taken = _RunSinks(pipeline, site, new, closing)
            windows = taken.watch_windows(pipeline.windows(options.window_days, update))
            at_step = (*taken.at_step, *seen)
            blocks = pipeline.blocks(windows, options.n_threads)
            if options.until_decided:
                blocks = _until_decided(blocks, site, seen)
            for block in pipeline.averaged_blocks(blocks, at_step):
                block = taken.causes.by_load(block) if options.by_load else block
                with watch.lap("files and metrics"):
                    for sink in taken.sinks:
                        sink.add(block)
                    for sink in options.sinks:
                        with named_errors("add", _sink_error):
                            sink.add(block)
        result = taken.collect_metrics(watch)
        manifest = build_manifest(pipeline, site, result)
        results = {METRICS_FILE: write_json(new / METRICS_FILE, result)}
        if seen:
            content = site.watch.content(seen, result)
            results[LIMITS_FILE] = write_json(new / LIMITS_FILE, content)
        manifest |= {"results_sha256": results, "timing": watch.stages}
        write_json(new / MANIFEST, manifest)
    return place


def _until_decided(
    blocks: Iterator[Block], site: PreparedSite, seen: Sequence[Any]
) -> Iterator[Block]:
    """Yield blocks; raise `EarlyStopError` once compliance results are final."""
    clock = site.scenario.clock
    for block in blocks:
        yield block  # which those that see it have taken then
        if block.end_ms < clock.horizon_ms and all(watch.is_decided for watch in seen):
            end = f"{clock.wall.at(block.end_ms):%Y-%m-%d %H:%M}"
            error = EarlyStopError(f"not met; stopped at {end}, no run folder is kept")
            error.reports = tuple(watch.report({}) for watch in seen)
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
    return InputError(f"sinks: a sink{text}")


class _RunSinks:
    """Files and metrics of a run folder, as sinks of its pipeline."""

    def __init__(
        self,
        line: Pipeline,
        site: PreparedSite,
        folder: Path,
        closing: ExitStack,
    ) -> None:
        self._line, self._folder, self._options = line, folder, site.options
        options = site.options
        scenario, clock, jobs = line.scenario, line.scenario.written_clock, line.jobs
        self._head = {
            "scenario": scenario.name,
            "scenario_sha256": scenario.sha256(),
            "seed": scenario.seed,
        }
        series = FacilityFile(folder / FACILITY_FILE, clock, line.columns, self._head)
        closing.enter_context(series)
        model = line.model.at(scenario.resolution_ms)
        attribution = Attribution(
            scenario, line.model, jobs, line.services, line.further
        )
        self.causes = Causes(attribution, line.stages)
        jobs.sinks.append(self.causes.take)
        self._metrics = RunMetrics(
            scenario.facility,
            clock,
            site.rated_power_w,
            line.readings,
            line.stages,
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
            model, classes, [scenario.streams[of.stream].pool for of in classes]
        )
        jobs.sinks.append(self._aggregates.take)
        self.sinks: list[Sink] = [series, self._metrics, self._aggregates]
        if options.jobs_file and scenario.streams:
            streams = jobs.streams
            file = JobsFile(
                folder / JOBS_FILE, scenario, streams.classes, streams.library.ids
            )
            closing.callback(file.close)
            jobs.sinks.append(lambda w: file.add(w.submitted, w.started, w.energy_j))
        self._parts, layout = None, scenario.facility.layout
        if options.nodes_file or layout:
            places = NodeAllocations(line)
        if layout:
            self._parts = LayoutStatistics(places, model, layout)
        if options.nodes_file:
            nodes = NodeAllocationsFile(
                folder / NODES_FILE, scenario, jobs.streams.classes, places.labels
            )
            places.sinks.append(nodes.add)
            closing.callback(nodes.close)
            closing.callback(lambda: nodes.add(places.remaining()))
        self._flexibility: FlexibilityMetrics | None = None
        if line.is_measured:
            measured = flexibility_metrics(
                scenario, site.inputs.signals, jobs.streams.classes
            )
            jobs.sinks.append(measured.take)
            other_jobs = (line.undisturbed or line).jobs
            other_jobs.sinks.append(partial(measured.take, undisturbed=True))
            self.sinks.append(measured)
            self._flexibility = measured
        self._search: EventWindowSearch | None = None

    def watch_windows(self, windows: Iterator[Window]) -> Iterator[Window]:
        """Yield the windows, after layout statistics and event search."""
        line = self._line
        if self._parts is not None:
            windows = self._parts.watch(windows)
        if not self._options.event_windows:
            return windows
        self._search = EventWindowSearch(
            line.model, line.stages, transient=line.jobs.transient
        )
        return self._search.watch(windows)

    def collect_metrics(self, watch: Stopwatch) -> dict[str, Any]:
        """Return the metrics of the run, and write its event windows."""
        line = self._line
        result = self._metrics.blocks(line.loads, line.energy_j)
        result["aggregates"] = self._aggregates.block()
        if self._extremes is not None:
            result["grid"]["at_step"] = self._extremes.block()
        if self._voltage is not None:
            result["grid"]["voltage_change"] = self._voltage.block()
        if self._flexibility is not None:
            result["flexibility"] = self._flexibility.block()
        if self._parts is not None:
            result["layout"] = self._parts.write(self._folder / PARTS_FILE)
        if self._search is not None:
            with watch.stage("zooms"):
                clock, head = line.scenario.clock, self._head
                result["zooms"] = write_event_windows(
                    self._folder, self._search, clock, line.columns, head, self.causes
                )
        return result


def _peak_mw(site: PreparedSite) -> float:
    """Return a site's peak power: largest interval mean after warm-up [MW]."""
    coarse, most_w = site.scenario.model_copy(update={"step": None}), 0.0
    line = Pipeline.open(replace(site.with_fresh_state().of(coarse), watch=NO_WATCH))
    windows = line.windows(None, lambda *_: None)
    for block in line.blocks(windows, site.options.n_threads):
        n_left_out = max(line.jobs.transient.end_ms - block.t0_ms, 0) // block.dt_ms
        most_w = max(most_w, float(block.columns[POWER][n_left_out:].max(initial=0.0)))
    return most_w / W_PER_MW


def _time_text(line: Pipeline, site: PreparedSite) -> str:
    """Return the text of a run's expected time and steps.

    Raises an error if the run would take longer than its limit.
    """
    scenario, options = line.scenario, site.options
    at_most_s, at_most_mb = options.at_most_s, options.at_most_mb
    forecast = forecast_run(site, line.jobs.streams.jobs_per_day, line.plans)
    time_s = forecast.time_s
    if at_most_mb is not None and forecast.memory_mb > at_most_mb:
        raise InputError(
            f"the run takes {forecast.words()}, more than the {at_most_mb:,.0f} MB "
            "that it may; take fewer nodes or a shorter duration"
        )
    if at_most_s is None or time_s <= at_most_s:
        steps = f"computed in steps of {scenario.step_ms / 1000:g} s"
        said = ""
        if site.watch.models:  # it sees the first block then
            share = line.model.block_intervals * scenario.step_ms / scenario.horizon_ms
            first_s = START_S + min(share, 1.0) * time_s
            said = (
                f"; what is not met is said from about {duration(first_s)} on, what is "
                "met at the end"
            )
        return f"{steps}, on one core {forecast.words()}{said}"
    days = scenario.horizon_ms / MS_PER_DAY
    fewer = max(int(days * at_most_s / time_s), 1)
    error = RunTooLongError(
        f"the run takes about {time_s / 60:.0f} min in steps of "
        f"{scenario.step_ms / 1000:g} s, more than --at-most "
        f"{at_most_s / 60:g}; raise it, or set duration to '{fewer} d', which can "
        "only show that limits are not met, or a coarser step, which leaves some "
        "inconclusive"
    )
    error.time_s = time_s
    raise error


NEAR_TARGET = 0.02
"""Tolerance of a service plan's target in checks and forecasts."""


@dataclass(frozen=True)
class CheckedSite:
    """Result of a check.

    `warnings` list pools with more requested nodes than they have, and events without
    response.
    """

    n_classes: int
    forecast: Forecast
    weather_year: Weather | None
    warnings: tuple[str, ...]


@stage("validate")
def check(site: PreparedSite) -> CheckedSite:
    """Check all inputs of a run of a site, without simulating."""
    scenario = site.scenario
    streams = JobStreams(scenario, site.inputs)
    for index in {index for c in streams.classes for index in c.profile_ids}:
        _ = streams.library[index]  # reads the file and checks its values
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
