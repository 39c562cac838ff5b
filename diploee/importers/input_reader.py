"""Reader of all input files of a scenario, used once before a run starts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Lock
from typing import Any, TypeVar

from diploee.base.clock import RunClock, leap_year_clock
from diploee.base.errors import InputError, LogFormatError, hide_options
from diploee.base.model import FORMATS, entry_point_objects
from diploee.base.units import MS_PER_S
from diploee.facility.weather import Weather
from diploee.importers.text.file_bytes import existing_file
from diploee.loads.inputs import Inputs
from diploee.loads.jobs.job_log import JobLog
from diploee.loads.services.request_trace import (
    MAX_STEP_MS,
    RequestTrace,
    trace_step_ms,
)
from diploee.profiles.library import ProfileLibrary
from diploee.scenario.loading import content_hash, input_files
from diploee.scenario.log_replay import JobReplay, LogReading, RequestReplay
from diploee.scenario.models import Scenario
from diploee.schedule.signals import Signal, fit_to_run

T = TypeVar("T")
_Fingerprint = tuple[tuple[int, ...] | None, ...]


def load_inputs(scenario: Scenario, library: ProfileLibrary | None = None) -> Inputs:
    """Read all input files that a scenario names into one `Inputs`."""
    return InputReader().load(scenario, library)


class InputReader:
    """Reader of the input files of scenarios, with a cache.

    The cache contains the files of the last scenario, as the next one may name the
    same files. A file is read again if its reading options, size, modification time or
    inode have changed.
    """

    def __init__(self) -> None:
        self._kept: dict[str, tuple[_Fingerprint, Any]] = {}
        self._used: set[str] = set()
        self._lock = Lock()

    def load(self, scenario: Scenario, library: ProfileLibrary | None = None) -> Inputs:
        """Return all input data of a scenario, read from files or the cache."""
        with self._lock:
            self._used = set()
            inputs = self._load(scenario, library or ProfileLibrary.open())
            self._kept = {key: self._kept[key] for key in self._used}
        return inputs

    def _load(self, scenario: Scenario, library: ProfileLibrary) -> Inputs:
        folder, facility = scenario.folder, scenario.facility
        logs: dict[str, JobLog] = {}
        zeus: dict[str, Any] = {}
        traces: dict[str, RequestTrace] = {}
        for name, jobs in scenario.streams.items():
            if jobs.replay is not None:
                n_gpus = facility.node_type_of(jobs.pool).n_gpus
                with _prefix_replay_errors(f"streams.{name}"):
                    logs[name] = self._log(jobs.replay, folder, n_gpus or None)
            if jobs.zeus is not None:
                from diploee.integrations.zeus.recurring_jobs import read_zeus_inputs

                zeus[name] = read_zeus_inputs(name, jobs.zeus, folder, self._read_once)
        for name, requests in scenario.request_streams.items():
            for key, replay in requests.replays(name).items():
                with _prefix_replay_errors(f"request_streams.{key}"):
                    traces[key] = self._trace(replay, folder, scenario.clock)
        hashes = {
            name: self._read_once(content_hash, folder / name)
            for name in input_files(scenario)
        }
        custom = entry_point_objects(FORMATS)
        formats = [custom["job_logs"].get(log.log_format) for log in logs.values()]
        formats += [
            custom["request_traces"].get(trace.trace_format)
            for trace in traces.values()
        ]
        batched = {
            name: spec
            for name, spec in scenario.streams.items()
            if any(job.batch_inference is not None for job in spec.job_classes())
        }
        curves, batches, replicas = {}, {}, {}
        if scenario.request_streams:
            from diploee.importers.serving.service_curves import load_curves

            curves = load_curves(scenario.request_streams, traces, folder)
        if batched:
            from diploee.importers.serving.batch_profiles import load_batches

            batches = load_batches(batched, folder)
        if scenario.replica_streams:
            from diploee.integrations.openg2g.replicas.load import load_replica_data

            specs: Any = scenario.replica_streams
            replicas = load_replica_data(specs, folder)
        return Inputs(
            profiles=library,
            logs=logs,
            zeus=zeus,
            traces=traces,
            curves=curves,
            batches=batches,
            weather=self.weather(scenario, scenario.clock),
            weather_year=self.weather(scenario, leap_year_clock(facility.zone)),
            signals=self._signals(scenario),
            hashes={
                name: sha256 for name, sha256 in hashes.items() if sha256 is not None
            },
            readers=[form.read for form in formats if form is not None],
            replicas=replicas,
        )

    def _read_once(self, read: Callable[..., T], *paths: Path, **options: Any) -> T:
        key = f"{read.__module__}.{read.__qualname__} {paths} {options}"
        fingerprint = tuple(part for path in paths for part in _fingerprint(path))
        if key not in self._kept or self._kept[key][0] != fingerprint:
            self._kept.pop(key, None)  # free its memory before the file is read again
            self._kept[key] = fingerprint, read(*paths, **options)
        self._used.add(key)
        result: T = self._kept[key][1]
        return result

    def _log(
        self, replay: JobReplay, folder: Path, pool_gpus_per_node: int | None
    ) -> JobLog:
        from diploee.importers.job_logs import read_job_log

        return self._read_once(
            read_job_log,
            existing_file(folder / replay.log, "replay.log"),
            log_format=replay.format,
            pool_gpus_per_node=pool_gpus_per_node,
            **{key: getattr(replay, key) for key in LogReading.model_fields},
        )

    def _trace(
        self, replay: RequestReplay, folder: Path, clock: RunClock
    ) -> RequestTrace:
        from diploee.importers.request_traces import read_request_trace

        def read(step_ms: int) -> RequestTrace:
            return self._read_once(
                read_request_trace,
                existing_file(folder / replay.trace, "replay.trace"),
                trace_format=replay.format,
                step_s=step_ms / MS_PER_S,
                columns=replay.columns or None,
                utc_offset=replay.utc_offset,
                time_unit=replay.time_unit,
            )

        # Steps of the trace are finer than the run's, as their edges differ.
        try:
            return read(max(trace_step_ms(clock) // 10, MS_PER_S))
        except LogFormatError:  # too many fine steps, or an error at any step
            return read(MAX_STEP_MS)

    def weather(self, scenario: Scenario, clock: RunClock) -> Weather | None:
        """Return the weather of a scenario over a clock's period, None without any."""
        spec = scenario.facility.weather
        if spec is None:
            return None
        for name in spec.files:
            existing_file(scenario.folder / name, "facility.weather.path")
        return spec.open(clock, scenario.folder, self._read_once)

    def _signals(self, scenario: Scenario) -> dict[str, Signal]:
        if scenario.flexibility is None:
            return {}
        from diploee.importers.signals import read_signal

        result: dict[str, Signal] = {}
        for name, spec in scenario.flexibility.signals.configured().items():
            path = existing_file(
                scenario.folder / spec.file, f"flexibility.signals.{name}.file"
            )
            signal = self._read_once(read_signal, path, name=name, spec=spec)
            result[name] = fit_to_run(signal, path, scenario.clock)
        return result


@contextmanager
def _prefix_replay_errors(stream: str) -> Iterator[None]:
    """Prefix input errors with the stream's replay key, and omit command options."""
    try:
        with hide_options():
            yield
    except InputError as error:
        raise type(error)(f"{stream}.replay: {error}") from error


def _fingerprint(path: Path) -> Iterator[tuple[int, ...] | None]:
    """Yield inode, size and times of a file, or of all files in a folder.

    The value is None for a missing file.
    """
    for part in [path, *(sorted(path.rglob("*")) if path.is_dir() else ())]:
        try:
            stat = part.stat()
        except OSError:  # the reader of the file reports the problem
            yield None
        else:
            yield stat.st_ino, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns
