"""What `manifest.json` and `metrics.json` must hold for those who read a run folder.

Keys that nobody reads may be missing or others; those of a newer version may follow.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from types import GenericAlias
from typing import Annotated, Any, Literal, cast

from pydantic import AfterValidator, Field, create_model

from diploee.errors import shown
from diploee.metrics.catalogue import declared_metrics
from diploee.plain_data import SHA256, Record
from diploee.profiles.store import Origin
from diploee.tables import MAX_SIZE


def _check_time(text: str) -> str:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        moment = None
    if moment is None or moment.tzinfo is None:
        raise ValueError(f"must be an ISO time with its UTC offset, found {shown(text)}")
    return text


Number = Annotated[float, Field(ge=-MAX_SIZE, le=MAX_SIZE)]
Positive = Annotated[float, Field(gt=0, le=MAX_SIZE)]
Count = Annotated[int, Field(ge=0, le=int(MAX_SIZE))]
Seconds = Annotated[float, Field(gt=0, le=1e9)]
Time = Annotated[str, AfterValidator(_check_time)]


class _Profile(Record):
    workload: str
    provenance: Origin


class _StageMetric(Record):
    key: str
    unit: str
    label: str
    format: Annotated[str, Field(pattern=r"^\{:,?(\.[0-9])?[efg%]\}$")]
    text: str
    view: Literal["main", "table", "detail"]
    factor: Number
    of_means: bool


class Manifest(Record):
    """``manifest.json``; the scenario is checked by its own model."""

    schema_version: int
    scenario: dict[str, Any]
    scenario_name: str
    scenario_sha256: Annotated[str, Field(pattern=SHA256)]
    seed: Annotated[int, Field(ge=0)]
    engine: str
    diploee_version: str
    versions: dict[str, str] = Field(default_factory=dict)
    profiles: dict[str, _Profile] = Field(default_factory=dict)
    curves: dict[str, Any] = Field(default_factory=dict)
    metrics: list[_StageMetric] = Field(default_factory=list)
    assumed: list[str] = Field(default_factory=list)
    serving_samples: dict[str, Any] = Field(default_factory=dict)
    power_samples: dict[str, dict[str, Origin]] = Field(default_factory=dict)
    warnings: list[str]


_NEEDED = """
power: mean_mw max_mw energy_mwh resolution_s
utilization:
jobs?~:
synchronous?.*:
requests?~.services?.*:
grid?~: mean_mw load_factor~
grid.bandwidth: averaging_window_s~ lower_bound_below_s? note
grid.peak: max_mw time cause?~
grid.monthly_peaks.*: max_mw time cause?~
grid.headroom?~: rated_mw mw fraction
grid.coincidence?~: factor~
grid.coincidence.pools.*: max_mw time cause?~
grid.maximum_demand.intervals[]: interval_min max_mw time cause?~ load_factor~
grid.maximum_demand.intervals[].monthly.*: max_mw time cause?~
grid.maximum_demand.absent[]: interval_min reason
grid.load_duration_curve: percent_of_time exceeded_mw
grid.ramps.intervals[]: interval_s lower_bound
grid.ramps.intervals[].up: max_mw p99_mw p999_mw max_mw_per_min time~ cause?~
grid.ramps.intervals[].down: max_mw p99_mw p999_mw max_mw_per_min time~ cause?~
grid.ramps.absent[]: interval_s reason
grid.rolling_range.windows[]: window_s max_mw p99_mw p999_mw time lower_bound cause?~
grid.rolling_range.absent[]: window_s reason
grid.rainflow: threshold_mw swings swings_per_day~ max_from?~ max_to?~
grid.rainflow.classes[]: from_mw to_mw~ swings
grid.spectrum: windows? window_s? frequency_resolution_hz? mean_psd_mw2_per_hz?
grid.spectrum.bands[]: low_hz high_hz rms_p50_mw rms_p99_mw rms_max_mw worst_window
grid.spectrum.bands[]: worst_window_strongest_hz flagged flag_reason?
grid.spectrum.absent[]: low_hz high_hz reason
grid.spectrum.lines[]: frequency_hz period_s rms_mw over_floor~ flagged
poi?~: pue~ ppue_cooling~
poi.energy.*:
poi.monthly.*: pue~ ppue_cooling~
poi.monthly.*.energy.*:
billing?~.months[]: month complete hours energy_mwh drawn_mvarh supplied_mvarh
billing.months[]: lagging_power_factor~ leading_power_factor~
billing.months[].demand[]: interval_min max_mw max_mva max_mvar min_mvar time max_mva_time
billing.months[].demand[]: load_factor~ power_factor~
billing.months[].billed?: interval_min max_mw for_power_factor_mw? ratchet_mw? reactive_mvar?
billing.months[].billed: lower_bound?
billing.absent[]: interval_min reason
flexibility?~.jobs.*~:
flexibility.events[]: name twin_mw~ mean_mw~ mean_reduction~
flexibility.events[].times: issued start ramp held end over
flexibility.events[].utility?: baseline_mw adjustment
flexibility.events[].widest_jobs[]: job_id n_nodes from_s to_s state
zooms?~: resolution_s basis?
zooms.windows[]: name at value_mw window_s cause?~
"""
"""What readers need: a group and its values; one with ? may be missing, one with ~ may be null."""

_CAUSE = """
cause: change_mw queued_jobs?
cause.parts[]: what mw of? pool? count? started? stopped? started_mw? stopped_mw?
cause.parts[]: instances? replicas? rate_rps? mean_mw?
cause.parts[].largest?: job_id n_nodes mw
cause.parts[].recent?: count mw
cause.calendar[]?: of pool change~ mw
"""

_TWO = Annotated[list[Number], Field(min_length=2, max_length=2)]
_TYPES: dict[str, Any] = {
    **dict.fromkeys(("time", "max_mva_time", "max_from", "max_to", "worst_window", "at"), Time),
    **dict.fromkeys(("issued", "start", "ramp", "held", "end", "over"), Time),
    **dict.fromkeys(("note", "reason", "flag_reason", "basis", "month", "what", "of", "pool"), str),
    **dict.fromkeys(("lower_bound", "flagged", "complete"), bool),
    **dict.fromkeys(("low_hz", "high_hz", "frequency_hz", "frequency_resolution_hz"), Positive),
    **dict.fromkeys(("period_s", "threshold_mw"), Positive),
    **dict.fromkeys(("interval_s", "window_s", "resolution_s"), Seconds),
    **dict.fromkeys(("swings", "windows", "count", "job_id", "n_nodes"), Count),
    **dict.fromkeys(("started", "stopped"), Count),
    **dict.fromkeys(("percent_of_time", "exceeded_mw", "mean_psd_mw2_per_hz"), list[Number]),
    **dict.fromkeys(("from_s", "to_s"), list[Number]),
    **dict.fromkeys(("instances", "replicas", "rate_rps", "queued_jobs"), _TWO),
    "state": list[str],
    "interval_min": Annotated[int, Field(ge=1, le=10**9)],
    "averaging_window_s": Annotated[float, Field(ge=0, le=MAX_SIZE)],
    "name": str,
    "zooms.windows[].name": Annotated[str, Field(pattern="^[a-z0-9_]+$")],
    "power.resolution_s": Annotated[float, Field(gt=0, le=3600)],
}
"""Type of a value by its name; the others are numbers."""


@dataclass
class _Group:
    """A group of values, of any keys where its part is "*", or a list where that is "[]"."""

    marks: str = ""
    parts: dict[str, _Group] = field(default_factory=dict)
    values: dict[str, tuple[Any, str]] = field(default_factory=dict)

    def part(self, step: str) -> _Group:
        """Return a part, made with its marks where it is new."""
        name = step.rstrip("?~")
        return self.parts.setdefault(name, _Group(step[len(name) :]))

    def needs(self, lines: str) -> _Group:
        """Add what lines such as `_NEEDED` name."""
        for line in lines.strip().splitlines():
            path, _, names = line.partition(":")
            group, at = self, re.sub(r"[?~]", "", path)
            for step in re.sub(r"\[\](\??)", r"\1.[]", path).split("."):
                group = group.part(step)
            for name in names.split():
                key = name.rstrip("?~")
                of = _TYPES.get(f"{at}.{key}", _TYPES.get(key, Number))
                group.values[key] = of, name[len(key) :]
        return self

    def declares(self, keys: Iterable[str]) -> _Group:
        """Add the metrics of a catalogue: numbers, which may be missing and null."""
        for *path, last in (key.split(".") for key in keys):
            group = self
            for step in path:
                of_any = "[]" if "[]" in group.parts else "*"
                group = group.part(of_any if step.startswith("<") else f"{step}?~")
            if "<" not in last and last not in group.parts:
                group.values.setdefault(last, (Number, "?~"))
        return self

    def record(self, name: str) -> Any:
        """Return what pydantic checks it by."""
        if "[]" in self.parts:
            return GenericAlias(list, (self.parts["[]"].record(name),))
        if "*" in self.parts:
            of = self.parts["*"]
            kind = of.record(name) if of.parts or of.values else Number
            return GenericAlias(dict, (str, kind | None if "~" in of.marks else kind))
        keys = {key: _field(*of) for key, of in self.values.items()}
        keys |= {key: _field(of.record(key), of.marks) for key, of in self.parts.items()}
        return create_model(name, __base__=Record, **cast("dict[str, Any]", keys))


def _field(of: Any, marks: str) -> tuple[Any, Any]:
    return of | None if "~" in marks else of, None if "?" in marks else ...


_TYPES["cause"] = _Group().needs(_CAUSE).parts["cause"].record("Cause")
_DECLARED = (metric.key for metric in declared_metrics() if not re.search("^<|<share>", metric.key))
Metrics: type[Record] = _Group().needs(_NEEDED).declares(_DECLARED).record("Metrics")
"""``metrics.json``: what its readers need, and numbers wherever the catalogue declares one."""
