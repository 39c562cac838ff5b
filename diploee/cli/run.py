"""`diploee run` and `diploee validate`: simulate a scenario, or only check it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from diploee.base.errors import InputError
from diploee.base.units import S_PER_MIN, W_PER_MW
from diploee.cli.options import (
    Force,
    Json,
    Profiles,
    Quiet,
    path_option,
    print_result,
    shipped_names,
)

if TYPE_CHECKING:
    from diploee.facility.weather import Weather
    from diploee.scenario.models import Scenario

ScenarioArgument = Annotated[
    str,
    typer.Argument(
        help="A scenario file, or a built-in name such as colocation_10mw.",
        autocompletion=shipped_names("scenario"),
    ),
]
SetOption = Annotated[
    list[str] | None,
    typer.Option(
        "--set", metavar="KEY=VALUE", help="Override a dotted key; may be repeated."
    ),
]
TargetOption = Annotated[
    float | None,
    typer.Option(
        help="Target mean node occupancy (0-1) of the scenario's only stream."
    ),
]
LimitsOption = Annotated[
    list[str] | None,
    typer.Option(
        "--limits",
        metavar="NAME",
        help=(
            "Check the run against limits (preset or file), at the step that these "
            "need; may be repeated."
        ),
        autocompletion=shipped_names("limits"),
    ),
]
AtMostOption = Annotated[
    float | None,
    typer.Option(
        metavar="MINUTES", help="Refuse a run with a longer forecast; 10 with limits."
    ),
]
SeedOption = Annotated[int | None, typer.Option(help="Random seed.")]


def run_command(
    scenario: ScenarioArgument,
    out: Annotated[
        Path | None, path_option("Run folder; runs/<scenario>-<hash> by default.")
    ] = None,
    force: Force = False,
    target_utilization: TargetOption = None,
    seed: SeedOption = None,
    engine: Annotated[
        Literal["simpy", "compiled"],
        typer.Option(help="Scheduler; both give the same start times."),
    ] = "simpy",
    profiles: Profiles = None,
    set_: SetOption = None,
    event_windows: Annotated[
        bool,
        typer.Option(
            "--event-windows", help="Also write the extremes at 0.1 s steps, in zooms/."
        ),
    ] = False,
    by_load: Annotated[
        bool,
        typer.Option(
            "--by-load",
            help="Also write the power of each stream and service.",
        ),
    ] = False,
    before_stores: Annotated[
        bool,
        typer.Option(
            "--before-stores",
            help=(
                "Also write the load upstream of batteries and ramp limits, in double "
                "precision."
            ),
        ),
    ] = False,
    nodes_file: Annotated[
        bool,
        typer.Option(
            "--nodes-file",
            help="Also write the nodes of each job and service, nodes.parquet.",
        ),
    ] = False,
    limits: LimitsOption = None,
    at_most: AtMostOption = None,
    until_decided: Annotated[
        bool,
        typer.Option(
            "--until-decided",
            help=(
                "Stop without a run folder once all limits files are certainly "
                "violated; a run of one block keeps its folder."
            ),
        ),
    ] = False,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Simulate the power of a data center and write the results to a folder."""
    from diploee.api import run
    from diploee.base.errors import EarlyStopError
    from diploee.base.progress import Progress
    from diploee.cli.display import ProgressBars, show_run
    from diploee.scenario.loading import locate_errors

    resolved = _load(scenario, set_, target_utilization, seed)
    show = not quiet and not as_json
    if show and engine == "simpy" and _takes_long(resolved):
        typer.echo(
            (
                "note: --engine compiled gives the same start times, power and "
                "metrics sooner"
            ),
            err=True,
        )
    at_most_s = longest_s(at_most, bool(limits or resolved.limits))
    try:
        with locate_errors(scenario):
            result = run(
                resolved,
                out,
                profiles=profiles or (),
                engine=engine,
                force=force,
                event_windows=event_windows,
                by_load=by_load,
                before_stores=before_stores,
                nodes_file=nodes_file,
                progress=ProgressBars() if show else Progress(),
                limits=limits or (),
                at_most_s=at_most_s,
                until_decided=until_decided,
            )
    except EarlyStopError as stopped:
        reports = [report.as_dict() for report in stopped.reports]
        lines = [line for report in stopped.reports for line in report.brief()]
        print_result({"limits": reports}, [*lines, str(stopped)], as_json=as_json)
        return
    if as_json:
        content = {
            "folder": str(result.folder),
            "limits": [report.as_dict() for report in result.verdicts],
            "warnings": result.manifest["warnings"],
            "metrics": result.metrics,
        }
        print_result(content)
    elif show:
        show_run(result, [*resolved.limits, *(limits or ())])
        changed = SPAN & {each.partition("=")[0].strip() for each in set_ or ()}
        if changed and any(
            stream.replay is None for stream in resolved.streams.values()
        ):
            typer.echo(
                f"note: {' and '.join(sorted(changed))} changed: another span draws "
                "other jobs, so its peak may be above or below that of the same days "
                "in the scenario's own span"
            )


SPAN = {"start", "duration"}
"""Scenario keys that define the simulated period."""

AT_MOST_MIN = 10.0
"""Default maximum forecast duration of a run with limits [min]."""


