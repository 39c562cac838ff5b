"""`diploee deconvolve`: from an observed load back to when its jobs were submitted."""

from __future__ import annotations

from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from diploee.cli.fragment import give_fragment
from diploee.cli.options import MOMENTS, Force, Fragment, Json, Profiles, as_option, options
from diploee.errors import InputError
from diploee.importers.power_logs.observed import read_observed_series
from diploee.learn.deconvolution.kernel import Observed
from diploee.learn.deconvolution.recover import (
    recover_weights,
    recovered_as_dict,
    recovered_lines,
    recovered_text,
)
from diploee.learn.fragment import check_fragment, check_places
from diploee.profiles import ProfileLibrary
from diploee.scenario import load_scenario


@options()
def deconvolve_command(
    series: Annotated[
        Path, typer.Argument(help="CSV or Parquet file of the observed load.", metavar="SERIES")
    ],
    scenario: Annotated[
        str, typer.Option(help="Scenario with the facility and, in its only stream, the job mix.")
    ],
    observed: Annotated[
        Observed | None,
        typer.Option(help="Quantity to use; utilization, if the file has it."),
    ] = None,
    column: Annotated[str | None, typer.Option(help="Column of what is used.")] = None,
    power_unit: Annotated[
        str | None, typer.Option(help="Unit of the power: W, kW or MW; means --observed power.")
    ] = None,
    time_column: Annotated[str | None, typer.Option(help="Column of the time.")] = None,
    max_gap_s: Annotated[
        float, typer.Option(min=0, help="Longest time without a value that is bridged, in s.")
    ] = 21_600,
    start: Annotated[
        datetime | None, typer.Option(formats=MOMENTS, help="Moment of t_s = 0, local time.")
    ] = None,
    months: Annotated[
        bool | None, typer.Option("--months/--no-months", help="Weights of months; where covered.")
    ] = None,
    confidence: Annotated[float, typer.Option(help="Level of the limits, 0-1.")] = 0.95,
    profiles: Profiles = None,
    out: Fragment = None,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Recover from an observed load when the jobs of a known mix were submitted.

    Gives the scenario's stream with 168 weights of the week, weights of the months where the series
    covers them, and the daily count. The facility should not have been full: jobs that queue are
    seen late.
    """
    check_places(out, force, series, scenario, named=as_option)
    if not 0 < confidence < 1:
        raise InputError(
            f"--confidence: must be a number above 0 and below 1, found {confidence:g}"
        )
    if power_unit is not None:
        if observed == "utilization":
            raise InputError("--power-unit: is for --observed power, found utilization")
        observed = "power"
    base = load_scenario(scenario)
    wants_power = observed == "power"
    read = read_observed_series(
        series,
        start=start,
        time_column=time_column,
        power_column=column if wants_power else None,
        power_unit=power_unit,
        utilization_column=None if wants_power else column,
        max_gap_s=max_gap_s,
    )
    kind = observed or ("power" if read.utilization is None else "utilization")
    library = ProfileLibrary.open(*(profiles or ()))
    found = recover_weights(
        read, base, library, observed=kind, months=months, confidence=confidence
    )
    text = recovered_text(found, base, str(series), kind)
    check_fragment(text, base)
    data = partial(recovered_as_dict, found) if as_json else None
    give_fragment(text, out, force, data, partial(recovered_lines, found, str(series), kind))
