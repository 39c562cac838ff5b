"""`diploee fit-requests`: from a request trace to a piece of a scenario."""

from __future__ import annotations

from dataclasses import asdict
from datetime import UTC, datetime
from functools import partial
from math import isfinite
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from pydantic import Field

from diploee.cli.fragment import give_fragment
from diploee.cli.options import Force, Fragment, Json, Plots, as_option, options
from diploee.clock import zone_of
from diploee.errors import InputError, one_of
from diploee.files import Writing
from diploee.importers import read_request_trace
from diploee.importers.request_traces import TRACE_FORMATS
from diploee.importers.request_traces.plain_csv import Meaning
from diploee.learn.choices import FitChoices
from diploee.learn.fragment_files import (
    check_places,
    into_scenario,
    naming_the_other_command,
    pool_of,
)
from diploee.learn.jobs.job_fragment import WEEKDAYS
from diploee.learn.requests.fit import RequestFit, fit_requests, trimmed
from diploee.learn.requests.request_fragment import fit_remarks, request_stream_yaml
from diploee.loads.services.request_trace import RequestTrace
from diploee.model import Model
from diploee.plain_data import plain
from diploee.units import HOURS_PER_WEEK, MS_PER_H, MS_PER_S


class TraceReading(Model):
    """How a request trace is read and fitted."""

    columns: dict[Meaning, str] | None = Field(
        default=None, description="csv: its column of a meaning; repeatable."
    )
    services: tuple[str, ...] | None = Field(
        default=None,
        description="Service to keep, repeatable; or name of all, where the trace has none.",
    )
    utc_offset: str | None = Field(
        default=None,
        description="Zone of the trace's local time and of the weights, +08:00 or Europe/Berlin: "
        "stamps that name none are in it; the offset of the first stamp if absent, else UTC.",
    )
    zero_hour_of_week: Annotated[float, Field(ge=0, lt=HOURS_PER_WEEK)] | None = Field(
        default=None,
        description="Trace without dates: local hour of the week of its origin, 0 for Monday "
        "00:00.",
    )
    step_s: float = Field(default=60.0, description="Step of the counts in s; divides the hour.")


@options(columns="--column MEANING=NAME", services="--service NAME", start="--from", end="--to")
def fit_requests_command(
    trace: Annotated[Path, typer.Argument(help="Request trace; may be gzipped.", metavar="TRACE")],
    reading: TraceReading,
    choices: FitChoices,
    trace_format: Annotated[
        str | None,
        typer.Option("--format", help=f"{one_of(TRACE_FORMATS)}; recognised by content."),
    ] = None,
    scenario: Annotated[
        str | None,
        typer.Option(
            help="Scenario that the stream is for: gives the pool; with --out written as a whole."
        ),
    ] = None,
    pool: Annotated[str | None, typer.Option(help="Pool of the stream.")] = None,
    stream: Annotated[str, typer.Option(help="Name of the stream.")] = "requests",
    out: Fragment = None,
    force: Force = False,
    plots: Plots = None,
    as_json: Json = False,
) -> None:
    """Learn from a request trace when requests come, how they scatter and how long they are.

    Gives a request stream of a scenario with the weights of the week that predict best, months
    where the span covers them, the scatter of minutes, and services with shares and output lengths.
    Model, latency cap and hardware, which no trace tells, are to be set in the result.
    """
    check_places(out, force, trace, scenario, plots=plots, named=as_option)
    _check_step(reading.step_s)
    if reading.utc_offset is not None:
        zone_of(reading.utc_offset, "--utc-offset")
    confidence, zero_hour = choices.confidence, reading.zero_hour_of_week
    base, pool_name = pool_of(scenario, pool, default="serving", named=as_option)
    told = trace_format or ("csv" if reading.columns else None)
    with naming_the_other_command(trace, "fit-requests", told):
        read = read_request_trace(
            trace,
            trace_format,
            **reading.model_dump(include={"step_s", "services", "columns", "utc_offset"}),
        )
    if not read.is_relative and zero_hour is not None:
        raise InputError(
            f"{read.source}: --zero-hour-of-week is for a trace without dates, this one has them; "
            "give --utc-offset"
        )
    read = trimmed(read, choices.start, choices.end)
    fit = fit_requests(
        read,
        zero_hour_of_week=zero_hour or 0.0,
        **choices.model_dump(include={"months", "calendar", "confidence"}),
    )
    origin, _, rest = request_stream_yaml(fit, name=stream, pool=pool_name).partition("\n")
    local = _local_time(read, zero_hour)
    rows = f"Rows: {'; '.join(read.counts.lines())}. Limits are those of {100 * confidence:g}%."
    text = f"{origin}\n# {local}\n# {rows}\n{rest}"
    text = into_scenario(text, base, pool_name, out, as_option)

    def draw(folder: Path, files: Writing) -> list[Path]:
        from diploee.learn.requests.plots import plot_requests

        hour = zero_hour or 0.0
        return plot_requests(
            read, fit, folder, zero_hour_of_week=hour, confidence=confidence, joins=files
        )

    def tell() -> list[str]:
        return [*fit_remarks(fit), *_lines(fit, read), local, rows]

    data = partial(_as_dict, fit, read, zero_hour or 0.0, confidence) if as_json else None
    give_fragment(text, out, force, data, tell, plots, draw)


