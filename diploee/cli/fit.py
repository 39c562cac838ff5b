"""`diploee fit`: from a job log to a piece of a scenario."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from diploee.cli.fragment import (
    check_places,
    give_fragment,
    into_scenario,
    naming_the_other_command,
    pool_of,
)
from diploee.cli.options import (
    Force,
    Fragment,
    Json,
    Plots,
    Profiles,
    options,
)
from diploee.errors import InputError, one_of
from diploee.files import Writing
from diploee.importers.job_logs import JOB_LOG_FORMATS, read_job_log
from diploee.learn.jobs.fragment import fragment_text
from diploee.learn.jobs.job_log_fit import JobFitOptions, fit_job_log
from diploee.learn.jobs.likeness import with_generated_year
from diploee.learn.jobs.rules_file import read_rules
from diploee.learn.jobs.summary import fit_as_dict, fit_lines
from diploee.profiles import ProfileLibrary
from diploee.scenario import ClassRule, Scenario
from diploee.scenario.log_reading import LogReading


@options(columns="--column MEANING=NAME", states="--state", start="--from", end="--to")
def fit_command(
    log: Annotated[Path, typer.Argument(help="Job log; may be gzipped.", metavar="LOG")],
    reading: LogReading,
    choices: JobFitOptions,
    log_format: Annotated[
        str | None,
        typer.Option(
            "--format",
            help=f"{one_of(JOB_LOG_FORMATS)}; told by content.",
        ),
    ] = None,
    workload: Annotated[
        str | None,
        typer.Option(help="Workload that all jobs take their power from, at the nearest size."),
    ] = None,
    rules: Annotated[
        Path | None, typer.Option(help="YAML list of rules that map jobs to workloads.")
    ] = None,
    scenario: Annotated[
        str | None,
        typer.Option(
            help="Scenario that the stream is for: gives the pool, its nodes and GPUs, and how to "
            "read the log where its only replay of a log says so. With --out it is written as a "
            "whole, the stream in place of those of the pool."
        ),
    ] = None,
    pool: Annotated[str | None, typer.Option(help="Pool of the stream.")] = None,
    stream: Annotated[str, typer.Option(help="Name of the stream.")] = "jobs",
    profiles: Profiles = None,
    out: Fragment = None,
    force: Force = False,
    plots: Plots = None,
    as_json: Json = False,
) -> None:
    """Learn from a job log when jobs come, how wide they are and how long they run.

    Gives a stream of a scenario with the weights of the week that predict best, months where the
    span covers them, classes with shares, durations and arrays, and, where hours, days or weeks
    scatter more than Poisson counts, how much. Comments tell confidence limits and goodness of fit.
    """
    check_places(out, force, log, rules, scenario, plots=plots)
    given = reading.model_dump(exclude_unset=True)
    base, pool_name = pool_of(scenario, pool)
    library = ProfileLibrary.open(*(profiles or ()))
    log_format, told = _as_replayed(base, log_format, given)
    n_gpus = base and base.facility.node_type_of(pool_name).n_gpus
    named = log_format or ("csv" if "columns" in told else None)
    with naming_the_other_command(log, "fit", named):
        read = read_job_log(log, log_format, pool_gpus_per_node=n_gpus or None, **told)
    fit = fit_job_log(
        read,
        _rules(workload, rules, library),
        library,
        choices,
        pool_n_nodes=None if base is None else base.facility.pools[pool_name].n_nodes,
        gpus_per_node=n_gpus or int(told.get("gpus_per_node") or 0),
        allocates_gpus=base is not None and base.facility.pools[pool_name].allocate == "gpus",
    )
    fit = with_generated_year(fit, library)
    if of_replay := [key for key in told if key not in given]:
        note = f"the log was read with {', '.join(of_replay)} of the scenario's replay"
        fit = replace(fit, notes=(*fit.notes, note))
    text = into_scenario(fragment_text(fit, stream, pool_name), base, pool_name, out)

    def draw(folder: Path, files: Writing) -> list[Path]:
        from diploee.learn.jobs.plots import plot_fit

        return plot_fit(fit, folder, joins=files)

    data = partial(fit_as_dict, fit) if as_json else None
    give_fragment(text, out, force, data, partial(fit_lines, fit), plots, draw)


def _as_replayed(
    base: Scenario | None, log_format: str | None, given: dict[str, Any]
) -> tuple[str | None, dict[str, Any]]:
    """Return how to read the log: as given, else as the scenario's only replay of a log says."""
    streams = () if base is None else base.streams.values()
    replays = [stream.replay for stream in streams if stream.replay is not None]
    if len(replays) != 1:
        return log_format, given
    (spec,) = replays
    keys = set(LogReading.model_fields) & spec.model_fields_set
    if log_format is None and "columns" not in given:
        log_format = spec.format
    elif log_format not in (None, "csv"):
        keys -= {"columns", "time_format", "duration_unit"}
    of_replay = {key: getattr(spec, key) for key in keys}
    of_replay = {key: of_replay[key] for key in sorted(keys) if of_replay[key] is not None}
    return log_format, of_replay | given


def _rules(
    workload: str | None, rules: Path | None, library: ProfileLibrary
) -> tuple[ClassRule, ...]:
    if (workload is None) == (rules is None):
        workloads = sorted({profile.workload for profile in library.entries})
        raise InputError(
            "fit: give either --workload or --rules, which say where jobs take their power from "
            f"(the profiles have {one_of(workloads)})"
        )
    return read_rules(rules) if rules is not None else (ClassRule(workload=workload or ""),)
