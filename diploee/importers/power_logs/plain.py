"""Import a plain table of whole-job power: columns ``t_s`` and ``power_w``, CSV or Parquet.

``t_s`` is the start of each step [s], ``power_w`` the mean power over it [W]; their case does not
matter where it leaves one column (OpenG2G writes ``power_W``), and other columns are not read.
Nothing is repaired: a missing, negative or uneven row is refused with its number. What a table
can't tell (what the power includes, how the readings were averaged) is taken from the call, else
stands in the provenance as unknown, with the bandwidth of a reading averaged over 1 s.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from diploee.errors import LogFormatError, ProfileError
from diploee.profiles.profile import (
    UNKNOWN_BOUNDARY,
    PowerProfile,
    Provenance,
    check_argument,
)
from diploee.profiles.resample import usable_bandwidth_hz
from diploee.scenario.limits import MAX_NODES, MAX_POWER_W
from diploee.tables import Float64Array
from diploee.textio.sheets import read_sheet
from diploee.textio.tables import ReadTable
from diploee.textio.values import Number, numbers
from diploee.units import MS_PER_DAY, MS_PER_S

COLUMNS = ("t_s", "power_w")
STAMP_TOLERANCE_MS = 1e-3
CLAIMED_WINDOW_S = 1.0
"""Of readings whose averaging is unknown no more bandwidth is claimed than a GPU driver's leave."""
SHORTEST_S, LONGEST_S = 1e-6, MS_PER_DAY / MS_PER_S
_ROUNDING = 1e-9


def import_plain(
    path: Path | str,
    *,
    workload: str,
    profile_id: str,
    n_nodes: int,
    source: str = "",
    licence: str = "unknown",
    averaging_window_s: float | None = None,
    power_boundary: str | None = None,
    sampling_interval_s: float | None = None,
    bandwidth_hz: float | None = None,
    add_w: float = 0.0,
) -> PowerProfile:
    """Import a table of ``t_s, power_w`` as one whole-job profile.

    Parameters
    ----------
    path : pathlib.Path
        ``*.parquet`` is read as Parquet, anything else as CSV with a header, also ``*.csv.gz``.
    workload, profile_id : str
        Kind of work and name of the profile.
    n_nodes : int
        Nodes that the measured job ran on.
    source, licence : str
        For the provenance; the source is the file name where not given.
    averaging_window_s : float, optional
        Window over which the meter averaged each reading [s], 0 for instantaneous ones; unknown
        where not given.
    power_boundary : str, optional
        What the power includes; ``unknown`` where not given.
    sampling_interval_s : float, optional
        Interval of the original readings [s]; the step where not given.
    bandwidth_hz : float, optional
        Highest frequency that the readings support [Hz]; where not given, what the averaging
        window and the sampling leave. With an unknown window it is what 1 s leaves, as of GPU
        drivers, or the step where that is longer.
    add_w : float
        Constant added for each node, for what the power lacks, such as its CPUs [W].

    Returns
    -------
    PowerProfile
        With the table's step, a whole number of milliseconds.

    Raises
    ------
    LogFormatError
        If the file is not readable, lacks a column or two rows, a value is missing, not a number
        or negative, or the step is uneven or not a whole number of ms.
    ProfileError
        If an argument is out of range.
    """
    check_argument("n_nodes", n_nodes, 1, MAX_NODES)
    check_argument("add_w", add_w, 0, MAX_POWER_W)
    check_argument("averaging_window_s", averaging_window_s, 0, LONGEST_S)
    check_argument("sampling_interval_s", sampling_interval_s, SHORTEST_S, LONGEST_S)
    sheet = read_sheet(path, f"columns '{','.join(COLUMNS)}'")
    table = sheet.read(COLUMNS, f"a table of '{','.join(COLUMNS)}'")
    t_s = numbers(table, "t_s", Number(may_miss=False))
    power_w = numbers(table, "power_w", Number(may_miss=False, at_least=0, of="watts"))
    dt_ms = _step_ms(table, t_s)
    dt_s = dt_ms / MS_PER_S
    interval_s = dt_s if sampling_interval_s is None else sampling_interval_s
    window_s = max(CLAIMED_WINDOW_S, dt_s) if averaging_window_s is None else averaging_window_s
    provenance = Provenance(
        kind="measured",
        source=source or sheet.path.name,
        licence=licence,
        sampling_interval_s=interval_s,
        averaging_window_s=averaging_window_s,
        bandwidth_hz=_bandwidth_hz(bandwidth_hz, max(interval_s, dt_s), window_s),
        source_sha256=sheet.sha256,
        power_boundary=_boundary(power_boundary, add_w),
        notes=""
        if averaging_window_s is not None
        else f"Averaging of the readings unknown: no more is claimed than {window_s:g} s leave.",
    )
    return PowerProfile(
        profile_id,
        workload,
        n_nodes,
        dt_ms,
        (power_w + add_w * n_nodes).astype(np.float32),
        provenance,
    )


def _boundary(told: str | None, add_w: float) -> str:
    measured = UNKNOWN_BOUNDARY if told is None else told
    if add_w == 0:
        return measured
    return f"{measured}, plus a constant {add_w:g} W per node, which is assumed"


def _bandwidth_hz(told_hz: float | None, interval_s: float, window_s: float) -> float:
    """Return the told bandwidth, or what sampling and averaging leave; never above Nyquist's."""
    nyquist_hz = 0.5 / interval_s
    if told_hz is None:
        return usable_bandwidth_hz(interval_s, window_s)
    if not 0 < told_hz <= nyquist_hz * (1 + _ROUNDING):
        raise ProfileError(
            f"bandwidth_hz is {told_hz:g}, expected more than 0 and at most {nyquist_hz:g} Hz, "
            f"half the rate of readings every {interval_s:g} s"
        )
    return told_hz


def _step_ms(table: ReadTable, t_s: Float64Array) -> int:
    if t_s.size < 2:
        raise LogFormatError(
            f"{table.path}: {t_s.size} rows, expected two or more to tell the step; "
            "give a complete table"
        )
    steps_ms = np.diff(t_s) * MS_PER_S
    step_ms = float(np.rint(steps_ms[0]))
    tolerance_ms = STAMP_TOLERANCE_MS + 4 * MS_PER_S * float(np.spacing(np.abs(t_s).max()))
    if not 1 <= step_ms <= MS_PER_DAY or abs(steps_ms[0] - step_ms) > tolerance_ms:
        raise LogFormatError(
            f"{table.where(1)}: step is {steps_ms[0]:g} ms, expected a whole number of ms "
            f"from 1 to {MS_PER_DAY}; resample the data"
        )
    # Stamps are held against the grid, not only against the row before, so that drift is seen.
    off_ms = np.abs((t_s - t_s[0]) * MS_PER_S - step_ms * np.arange(t_s.size))
    uneven = off_ms > tolerance_ms
    if uneven.any():
        row = int(np.argmax(uneven))
        raise LogFormatError(
            f"{table.where(row)}: step is {steps_ms[row - 1]:g} ms, expected {step_ms:g} ms "
            "as before, even and without gaps; resample the data"
        )
    return int(step_ms)
