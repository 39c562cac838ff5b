"""A fitted request trace as an entry of `request_streams`, in words, and as data."""

from __future__ import annotations

from dataclasses import asdict
from datetime import UTC, datetime
from math import isfinite
from typing import Any

import numpy as np
import yaml

from diploee.base.errors import one_line
from diploee.base.plain_data import plain
from diploee.base.tables import Float64Array
from diploee.base.units import HOURS_PER_DAY, MS_PER_DAY, MS_PER_H, MS_PER_S
from diploee.fits.fragment import WEEKDAYS
from diploee.fits.limits import closed_shares
from diploee.fits.requests.fit import RequestFit, ServiceFit
from diploee.fits.requests.fluctuation import FluctuationFit
from diploee.fits.week_shape import in_words
from diploee.loads.services.request_trace import RequestTrace

DEFAULT_SERVICE = {
    "latency_cap": {"metric": "mean_e2e", "limit_s": 10},
    "power_curve": "llama3_70b_conversation_power",
    "latency_curve": "llama3_70b_conversation_latency",
}
"""ASSUMPTION: what a trace does not tell about a service: a shipped model and its
latency cap."""

_DECIMALS = 4
_FAR = 2.0


def request_stream(fit: RequestFit, *, pool: str) -> dict[str, Any]:
    """Return an entry of `request_streams` as plain data."""
    stream: dict[str, Any] = {
        "pool": pool,
        "request_rate_rps": float(f"{fit.week_rate_rps:.6g}"),
    }
    if fit.fluctuation is not None and (spec := _fluctuation(fit.fluctuation)):
        stream["fluctuation"] = spec
    found = [service.share for service in fit.services]
    shares = closed_shares(found, 6) if len(found) > 1 else [1]
    stream["services"] = {
        service.name: {
            "probability": probability,
            **(
                {"output_tokens": service.output_length}
                if service.output_length
                else {}
            ),
            **DEFAULT_SERVICE,
        }
        for service, probability in zip(fit.services, shares, strict=True)
    }
    calendar: dict[str, Any] = {}
    if fit.calendar.detail in ("hour_of_week", "day_and_hour"):
        calendar["hour_of_week"] = _rounded(fit.calendar.week_weight)
    elif fit.calendar.detail == "hour_of_day":
        calendar["hour_of_day"] = _rounded(fit.calendar.week_weight[:HOURS_PER_DAY])
    if fit.calendar.month_weight is not None:
        calendar["month"] = _rounded(fit.calendar.month_weight)
    if fit.weeks is not None and fit.weeks.is_told:
        calendar["week_to_week"] = fit.weeks.entry
    if calendar:
        stream["calendar"] = calendar
    return stream


def _fluctuation(fit: FluctuationFit) -> dict[str, float]:
    """Return the scenario's keys.

    Nothing where the requests scatter as Poisson counts do.
    """
    std = round(fit.relative_std.value, _DECIMALS)
    if not std:
        return {}
    keys = {"relative_std": std, "reference_rate_rps": float(f"{fit.rate_rps:.6g}")}
    # Fluctuation without correlation between minutes is as short as a scenario allows.
    time = fit.correlation_time_s
    keys["correlation_time_s"] = 5.0 if time is None else float(f"{time.value:.3g}")
    if fit.common_share is not None:
        keys["common_share"] = round(fit.common_share.value, _DECIMALS)
    return keys


def request_stream_yaml(
    fit: RequestFit, *said: str, name: str = "requests", pool: str = "serving"
) -> str:
    """Return the YAML of a `request_streams` group with one entry, commented.

    `said` are comments behind the first one, which gives the origin.
    """
    entry = {"request_streams": {name: request_stream(fit, pool=pool)}}
    text = yaml.dump(
        entry, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=110
    )
    origin, *rest = fit_remarks(fit)
    return "".join(f"# {line}\n" for line in (origin, *said, *rest)) + text


