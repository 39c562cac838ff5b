"""`diploee profiles import`: measured power in foreign formats, one command per format."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from diploee.cli.profiles_text import count_text, naming_options

if TYPE_CHECKING:
    from diploee.profiles import PowerProfile
    from diploee.profiles.importers.nlr_genai import DatasetImport

import_app = typer.Typer(
    help="Import measured power as profiles, a command per format.", no_args_is_help=True
)


class DatasetOrigin(StrEnum):
    """Which part of the data set profiles are made of."""

    auto = "auto"
    raw = "raw"
    aggregated = "aggregated"


class DatasetPart(StrEnum):
    """Which runs of the data set are imported."""

    training = "training"
    inference = "inference"
    all = "all"


WorkloadOption = Annotated[str, typer.Option(help="Workload, as scenarios name it.")]
OutOption = Annotated[Path, typer.Option(help="Folder of the library to add the profile to.")]
IdOption = Annotated[
    str | None, typer.Option("--id", help="Id of the profile; <workload>-<nodes>n by default.")
]
SourceOption = Annotated[str, typer.Option(help="Where the measurement comes from.")]
LicenceOption = Annotated[str, typer.Option(help="Licence of the measurement.")]
ForceOption = Annotated[bool, typer.Option("--force", help="Replace a profile of that id.")]
AveragingOption = Annotated[
    float | None,
    typer.Option("--averaging-s", help="Window that the meter averages over, in s; 0 for none."),
]
_OPTIONS = {
    "n_nodes": "--nodes",
    "n_gpus": "--gpus",
    "add_w": "--add-w",
    "averaging_window_s": "--averaging-s",
    "sampling_interval_s": "--sampling-s",
    "bandwidth_hz": "--bandwidth-hz",
}
"""The importers' arguments, as the commands call them."""


@import_app.command("wattameter")
def import_wattameter_command(
    files: Annotated[list[Path], typer.Argument(help="Log files of one job, or their folder.")],
    workload: WorkloadOption,
    out: OutOption,
    profile_id: IdOption = None,
    n_nodes: Annotated[
        int | None, typer.Option("--nodes", help="Expected nodes of the job; the logs tell them.")
    ] = None,
    slurm_id: Annotated[
        str | None, typer.Option(help="Job to take from a folder that holds several.")
    ] = None,
    source: SourceOption = "",
    licence: LicenceOption = "unknown",
    force: ForceOption = False,
) -> None:
    """Import WattAMeter logs of one job, on one or many nodes.

    Reads pairs of NVML and RAPL logs of every WattAMeter generation, a pair
    per node, and sums them over the time that they share.
    """
    from diploee.profiles.importers.wattameter import import_wattameter

    with naming_options(**_OPTIONS):
        profile = import_wattameter(
            files,
            workload=workload,
            profile_id=profile_id,
            n_nodes=n_nodes,
            slurm_id=slurm_id,
            source=source,
            licence=licence,
        )
    _add(profile, out, force)


@import_app.command("plain")
def import_plain_command(
    files: Annotated[list[Path], typer.Argument(help="CSV or Parquet file of t_s and power_w.")],
    workload: WorkloadOption,
    out: OutOption,
    profile_id: IdOption = None,
    n_nodes: Annotated[int | None, typer.Option("--nodes", help="Nodes of the job.")] = None,
    boundary: Annotated[
        str | None,
        typer.Option(help="What the power includes, such as 'node AC input'; else unknown."),
    ] = None,
    add_w: Annotated[
        float, typer.Option(help="Constant added per node for what the power lacks [W].")
    ] = 0.0,
    averaging_s: AveragingOption = None,
    sampling_s: Annotated[
        float | None,
        typer.Option(help="Interval of the original readings in s; the table's step by default."),
    ] = None,
    bandwidth_hz: Annotated[
        float | None,
        typer.Option(help="Highest frequency that the readings support [Hz]; else worked out."),
    ] = None,
    source: SourceOption = "",
    licence: LicenceOption = "unknown",
    force: ForceOption = False,
) -> None:
    """Import a CSV or Parquet table of t_s and power_w.

    t_s is the time in seconds at even steps, power_w the power of the whole
    job in watts. Where the averaging is not told, 1 s is assumed, as of GPU
    drivers, so that no metric claims more than the readings may hold.
    """
    from diploee.errors import InputError
    from diploee.profiles.importers.plain import import_plain

    if len(files) != 1 or n_nodes is None:
        raise InputError(
            f"profiles import plain: expected one file and --nodes, found "
            f"{count_text(len(files), 'file')} and {'no ' if n_nodes is None else ''}--nodes"
        )
    with naming_options(**_OPTIONS):
        profile = import_plain(
            files[0],
            workload=workload,
            profile_id=profile_id or f"{workload}-{n_nodes}n",
            n_nodes=n_nodes,
            source=source,
            licence=licence,
            averaging_window_s=averaging_s,
            power_boundary=boundary,
            sampling_interval_s=sampling_s,
            bandwidth_hz=bandwidth_hz,
            add_w=add_w,
        )
    _add(profile, out, force)


