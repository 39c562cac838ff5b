"""`diploee profiles record`.

A command beside WattAMeter or nvidia-smi, whose logs are imported.
"""

from __future__ import annotations

import math
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from tempfile import mkdtemp
from typing import Annotated, Any

import typer

from diploee.base.errors import InputError, ProfileError
from diploee.base.files import check_file
from diploee.cli.options import Force, ToLibrary, naming_options, options
from diploee.cli.profiles_import import OPTIONS
from diploee.importers.power_logs.options import NewProfile

POWERCAP, PATIENCE_S = Path("/sys/class/powercap"), 10.0
PROBE_S, REFRESHES = 0.4, 4
"""How long a GPU's energy counter is watched, and its refreshes in an interval at least
[A]."""


@options(**OPTIONS)
def record_command(
    command: Annotated[
        list[str], typer.Argument(metavar="COMMAND", help="Program and arguments.")
    ],
    new: NewProfile,
    out: ToLibrary,
    interval_s: Annotated[
        float, typer.Option(min=0.005, max=60, help="Time between readings in s.")
    ] = 0.1,
    force: Force = False,
) -> None:
    """Run a command and record the power of its machine's GPUs and CPUs.

    WattAMeter records, or nvidia-smi the GPUs alone where that is not installed
    or the CPUs' counters (RAPL) can't be read; their logs are imported. WattAMeter
    reads the GPUs' energy counters where these are refreshed four times in an
    interval, else their power; notes have how far the counters moved. Ends with
    the command's exit code.
    """
    from diploee.base.plain_data import checked_record
    from diploee.importers.power_logs.formats import add_profiles, read_profiles
    from diploee.profiles.store import Job, place_of

    # Before the command, whose hours must not be lost to a name.
    facts = new.of_nodes(new.n_nodes or 1)
    job: dict[str, Any] = dict(
        zip(("profile_id", "workload", "n_nodes"), facts, strict=True)
    )
    with naming_options(**OPTIONS, workload="--workload"):
        checked_record(job, Job, "profiles record", ProfileError)
    check_file(place_of(job["profile_id"], out), force, option="id")
    if shutil.which(command[0]) is None:
        raise InputError(
            f"{command[0]}: no such program; give one with its arguments after '--'"
        )
    source_format, recorder = _recorder(interval_s)
    logs = Path(mkdtemp(prefix="diploee-record-"))
    try:
        code, notes = _recorded(command, recorder, logs)
        settings: dict[str, Any] = new.model_dump(exclude={"profile_id", "n_nodes"})
        settings["step_ms"] = max(1, round(1000 * interval_s))
        (profile,) = read_profiles([logs], source_format, **settings)
        noted = replace(
            profile.provenance, notes=f"{profile.provenance.notes}; {notes}"
        )
        (place,) = add_profiles(
            [replace(profile, **job, provenance=noted)], out, force, []
        )
    except BaseException:
        if _has_readings(logs):
            remedy = f"import them with 'diploee profiles import {source_format}'"
            typer.echo(f"diploee: the logs are in {logs}; {remedy}", err=True)
        else:
            shutil.rmtree(logs)
        raise
    shutil.rmtree(logs)
    words = f"{place}: {profile.energy_j:,.1f} J, {noted.power_boundary}; {notes}"
    typer.echo(f"diploee: {words}", err=True)  # standard output belongs to the command
    raise typer.Exit(code)


def _recorder(interval_s: float) -> tuple[str, list[str]]:
    """Return the format of the logs and the command that writes them."""
    if (smi := shutil.which("nvidia-smi")) is None:
        raise InputError(
            "nvidia-smi is not on PATH, so the command was not run; record on a "
            "machine with an NVIDIA driver, or measure otherwise and use 'diploee "
            "profiles import plain'"
        )
    path = os.pathsep.join(
        (os.environ.get("PATH", os.defpath), str(Path(sys.executable).parent))
    )
    wattameter = shutil.which("wattameter", path=path)
    if wattameter and any(
        os.access(p, os.R_OK) for p in POWERCAP.glob("*:*/energy_uj")
    ):
        # Exact means; else they would scatter
        counts = REFRESHES * _refresh_s() <= interval_s
        field = "nvml-energy" if counts else "nvml-power"
        return "wattameter", [wattameter, "--tracker", f"{interval_s:g},{field},rapl"]
    why = (
        "RAPL can't be read"
        if wattameter
        else "for these: pip install 'diploee[record]'"
    )
    typer.echo(f"diploee: recording GPUs with nvidia-smi, no CPUs ({why})", err=True)
    query = [
        "--query-gpu=timestamp,index,name,power.draw",
        "--format=csv",
        "-f",
        "nvidia-smi.csv",
    ]
    return "nvidia-smi", [smi, *query, "-lms", f"{1000 * interval_s:.0f}"]


def _has_readings(logs: Path) -> bool:
    return any(path.stat().st_size for path in logs.iterdir())


def _recorded(command: list[str], recorder: list[str], logs: Path) -> tuple[int, str]:
    """Run a command while its power is recorded.

    Return its exit code as shells do, and notes.
    """
    # In a session of its own: what interrupts the command must not cut the logs.
    with subprocess.Popen(
        recorder, cwd=logs, stdout=2, start_new_session=True
    ) as meter:
        try:
            while not _has_readings(logs):
                if meter.poll() is not None:
                    problem = "ended without a reading; the command was not run"
                    raise InputError(f"{recorder[0]} {problem}")
                time.sleep(0.02)
            before_j, code, after_j = _counters_j(), _run(command), _counters_j()
        finally:
            meter.terminate()
    notes = f"{Path(command[0]).name} ended with {code}"
    if before_j is not None and after_j is not None:
        notes += (
            f"; the GPUs' energy counters moved by {after_j - before_j:,.1f} J "
            "meanwhile"
        )
    return code, notes


def _run(command: list[str]) -> int:
    with subprocess.Popen(command) as process:
        try:
            code = process.wait()
        except BaseException:
            with suppress(subprocess.TimeoutExpired):  # a terminal interrupts both
                process.wait(PATIENCE_S)
            process.terminate()
            raise
    return code if code >= 0 else 128 - code


def _gpu_counters() -> list[Callable[[], int]]:
    """Return functions that read the energy counter of each GPU [mJ].

    None where NVML has none.
    """
    with suppress(Exception):  # not installed, or the driver's; they are no need
        nvml = import_module("pynvml")
        nvml.nvmlInit()
        gpus = map(nvml.nvmlDeviceGetHandleByIndex, range(nvml.nvmlDeviceGetCount()))
        found: list[Any] = [
            partial(nvml.nvmlDeviceGetTotalEnergyConsumption, gpu) for gpu in gpus
        ]
        if all(read() for read in found):
            return found
    return []


def _counters_j() -> float | None:
    """Return the sum of the energy counters of all GPUs [J].

    None where NVML has none.
    """
    counters = _gpu_counters()
    return sum(read() for read in counters) / 1000 if counters else None


def _refresh_s() -> float:
    """Return the longest time between refreshes of the first energy counter [s]."""
    moves_s: list[float] = []
    for read in _gpu_counters()[:1]:
        before, end_s = read(), time.monotonic() + PROBE_S
        while (now_s := time.monotonic()) < end_s:
            if (counter := read()) != before:
                before, moves_s = counter, [*moves_s, now_s]
            time.sleep(0.001)
    return max((later - move for move, later in pairwise(moves_s)), default=math.inf)
