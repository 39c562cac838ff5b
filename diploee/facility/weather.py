"""Weather over a run, as the stages of a facility take it."""

from __future__ import annotations

from dataclasses import dataclass

from diploee.tables import Float64Array, Int64Array


@dataclass(frozen=True, eq=False)
class Weather:
    """Weather at instants, linear in time between them.

    Parameters
    ----------
    time_ms : numpy.ndarray, shape (n,), int64
        Instants since the start of the run [ms], rising; they enclose the run.
    dry_bulb_c, wet_bulb_c : numpy.ndarray, shape (n,), float64
        Temperatures [deg C].
    pressure_pa : numpy.ndarray, shape (n,), float64
        Air pressure [Pa].
    source : str
        Where it is from, in a few words.
    typical : bool
        It is a typical day or year, which holds no extremes.
    """

    time_ms: Int64Array
    dry_bulb_c: Float64Array
    wet_bulb_c: Float64Array
    pressure_pa: Float64Array
    source: str
    typical: bool