def _check_step(step_s: float) -> None:
    """Check what the user said of steps, before a long trace is read."""
    step_ms = step_s * MS_PER_S
    if not 1 <= step_ms <= MS_PER_H or MS_PER_H % step_ms:
        raise InputError(
            f"--step-s: must divide the hour, such as 1, 60 or 600, found {step_s:g}; "
            "weights are those of hours"
        )


def _local_time(trace: RequestTrace, zero_hour_of_week: float | None) -> str:
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


def _lines(fit: RequestFit, trace: RequestTrace) -> list[str]:
    """Return what the fragment's comments leave out, a statement a line."""
    peak = f"{fit.peak_ms / MS_PER_H:.2f} h after the origin"
    if not trace.is_relative:
        local_s = int(trace.zone.local_ms(np.array([fit.peak_ms]))[0]) // MS_PER_S
        peak = f"at {datetime.fromtimestamp(local_s, UTC):%Y-%m-%d %H:%M}"
    lines = [f"Mean rate of a whole week {fit.week_rate_rps:.4g}/s; peak {peak}."]
    if fit.detail != "uniform":
        extremes = (("lowest", fit.week_weight.argmin()), ("highest", fit.week_weight.argmax()))
        has_days = fit.detail in ("hour_of_week", "day_and_hour")
        weights = (
            f"{name} {fit.week_weight[hour]:.3g} ({fit.week_low[hour]:.3g} to "
            f"{fit.week_high[hour]:.3g}) at {_hour_name(float(hour), with_day=has_days)}"
            for name, hour in extremes
        )
        lines.append(f"Weights: {', '.join(weights)}.")
    hourly = fit.hourly_dispersion
    if isfinite(hourly.high):
        limits = f"{hourly.low:.3g} to {hourly.high:.3g}"
        lines.append(f"Variance over mean of hours: {hourly.index:.3g} ({limits}; 1 if Poisson).")
    if fit.fluctuation is not None and not fit.fluctuation.relative_std.value:
        high = fit.fluctuation.relative_std.high
        lines.append(f"Fluctuation of minutes: none, relative std at most {high:.3g}.")
    shares = ", ".join(f"{service.name} {service.share:.2%}" for service in fit.services)
    return [*lines, f"Shares of the services: {shares}."]


def _as_dict(
    fit: RequestFit, trace: RequestTrace, zero_hour_of_week: float, confidence: float
) -> dict[str, Any]:
    """Return all numbers of a fit as plain data for JSON; what is not known is None."""
    data = asdict(fit)
    week = {key: data.pop(f"week_{key}") for key in ("weight", "low", "high", "hours")}
    month = {key: data.pop(f"month_{key}") for key in ("weight", "low", "high")}
    del data["weeks"]
    counts = trace.counts
    told: dict[str, Any] = plain(
        {
            **data,
            "confidence": confidence,
            "is_relative": trace.is_relative,
            "utc_offset_min": trace.zone.offset_min(trace.origin_ms),
            "time_zone": trace.zone.name,
            "zero_hour_of_week": zero_hour_of_week,
            "hour_of_week": {
                "detail": data.pop("detail"),
                "deviance": data.pop("deviance"),
                **week,
            },
            "month": None if fit.month_weight is None else month,
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
