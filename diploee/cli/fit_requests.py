"""`diploee fit-requests`: from a request trace to a piece of a scenario."""

from __future__ import annotations

import json
from dataclasses import asdict
from datetime import UTC, datetime
from math import isfinite, isnan
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypedDict

import typer

from diploee.cli.fragment import (
    check_confidence,
    check_folder,
    check_fragment,
    check_free,
    column_names,
    naming_the_other_command,
    pool_of,
    write_fragment,
)

if TYPE_CHECKING:
    from diploee.workload.importers.jobs.clock import Zone
    from diploee.workload.request_fit import RequestFit
    from diploee.workload.request_scatter import Dispersion
    from diploee.workload.request_services import ServiceFit
    from diploee.workload.request_trace import RequestTrace

_Row = tuple[str, str, str]

_IN_TABLE = ("Fitted to", "Weights:", "Variance over mean", "Prompts of", "Answers of")
"""Beginnings of remarks whose numbers stand in the table too."""


def fit_requests_command(
    trace: Annotated[Path, typer.Argument(help="Request trace; may be gzipped.", metavar="TRACE")],
    trace_format: Annotated[
        str | None,
        typer.Option(
            "--format", help="azure-llm, burstgpt, mooncake, servegen or csv; told by content."
        ),
    ] = None,
    columns: Annotated[
        list[str] | None,
        typer.Option(
            "--column", metavar="MEANING=NAME", help="csv: its column of a meaning; repeatable."
        ),
    ] = None,
    services: Annotated[
        list[str] | None,
        typer.Option(
            "--service",
            metavar="NAME",
            help="Service to keep, repeatable; or name of all, where the trace has none.",
        ),
    ] = None,
    utc_offset: Annotated[
        str | None,
        typer.Option(help="Local time of the weights, +08:00 or Europe/Berlin; UTC by default."),
    ] = None,
    zero_hour_of_week: Annotated[
        float | None,
        typer.Option(
            help="Trace without dates: local hour of the week of its origin, 0 for Monday 00:00."
        ),
    ] = None,
    step_s: Annotated[
        float, typer.Option(help="Step of the counts in s; divides the hour.")
    ] = 60.0,
    scenario: Annotated[
        str | None, typer.Option(help="Scenario that the stream is for: gives the pool.")
    ] = None,
    pool: Annotated[str | None, typer.Option(help="Pool of the stream.")] = None,
    stream: Annotated[str, typer.Option(help="Name of the stream.")] = "requests",
    confidence: Annotated[float, typer.Option(help="Level of the limits.")] = 0.95,
    out: Annotated[
        Path | None, typer.Option(help="YAML file of the stream; else it is printed.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace a file at --out.")] = False,
    plots: Annotated[Path | None, typer.Option(help="Folder of pictures of the fit.")] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print all numbers of the fit as JSON.")
    ] = False,
) -> None:
    """Learn from a request trace when requests come, how they scatter and how long they are.

    Gives a request stream of a scenario with weights of 168 hours, months where the span covers
    them, the scatter of minutes, and services with shares and output lengths. Model, latency cap
    and hardware, which no trace tells, are to be set in the result.
    """
    from diploee.workload.importers import read_request_trace
    from diploee.workload.importers.requests.plain_csv import MEANINGS
    from diploee.workload.request_fit import fit_requests
    from diploee.workload.request_fragment import fit_remarks, request_stream_yaml

    check_confidence(confidence)
    check_free(out, force, trace, scenario)
    check_folder(plots, out)
    names = column_names(columns, MEANINGS)
    zone = _check_times(step_s, zero_hour_of_week, utc_offset)
    base, pool_name = pool_of(scenario, pool, default="serving")
    told = trace_format or ("csv" if columns else None)
    with naming_the_other_command(trace, "fit-requests", told):
        read = read_request_trace(
            trace, trace_format, step_s=step_s, services=services, columns=names
        )
    clock = _clock(read, zone, zero_hour_of_week)
    fit = fit_requests(read, confidence=confidence, **clock)
    origin, _, rest = request_stream_yaml(fit, name=stream, pool=pool_name).partition("\n")
    local = _local_time(read, clock, is_told=zero_hour_of_week is not None)
    rows = f"Rows: {'; '.join(read.counts.lines())}. Limits are those of {100 * confidence:g}%."
    text = f"{origin}\n# {local}\n# {rows}\n{rest}"
    check_fragment(text, base)
    write_fragment(text, out)
    drawn: list[Path] = []
    if plots is not None:
        from diploee.workload.request_plots import plot_requests

        drawn = plot_requests(read, fit, plots, confidence=confidence, **clock)
    if as_json:
        typer.echo(json.dumps(_as_dict(fit, read, clock, confidence), indent=2))
    elif out is None:
        typer.echo(text, nl=False)
    else:
        _show(fit, read, clock, confidence)
        remarks = (line for line in fit_remarks(fit) if not line.startswith(_IN_TABLE))
        for line in [local, *remarks, f"Written: {', '.join(map(str, [out, *drawn]))}"]:
            typer.echo(line)


