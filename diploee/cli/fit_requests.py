"""`diploee fit-requests`: fit a request stream of a scenario to a request trace."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from pydantic import Field

from diploee.base.clock import parse_zone
from diploee.base.errors import InputError, one_of
from diploee.base.model import Model, default, unset
from diploee.base.units import HOURS_PER_WEEK, MS_PER_H, MS_PER_S, TimeUnit
from diploee.cli.options import (
    Force,
    Fragment,
    Json,
    option_name,
    options,
    output_fragment,
)
from diploee.fits.calendar import FitChoices
from diploee.fits.fragment import (
    Target,
    check_output_path,
    find_pool,
    stream_yaml,
    suggest_other_command,
)
from diploee.fits.requests.fit import fit_requests, trim_trace
from diploee.fits.requests.scenario_entry import request_stream, stream_comments
from diploee.importers.request_traces import TRACE_FORMATS
from diploee.importers.request_traces.generic_csv import Meaning
from diploee.importers.request_traces.read import read_request_trace


class TraceReadingOptions(Model):
    """Options for reading a request trace."""

    columns: dict[Meaning, str] | None = unset(
        "Column of the csv for a meaning; may be repeated."
    )
    time_unit: TimeUnit | None = unset("Unit of numeric times; inferred if absent.")
    services: tuple[str, ...] | None = unset(
        "Service to keep, or name for a trace without services; may be repeated."
    )
    utc_offset: str | None = unset(
        "Zone of the trace's local time, +08:00 or Europe/Berlin; by default that of "
        "the first timestamp, else UTC."
    )
    zero_hour_of_week: Annotated[float, Field(ge=0, lt=HOURS_PER_WEEK)] | None = unset(
        "Local hour of the week at the start of a trace without dates; Monday 00:00 "
        "is 0."
    )
    step_s: float = default(60.0, "Time step of the counts, in s, a divisor of 3600.")


@options(
    columns="--column MEANING=NAME",
    services="--service NAME",
    start="--from",
    end="--to",
)
def fit_requests_command(
    trace: Annotated[
        Path, typer.Argument(help="Request trace; may be gzipped.", metavar="TRACE")
    ],
    reading: TraceReadingOptions,
    choices: FitChoices,
    trace_format: Annotated[
        str | None,
        typer.Option(
            "--format",
            help=f"{one_of(TRACE_FORMATS)}; detected from its content by default.",
        ),
    ] = None,
    scenario: Annotated[
        str | None,
        typer.Option(
            help=(
                "Scenario of the stream, with its pool; --out then writes the whole "
                "scenario."
            )
        ),
    ] = None,
    pool: Annotated[str | None, typer.Option(help="Pool of the stream.")] = None,
    stream: Annotated[str, typer.Option(help="Name of the stream.")] = "requests",
    out: Fragment = None,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Fit a request stream to a request trace: rates, their dispersion, lengths.

    The stream has weekly and monthly weights, the dispersion of requests per minute,
    and services with fractions and output lengths. No trace records the model, the
    latency cap and the hardware: set these in the result.
    """
    check_output_path(out, force, trace, scenario, named=option_name)
    _check_step(reading.step_s)
    if reading.utc_offset is not None:
        parse_zone(reading.utc_offset, "--utc-offset")
    zero_hour = reading.zero_hour_of_week
    base, pool_name = find_pool(scenario, pool, default="serving", named=option_name)
    stated = trace_format or ("csv" if reading.columns else None)
    with suggest_other_command(trace, "fit-requests", stated):
        read = read_request_trace(
            trace,
            trace_format,
            **reading.model_dump(
                include={"step_s", "services", "columns", "utc_offset", "time_unit"}
            ),
        )
    if not read.is_relative and zero_hour is not None:
        raise InputError(
            f"{read.source}: --zero-hour-of-week is for a trace without dates, this "
            "one has them; give --utc-offset"
        )
    read = trim_trace(read, choices.start, choices.end)
    fit = fit_requests(
        read,
        zero_hour_of_week=zero_hour,
        **choices.model_dump(include={"months", "calendar", "confidence"}),
    )
    entry, target = (
        request_stream(fit, pool=pool_name),
        Target(scenario, pool, stream, out, option_name),
    )
    text = stream_yaml(stream_comments(fit), "request_streams", entry, target, base)
    next_lines = [f"next: diploee run {out}"] if scenario else ()
    output_fragment(fit, text, out, force, as_json, next_lines)


def _check_step(step_s: float) -> None:
    """Raise `InputError` unless the step divides the hour."""
    step_ms = step_s * MS_PER_S
    if not 1 <= step_ms <= MS_PER_H or MS_PER_H % step_ms:
        raise InputError(
            f"--step-s: must divide the hour, such as 1, 60 or 600, found {step_s:g}; "
            "weights are those of hours"
        )
