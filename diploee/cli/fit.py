"""`diploee fit`: from a job log to a piece of a scenario."""

from __future__ import annotations

import json
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from diploee.cli.fragment import check_confidence, column_names, naming_the_other_command, pool_of
from diploee.cli.fragment import check_fragment as check_fragment
from diploee.cli.fragment import check_free as check_free
from diploee.cli.fragment import write_fragment as write_fragment

if TYPE_CHECKING:
    from diploee.profiles import ProfileLibrary
    from diploee.scenario import ClassRule

_MOMENTS = ["%Y-%m-%d", "%Y-%m-%dT%H:%M"]


class DurationName(StrEnum):
    """How durations are modelled."""

    quantiles = "quantiles"
    lognormal = "lognormal"
    profile = "profile"


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
        int | None, typer.Option(help="GPUs of a node, where the log counts GPUs.")
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
        typer.Option(help="Scenario that the stream is for: gives the pool, its nodes and GPUs."),
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

    check_confidence(confidence)
    check_free(out, force)
    base, pool_name = pool_of(scenario, pool)
    library = ProfileLibrary.open(*(profiles or ()))
    if base is not None and gpus_per_node is None:
        gpus_per_node = base.facility.node_type_of(pool_name).n_gpus or None
    with naming_the_other_command(log, "fit", log_format or ("csv" if columns else None)):
        read = read_job_log(
            log,
            log_format,
            gpus_per_node=gpus_per_node,
            utc_offset=utc_offset,
            columns=column_names(columns),
        )
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