def longest_s(at_most_min: float | None, has_limits: bool) -> float | None:
    """Return the longest accepted forecast [s]; None if any is accepted."""
    if at_most_min is None:
        return AT_MOST_MIN * S_PER_MIN if has_limits else None
    if not at_most_min > 0:  # nan
        raise InputError(f"--at-most must be minutes above 0, found {at_most_min:g}")
    return at_most_min * S_PER_MIN


LONG_NODE_H = 10_000_000
"""Node hours above which a run counts as long (some 10 s in SimPy)."""


def _takes_long(scenario: Scenario) -> bool:
    """Return True if a run takes long in SimPy and the compiled engine can do it."""
    from diploee.schedule.policy import compiled_engine_for

    pools = {stream.pool for stream in scenario.streams.values()}
    nodes = scenario.facility.pools
    hours = scenario.clock.simulated_ms / 3_600_000
    return (
        scenario.flexibility is None
        and sum(nodes[pool].n_nodes for pool in pools) * hours >= LONG_NODE_H
        and all(compiled_engine_for(nodes[pool].scheduler.open()) for pool in pools)
    )


def validate(
    scenario: ScenarioArgument,
    target_utilization: TargetOption = None,
    seed: SeedOption = None,
    profiles: Profiles = None,
    set_: SetOption = None,
    as_json: Json = False,
) -> None:
    """Check a scenario for mistakes, and forecast the time and memory of a run."""
    from diploee.api.sites import site_of
    from diploee.scenario.loading import locate_errors
    from diploee.simulation.run import check

    resolved = _load(scenario, set_, target_utilization, seed)
    with locate_errors(scenario):
        site = site_of(resolved, profiles or ())
        result = check(site)
    facility, rated_mw = site.scenario.facility, site.rated_power_w / W_PER_MW
    rated = f", rated {rated_mw:,.4g} MW at the meter" if facility.stages else ""
    step_s = site.scenario.step_ms / 1000
    steps = (
        f" from steps of {step_s:g} s" if step_s < resolved.resolution_ms / 1000 else ""
    )
    words = (
        f"{resolved.name}: valid; {facility.n_nodes:,} nodes{rated}, "
        f"{result.n_classes} job classes, {resolved.n_intervals:,} intervals of "
        f"{resolved.resolution_ms / 1000:g} s{steps}, hash {resolved.sha256()[:8]}; a "
        f"run takes {result.forecast.text()}"
    )
    content = {
        "name": resolved.name,
        "n_nodes": facility.n_nodes,
        "rated_mw": rated_mw,
        "n_job_classes": result.n_classes,
        "n_intervals": resolved.n_intervals,
        "resolution_s": resolved.resolution_ms / 1000,
        "step_s": step_s,
        "sha256": resolved.sha256(),
        "forecast": asdict(result.forecast),
        "weather": _weather(site.scenario, result.weather_year),
        "warnings": result.warnings,
    }
    print_result(content, [words, *_weather_lines(content["weather"])], as_json=as_json)
    for text in () if as_json else result.warnings:
        typer.echo(f"Warning: {text}", err=True)


def _weather(scenario: Scenario, year: Weather | None) -> dict[str, Any] | None:
    """Return a year's weather extremes and its file's design conditions [deg C]."""
    import numpy as np

    from diploee.importers.weather_files import read_design_conditions

    if year is None or (spec := scenario.facility.weather) is None:
        return None
    bulbs = {"dry_bulb_c": year.dry_bulb_c, "wet_bulb_c": year.wet_bulb_c}
    extremes = {
        name: {"max": values.max(), "exceeded_0.4_percent": np.quantile(values, 0.996)}
        for name, values in bulbs.items()
    }
    designs = [read_design_conditions(scenario.folder / name) for name in spec.files]
    return {
        "source": year.source,
        **extremes,
        "design": designs[0] if designs else None,
    }


_BULBS = (
    ("dry_bulb_c", "once in 20 years", "dry_bulb_once_in_20_years_c"),
    ("wet_bulb_c", "on record", "highest_wet_bulb_c"),
)
"""Temperature column, label and key of the design extreme in a file's header."""


def _weather_lines(weather: dict[str, Any] | None) -> Iterator[str]:
    if weather is None:
        return
    yield f"weather: {weather['source']}"
    design = weather["design"]
    for name, words, key in _BULBS:
        head = (
            f"; in its head {design[name]:.1f}, {words} {design[key]:.1f}"
            if design
            else ""
        )
        yield (
            f"  {name[:3]} bulb [deg C]: at most {weather[name]['max']:.1f}, exceeded "
            f"in 0.4 % of the hours {weather[name]['exceeded_0.4_percent']:.1f}{head}"
        )


def _load(
    scenario: str,
    overrides: list[str] | None,
    target_utilization: float | None,
    seed: int | None,
) -> Any:
    from diploee.scenario.loading import load_scenario, target_values

    values: dict[str, Any] = {} if seed is None else {"seed": seed}
    names = {"seed": "--seed"}
    if target_utilization is not None:
        option = "--target-utilization"
        base = load_scenario(scenario, overrides or ())
        target = target_values(base, target_utilization, option)
        values |= target
        names |= dict.fromkeys(target, option)
    return load_scenario(scenario, overrides or (), values, names)
