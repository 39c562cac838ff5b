"""`diploee profiles import`: import measured power, one command per format."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from diploee.base.errors import plural
from diploee.cli.command_help import App
from diploee.cli.options import (
    Force,
    Json,
    ToLibrary,
    options,
    path_option,
    print_result,
    rename_arguments,
)
from diploee.importers.power_logs.options import (
    ImportOptions,
    MLPerfOptions,
    NvidiaSmiOptions,
    PlainOptions,
    WattAMeterOptions,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from diploee.importers.power_logs.readings_to_profile import SkippedRun
    from diploee.profiles.profile import Provenance, Repair

import_app = App(
    help="Import measured power as profiles, a command per format.",
    no_args_is_help=True,
)

OPTIONS = {
    "n_nodes": "--nodes",
    "n_gpus": "--gpus",
    "add_w": "--add-w",
    "averaging_window_s": "--averaging-s",
    "sampling_interval_s": "--sampling-s",
    "bandwidth_hz": "--bandwidth-hz",
    "profile_id": "--id",
    "from_s": "--from",
    "to_s": "--to",
    "idle_w": "--idle-w",
    "power_boundary": "--boundary",
}
"""Option for each argument of the importers."""


@import_app.command("wattameter")
@options(**OPTIONS)
def _import_wattameter_command(
    files: Annotated[
        list[Path], typer.Argument(help="Log files of one job, or their folder.")
    ],
    new: WattAMeterOptions,
    out: ToLibrary,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Import WattAMeter logs of one job, on one or many nodes.

    Pairs of NVML and RAPL logs of any WattAMeter version, one pair per node, are read
    and summed over their common time.
    """
    _import(files, "wattameter", out, force, new, as_json)


@import_app.command("plain")
@options(**OPTIONS)
def _import_plain_command(
    file: Annotated[
        Path, typer.Argument(help="CSV or Parquet file of time and power.")
    ],
    new: PlainOptions,
    out: ToLibrary,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Import a CSV or Parquet table of power over time.

    Times are seconds, epochs or ISO dates, and units are read from column names
    (t_s, power_kw, "Power [W]") or options. Rows at equal steps are means of their
    steps; other readings are interpolated linearly, with exact energy. If the meter's
    averaging is not specified, the bandwidth is limited as for a 1 s average.
    """
    _import([file], "plain", out, force, new, as_json)


@import_app.command("nvidia-smi")
@options(**OPTIONS)
def _import_nvidia_smi_command(
    files: Annotated[
        list[Path],
        typer.Argument(help="CSV logs of one job, one per machine, or their folder."),
    ],
    new: NvidiaSmiOptions,
    out: ToLibrary,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Import GPU power from nvidia-smi logs in CSV.

    Reads the output of nvidia-smi --query-gpu=timestamp,power.draw,index
    --format=csv -lms 100, with units or without. power.draw is an average over 1 s
    on the H100 and H200, and is preferred to power.draw.instant, whose readings alias
    faster changes. The column 'name' or --gpu names the GPU model.
    """
    _import(files, "nvidia-smi", out, force, new, as_json)


@import_app.command("mlperf-power")
@options(**OPTIONS)
def _import_mlperf_power_command(
    folder: Annotated[
        Path, typer.Argument(help="Folder of MLPerf results, or a parent folder.")
    ],
    new: MLPerfOptions,
    out: Annotated[
        Path, path_option("Folder of the library to write the profiles to.")
    ],
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Import power logs of MLPerf Training.

    Reads node logs (node_K.txt, on the AC or the DC side of the power supplies) with
    their events. Each run gives a profile at the interval of its readings.
    """
    _import([folder], "mlperf-power", out, force, new, as_json)


@import_app.command("nlr-genai")
def _import_nlr_genai_command(
    folder: Annotated[Path, typer.Argument(help="Folder of the unpacked data set.")],
    out: Annotated[
        Path, path_option("Folder of the library to write the profiles to.")
    ],
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Import the training runs of arXiv:2604.07345 (doi:10.7799/3025227).

    Reads the raw logs. The profiles have the class names and node counts of the
    shipped reference profiles, so '--profiles LIB' replaces these with measured
    ones. Unreadable runs are skipped and listed with their cause.
    """
    _import([folder], "nlr-genai", out, force, None, as_json)
    if not as_json:
        typer.echo(f"Next: diploee profiles compare {out} reference")


def _show_skipped(skipped: Sequence[SkippedRun]) -> None:
    if skipped:
        typer.echo(f"{plural(len(skipped), 'run')} skipped:")
    for run in skipped:
        typer.echo(f"  {run.place}: {run.problem}")


def _show_repairs(provenance: Provenance) -> None:
    """Print repairs by cause, with the energy and time of the worst device."""
    for cause, n in provenance.counts.items():
        repairs = [repair for repair in provenance.repairs if repair.cause == cause]
        if n and not repairs:
            typer.echo(f"  {n:,} {cause.replace('_', ' ')}")
    by_cause = {
        repair.cause: repair for repair in sorted(provenance.repairs, key=_energy)
    }
    for cause, repair in by_cause.items():
        n = provenance.counts.get(cause, 0)
        typer.echo(
            f"  {f'{n:,} ' if n else ''}{cause.replace('_', ' ')}: "
            f"{repair.energy_fraction:.2%} of the energy and {repair.time_s:,.3g} s "
            f"of {repair.device}"
        )


def _energy(repair: Repair) -> tuple[float, float]:
    return repair.energy_fraction, repair.time_s


def _import(
    files: list[Path],
    source_format: str,
    out: Path,
    force: bool,
    new: ImportOptions | None,
    as_json: bool,
) -> None:
    """Add profiles to a library, and print a summary of imports and repairs."""
    from diploee.importers.power_logs.read import add_profiles, read_profiles
    from diploee.metrics.spectral_bands import Readings

    with rename_arguments(**OPTIONS):
        profiles = read_profiles(
            files, source_format, **(new.model_dump() if new else {})
        )
    places = add_profiles(profiles, out, force, files)
    skipped = getattr(profiles, "skipped", ())
    if as_json:
        imported = [
            {
                "path": place,
                "n_nodes": profile.n_nodes,
                "duration_s": profile.duration_ms / 1000,
                "mean_power_w": profile.mean_power_w,
                "counts": {
                    cause: n for cause, n in profile.provenance.counts.items() if n
                },
                "repairs": [asdict(repair) for repair in profile.provenance.repairs],
            }
            for profile, place in zip(profiles, places, strict=True)
        ]
        left_out = [{"place": run.place, "problem": run.problem} for run in skipped]
        print_result({"written": places, "profiles": imported, "skipped": left_out})
        return
    for profile, place in zip(profiles, places, strict=True):
        result = Readings.from_provenance(profile.provenance)
        typer.echo(
            f"{place}: {plural(profile.n_nodes, 'node')}, "
            f"{profile.duration_ms / 1000:,.1f} s, mean {profile.mean_power_w:,.1f} W"
        )
        typer.echo(
            f"  {result.reason}: levels trusted to "
            f"{result.resolvable.trusted_hz:.2g} Hz, flagged "
            f"to  {result.resolvable.flagged_hz:.2g} Hz"
        )
        _show_repairs(profile.provenance)
    _show_skipped(skipped)