def fit_remarks(fit: RequestFit) -> list[str]:
    """Return what a reader of the fitted stream should know, a line each."""
    trace, d = fit.trace, fit.dispersion
    lines = [
        f"Fitted to {one_line(trace.source)} ({trace.trace_format}): "
        f"{fit.n_requests:,.0f} requests in {trace.span_ms / MS_PER_DAY:.3g} days, "
        f"mean {fit.mean_rate_rps:.4g}/s, "
        f"peak {fit.peak_rate_rps:.4g}/s over {trace.step_ms / 1000:g} s.",
        f"Weights: {in_words(fit.calendar.detail, fit.calendar.shape.deviance)}",
        *([] if fit.calendar.months is None else [fit.calendar.months.line()]),
    ]
    if not fit.is_counted:
        lines.append(
            "The trace gives rates, not requests: their scatter is that of its means."
        )
    elif np.isfinite(d.high):
        lines.append(
            f"Variance over mean of the requests per {trace.step_ms / 1000:g} s "
            f"within an hour of the week: {d.index:.4g} ({d.low:.4g} to {d.high:.4g}; "
            "1 if Poisson)."
        )
    if fit.n_dead_hours:
        lines.append(
            f"No request in {fit.n_dead_hours} whole hours ({fit.n_gaps} gaps) that "
            "should have many: outages, or gaps of the trace; the weights count them "
            "as they are."
        )
    if fit.weeks is not None:
        lines.append(fit.weeks.line())
    if fit.fluctuation is not None and fit.fluctuation.relative_std.value > 0:
        lines.extend(_fluctuation_remarks(fit.fluctuation))
    for service in fit.services:
        lines.extend(_length_remarks(service))
    lines.append(
        "ASSUMPTION: the trace does not tell model, latency cap and hardware; set "
        "them below."
    )
    return lines


def _fluctuation_remarks(fit: FluctuationFit) -> list[str]:
    std, time, share = fit.relative_std, fit.correlation_time_s, fit.common_share
    of_time = "minutes do not correlate"
    if time is not None:
        of_time = (
            f"correlation time {time.value:.3g} s ({time.low:.3g} to {time.high:.3g})"
        )
    of_share = "one service tells no common share (ASSUMPTION: one half)"
    if share is not None:
        of_share = (
            f"common share {share.value:.2g} ({share.low:.2g} to {share.high:.2g})"
        )
    return [
        f"Fluctuation of minutes at {fit.rate_rps:.4g}/s: relative std {std.value:.3g} "
        f"({std.low:.3g} to {std.high:.3g}), {of_time};",
        f"{of_share}.",
    ]


def _length_remarks(service: ServiceFit) -> list[str]:
    found = []
    sides = (("Prompts", service.input_tokens), ("Answers", service.output_tokens))
    for what, lengths in sides:
        if lengths is not None:
            found.append(
                f"{what} of {one_line(service.name)}: mean {lengths.mean:.4g} tokens, "
                f"median {lengths.p50:.4g}, p90 {lengths.p90:.4g}, p99 "
                f"{lengths.p99:.4g}."
            )
    if service.output_tokens is not None and service.output_length is not None:
        ratio = max(service.output_tokens.mean, 1e-9) / service.output_length
        if not 1 / _FAR <= ratio <= _FAR:
            found.append(
                f"The nearest output length at hand, {service.output_length}, is "
                f"{1 / ratio if ratio < 1 else ratio:.2g} times too "
                f"{'long' if ratio < 1 else 'short'}: latency and capacity are off "
                "accordingly."
            )
    return found


def local_time(trace: RequestTrace, zero_hour_of_week: float | None) -> str:
    """Return what the hours of the weights are, in a sentence."""
    if not trace.is_relative:
        if trace.zone.name:
            return f"Hours are local time of {trace.zone.name}."
        return f"Hours are local time, {trace.zone} the whole year."
    hour = _hour_name(zero_hour_of_week or 0.0)
    if zero_hour_of_week is not None:
        return f"The trace has no dates; its origin was given as {hour} local time."
    return (
        f"ASSUMPTION: the trace has no dates, its origin is {hour} local time; see "
        "--zero-hour-of-week."
    )


