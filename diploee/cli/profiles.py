"""`diploee profiles`: list, show, check and compare power profiles."""

from __future__ import annotations

import math
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from diploee.base.errors import plural
from diploee.cli.command_help import App
from diploee.cli.options import Force, Json, Profiles, path_option, print_result
from diploee.cli.profiles_import import import_app

if TYPE_CHECKING:
    from diploee.profiles.compare_libraries import ClassDifference
    from diploee.profiles.profile import PowerProfile, Provenance

EXIT_WITH_PROBLEMS = 1

profiles_app = App()
profiles_app.add_typer(import_app, name="import")


@profiles_app.command("check")
def _check_command(
    libraries: Annotated[
        list[str],
        typer.Argument(metavar="LIB", help="Folders of profiles, or 'reference'."),
    ],
    idle_w: Annotated[
        float | None,
        typer.Option(
            help=(
                "Idle power of a node [W], the minimum of means; by default 420 for 4 "
                "x 700 W GPUs, and in proportion for others."
            )
        ),
    ] = None,
    rated_w: Annotated[
        float | None,
        typer.Option(
            help=(
                "Rated power of a node [W], the maximum of means; by default 3,520 for "
                "4 x 700 W GPUs, and in proportion for others."
            )
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Check every file of a library and report all problems.

    Problems are unreadable files, values that are not finite, negative or above 1.2
    times the rated power, means outside idle to rated power, gaps, changed values and
    duplicate ids. The exit code is 1 if there is a problem.
    """
    from diploee.cli.display import show_table
    from diploee.profiles.check import check_library

    checked = check_library(*libraries, idle_w=idle_w, rated_w=rated_w)
    bad = [file for file in checked.files if file.problems]
    if as_json:
        classes = [
            {"workload": workload, "n_nodes": nodes, "n_profiles": n}
            for (workload, nodes), n in checked.classes.items()
        ]
        files = [
            {"path": str(file.path), "problems": list(file.problems)} for file in bad
        ]
        result = {"n_files": len(checked.files), "classes": classes, "bad_files": files}
        print_result(result)
    else:
        for file in bad:
            for problem in file.problems:
                typer.echo(f"{file.path}: {problem}")
        rows = [
            (workload, nodes, n) for (workload, nodes), n in checked.classes.items()
        ]
        show_table("classes", ("workload", "nodes", "profiles"), rows)
        typer.echo(
            f"{plural(len(checked.files), 'file')}, "
            f"{plural(checked.n_problems, 'problem')} in {plural(len(bad), 'file')}"
        )
    if bad:
        raise typer.Exit(EXIT_WITH_PROBLEMS)


@profiles_app.command("compare")
def compare_command(
    first: Annotated[
        str, typer.Argument(metavar="A", help="Folder of profiles, or 'reference'.")
    ],
    second: Annotated[
        str,
        typer.Argument(metavar="B", help="Folder of profiles that A is compared with."),
    ] = "reference",
    as_json: Json = False,
) -> None:
    """Compare two libraries by job class.

    The statistics are mean and standard deviation of the power, duration, strongest
    spectral line and swings up to 0.25 Hz, as means over the profiles of a class.
    Differences are those of A relative to B.
    """
    from diploee.profiles.compare_libraries import compare_libraries
    from diploee.profiles.library import ProfileLibrary

    differences = compare_libraries(
        ProfileLibrary.open(first), ProfileLibrary.open(second)
    )
    if as_json:
        print_result([asdict(d) for d in differences])
    else:
        show_differences(differences, first, second)


_STATISTICS = (
    ("mean [kW]", "mean_w", 1e-3, "{:,.3f}"),
    ("standard deviation [kW]", "std_w", 1e-3, "{:,.3f}"),
    ("duration [s]", "duration_s", 1.0, "{:,.1f}"),
    ("swings up to 0.25 Hz, rms [kW]", "band_rms_w", 1e-3, "{:,.3f}"),
    ("swings 0.02-0.25 Hz, rms [kW]", "swing_rms_w", 1e-3, "{:,.3f}"),
    ("strongest line [Hz]", "line_hz", 1.0, "{:.4f}"),
)


def show_differences(
    differences: list[ClassDifference], first: str, second: str
) -> None:
    """Print the classes of two libraries, with a row per statistic of both."""
    from diploee.cli.display import show_table

    rows: list[tuple[Any, ...]] = []
    for d in differences:
        name = f"{d.workload} {d.n_nodes}n"
        rows.append(
            (
                name,
                "profiles",
                *(str(c.n_profiles) if c else "-" for c in (d.first, d.second)),
                "",
            )
        )
        if d.first is None or d.second is None:
            continue
        for label, key, unit, pattern in _STATISTICS:
            a, b = getattr(d.first.figures, key), getattr(d.second.figures, key)
            texts = [_format_value(value * unit, pattern) for value in (a, b)]
            if key == "line_hz":
                texts = [
                    f"{text} ({c.n_lines} of {c.n_profiles})"
                    for text, c in zip(texts, (d.first, d.second), strict=True)
                ]
            has_ratio = math.isfinite(a) and math.isfinite(b) and b != 0
            rows.append(("", label, *texts, f"{a / b - 1:+.1%}" if has_ratio else "-"))
    header = (
        "class",
        "mean over the profiles",
        f"A: {first}",
        f"B: {second}",
        "A from B",
    )
    show_table(f"{len(differences)} classes", header, rows)
    for d in differences:
        if d.boundaries_differ and d.first and d.second:
            typer.echo(
                f"{d.workload} {d.n_nodes}n: the boundaries differ, so the means "
                "must, too:"
            )
            typer.echo(f"  A: {'; '.join(d.first.boundaries)}")
            typer.echo(f"  B: {'; '.join(d.second.boundaries)}")


def _format_value(value: float, pattern: str) -> str:
    return pattern.format(value) if math.isfinite(value) else "-"


@profiles_app.command("list")
def _list_profiles(profiles: Profiles = None, as_json: Json = False) -> None:
    """List the profiles of a library."""
    from diploee.cli.display import show_table
    from diploee.profiles.library import ProfileLibrary

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
    if as_json:
        keys = (
            *("profile", "workload", "n_nodes", "duration_s", "mean_power_kw"),
            *("mean_node_power_w", "kind"),
        )
        print_result([dict(zip(keys, row, strict=True)) for row in rows])
        return
    header = ("profile", "workload", "nodes", "time [s]", "mean kW", "W/node", "kind")
    show_table(plural(len(library), "profile"), header, rows)


@profiles_app.command("show")
def _show_profile(
    profile_id: Annotated[
        str, typer.Argument(help="Id of the profile, as shown by 'list'.")
    ],
    out: Annotated[
        Path | None, path_option("PNG file to draw; <profile id>.png by default.")
    ] = None,
    profiles: Profiles = None,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Draw a profile to a PNG file and print its provenance."""
    from diploee.profiles.library import ProfileLibrary
    from diploee.profiles.store import check_file_name
    from diploee.reports.profile_plot import plot_profile

    profile = ProfileLibrary.open(*(profiles or ())).get(profile_id)
    if out is None:
        check_file_name(profile_id)
    path = out or Path(f"{profile_id}.png")
    plot_profile(profile, path, force)
    facts = _profile_facts(profile) | {"drawn to": str(path)}
    lines = (f"{label:<10}{text}" for label, text in facts.items())
    print_result(facts, lines, as_json=as_json)


def _profile_facts(profile: PowerProfile) -> dict[str, str]:
    """Return properties of a profile by short label."""
    from diploee.base.errors import printable
    from diploee.metrics.spectral_bands import NO_METER

    origin, mean_kw = profile.provenance, profile.mean_power_w / 1000
    window_s = origin.averaging_window_s
    repaired = (
        f"{n:,} {cause.replace('_', ' ')}" for cause, n in origin.counts.items() if n
    )
    facts = {
        "profile": f"{profile.profile_id} ({origin.kind})",
        "workload": f"{profile.workload} on {plural(profile.n_nodes, 'node')}",
        "duration": (
            f"{profile.duration_ms / 1000:,.1f} s in steps of "
            f"{profile.dt_ms / 1000:g} s"
        ),
        "power": (
            f"mean {mean_kw:,.3f} kW, {mean_kw / profile.n_nodes:,.3f} kW a node; "
            f"{profile.power_w.min() / 1000:,.3f} to "
            f"{profile.power_w.max() / 1000:,.3f} kW"
        ),
        "energy": f"{profile.energy_j / 3.6e6:,.4g} kWh",
        "boundary": origin.power_boundary,
        "hardware": _hardware(origin),
        "phases": _phases(origin),
        "readings": NO_METER
        if origin.bandwidth_hz is None
        else f"every {origin.sampling_interval_s:g} s, averaged over "
        f"{'unknown times' if window_s is None else f'{window_s:g} s'}, "
        f"bandwidth {origin.bandwidth_hz:g} Hz",
        "meter": "" if origin.meter is None else origin.meter.description,
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
