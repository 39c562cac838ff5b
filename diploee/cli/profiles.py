"""`diploee profiles`: list, show, import and rebuild power profiles."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

profiles_app = typer.Typer(
    help="List, show, import and rebuild power profiles.", no_args_is_help=True
)

FolderOption = Annotated[
    list[str] | None,
    typer.Option(
        "--profiles",
        metavar="DIR",
        help="Folder of power profiles instead of the shipped 'reference'; may be repeated.",
    ),
]


class LogFormat(StrEnum):
    """Formats of measured power that can be imported."""

    wattameter = "wattameter"
    plain = "plain"


@profiles_app.command("list")
def list_profiles(profiles: FolderOption = None) -> None:
    """List the profiles of a library."""
    from diploee.cli.display import show_table
    from diploee.profiles import ProfileLibrary

    library = ProfileLibrary.open(*(profiles or ()))
    rows = [
        (
            profile.profile_id,
            profile.workload,
            profile.n_nodes,
            profile.duration_ms / 1000,
            library[index].mean_power_w / 1000,
            library[index].mean_power_w / profile.n_nodes,
            profile.provenance.kind,
        )
        for index, profile in enumerate(library.entries)
    ]
    header = ("profile", "workload", "nodes", "duration [s]", "mean [kW]", "W/node", "kind")
    show_table(f"{len(library)} profiles", header, rows)


@profiles_app.command("show")
def show_profile(
    profile_id: Annotated[str, typer.Argument(help="Id of the profile, as 'list' shows it.")],
    out: Annotated[
        Path | None, typer.Option(help="PNG file to draw; <profile id>.png by default.")
    ] = None,
    profiles: FolderOption = None,
) -> None:
    """Draw a profile to a PNG and print where it comes from."""
    from diploee.errors import OutputError
    from diploee.profiles import ProfileLibrary
    from diploee.profiles.plot import plot_profile

    profile = ProfileLibrary.open(*(profiles or ())).get(profile_id)
    place = out or Path(f"{profile_id}.png")
    try:
        plot_profile(profile, place)
    except OSError as error:
        raise OutputError(f"{place}: can't be written ({error.strerror})") from error
    origin = profile.provenance
    typer.echo(
        f"{profile_id}: {profile.n_nodes} nodes, {profile.duration_ms / 1000:,.1f} s, "
        f"mean {profile.mean_power_w / 1000:.3f} kW, {profile.energy_j / 3.6e6:.2f} kWh"
    )
    typer.echo(f"{origin.kind}: {origin.source} ({origin.licence})")
    typer.echo(
        f"{origin.power_boundary}; read every {origin.sampling_interval_s:g} s, averaged over "
        f"{origin.averaging_window_s:g} s, bandwidth {origin.bandwidth_hz:g} Hz"
    )
    if origin.notes:
        typer.echo(origin.notes)
    repaired = {cause: n for cause, n in origin.counts.items() if n}
    if repaired:
        typer.echo("repaired: " + ", ".join(f"{n} {cause}" for cause, n in repaired.items()))
    typer.echo(f"drawn to {place}")


@profiles_app.command("import")
def import_profile(
    log_format: Annotated[LogFormat, typer.Argument(help="Format of the files.")],
    files: Annotated[list[Path], typer.Argument(help="Log files of one job, or their folder.")],
    workload: Annotated[str, typer.Option(help="Workload, as scenarios name it.")],
    out: Annotated[Path, typer.Option(help="Folder of the library to add the profile to.")],
    profile_id: Annotated[
        str | None, typer.Option("--id", help="Id of the profile; <workload>-<nodes>n by default.")
    ] = None,
    n_nodes: Annotated[
        int | None, typer.Option("--nodes", help="Nodes of the job; counted from the logs if so.")
    ] = None,
    slurm_id: Annotated[
        str | None, typer.Option(help="Job to take from a folder that holds several.")
    ] = None,
    source: Annotated[str, typer.Option(help="Where the measurement comes from.")] = "",
    licence: Annotated[str, typer.Option(help="Licence of the measurement.")] = "unknown",
    force: Annotated[bool, typer.Option("--force", help="Replace a profile of that id.")] = False,
) -> None:
    """Import measured power logs of one job as a profile.

    'wattameter' reads pairs of NVML and RAPL logs of one or many nodes; 'plain' a CSV or Parquet
    file with the columns t_s and power_w, the whole job's power.
    """
    from diploee.errors import InputError
    from diploee.profiles import add_profile
    from diploee.profiles.importers.plain import import_plain
    from diploee.profiles.importers.wattameter import import_wattameter

    if log_format is LogFormat.plain:
        if len(files) != 1 or n_nodes is None:
            raise InputError("profiles import plain: give one file and --nodes")
        profile = import_plain(
            files[0],
            workload=workload,
            profile_id=profile_id or f"{workload}-{n_nodes}n",
            n_nodes=n_nodes,
            source=source,
            licence=licence,
        )
    else:
        profile = import_wattameter(
            files,
            workload=workload,
            profile_id=profile_id,
            n_nodes=n_nodes,
            slurm_id=slurm_id,
            source=source,
            licence=licence,
        )
    place = add_profile(profile, out, force)
    typer.echo(
        f"{place}: {profile.n_nodes} nodes, {profile.duration_ms / 1000:,.1f} s, "
        f"mean {profile.mean_power_w:,.1f} W"
    )
    for cause, n in profile.provenance.counts.items():
        if n:
            typer.echo(f"  {n} {cause.replace('_', ' ')}")


@profiles_app.command("build-reference")
def build_reference(
    out: Annotated[Path, typer.Option(help="Folder to write the reference profiles to.")],
) -> None:
    """Rebuild the shipped reference profiles from the published facts."""
    from diploee.profiles.reference import write_reference_profiles

    paths = write_reference_profiles(out)
    size_mb = sum(path.stat().st_size for path in paths) / 1e6
    typer.echo(f"{out}: {len(paths)} profiles, {size_mb:.1f} MB")
