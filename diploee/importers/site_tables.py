"""Readers of small tables: cooling power, reactive power, and grid voltage.

They contain measured points of a cooling plant, reactive power by active power, and
voltage over time.
"""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import numpy as np

from diploee.base.errors import InputError
from diploee.base.tables import Float64Array
from diploee.base.units import S_PER_H
from diploee.facility.cooling_table import LIMITS, Point
from diploee.importers.text.delimited_tables import read_header_table
from diploee.importers.text.numbers_and_labels import Number, fail_values, numbers


def read_cooling_points(path: Path) -> tuple[Point, ...]:
    """Read the measured points of a cooling table, with the columns in `LIMITS`.

    A point has temperature, load, and cooling power over IT power.
    """
    what = "a table of measured cooling"
    table = read_header_table(path, what).read(list(LIMITS), what)
    columns = (
        numbers(table, name, Number(**asdict(limit), may_be_missing=False)).tolist()
        for name, limit in LIMITS.items()
    )
    return tuple(zip(*columns, strict=True))


OF_REACTIVE = ("p_mw", "q_mvar")


def read_reactive_table(path: Path) -> tuple[Float64Array, Float64Array]:
    """Read an export's table of reactive power Q [Mvar] by active power P [MW].

    The CSV file has the header ``p_mw,q_mvar``; lines that start with ``#`` are
    comments.
    """
    what = f"a table '{','.join(OF_REACTIVE)}'"
    table = read_header_table(path, what).read(OF_REACTIVE, what)
    p_mw, q_mvar = (
        numbers(table, name, Number(may_be_missing=False)) for name in OF_REACTIVE
    )
    if len(table) < 2:
        raise InputError(
            f"{path}: a Q(P) table needs two rows or more, found {len(table)}"
        )
    fail_values(
        table, "p_mw", np.diff(p_mw, prepend=-np.inf) > 0, "more than in the row before"
    )
    return p_mw, q_mvar


EVENT = {
    "t_s": Number(24 * S_PER_H, may_be_missing=False),
    "voltage_pu": Number(2.0, 0.0, may_be_missing=False),
    "waveform_pu": Number(10.0, may_be_missing=False),
    "frequency_hz": Number(100.0, above=0.0, may_be_missing=False),
}
SAME_PU = 1e-6
"""Voltage difference up to which two voltages count as equal [pu].

The RMS of a measured wave varies by its rounding."""
MIN_SAMPLES = 8
"""Minimum samples per cycle for an RMS value of a wave (ASSUMPTION)."""


Floats = tuple[float, ...]


def read_voltage(
    path: Path,
) -> tuple[Floats, Floats, bool, tuple[tuple[float, float], ...]]:
    """Read a table of RMS voltage or voltage waveform, and frequency, over time.

    Returns times [s], voltages [pu], True if the voltages are half-cycle RMS values of
    a waveform, and pairs of time [s] and frequency [Hz].
    """
    what = "a table 't_s,voltage_pu[,frequency_hz]'"
    sheet = read_header_table(path, what)
    quantity = "waveform_pu" if sheet.has("waveform_pu") else "voltage_pu"
    has_hz = sheet.has("frequency_hz")
    names = ("t_s", quantity, *(["frequency_hz"] if has_hz else []))
    table = sheet.read(names, what)
    if not len(table):
        raise InputError(f"{path}: has no rows, expected a voltage from each time on")
    stamps, values, *hz = (numbers(table, name, EVENT[name]) for name in names)
    steps = np.diff(stamps)
    fail_values(
        table,
        "t_s",
        np.diff(stamps, prepend=-np.inf) > 0,
        "more than in the row before",
    )
    frequency = tuple(
        zip(stamps.tolist(), *(column.tolist() for column in hz), strict=True)
    )
    if quantity == "waveform_pu":
        nominal_hz = hz[0][0] if hz else 60.0
        longest_s = 1 / nominal_hz / MIN_SAMPLES
        if (
            steps.sum() < 1 / nominal_hz
            or steps.max() > longest_s
            or np.ptp(steps) > longest_s / 9
        ):
            raise InputError(
                f"{path}: column 'waveform_pu' must be a cycle or more in even steps "
                f"of at most {1e3 * longest_s:.3g} ms; give 'voltage_pu', the RMS, "
                "for what is coarser"
            )
        stamps, values = half_cycle_rms(stamps, values, nominal_hz)
    keep = np.abs(np.diff(values, prepend=np.inf)) > SAME_PU
    return (
        tuple(stamps[keep].tolist()),
        tuple(values[keep].tolist()),
        quantity == "waveform_pu",
        frequency if has_hz else (),
    )


def half_cycle_rms(
    time_s: Float64Array, wave: Float64Array, hz: float
) -> tuple[Float64Array, Float64Array]:
    """Return end times [s] and one-cycle RMS values [pu], updated each half cycle.

    ``U = sqrt(2 / n * sum(u_i^2, i = 1..n))`` with the n samples u_i of a cycle, so the
    value of a sine with amplitude 1 is 1. This is Urms(1/2) of IEC 61000-4-30, quoted
    from memory.
    """
    n = round(1 / hz / np.diff(time_s).mean())
    energy = np.concatenate([[0.0], np.cumsum(wave**2)])
    ends = np.arange(n, wave.size + 1, n // 2)
    return time_s[0] + ends / n / hz, np.sqrt(2 * (energy[ends] - energy[ends - n]) / n)