@import_app.command("nvidia-smi")
def import_nvidia_smi_command(
    files: Annotated[list[Path], typer.Argument(help="CSV logs of one job, one per machine.")],
    workload: WorkloadOption,
    out: OutOption,
    profile_id: IdOption = None,
    n_nodes: Annotated[
        int | None, typer.Option("--nodes", help="Nodes of the job; one per file by default.")
    ] = None,
    n_gpus: Annotated[
        int | None, typer.Option("--gpus", help="GPUs in each file; inferred by default.")
    ] = None,
    add_w: Annotated[
        float, typer.Option(help="Constant added per node for its CPUs, which it lacks [W].")
    ] = 0.0,
    averaging_s: AveragingOption = None,
    source: SourceOption = "",
    licence: LicenceOption = "unknown",
    force: ForceOption = False,
) -> None:
    """Import GPU power from nvidia-smi logs in CSV.

    Reads the output of nvidia-smi --query-gpu=timestamp,power.draw,index
    --format=csv -lms 100, with units or without. power.draw is an average
    over 1 s on most GPUs; power.draw.instant is not, and goes before it.
    """
    from diploee.profiles.importers.nvidia_smi import import_nvidia_smi

    with naming_options(**_OPTIONS):
        profile = import_nvidia_smi(
            files,
            workload=workload,
            profile_id=profile_id,
            n_nodes=n_nodes,
            n_gpus=n_gpus,
            add_w=add_w,
            averaging_window_s=averaging_s,
            source=source,
            licence=licence,
        )
    _add(profile, out, force)


@import_app.command("nlr-genai")
def import_nlr_genai_command(
    folder: Annotated[Path, typer.Argument(help="Folder of the unpacked data set.")],
    out: Annotated[Path, typer.Option(help="Folder of the library to write the profiles to.")],
    origin: Annotated[
        DatasetOrigin,
        typer.Option("--from", help="Raw logs, published sums, or sums where logs are missing."),
    ] = DatasetOrigin.auto,
    what: Annotated[
        DatasetPart, typer.Option(help="Training jobs, tests of served models, or both.")
    ] = DatasetPart.training,
    against: Annotated[
        str, typer.Option(metavar="DIR", help="Library to compare the measured classes with.")
    ] = "reference",
    force: Annotated[
        bool, typer.Option("--force", help="Replace profiles of the same ids.")
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Only errors.")] = False,
) -> None:
    """Import the data set of arXiv:2604.07345 (doi:10.7799/3025227).

    The profiles get the class names and node counts of the shipped reference
    profiles, so that '--profiles LIB' takes measured ones with nothing else
    changed. Runs that can't be read are left out and listed with their cause.
    """
    from diploee.cli.display import ProgressWatch
    from diploee.cli.profiles_library import show_differences
    from diploee.profiles import ProfileLibrary
    from diploee.profiles.compare import compare
    from diploee.profiles.importers.nlr_genai import import_nlr_genai
    from diploee.watch import Watch

    against_library = ProfileLibrary.open(against)
    done = import_nlr_genai(
        folder,
        out,
        origin=origin.value,
        what=what.value,
        force=force,
        watch=Watch() if quiet else ProgressWatch(),
    )
    if quiet:
        return
    _tell(done, out)
    differences = compare(ProfileLibrary.open(out), against_library)
    show_differences(differences, str(out), against)
    missing = [d for d in differences if d.first is None and what is not DatasetPart.inference]
    if missing:
        classes = ", ".join(f"{d.workload} on {count_text(d.n_nodes, 'node')}" for d in missing)
        typer.echo(f"Not measured: {classes}.")
        typer.echo(f"For these, give '--profiles {out} --profiles {against}' to a run.")


def _tell(done: DatasetImport, out: Path) -> None:
    origins = ", ".join(f"{n} from {name}" for name, n in done.n_by_origin.items())
    typer.echo(f"{out}: {count_text(len(done.paths), 'profile')}, {origins}")
    if done.skipped:
        typer.echo(f"{count_text(len(done.skipped), 'run')} skipped:")
        for cause, n in done.causes.items():
            typer.echo(f"  {n:,} x {cause}")
        for run in done.skipped:
            typer.echo(f"  {run.place}: {run.problem}")
    if done.n_left_out:
        typer.echo(f"{count_text(done.n_left_out, 'run')} of another kind left out (--what all).")


def _add(profile: PowerProfile, out: Path, force: bool) -> None:
    """Write a profile and say what was imported and repaired."""
    from diploee.profiles import add_profile

    place = add_profile(profile, out, force)
    typer.echo(
        f"{place}: {count_text(profile.n_nodes, 'node')}, {profile.duration_ms / 1000:,.1f} s, "
        f"mean {profile.mean_power_w:,.1f} W"
    )
    for cause, n in profile.provenance.counts.items():
        if n:
            typer.echo(f"  {n:,} {cause.replace('_', ' ')}")
