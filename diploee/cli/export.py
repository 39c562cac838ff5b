"""`diploee export`: a run in the formats of planners' tools."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

if TYPE_CHECKING:
    from diploee.outputs.export import LeapDay

_MOMENTS = ["%Y-%m-%d", "%Y-%m-%dT%H:%M", "%Y-%m-%dT%H:%M:%S", "%Y-%m-%dT%H:%M:%S.%f"]


class LeapDayRule(StrEnum):
    """What a leap year loses in formats of 8,760 hours."""

    drop_feb29 = "drop-feb29"
    drop_last_day = "drop-last-day"


def export_command(
    format_name: Annotated[
        str,
        typer.Argument(
            metavar="FORMAT",
            help="csv, 8760, sam, reopt, reopt-json, opendss, pypsa, pandapower, playback or "
            "openg2g.",
        ),
    ],
    run_dir: Annotated[Path, typer.Argument(help="A run folder, as 'run' writes it.")],
    out: Annotated[
        Path | None, typer.Option(help="File or folder; <run folder>-<format> by default.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace an export at --out.")] = False,
    column: Annotated[
        str, typer.Option(help="facility_power_w, it_power_w or it_power_w.<pool>.")
    ] = "facility_power_w",
    step: Annotated[
        str | None, typer.Option(help="Coarser step such as '15 min'; 1 h for 8760 formats.")
    ] = None,
    first: Annotated[
        datetime | None, typer.Option("--from", formats=_MOMENTS, help="Start, local time.")
    ] = None,
    until: Annotated[
        datetime | None, typer.Option("--to", formats=_MOMENTS, help="End, local time.")
    ] = None,
    zoom: Annotated[
        str | None,
        typer.Option(help="One of the run's zooms at 0.1 s, as rise_1s, instead of the whole run."),
    ] = None,
    year: Annotated[
        int | None, typer.Option(help="Calendar year of an 8760 format, if there are several.")
    ] = None,
    leap_day: Annotated[
        LeapDayRule | None, typer.Option(help="What a leap year loses in an 8760 format.")
    ] = None,
    time_zone: Annotated[
        str | None,
        typer.Option(help="Zone of csv stamps, as America/Denver; else the fixed UTC offset."),
    ] = None,
    q_table: Annotated[
        Path | None,
        typer.Option(
            help="Your CSV p_mw,q_mvar for reactive power; q_mvar above 0 is drawn by the facility."
        ),
    ] = None,
    name: Annotated[str, typer.Option(help="Name of the load.")] = "datacenter",
    bus: Annotated[str, typer.Option(help="Name of its bus (opendss, pypsa).")] = "datacenter",
    kv: Annotated[float, typer.Option(help="Rated voltage of the OpenDSS load, in kV.")] = 12.47,
    actual: Annotated[
        bool, typer.Option("--actual", help="OpenDSS multipliers in kW, not of the peak.")
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Only errors.")] = False,
) -> None:
    """Export a run's power to the file that a planner's tool loads.

    Coarser steps are exact means, so that the energy stays the same. A sidecar in JSON says units,
    zone, interval convention, leap-day rule and source.
    """
    from diploee.cli.display import ProgressWatch
    from diploee.outputs.export import Options, export_run
    from diploee.watch import Watch

    options = Options(
        column=column,
        step=step,
        first=first,
        until=until,
        zoom=zoom,
        year=year,
        leap_day=cast("LeapDay | None", leap_day and leap_day.value),
        time_zone=time_zone,
        q_table=q_table,
        name=name,
        bus=bus,
        kv=kv,
        actual=actual,
    )
    watch = Watch() if quiet else ProgressWatch()
    place = export_run(run_dir, format_name, out, options, force=force, watch=watch)
    if not quiet:
        typer.echo(str(place))
