"""What `manifest.json` and `metrics.json` must hold for those who read a run folder.

Keys that nobody reads may be missing or others; those of a newer version may follow.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from types import GenericAlias
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, create_model

from diploee.errors import shown
from diploee.json_files import SHA256, Record
from diploee.parquet_files import MAX_SIZE
from diploee.profiles.store import Origin


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
Optional = Number | None
Numbers = dict[str, Any]


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


def _shaped(name: str, shape: Mapping[str, Any]) -> Any:
    """Return a record as it stands in the file: groups, lists of one entry, and types of values.

    A key with a question mark may be missing, ``"*"`` stands for any key, and a pair with None may
    be null.
    """
    if "*" in shape:
        return GenericAlias(dict, (str, _part(name, shape["*"])))
    keys: dict[str, Any] = {
        key.removesuffix("?"): (_part(key, part), None if key.endswith("?") else ...)
        for key, part in shape.items()
    }
    return create_model(name, __base__=Record, **keys)


def _part(name: str, part: Any) -> Any:
    if isinstance(part, tuple):
        return _part(name, part[0]) | None
    if isinstance(part, list):
        return GenericAlias(list, (_part(name, part[0]),))
    return _shaped(name, part) if isinstance(part, dict) else part


_TWO = Annotated[list[Number], Field(min_length=2, max_length=2)]
_CAUSE = {
    "change_mw": Number,
    "parts": [
        {
            "what": str,
            "mw": Number,
            **dict.fromkeys(("of?", "pool?"), str),
            **dict.fromkeys(("count?", "started?", "stopped?"), Count),
            **dict.fromkeys(("started_mw?", "stopped_mw?"), Number),
            **dict.fromkeys(("instances?", "replicas?", "rate_rps?"), _TWO),
            "largest?": {"job_id": Count, "n_nodes": Count, "mw": Number},
            "recent?": {"count": Count, "mw": Number},
            "mean_mw?": Number,
        }
    ],
    "queued_jobs?": _TWO,
    "calendar?": [{"of": str, "pool": str, "change": Optional, "mw": Number}],
}
_WHY = {"cause?": (_CAUSE, None)}
_PEAK = {"max_mw": Number, "time": Time, **_WHY}
_TAIL = {"max_mw": Number, "p99_mw": Number, "p999_mw": Number}
_SIDE = {**_TAIL, "max_mw_per_min": Number, "time": Time | None, **_WHY}
_MINUTES = {"interval_min": Annotated[int, Field(ge=1, le=10**9)]}
_INTERVAL, _WINDOW = {"interval_s": Seconds}, {"window_s": Seconds}
_BAND, _REASON = {"low_hz": Positive, "high_hz": Positive}, {"reason": str}

_GRID = {
    "bandwidth": {
        "averaging_window_s": Annotated[float, Field(ge=0, le=MAX_SIZE)] | None,
        "lower_bound_below_s?": Number,
        "note": str,
    },
    "mean_mw": Number,
    "load_factor": Optional,
    "peak": _PEAK,
    "monthly_peaks": {"*": _PEAK},
    "headroom?": ({"rated_mw": Number, "mw": Number, "fraction": Number}, None),
    "coincidence?": ({"factor": Optional, "pools": {"*": _PEAK}}, None),
    "maximum_demand": {
        "intervals": [{**_MINUTES, **_PEAK, "load_factor": Optional, "monthly": {"*": _PEAK}}],
        "absent": [{**_MINUTES, **_REASON}],
    },
    "load_duration_curve": {"percent_of_time": [Number], "exceeded_mw": [Number]},
    "ramps": {
        "intervals": [{**_INTERVAL, "up": _SIDE, "down": _SIDE, "lower_bound": bool}],
        "absent": [{**_INTERVAL, **_REASON}],
    },
    "rolling_range": {
        "windows": [{**_WINDOW, **_TAIL, "time": Time, "lower_bound": bool, **_WHY}],
        "absent": [{**_WINDOW, **_REASON}],
    },
    "rainflow": {
        "threshold_mw": Positive,
        "swings": Count,
        "swings_per_day": Optional,
        "classes": [{"from_mw": Number, "to_mw": Optional, "swings": Count}],
        "max_mw?": Optional,
        "p99_mw?": Optional,
        "max_from?": Time | None,
        "max_to?": Time | None,
    },
    "spectrum": {
        "bands": [
            {
                **_BAND,
                **dict.fromkeys(("rms_p50_mw", "rms_p99_mw", "rms_max_mw"), Number),
                "worst_window": Time,
                "worst_window_strongest_hz": Number,
                "flagged": bool,
                "flag_reason?": str,
            }
        ],
        "absent": [{**_BAND, **_REASON}],
        "lines": [
            {
                "frequency_hz": Positive,
                "period_s": Positive,
                "rms_mw": Number,
                "over_floor": Optional,
                "flagged": bool,
            }
        ],
        "windows?": Count,
        "window_s?": Seconds,
        "frequency_resolution_hz?": Positive,
        "mean_psd_mw2_per_hz?": [Number],
    },
}
_ENERGIES = {"energy": {"*": Number}, **dict.fromkeys(("pue", "ppue_cooling"), Optional)}
_POI = {**_ENERGIES, "monthly": {"*": _ENERGIES}}
_BILLING = {
    "months": [
        {
            "month": str,
            "complete": bool,
            **dict.fromkeys(("hours", "energy_mwh", "drawn_mvarh", "supplied_mvarh"), Number),
            **dict.fromkeys(("lagging_power_factor", "leading_power_factor"), Optional),
            "demand": [
                {
                    **_MINUTES,
                    **dict.fromkeys(("max_mw", "max_mva", "max_mvar", "min_mvar"), Number),
                    **dict.fromkeys(("time", "max_mva_time"), Time),
                    **dict.fromkeys(("load_factor", "power_factor"), Optional),
                }
            ],
            "billed?": {
                **_MINUTES,
                "max_mw": Number,
                **dict.fromkeys(("for_power_factor_mw?", "ratchet_mw?", "reactive_mvar?"), Number),
                "lower_bound?": bool,
            },
        }
    ],
    "absent": [{**_MINUTES, **_REASON}],
}
_FLEXIBILITY = {
    "jobs": {"*": Optional},
    "events": [
        {
            "name": str,
            "times": dict.fromkeys(("issued", "start", "ramp", "held", "end", "over"), Time),
            **dict.fromkeys(("twin_mw", "mean_mw", "mean_reduction"), Optional),
            **dict.fromkeys(
                (
                    *("target_mw?", "before_mw?", "held_fraction?", "issue_to_target_s?"),
                    *("overshoot_mw?", "not_drawn_mwh?", "rebound_mw?", "rebound_mwh?"),
                    *("min_reduction?", "weighted_performance?", "money?", "t_co2?"),
                ),
                Optional,
            ),
            "utility?": {
                "baseline_mw": Number,
                "adjustment": Number,
                **dict.fromkeys(("error?", "mean_reduction?"), Optional),
            },
            "widest_jobs": [
                {
                    **dict.fromkeys(("job_id", "n_nodes"), Count),
                    **{key: [Number] for key in ("from_s", "to_s")},
                    "state": [str],
                }
            ],
        }
    ],
}
_WINDOWS = {
    "resolution_s": Seconds,
    "basis?": str,
    "windows": [
        {
            "name": Annotated[str, Field(pattern="^[a-z0-9_]+$")],
            "at": Time,
            "value_mw": Number,
            "window_s": Seconds,
            **_WHY,
        }
    ],
}

Metrics: type[Record] = _shaped(
    "Metrics",
    {
        "power": {
            "mean_mw": Number,
            "max_mw": Number,
            "energy_mwh": Number,
            "resolution_s": Annotated[float, Field(gt=0, le=3600)],
        },
        "utilization": Numbers,
        "jobs?": Numbers | None,
        "synchronous?": {"*": Numbers},
        "requests?": ({"services?": {"*": Numbers}}, None),
        "grid?": (_GRID, None),
        "poi?": (_POI, None),
        "billing?": (_BILLING, None),
        "flexibility?": (_FLEXIBILITY, None),
        "zooms?": (_WINDOWS, None),
    },
)
"""``metrics.json``: what its readers need; the catalogue says what every value is."""
