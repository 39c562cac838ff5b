"""CPU packages: the energy counters that Linux shows under ``/sys/class/powercap``.

Packages alone are read: the core counter lies inside its package, and memory (``dram``), where
there is a counter for it, is outside the boundary of all profiles. Since CVE-2020-8694 most
systems let none but root read them. AMD processors show under the same names.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from diploee.profiles.record.sensors import Reading, Sensor

_ZONE = re.compile(r"intel-rapl:\d+")
_UJ_PER_J = 1e6


@dataclass(frozen=True)
class RaplSensor:
    """The counter of one CPU package."""

    device: str  # such as ``"cpu-0"``
    label: str  # model of the CPU
    counter_range_j: float  # energy at which the counter starts anew [J]
    counter: Path  # its file, in microjoule
    averaging_window_s: float | None = None

    def read(self) -> Reading:
        """Read the counter; NaN where it can't be read just now."""
        try:
            return Reading(np.nan, int(self.counter.read_text("ascii")) / _UJ_PER_J)
        except (OSError, ValueError):
            return Reading(np.nan, np.nan)


def find_cpus(powercap: Path) -> tuple[list[Sensor], str]:
    """Return a sensor for each CPU package with a readable counter, and why there is none."""
    sensors: list[Sensor] = []
    names: set[str] = set()
    why = f"no energy counters under {powercap}"
    zones = sorted(path for path in powercap.glob("intel-rapl:*") if _ZONE.fullmatch(path.name))
    for zone in zones:
        try:
            name = (zone / "name").read_text("ascii").strip()
            if not name.startswith("package") or name in names:
                continue
            range_j = int((zone / "max_energy_range_uj").read_text("ascii")) / _UJ_PER_J
            int((zone / "energy_uj").read_text("ascii"))
        except PermissionError:
            why = f"the counters under {powercap} are readable for root only"
            continue
        except (OSError, ValueError) as error:
            why = f"{zone} can't be read ({type(error).__name__})"
            continue
        names.add(name)
        device = f"cpu-{len(sensors)}"
        sensors.append(RaplSensor(device, _cpu_model(), range_j, zone / "energy_uj"))
    return sensors, "" if sensors else why


def _cpu_model() -> str:
    try:
        text = Path("/proc/cpuinfo").read_text("utf-8", errors="replace")
    except OSError:
        return "CPU"
    match = re.search(r"^model name\s*:\s*(.+)$", text, re.MULTILINE)
    return match[1].strip() if match else "CPU"
