"""One aggregated run of the published data set: ``timestep[s]`` and ``power[W]``, any step."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from diploee.errors import LogFormatError
from diploee.profiles.profile import PowerProfile, Provenance
from diploee.profiles.resample import (
    US_PER_MS,
    US_PER_S,
    EnergyCurve,
    joint_power_w,
    round_keeping_energy,
    usable_bandwidth_hz,
)
from diploee.tables import Float64Array, Int64Array
from diploee.textio.sheets import read_sheet
from diploee.textio.tables import ReadTable
from diploee.textio.values import Number, numbers
from diploee.units import PROFILE_STEP_MS

TIME, POWER = "timestep[s]", "power[W]"
SAMPLED_EVERY_S = 0.1
"""Interval of the readings (arXiv:2604.07345, section 2.2): rows that are closer are up-sampled."""
AVERAGING_WINDOW_S = 1.0
"""Window of the driver's average on the measured H100 [s]."""
MAX_GAP_S = 3_600.0
LONGEST_S = 1e7
_CLOSER = 0.75


def import_aggregated(
    path: Path,
    *,
    workload: str,
    profile_id: str,
    n_nodes: int,
    source: str,
    licence: str,
    remarks: str = "",
    step_ms: int = PROFILE_STEP_MS,
) -> PowerProfile:
    """Import one ``results/%06d.parquet``: the power of all nodes of a run.

    Readings are joined by straight lines and averaged over each step, exact in energy. Rows closer
    than the readings were (the sustained-rate tests are up-sampled to 1 ms) add no bandwidth.

    Parameters
    ----------
    path : pathlib.Path
        The file.
    workload, profile_id, n_nodes, source, licence
        As in `PowerProfile` and its provenance.
    remarks : str
        What the set's metadata tells about the run.
    step_ms : int
        Step of the profile [ms].
    """
    sha256, t_us, power_w = _read(path)
    counts = {"up_sampled_rows": 0, "missing_power_filled": 0}
    missing = np.isnan(power_w)
    counts["missing_power_filled"] = int(missing.sum())
    power_w = np.interp(t_us, t_us[~missing], power_w[~missing])
    interval_s = float(np.median(np.diff(t_us))) / US_PER_S
    if interval_s < _CLOSER * SAMPLED_EVERY_S:
        counts["up_sampled_rows"] = int(t_us.size)
        interval_s = SAMPLED_EVERY_S
    steps_w = joint_power_w([EnergyCurve.from_readings(t_us, power_w)], step_ms * US_PER_MS)
    if steps_w.size == 0:
        raise LogFormatError(f"{path}: shorter than a step of {step_ms} ms; leave this run out")
    provenance = Provenance(
        kind="measured",
        source=source,
        licence=licence,
        sampling_interval_s=round(interval_s, 6),
        averaging_window_s=AVERAGING_WINDOW_S,
        bandwidth_hz=usable_bandwidth_hz(interval_s, AVERAGING_WINDOW_S),
        source_sha256=sha256,
        notes="Sum over the nodes as published (device readings above 800 W back-filled, nodes "
        "interpolated onto the time that they share), resampled exactly in energy"
        + (f". {remarks}" if remarks else ""),
        counts=counts,
    )
    return PowerProfile(
        profile_id, workload, n_nodes, step_ms, round_keeping_energy(steps_w), provenance
    )


def _read(path: Path) -> tuple[str, Int64Array, Float64Array]:
    """Return the hash, the times [us] and the power [W]."""
    sheet = read_sheet(path, f"columns '{TIME},{POWER}'")
    table = sheet.read((TIME, POWER), "sums over nodes")
    t_s = numbers(table, TIME, Number(may_miss=False, of="seconds"))
    power_w = numbers(table, POWER, Number(at_least=0, of="watts"))
    _check(table, t_s, power_w)
    return sheet.sha256, np.rint((t_s - t_s[0]) * US_PER_S).astype(np.int64), power_w


def _check(table: ReadTable, t_s: Float64Array, power_w: Float64Array) -> None:
    problem = ""
    good = np.flatnonzero(~np.isnan(power_w))
    if t_s.size < 2 or good.size == 0:
        problem = f"{t_s.size} rows, {good.size} with power, expected two or more; leave it out"
    elif t_s[-1] - t_s[0] > LONGEST_S:
        problem = f"'{TIME}' spans more than {LONGEST_S:g} s, expected seconds"
    elif (early := np.diff(t_s) * US_PER_S < 1).any():
        row = int(np.argmax(early)) + 1
        table.fail(row, f"'{TIME}' is {t_s[row]:g} after {t_s[row - 1]:g}, expected later")
    else:
        known_s = t_s[np.unique(np.concatenate(([0], good, [t_s.size - 1])))]
        longest_s = float(np.diff(known_s).max())
        if longest_s > MAX_GAP_S:
            problem = f"{longest_s:,.0f} s without power, expected {MAX_GAP_S:g} s at most"
    if problem:
        raise LogFormatError(f"{table.path}: {problem}")
