"""`diploee profiles`: the commands on power profiles; each kind in a module of its own."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from diploee.cli.helped import App
from diploee.cli.options import Force, Profiles, place_option
from diploee.cli.profiles_import import import_app
from diploee.cli.profiles_library import check_command, compare_command
from diploee.cli.profiles_record import record_command
from diploee.errors import plural

if TYPE_CHECKING:
    from diploee.profiles import PowerProfile, Provenance

profiles_app = App()
profiles_app.add_typer(import_app, name="import")
profiles_app.command("check")(check_command)
profiles_app.command("compare")(compare_command)
profiles_app.command(
    "record", context_settings={"allow_interspersed_args": False, "ignore_unknown_options": False}
)(record_command)


@profiles_app.command("list")
def list_profiles(profiles: Profiles = None) -> None:
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
    show_table(plural(len(library), "profile"), header, rows)


@profiles_app.command("show")
def show_profile(
    profile_id: Annotated[str, typer.Argument(help="Id of the profile, as 'list' shows it.")],
    out: Annotated[
        Path | None, place_option("PNG file to draw; <profile id>.png by default.")
    ] = None,
    profiles: Profiles = None,
    force: Force = False,
) -> None:
    """Draw a profile to a PNG and print where it comes from."""
    from diploee.profiles import ProfileLibrary
    from diploee.profiles.store import check_file_name
    from diploee.reports.profile_plot import plot_profile

    profile = ProfileLibrary.open(*(profiles or ())).get(profile_id)
    if out is None:
        check_file_name(profile_id)
    place = out or Path(f"{profile_id}.png")
    plot_profile(profile, place, force)
    for label, text in _facts(profile).items():
        typer.echo(f"{label:<10}{text}")
    typer.echo(f"{'drawn to':<10}{place}")


def _facts(profile: PowerProfile) -> dict[str, str]:
    """Return what there is to say about a profile, each under a short label."""
    from diploee.errors import printable

    origin, mean_kw = profile.provenance, profile.mean_power_w / 1000
    window_s = origin.averaging_window_s
    repaired = (f"{n:,} {cause.replace('_', ' ')}" for cause, n in origin.counts.items() if n)
    facts = {
        "profile": f"{profile.profile_id} ({origin.kind})",
        "workload": f"{profile.workload} on {plural(profile.n_nodes, 'node')}",
        "duration": f"{profile.duration_ms / 1000:,.1f} s in steps of {profile.dt_ms / 1000:g} s",
        "power": f"mean {mean_kw:,.3f} kW, {mean_kw / profile.n_nodes:,.3f} kW a node; "
        f"{profile.power_w.min() / 1000:,.3f} to {profile.power_w.max() / 1000:,.3f} kW",
        "energy": f"{profile.energy_j / 3.6e6:,.4g} kWh",
        "boundary": origin.power_boundary,
        "hardware": _hardware(origin),
        "phases": _phases(origin),
        "readings": f"every {origin.sampling_interval_s:g} s, averaged over "
        f"{'unknown times' if window_s is None else f'{window_s:g} s'}, "
        f"bandwidth {origin.bandwidth_hz:g} Hz",
        "source": origin.source,
        "licence": origin.licence,
        "notes": origin.notes,
        "repaired": ", ".join(repaired),
    }
    return {label: printable(text) for label, text in facts.items() if text}


def _hardware(origin: Provenance) -> str:
    if origin.gpus_per_node is None:
        return ""
    model = "" if origin.gpu_model is None else f"{origin.gpu_model}, "
    return f"{model}{plural(origin.gpus_per_node, 'GPU')}" + (
        " a node" if origin.gpu_tdp_w is None else f" of {origin.gpu_tdp_w:g} W a node"
    )


def _phases(origin: Provenance) -> str:
    return ", ".join(
        f"{name} {sum(end_s - start_s for start_s, end_s in spans):,.1f} s"
        + (f" in {len(spans)} parts" if len(spans) > 1 else "")
        for name, spans in origin.phases.items()
    )
