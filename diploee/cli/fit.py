"""`diploee fit`: from a job log to a piece of a scenario."""

from __future__ import annotations

import json
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from diploee.profiles import ProfileLibrary
    from diploee.scenario import ClassRule, Scenario

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
    from diploee.errors import InputError
    from diploee.profiles import ProfileLibrary
    from diploee.workload.fit import fit_job_log
    from diploee.workload.fit.fragment import fragment_text
    from diploee.workload.fit.summary import fit_as_dict, fit_lines
    from diploee.workload.importers.jobs import read_job_log

    if not 0 < confidence < 1:
        raise InputError(f"--confidence: must lie between 0 and 1, found {confidence:g}")
    check_free(out, force)
    base, pool_name = pool_of(scenario, pool)
    library = ProfileLibrary.open(*(profiles or ()))
    if base is not None and gpus_per_node is None:
        gpus_per_node = base.facility.node_type_of(pool_name).n_gpus or None
    fit = fit_job_log(
        read_job_log(
            log,
            log_format,
            gpus_per_node=gpus_per_node,
            utc_offset=utc_offset,
            columns=_columns(columns),
        ),
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


def check_free(out: Path | None, force: bool) -> None:
    """Raise `OutputExistsError` if a file stands at the place and may not be replaced."""
    from diploee.errors import OutputExistsError

    if out is not None and out.exists() and not force:
        raise OutputExistsError(f"{out}: exists; use --force to replace it, or another --out")


def pool_of(scenario: str | None, pool: str | None) -> tuple[Scenario | None, str]:
    """Return the scenario that a stream is for, if one was given, and the stream's pool."""
    from diploee.errors import InputError, did_you_mean, one_of
    from diploee.scenario import load_scenario

    if scenario is None:
        return None, pool or "main"
    base = load_scenario(scenario)
    names = base.pool_names()
    if pool is None and len(names) == 1:
        return base, names[0]
    if pool not in names:
        near = did_you_mean(pool or "", names)
        raise InputError(f"--pool: must be one of {one_of(names)}, found {pool!r}{near}")
    return base, pool


def check_fragment(text: str, base: Scenario | None) -> None:
    """Raise `ScenarioError` if a fragment's streams do not load in the scenario they are for."""
    import yaml

    from diploee.scenario import scenario_from_dict

    if base is not None:
        data: dict[str, Any] = base.model_dump(mode="json")
        scenario_from_dict(data | yaml.safe_load(text) | {"request_streams": {}})


def write_fragment(text: str, out: Path | None) -> None:
    """Write a fragment to a file, if one was asked for."""
    from diploee.files import whole_file

    if out is not None:
        with whole_file(out) as partial:
            partial.write_text(text, encoding="utf-8")


def _columns(given: list[str] | None) -> dict[str, str] | None:
    from diploee.errors import InputError

    pairs = [text.partition("=") for text in given or ()]
    for meaning, equals, name in pairs:
        if not (meaning and equals and name):
            raise InputError(f"--column: expected MEANING=NAME, found '{meaning}{equals}{name}'")
    return {meaning: name for meaning, _, name in pairs} or None


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
