"""`diploee profiles record`: run a command and keep its power as a profile."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from diploee.cli.options import Force, ToLibrary, naming_options


def record_command(
    command: Annotated[
        list[str], typer.Argument(metavar="COMMAND", help="Program and its arguments.")
    ],
    out: ToLibrary,
    workload: Annotated[str, typer.Option(help="Workload, as scenarios name it.")],
    profile_id: Annotated[
        str | None, typer.Option("--id", help="Id of the profile; <workload>-<nodes>n by default.")
    ] = None,
    n_nodes: Annotated[
        int, typer.Option("--nodes", help="Nodes that this machine stands for.")
    ] = 1,
    interval_s: Annotated[float, typer.Option(help="Time between readings in s.")] = 0.1,
    gpus: Annotated[
        str | None,
        typer.Option(help="GPUs such as '0,1', or 'none'; by default all that CUDA sees."),
    ] = None,
    cpus: Annotated[
        bool, typer.Option("--cpus/--no-cpus", help="Record the CPU packages, too.")
    ] = True,
    keep: Annotated[
        bool, typer.Option("--keep", help="Keep what was recorded when interrupted.")
    ] = False,
    source: Annotated[str, typer.Option(help="Where and by whom it is measured.")] = "",
    licence: Annotated[str, typer.Option(help="Licence of the measurement.")] = "unknown",
    force: Force = False,
) -> None:
    """Run a command and record the power of its machine.

    Reads GPUs through nvidia-ml-py (instantaneous power, not the driver's 1 s
    average, held against the energy counter) and CPU packages through RAPL,
    where they are readable. Ends with the command's exit code.
    """
    from diploee.cli import Interrupted
    from diploee.errors import InputError, ProfileError
    from diploee.files import check_file
    from diploee.json_files import checked_record
    from diploee.profiles import add_profile
    from diploee.profiles.record import (
        Sampler,
        find_sensors,
        recorded_profile,
        run_recorded,
    )
    from diploee.profiles.store import Job, place_of

    if not 0.005 <= interval_s <= 60:
        raise InputError(f"--interval-s is {interval_s:g}, expected 0.005 to 60 s")
    name = profile_id or f"{workload}-{n_nodes}n"
    # Before the command, whose hours must not be lost to a name.
    told = {"profile_id": name, "workload": workload, "n_nodes": n_nodes}
    with naming_options(n_nodes="--nodes", workload="--workload", profile_id="--id"):
        checked_record(told, Job, "profiles record", ProfileError)
    check_file(place_of(name, out), force, option="id")
    sensors = find_sensors(_numbers(gpus), with_cpus=cpus)
    _say(f"recording {', '.join(sensor.device for sensor in sensors.found)}")
    for missing in sensors.missing:
        _say(f"without {missing}")
    sampler = Sampler(sensors.found, interval_s)
    ended = run_recorded(
        command,
        sampler,
        interruptions=(KeyboardInterrupt, Interrupted),
        keep_interrupted=keep,
    )
    remarks = [f"{Path(command[0]).name} ended with {ended.code}"]
    if ended.interrupted:
        remarks.append("the recording was interrupted")
    try:
        profile = recorded_profile(
            sampler.samples,
            sensors.found,
            workload=workload,
            profile_id=name,
            n_nodes=n_nodes,
            step_ms=max(1, round(interval_s * 1000)),
            source=source,
            licence=licence,
            remarks="; ".join(remarks),
        )
    except InputError as error:
        if ended.code == 0:
            raise
        _say(str(error))
        raise typer.Exit(ended.code) from error
    place = add_profile(profile, out, force)
    _say(
        f"{place}: {profile.duration_ms / 1000:,.1f} s, mean {profile.mean_power_w:,.1f} W; "
        f"{profile.provenance.notes}"
    )
    for cause, n in profile.provenance.counts.items():
        if n and cause != "samples":
            _say(f"  {n:,} {cause.replace('_', ' ')}")
    raise typer.Exit(ended.code)


def _numbers(gpus: str | None) -> list[int] | None:
    from diploee.errors import InputError, shown

    if gpus is None:
        return None
    if gpus.strip() == "none":
        return []
    words = [word.strip() for word in gpus.split(",")]
    if not all(word.isascii() and word.isdigit() and len(word) < 5 for word in words):
        raise InputError(f"--gpus is {shown(gpus)}, expected numbers such as '0,1', or 'none'")
    return [int(word) for word in words]


def _say(text: str) -> None:
    """Print to standard error: standard output belongs to the command."""
    sys.stderr.write(f"diploee: {text}\n")
