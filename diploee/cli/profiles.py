"""`diploee profiles`: list, show, import and rebuild power profiles."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from diploee.profiles import PowerProfile

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
    header = ("profile", "workload", "nodes", "time [s]", "mean kW", "W/node", "kind")
    show_table(_count(len(library), "profile"), header, rows)


@profiles_app.command("show")
def show_profile(
    profile_id: Annotated[str, typer.Argument(help="Id of the profile, as 'list' shows it.")],
    out: Annotated[
        Path | None, typer.Option(help="PNG file to draw; <profile id>.png by default.")
    ] = None,
    profiles: FolderOption = None,
) -> None:
    """Draw a profile to a PNG and print where it comes from."""
    from diploee.files import whole_file
    from diploee.profiles import ProfileLibrary
    from diploee.profiles.plot import plot_profile

    profile = ProfileLibrary.open(*(profiles or ())).get(profile_id)
    place = out or Path(f"{profile_id}.png")
    with whole_file(place) as partial:
        plot_profile(profile, partial)
    for label, text in _facts(profile).items():
        typer.echo(f"{label:<10}{text}")
    typer.echo(f"{'drawn to':<10}{place}")


def _facts(profile: PowerProfile) -> dict[str, str]:
    """Return what there is to say about a profile, each under a short label."""
    origin, mean_kw = profile.provenance, profile.mean_power_w / 1000
    repaired = (_count(n, cause.replace("_", " "), "") for cause, n in origin.counts.items() if n)
    facts = {
        "profile": f"{profile.profile_id} ({origin.kind})",
        "workload": f"{profile.workload} on {_count(profile.n_nodes, 'node')}",
        "duration": f"{profile.duration_ms / 1000:,.1f} s in steps of {profile.dt_ms / 1000:g} s",
        "power": f"mean {mean_kw:,.3f} kW, {mean_kw / profile.n_nodes:,.3f} kW a node; "
        f"{profile.power_w.min() / 1000:,.3f} to {profile.power_w.max() / 1000:,.3f} kW",
        "energy": f"{profile.energy_j / 3.6e6:,.4g} kWh",
        "boundary": origin.power_boundary,
        "readings": f"every {origin.sampling_interval_s:g} s, averaged over "
        f"{origin.averaging_window_s:g} s, bandwidth {origin.bandwidth_hz:g} Hz",
        "source": origin.source,
        "licence": origin.licence,
        "notes": origin.notes,
        "repaired": ", ".join(repaired),
    }
    return {label: text for label, text in facts.items() if text}


def _count(n: int, what: str, plural: str = "s") -> str:
    return f"{n:,} {what}{'' if n == 1 else plural}"


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
        int | None,
        typer.Option("--nodes", help="Nodes of the job; WattAMeter logs tell it."),
    ] = None,
    slurm_id: Annotated[
        str | None, typer.Option(help="Job to take from a folder that holds several.")
    ] = None,
    source: Annotated[str, typer.Option(help="Where the measurement comes from.")] = "",
    licence: Annotated[str, typer.Option(help="Licence of the measurement.")] = "unknown",
    force: Annotated[bool, typer.Option("--force", help="Replace a profile of that id.")] = False,
) -> None:
    """Import measured power logs of one job as a profile.

    'wattameter' reads pairs of NVML and RAPL logs of one or many nodes.
    'plain' reads a CSV or Parquet file with the columns t_s and power_w,
    the time in seconds and the power of the whole job in watts.
    """
    from diploee.errors import InputError
    from diploee.profiles import add_profile
    from diploee.profiles.importers.plain import import_plain
    from diploee.profiles.importers.wattameter import import_wattameter

    if log_format is LogFormat.plain:
        if len(files) != 1 or n_nodes is None:
            raise InputError(
                f"profiles import plain: expected one file and --nodes, found "
                f"{_count(len(files), 'file')} and {'no ' if n_nodes is None else ''}--nodes"
            )
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
        f"{place}: {_count(profile.n_nodes, 'node')}, {profile.duration_ms / 1000:,.1f} s, "
        f"mean {profile.mean_power_w:,.1f} W"
    )
    for cause, n in profile.provenance.counts.items():
        if n:
            typer.echo(f"  {n:,} {cause.replace('_', ' ')}")


@profiles_app.command("build-reference")
def build_reference(
    out: Annotated[Path, typer.Option(help="Folder to write the reference profiles to.")],
) -> None:
    """Rebuild the shipped reference profiles from the published facts."""
    from diploee.profiles.reference import write_reference_profiles

    paths = write_reference_profiles(out)
    size_mb = sum(path.stat().st_size for path in paths) / 1e6
    typer.echo(f"{out}: {len(paths)} profiles, {size_mb:.1f} MB")
