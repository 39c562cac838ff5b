"""`diploee fit`: fit a job stream of a scenario to a job log."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from diploee.base.errors import one_of
from diploee.cli.options import (
    Force,
    Fragment,
    Json,
    Profiles,
    option_name,
    options,
    output_fragment,
)
from diploee.fits.fragment import Target, check_output_path
from diploee.fits.jobs.arrivals import JobFitOptions
from diploee.fits.jobs.from_log import fit_from_log
from diploee.importers.job_logs import JOB_LOG_FORMATS
from diploee.profiles.library import ProfileLibrary
from diploee.scenario.log_replay import LogReading


@options(columns="--column MEANING=NAME", states="--state", start="--from", end="--to")
def fit_command(
    log: Annotated[
        Path, typer.Argument(help="Job log; may be gzipped.", metavar="LOG")
    ],
    reading: LogReading,
    choices: JobFitOptions,
    log_format: Annotated[
        str | None,
        typer.Option(
            "--format",
            help=f"{one_of(JOB_LOG_FORMATS)}; detected from its content by default.",
        ),
    ] = None,
    workload: Annotated[
        str | None,
        typer.Option(help="Workload whose profiles give the power of all jobs."),
    ] = None,
    rules: Annotated[
        Path | None, typer.Option(help="YAML list of rules that map jobs to workloads.")
    ] = None,
    scenario: Annotated[
        str | None,
        typer.Option(
            help=(
                "Scenario of the stream, with values for missing options; --out then "
                "writes the whole scenario."
            )
        ),
    ] = None,
    pool: Annotated[str | None, typer.Option(help="Pool of the stream.")] = None,
    stream: Annotated[str, typer.Option(help="Name of the stream.")] = "jobs",
    profiles: Profiles = None,
    out: Fragment = None,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Fit a job stream to a job log: submission times, job sizes and durations.

    The stream has weekly and monthly weights, job classes with durations and arrays,
    and the overdispersion of job counts. Its comments give confidence limits and the
    goodness of fit.
    """
    check_output_path(out, force, log, rules, scenario, named=option_name)
    fit = fit_from_log(
        log,
        ProfileLibrary.open(*(profiles or ())),
        reading.model_dump(exclude_unset=True) | {"log_format": log_format},
        choices,
        Target(scenario, pool, stream, out, option_name),
        workload=workload,
        rules=rules,
    )
    folders = "".join(f" --profiles {folder}" for folder in profiles or ())
    next_lines = [] if scenario is None else [f"next: diploee run {out}{folders}"]
    output_fragment(fit, fit.fragment, out, force, as_json, next_lines)