class _Clock(TypedDict):
    """How times of a trace become local, as `fit_requests` takes it."""

    utc_offset_min: int
    zero_hour_of_week: float


def _check_times(step_s: float, zero_hour: float | None, utc_offset: str | None) -> Zone | None:
    """Check what the user said of times, before a long trace is read; return the zone."""
    from diploee.errors import InputError
    from diploee.units import HOURS_PER_WEEK, MS_PER_H, MS_PER_S
    from diploee.workload.importers.jobs.clock import zone_of

    step_ms = step_s * MS_PER_S
    if not 1 <= step_ms <= MS_PER_H or MS_PER_H % step_ms:
        raise InputError(
            f"--step-s: must divide the hour, such as 1, 60 or 600, found {step_s:g}; weights are "
            "those of hours"
        )
    if zero_hour is not None and not 0 <= zero_hour < HOURS_PER_WEEK:
        raise InputError(
            f"--zero-hour-of-week: must lie from 0 to below {HOURS_PER_WEEK}, found {zero_hour:g}"
        )
    return None if utc_offset is None else zone_of(utc_offset, "--utc-offset")


def _clock(trace: RequestTrace, zone: Zone | None, zero_hour: float | None) -> _Clock:
    from diploee.errors import InputError

    if trace.is_relative and zone is not None:
        raise InputError(
            f"{trace.source}: --utc-offset is for times with dates, this trace counts from an "
            "origin of its own; give --zero-hour-of-week"
        )
    if not trace.is_relative and zero_hour is not None:
        raise InputError(
            f"{trace.source}: --zero-hour-of-week is for a trace without dates, this one has them; "
            "give --utc-offset"
        )
    offset_min = 0 if zone is None else zone.offset_min(trace.origin_ms)
    return {"utc_offset_min": offset_min, "zero_hour_of_week": zero_hour or 0.0}


def _local_time(trace: RequestTrace, clock: _Clock, *, is_told: bool) -> str:
    """Return what the hours of the weights are, in a sentence."""
    if not trace.is_relative:
        return f"Hours are local time, {_zone_name(clock['utc_offset_min'])} the whole year."
    hour = _hour_name(clock["zero_hour_of_week"])
    if is_told:
        return f"The trace has no dates; its origin was given as {hour} local time."
    return (
        f"ASSUMPTION: the trace has no dates, its origin is {hour} local time; see "
        "--zero-hour-of-week."
    )


def _show(fit: RequestFit, trace: RequestTrace, clock: _Clock, confidence: float) -> None:
    """Print what was learned: of the requests, and of each service."""
    from rich.markup import escape

    from diploee.cli.display import show_table

    title = escape(f"{Path(fit.source).name} ({fit.trace_format})")
    rows = _request_rows(fit, trace, clock)
    show_table(title, ("", "value", f"{100 * confidence:g}% limits"), rows)
    header = ("service", "share", "tokens", "mean", "p50", "p90", "p99", "latency curve")
    typer.echo()
    show_table("", header, [row for service in fit.services for row in _service_rows(service)])


def _request_rows(fit: RequestFit, trace: RequestTrace, clock: _Clock) -> list[_Row]:
    from diploee.units import MS_PER_DAY, MS_PER_H, MS_PER_MIN, MS_PER_S

    step = f"{fit.step_ms / MS_PER_S:g} s"
    peak = f"{fit.peak_ms / MS_PER_H:.2f} h after the origin"
    if not trace.is_relative:
        local_s = (fit.peak_ms + clock["utc_offset_min"] * MS_PER_MIN) // MS_PER_S
        peak = f"{datetime.fromtimestamp(local_s, UTC):%Y-%m-%d %H:%M}"
    causes = [
        (f"{what}: {cause}", f"{n:,}", "")
        for what, found in (("dropped", trace.counts.dropped), ("repaired", trace.counts.repaired))
        for cause, n in found.items()
    ]
    jitter = fit.jitter_relative_std
    return [
        ("requests", f"{fit.n_requests:,.0f}", ""),
        ("span [days]", f"{fit.span_ms / MS_PER_DAY:.3g}", ""),
        ("mean rate [1/s]", f"{fit.mean_rate_rps:.4g}", ""),
        (f"peak rate over {step} [1/s]", f"{fit.peak_rate_rps:.4g}", ""),
        ("peak at", peak, ""),
        ("mean rate of a whole week [1/s]", f"{fit.week_rate_rps:.4g}", ""),
        *_weight_rows(fit),
        _scatter_row(f"variance over mean, {step} (Poisson 1)", fit.dispersion),
        _scatter_row("variance over mean, hours (Poisson 1)", fit.hourly_dispersion),
        ("relative jitter of minutes", "-" if jitter is None else f"{jitter:.3g}", ""),
        ("rows read", f"{trace.counts.n_rows:,}", ""),
        ("rows kept", f"{trace.counts.n_kept:,}", ""),
        *(causes or [("dropped or repaired", "0", "")]),
    ]


