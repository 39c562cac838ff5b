"""`diploee fit`: from a job log to a piece of a scenario."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

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
    from diploee.profiles import ProfileLibrary
    from diploee.scenario import ClassRule, Scenario

_MOMENTS = ["%Y-%m-%d", "%Y-%m-%dT%H:%M"]


class DurationName(StrEnum):
    """How durations are modelled."""

    quantiles = "quantiles"
    lognormal = "lognormal"
    profile = "profile"


class UnitName(StrEnum):
    """Unit of a column of durations."""

    ms = "ms"
    s = "s"
    min = "min"
    h = "h"


class ZeroName(StrEnum):
    """What becomes of jobs whose run time is zero."""

    drop = "drop"
    one_second = "one-second"


class CpuOnlyName(StrEnum):
    """What becomes of jobs without GPUs."""

    keep = "keep"
    drop = "drop"


class StateName(StrEnum):
    """How a job ended."""

    completed = "completed"
    failed = "failed"
    cancelled = "cancelled"
    timeout = "timeout"
    other = "other"


class ArrivalName(StrEnum):
    """How submissions scatter within the weights."""

    auto = "auto"
    poisson = "poisson"
    gamma = "gamma"


def fit_command(
    log: Annotated[Path, typer.Argument(help="Job log; may be gzipped.", metavar="LOG")],
    log_format: Annotated[
        str | None,
        typer.Option(
            "--format",
            help="swf, slurm, acme, philly, alibaba-2020, openb or csv; told by content.",
        ),
    ] = None,
    columns: Annotated[
        list[str] | None,
        typer.Option(
            "--column", metavar="MEANING=NAME", help="csv: its column of a meaning; repeatable."
        ),
    ] = None,
    gpus_per_node: Annotated[
        int | None,
        typer.Option(
            help="GPUs of a node, where the log counts GPUs; those of --scenario's pool by default."
        ),
    ] = None,
    duration_unit: Annotated[
        UnitName | None, typer.Option(help="csv: unit of its durations; s by default.")
    ] = None,
    time_format: Annotated[
        str | None,
        typer.Option(help="csv: s, ms, unix-s, unix-ms or as of strptime; ISO 8601 by default."),
    ] = None,
    states: Annotated[
        list[StateName] | None,
        typer.Option("--state", help="Jobs to keep by how they ended; repeatable; all by default."),
    ] = None,
    zero_durations: Annotated[
        ZeroName | None, typer.Option(help="Jobs that ran for no time; drop by default.")
    ] = None,
    cpu_only: Annotated[
        CpuOnlyName | None, typer.Option(help="Jobs without GPUs; keep by default.")
    ] = None,
    utc_offset: Annotated[
        str | None, typer.Option(help="Zone of the log's local time, +08:00 or Europe/Berlin.")
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
            "read the log where its only replay of a log says so."
        ),
    ] = None,
    pool: Annotated[str | None, typer.Option(help="Pool of the stream.")] = None,
    stream: Annotated[str, typer.Option(help="Name of the stream.")] = "jobs",
    first: Annotated[
        datetime | None, typer.Option("--from", formats=_MOMENTS, help="Trim: start, local time.")
    ] = None,
    until: Annotated[
        datetime | None, typer.Option("--to", formats=_MOMENTS, help="Trim: end, local time.")
    ] = None,
    durations: Annotated[
        DurationName,
        typer.Option(help="Durations: quantiles, lognormal mixtures or profile's own."),
    ] = DurationName.quantiles,
    arrivals: Annotated[
        ArrivalName, typer.Option(help="Scatter within the weights; auto as the log tells.")
    ] = ArrivalName.auto,
    months: Annotated[
        bool | None, typer.Option("--months/--no-months", help="Weights of months; where covered.")
    ] = None,
    confidence: Annotated[float, typer.Option(help="Level of the limits.")] = 0.95,
    max_classes: Annotated[
        int, typer.Option(min=1, help="Classes at most; rare node counts join others.")
    ] = 24,
    profiles: Annotated[
        list[str] | None,
        typer.Option("--profiles", metavar="DIR", help="Folder of power profiles; repeatable."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="YAML file of the stream; else it is printed.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace a file at --out.")] = False,
    plots: Annotated[Path | None, typer.Option(help="Folder of pictures of the fit.")] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print all numbers of the fit as JSON.")
    ] = False,
) -> None:
    """Learn from a job log when jobs come, how wide they are and how long they run.

    Gives a stream of a scenario with weights of 168 hours, months where the span covers them,
    classes with shares and durations, and, where hours scatter more than Poisson counts, their
    dispersion. Comments tell confidence limits and goodness of fit.
    """
    from diploee.profiles import ProfileLibrary
    from diploee.workload.fit import fit_job_log
    from diploee.workload.fit.fragment import fragment_text
    from diploee.workload.fit.summary import fit_as_dict, fit_lines
    from diploee.workload.importers.jobs import read_job_log
    from diploee.workload.importers.jobs.options import COLUMN_KEYS

    check_confidence(confidence)
    check_free(out, force, log, rules, scenario)
    check_folder(plots, out)
    given: dict[str, Any] = {
        "columns": column_names(columns, COLUMN_KEYS),
        "gpus_per_node": gpus_per_node,
        "utc_offset": utc_offset,
        "time_format": time_format,
        "duration_unit": duration_unit and duration_unit.value,
        "zero_durations": zero_durations and zero_durations.value,
        "cpu_only": cpu_only and cpu_only.value,
        "states": states and [state.value for state in states],
    }
    given = {key: value for key, value in given.items() if value is not None}
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
        start=first,
        end=until,
        pool_n_nodes=None if base is None else base.facility.pools[pool_name].n_nodes,
        durations=durations.value,
        arrivals=arrivals.value,
        months=months,
        max_classes=max_classes,
        confidence=confidence,
    )
    if of_replay := [key for key in told if key not in given]:
        note = f"the log was read with {', '.join(of_replay)} of the scenario's replay"
        fit = replace(fit, notes=(*fit.notes, note))
    text = fragment_text(fit, stream, pool_name)
    check_fragment(text, base)
    write_fragment(text, out)
    drawn: list[Path] = []
    if plots is not None:
        from diploee.workload.fit.plots import plot_fit

        drawn = plot_fit(fit, plots)
    if as_json:
        typer.echo(json.dumps(fit_as_dict(fit), indent=2))
    elif out is None:
        typer.echo(text, nl=False)
    else:
        for line in [*fit_lines(fit), f"Written: {', '.join(map(str, [out, *drawn]))}"]:
            typer.echo(line)


def _as_replayed(
    base: Scenario | None, log_format: str | None, given: dict[str, Any]
) -> tuple[str | None, dict[str, Any]]:
    """Return how to read the log: as given, else as the scenario's only replay of a log says."""
    from diploee.workload.replay import READING_KEYS

    streams = () if base is None else base.streams.values()
    replays = [stream.replay for stream in streams if stream.replay is not None]
    if len(replays) != 1:
        return log_format, given
    (spec,) = replays
    keys = {"columns", "gpus_per_node", *READING_KEYS} & spec.model_fields_set
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
    from diploee.errors import InputError, one_of
    from diploee.scenario import ClassRule
    from diploee.workload.fit.rules_file import read_rules

    if (workload is None) == (rules is None):
        workloads = sorted({profile.workload for profile in library.entries})
        raise InputError(
            "fit: give either --workload or --rules, which say where jobs take their power from "
            f"(the profiles have {one_of(workloads)})"
        )
    return read_rules(rules) if rules is not None else (ClassRule(workload=workload or ""),)
