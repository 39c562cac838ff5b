"""What a sensor is, and which ones this machine has."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, Protocol

from diploee.errors import InputError

POWERCAP = Path("/sys/class/powercap")


class Reading(NamedTuple):
    """One reading of a sensor; NaN for what it does not have or could not read.

    Parameters
    ----------
    power_w : float
        Power [W].
    energy_j : float
        Energy counter [J], from any start.
    """

    power_w: float
    energy_j: float


class Sensor(Protocol):
    """Reads the power or the energy of one device; never raises while it is read."""

    @property
    def device(self) -> str:
        """Kind and number, such as ``"gpu-0"`` or ``"cpu-1"``."""

    @property
    def label(self) -> str:
        """Model and driver, for the provenance."""

    @property
    def averaging_window_s(self) -> float | None:
        """Window that power readings are averaged over [s]; None where there are none."""

    @property
    def counter_range_j(self) -> float:
        """Energy at which the counter starts anew [J]; infinite where it does not."""

    def read(self) -> Reading:
        """Read the device now."""


@dataclass(frozen=True)
class Sensors:
    """The sensors of this machine."""

    found: tuple[Sensor, ...]  # GPUs, then CPU packages
    missing: tuple[str, ...]  # why there are no GPUs or no CPUs among them, a phrase each


def find_sensors(
    gpus: Sequence[int] | None = None, powercap: Path = POWERCAP, with_cpus: bool = True
) -> Sensors:
    """Find the readable sensors of this machine.

    Parameters
    ----------
    gpus : sequence of int, optional
        Numbers of the GPUs, as ``nvidia-smi`` counts them; where not given, those of the
        environment's ``CUDA_VISIBLE_DEVICES``, else all. Empty for none.
    powercap : pathlib.Path
        Where the kernel shows the energy counters of the CPUs.
    with_cpus : bool
        Whether to look for them.

    Raises
    ------
    InputError
        If there is no readable sensor at all, or no GPU of a given number.
    """
    from diploee.profiles.record.nvml import find_gpus
    from diploee.profiles.record.rapl import find_cpus

    found: list[Sensor] = []
    missing = []
    for kind, sensors, why in (
        ("GPUs", *find_gpus(gpus)),
        ("CPUs", *(find_cpus(powercap) if with_cpus else ([], "not asked for"))),
    ):
        found.extend(sensors)
        if not sensors:
            missing.append(f"{kind}: {why}")
    if not found:
        raise InputError(
            f"no readable power sensor ({'; '.join(missing)}), so the command was not run"
        )
    return Sensors(tuple(found), tuple(missing))