def fit_lines(fit: RequestFit) -> list[str]:
    """Return what the fragment's comments leave out, a statement a line."""
    trace = fit.trace
    peak = f"{fit.peak_ms / MS_PER_H:.2f} h after the origin"
    if not trace.is_relative:
        local_s = int(trace.zone.local_ms(np.array([fit.peak_ms]))[0]) // MS_PER_S
        peak = f"at {datetime.fromtimestamp(local_s, UTC):%Y-%m-%d %H:%M}"
    lines = [f"Mean rate of a whole week {fit.week_rate_rps:.4g}/s; peak {peak}."]
    if fit.calendar.detail != "uniform":
        extremes = (
            ("lowest", fit.calendar.week_weight.argmin()),
            ("highest", fit.calendar.week_weight.argmax()),
        )
        has_days = fit.calendar.detail in ("hour_of_week", "day_and_hour")
        weights = (
            (
                f"{name} {fit.calendar.week_weight[hour]:.3g} "
                f"({fit.week_low[hour]:.3g} to {fit.week_high[hour]:.3g}) at "
                f"{_hour_name(float(hour), with_day=has_days)}"
            )
            for name, hour in extremes
        )
        lines.append(f"Weights: {', '.join(weights)}.")
    hourly = fit.hourly_dispersion
    if isfinite(hourly.high):
        limits = f"{hourly.low:.3g} to {hourly.high:.3g}"
        lines.append(
            f"Variance over mean of hours: {hourly.index:.3g} ({limits}; 1 if Poisson)."
        )
    if fit.fluctuation is not None and not fit.fluctuation.relative_std.value:
        high = fit.fluctuation.relative_std.high
        lines.append(f"Fluctuation of minutes: none, relative std at most {high:.3g}.")
    shares = ", ".join(
        f"{service.name} {service.share:.2%}" for service in fit.services
    )
    return [*lines, f"Shares of the services: {shares}."]


def fit_as_dict(
    fit: RequestFit, zero_hour_of_week: float, confidence: float
) -> dict[str, Any]:
    """Return all numbers of a fit as plain data for JSON; what is not known is None."""
    trace, calendar, counts = fit.trace, fit.calendar, fit.trace.counts
    limits = {"low": fit.month_low, "high": fit.month_high}
    told: dict[str, Any] = plain(
        {
            "source": trace.source,
            "trace_format": trace.trace_format,
            "step_ms": trace.step_ms,
            "span_ms": trace.span_ms,
            **{
                key: value
                for key, value in vars(fit).items()
                if isinstance(value, int | float)
            },
            "dispersion": vars(fit.dispersion),
            "hourly_dispersion": vars(fit.hourly_dispersion),
            "fluctuation": fit.fluctuation and asdict(fit.fluctuation),
            "services": [asdict(service) for service in fit.services],
            "months": calendar.months and vars(calendar.months),
            "confidence": confidence,
            "is_relative": trace.is_relative,
            "utc_offset_min": trace.zone.offset_min(trace.origin_ms),
            "time_zone": trace.zone.name,
            "zero_hour_of_week": zero_hour_of_week,
            "hour_of_week": {
                "detail": calendar.detail,
                "deviance": calendar.shape.deviance,
                "weight": calendar.week_weight,
                "low": fit.week_low,
                "high": fit.week_high,
                "hours": fit.week_hours,
            },
            "month": {"weight": calendar.month_weight, **limits}
            if calendar.has_months
            else None,
            "week_to_week": fit.weeks and fit.weeks.as_dict(),
            "rows": {
                "read": counts.n_rows,
                "kept": counts.n_kept,
                "dropped": dict(counts.dropped),
                "repaired": dict(counts.repaired),
                "noted": dict(counts.noted),
            },
        }
    )
    return told


def _hour_name(hour_of_week: float, *, with_day: bool = True) -> str:
    day, hour = divmod(hour_of_week, 24)
    name = f"{int(hour):02}:{int(hour % 1 * 60):02}"
    return f"{WEEKDAYS[int(day)]} {name}" if with_day else name


def _rounded(weights: Float64Array) -> list[float]:
    return [round(float(weight), _DECIMALS) for weight in weights]


class _Dumper(yaml.SafeDumper):
    """Lists in brackets, mappings in blocks, and no anchors for shared keys."""

    def ignore_aliases(self, data: object) -> bool:  # noqa: ARG002
        return True


_Dumper.add_representer(
    list,
    lambda dumper, data: dumper.represent_sequence(
        "tag:yaml.org,2002:seq", data, flow_style=True
    ),
)
