"""`diploee deconvolve`: from an observed load back to when its jobs were submitted."""

from __future__ import annotations

import json
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

_MOMENTS = ["%Y-%m-%d", "%Y-%m-%dT%H:%M"]


class ObservedName(StrEnum):
    """What of a series is used."""

    utilization = "utilization"
    power = "power"


def deconvolve_command(
    series: Annotated[
        Path, typer.Argument(help="CSV or Parquet file of the observed load.", metavar="SERIES")
    ],
    scenario: Annotated[
        str, typer.Option(help="Scenario with the facility and, in its only stream, the job mix.")
    ],
    observed: Annotated[
        ObservedName | None, typer.Option(help="What to use; utilization, if the file has it.")
    ] = None,
    column: Annotated[str | None, typer.Option(help="Column of what is used.")] = None,
    power_unit: Annotated[
        str | None, typer.Option(help="Unit of the power: W, kW or MW; means --observed power.")
    ] = None,
    time_column: Annotated[str | None, typer.Option(help="Column of the time.")] = None,
    max_gap_s: Annotated[
        float, typer.Option(min=0, help="Longest time without a value that is bridged [s].")
    ] = 21_600,
    start: Annotated[
        datetime | None, typer.Option(formats=_MOMENTS, help="Moment of t_s = 0, local time.")
    ] = None,
    months: Annotated[
        bool | None, typer.Option("--months/--no-months", help="Weights of months; where covered.")
    ] = None,
    profiles: Annotated[
        list[str] | None,
        typer.Option("--profiles", metavar="DIR", help="Folder of power profiles; repeatable."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="YAML file of the stream; else it is printed.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace a file at --out.")] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print weights and fitted load as JSON.")
    ] = False,
) -> None:
    """Recover from an observed load when the jobs of a known mix were submitted.

    Gives the scenario's stream with 168 weights of the week, weights of the months where the series
    covers them, and the daily count. The facility should not have been full: jobs that queue are
    seen late.
    """
    from diploee.cli.fragment import check_fragment, check_free, write_fragment
    from diploee.errors import InputError
    from diploee.profiles import ProfileLibrary
    from diploee.profiles.importers.observed import read_observed_series
    from diploee.scenario import load_scenario
    from diploee.workload.deconvolution import recover_weights
    from diploee.workload.deconvolution.fragment import (
        recovered_as_dict,
        recovered_lines,
        recovered_text,
    )

    check_free(out, force, series, scenario)
    if power_unit is not None:
        if observed is ObservedName.utilization:
            raise InputError("--power-unit: is for --observed power, found utilization")
        observed = ObservedName.power
    base = load_scenario(scenario)
    wants_power = observed is ObservedName.power
    read = read_observed_series(
        series,
        start=start,
        time_column=time_column,
        power_column=column if wants_power else None,
        power_unit=power_unit,
        utilization_column=None if wants_power else column,
        max_gap_s=max_gap_s,
    )
    kind = observed or (
        ObservedName.power if read.utilization is None else ObservedName.utilization
    )
    library = ProfileLibrary.open(*(profiles or ()))
    found = recover_weights(
        read,
        base,
        library,
        observed=kind.value,
        months=months,
    )
    text = recovered_text(found, base, str(series), kind.value)
    check_fragment(text, base)
    write_fragment(text, out)
    if as_json:
        typer.echo(json.dumps(recovered_as_dict(found), indent=2))
    elif out is None:
        typer.echo(text, nl=False)
    else:
        for line in [*recovered_lines(found, str(series), kind.value), f"Written: {out}"]:
            typer.echo(line)