def _weight_rows(fit: RequestFit) -> list[_Row]:
    details = {"hour_of_week": "168 hours", "hour_of_day": "24 hours", "uniform": "none"}
    n_months = 0 if fit.month_low is None else sum(not isnan(low) for low in fit.month_low)
    rows = [("weights", details[fit.detail] + (f", {n_months} months" if n_months else ""), "")]
    if fit.detail != "uniform":
        for name, hour in (
            ("lowest", fit.week_weight.argmin()),
            ("highest", fit.week_weight.argmax()),
        ):
            when = _hour_name(float(hour), with_day=fit.detail == "hour_of_week")
            limits = f"{fit.week_low[hour]:.3g} to {fit.week_high[hour]:.3g}"
            rows.append((f"{name} weight, {when}", f"{fit.week_weight[hour]:.3g}", limits))
    return rows


def _scatter_row(name: str, scatter: Dispersion) -> _Row:
    value = "-" if isnan(scatter.index) else f"{scatter.index:.3g}"
    told = isfinite(scatter.high)
    return (name, value, f"{scatter.low:.3g} to {scatter.high:.3g}" if told else "")


def _service_rows(service: ServiceFit) -> list[tuple[str, ...]]:
    curve = "-" if service.output_length is None else f"{service.output_length} tokens"
    sides = (("prompts", service.input_tokens, ""), ("answers", service.output_tokens, curve))
    rows: list[tuple[str, ...]] = []
    for side, found, of_curve in sides:
        values = ["-"] * 4
        if found is not None:
            values = [f"{v:,.0f}" for v in (found.mean, found.p50, found.p90, found.p99)]
        head = ("", "") if rows else (service.name, f"{service.share:.2%}")
        rows.append((*head, side, *values, of_curve))
    return rows


def _as_dict(
    fit: RequestFit, trace: RequestTrace, clock: _Clock, confidence: float
) -> dict[str, Any]:
    """Return all numbers of a fit as plain data for JSON; what is not known is None."""
    data = asdict(fit)
    week = {key: data.pop(f"week_{key}") for key in ("weight", "low", "high", "hours")}
    month = {key: data.pop(f"month_{key}") for key in ("weight", "low", "high")}
    counts = trace.counts
    plain: dict[str, Any] = _plain(
        {
            **data,
            "confidence": confidence,
            "is_relative": trace.is_relative,
            **clock,
            "hour_of_week": {"detail": data.pop("detail"), **week},
            "month": None if fit.month_weight is None else month,
            "rows": {
                "read": counts.n_rows,
                "kept": counts.n_kept,
                "dropped": dict(counts.dropped),
                "repaired": dict(counts.repaired),
            },
        }
    )
    return plain


def _plain(value: Any) -> Any:
    """Return arrays as lists, and numbers that JSON can't tell as None."""
    if isinstance(value, dict):
        return {key: _plain(of_key) for key, of_key in value.items()}
    if hasattr(value, "tolist"):
        return _plain(value.tolist())
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return None if isinstance(value, float) and not isfinite(value) else value


def _hour_name(hour_of_week: float, *, with_day: bool = True) -> str:
    from diploee.workload.fit.fragment import WEEKDAYS

    day, hour = divmod(hour_of_week, 24)
    name = f"{int(hour):02}:{int(hour % 1 * 60):02}"
    return f"{WEEKDAYS[int(day)]} {name}" if with_day else name


def _zone_name(utc_offset_min: int) -> str:
    hours, minutes = divmod(abs(utc_offset_min), 60)
    return f"UTC{'-' if utc_offset_min < 0 else '+'}{hours:02}:{minutes:02}"
