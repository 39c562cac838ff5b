"""`Inputs`: all data that a run reads from files before its first stage."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from diploee.facility.weather import Weather
from diploee.loads.jobs.job_log import JobLog
from diploee.loads.services.curves import Curves
from diploee.loads.services.request_trace import RequestTrace
from diploee.profiles.library import ProfileLibrary
from diploee.profiles.profile import PowerProfile
from diploee.schedule.signals import Signal


@dataclass(frozen=True)
class Inputs:
    """All data that a run reads from files: profiles, logs, traces, curves, weather."""

    # Power profiles of the jobs; samples of a profile are read when first needed
    profiles: ProfileLibrary
    logs: Mapping[str, JobLog]  # the log of each job stream with a `replay`
    zeus: Mapping[str, Any]  # the traces of each job stream with a `zeus` block
    # The trace of each request stream with a `replay`
    traces: Mapping[str, RequestTrace]
    curves: Curves  # latency and power curves by request stream and service
    # One batch of each class with `batch_inference`, by the names of stream and class
    batches: Mapping[tuple[str, str], PowerProfile]
    # Weather over the run, and over `whole_year`; None without a weather file
    weather: Weather | None
    weather_year: Weather | None
    # External signals on the run's time axis, by name
    signals: Mapping[str, Signal]
    # SHA-256 of each log and trace, by its name in the scenario
    hashes: Mapping[str, str]
    readers: Sequence[Callable[..., Any]] = ()  # plug-in readers of logs and traces
    # Measurements of the models of replica streams, by the names of stream and model
    replicas: Mapping[tuple[str, str], Any] = field(default_factory=dict)
