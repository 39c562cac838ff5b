"""Contents of `manifest.json` and `metrics.json`, for those who read a run folder.

Keys that nobody reads may be missing; those of a newer version may follow.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from functools import cache
from types import GenericAlias
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, ConfigDict, Field, create_model

from diploee.errors import shown
from diploee.metrics.catalogue import declared_metrics, own_blocks
from diploee.metrics.limits.report import LimitReport
from diploee.plain_data import SHA256, Record
from diploee.profiles import Provenance
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
    provenance: Provenance


class _StageMetric(Record):
    key: str
    unit: str
    label: str
    format: Annotated[str, Field(pattern=r"^\{:,?(\.[0-9])?[efg%]\}$")]
    text: str
    view: Literal["main", "table", "detail"]
    factor: Number
    of_means: bool


class _Checked(Record, strict=False):
    limits: dict[str, Any]
    report: LimitReport


class LimitsRecord(Record):
    """``limits.json``: what was found of limits while the run passed."""

    checked: list[_Checked]


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
    power_samples: dict[str, dict[str, Provenance]] = Field(default_factory=dict)
    warnings: list[str]


_PAIR = Annotated[list[Number], Field(min_length=2, max_length=2)]
_BESIDE: dict[str, Any] = {
    **dict.fromkeys(("time", "max_mva_time", "worst_window", "at"), Time),
    **dict.fromkeys(("max_from", "max_to"), Time | None),
    **dict.fromkeys(("issued", "start", "ramp", "held", "end", "over"), Time),
    **dict.fromkeys(("note", "reason", "flag_reason", "basis", "month", "what", "of"), str),
    **dict.fromkeys(("name", "pool"), str),
    **dict.fromkeys(("lower_bound", "flagged", "complete"), bool),
    **dict.fromkeys(("low_hz", "high_hz", "frequency_hz", "frequency_resolution_hz"), Positive),
    **dict.fromkeys(("period_s", "threshold_mw"), Positive),
    **dict.fromkeys(("interval_s", "window_s", "resolution_s"), Seconds),
    **dict.fromkeys(("swings", "windows", "count", "job_id", "n_nodes"), Count),
    **dict.fromkeys(("started", "stopped"), Count),
    **dict.fromkeys(("mw", "mean_mw", "change_mw", "started_mw", "stopped_mw", "from_mw"), Number),
    **dict.fromkeys(("to_mw", "change"), Number | None),
    **dict.fromkeys(("percent_of_time", "exceeded_mw", "mean_psd_mw2_per_hz"), list[Number]),
    **dict.fromkeys(("from_s", "to_s"), list[Number]),
    **dict.fromkeys(("instances", "replicas", "rate_rps", "queued_jobs"), _PAIR),
    "state": list[str],
    "interval_min": Annotated[int, Field(ge=1, le=10**9)],
}
"""Type by name of times, notes, reasons, edges and counts, and of what causes hold."""

_RAMP = "grid.ramps.intervals.<interval>"
_APART: dict[str, Any] = {
    f"{_RAMP}.up.time": Time | None,
    f"{_RAMP}.down.time": Time | None,
    "grid.bandwidth.averaging_window_s": Annotated[float, Field(ge=0, le=MAX_SIZE)] | None,
    "zooms.windows.<name>.name": Annotated[str, Field(pattern="^[a-z0-9_]+$")],
    "power.resolution_s": Annotated[float, Field(gt=0, le=3600)],
    "power.rated_mw": Number | None,
}
"""Those of another type than others of their name or unit."""

_LISTS = (
    *("intervals", "windows", "classes", "bands", "lines", "months", "demand", "events"),
    "of_profiles",
)
"""Groups whose entries are a list; those of others go by name."""

_SURE = (
    *("power", "utilization", "energy", "bandwidth", "peak", "monthly_peaks", "maximum_demand"),
    *("load_duration_curve", "ramps", "up", "down", "rolling_range", "rainflow", "spectrum"),
)
"""Groups that every run has; others are null where there is nothing to measure."""


class _Parts(Record):
    """A record whose checks are built within those of the whole file, once."""

    model_config = ConfigDict(defer_build=True)


def _grown(title: str, base: Any, /, **parts: Any) -> Any:
    """Return a record with further parts, which may be missing until somebody reads them."""
    fields: dict[str, Any] = {key: (of, None) for key, of in parts.items()}
    return create_model(title, __base__=base, **fields)


def _list(of: Any) -> Any:
    return GenericAlias(list, (of,))


def _metric_types(entry: Any) -> dict[str, Any]:
    """Return numbers by the keys of metrics; ratios, stages and events may give none."""
    found, sure = dict(_APART), own_blocks() - {"flexibility", "measures"}
    for metric in declared_metrics():
        key, curve, _ = metric.key.partition(".<share>")
        block, name = key.partition(".")[0], key.rpartition(".")[2]
        by_name = _BESIDE.get(name) if block in sure else None
        certain = metric.unit[0] == "M" if block != "grid" else metric.unit[0] != "1"
        number = by_name or (Number if certain and block in sure else Number | None)
        found.setdefault(key, entry if curve else number)
    return {key: of for key, of in found.items() if key[0] != "<"}


def _tree(types: Mapping[str, Any]) -> dict[str, Any]:
    """Return types by key nested as the values are, entries of any name below ""."""
    tree: dict[str, Any] = {}
    for key, of in types.items():
        group, (*path, last) = tree, ("" if "<" in step else step for step in key.split("."))
        for step in path:
            group = group.setdefault(step, {})
        group.setdefault(last, of)
    return tree


def _record(name: str, tree: Any, group: Any) -> Any:
    """Return what pydantic checks a group of metrics by."""
    if not isinstance(tree, dict):
        return tree
    if "" in tree:
        of = _record(name, tree[""], group)
        entry = of | None if name == "jobs" else of
        return _list(of) if name in _LISTS else GenericAlias(dict, (str, entry))
    parts = {key: _record(key, of, group) for key, of in tree.items()}
    for key, of in tree.items():
        if key not in _SURE and isinstance(of, dict):
            parts[key] |= None
    return _grown(name, group, **parts)


@cache
def metrics_record() -> type[Record]:
    """Return the record of ``metrics.json``: the catalogue's metrics, and others by name."""
    entry = _grown("Entry", _Parts, **_BESIDE)
    part = _grown("Part", entry, largest=entry, recent=entry)
    entries = _list(entry)
    cause = _grown("Cause", entry, parts=_list(part), calendar=entries)
    by_name = {"cause": cause | None, "times": entry, "absent": entries, "widest_jobs": entries}
    group = _grown("Group", entry, **by_name)
    record: type[Record] = _record("Metrics", _tree(_metric_types(entry)), group)
    return record
