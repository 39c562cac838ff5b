"""Unit constants. Inside the package times are int64 ms, power is W, energy is J."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, get_args

MS_PER_S = 1_000
MS_PER_MIN = 60 * MS_PER_S
MS_PER_H = 60 * MS_PER_MIN
MS_PER_DAY = 24 * MS_PER_H
MS_PER_WEEK = 7 * MS_PER_DAY

TimeUnit = Literal["ns", "us", "ms", "s", "min", "h", "d"]
"""Units of times and durations in foreign files."""
_US = (1e-3, 1.0, 1e3, 1e6, 6e7, 3.6e9, 8.64e10)
US_PER_UNIT: Mapping[TimeUnit, float] = dict(zip(get_args(TimeUnit), _US, strict=True))

S_PER_MIN = 60
S_PER_H = 3_600
S_PER_DAY = 86_400
HOURS_PER_DAY = 24
DAYS_PER_WEEK = 7
HOURS_PER_WEEK = 168
MONTHS_PER_YEAR = 12

W_PER_MW = 1e6
W_PER_KW = 1e3
J_PER_MWH = 3.6e9

MAX_NUMBER = 1e18
"""Maximum magnitude of a number read from a file, in SI units; its square is finite."""

PROFILE_STEP_MS = 100
"""Sampling step of the measured power profiles [ms] (arXiv:2604.07345, sec. 2.2)."""


@dataclass(frozen=True)
class PowerUnit:
    """A unit of power and the corresponding unit of energy."""

    power: str
    energy: str
    watts: float
    joules: float


MEGAWATT = PowerUnit("MW", "MWh", W_PER_MW, J_PER_MWH)
KILOWATT = PowerUnit("kW", "kWh", W_PER_KW, J_PER_MWH / 1000)


def power_unit(max_w: float) -> PowerUnit:
    """Return megawatts for a maximum power of 1 MW or more, or kilowatts."""
    return MEGAWATT if max_w >= W_PER_MW else KILOWATT


SLOTS_PER_GPU = 100
"""Allocation slots per GPU: fractions of a GPU are rounded to hundredths, at least one
(ASSUMPTION)."""


def whole_ms(dt_s: float) -> int:
    """Return a step [s] as whole milliseconds, or raise `ValueError`."""
    dt_ms = round(dt_s * MS_PER_S)
    if dt_ms < 1 or abs(dt_s * MS_PER_S - dt_ms) > 1e-6:
        raise ValueError(f"must be a whole number of milliseconds, found {dt_s:g} s")
    return dt_ms
