"""Time stamps as text: in the facility's fixed UTC offset, in a named zone, or in naive UTC."""

from __future__ import annotations

from datetime import timezone, tzinfo
from zoneinfo import ZoneInfo, available_timezones

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from diploee.errors import InputError, did_you_mean
from diploee.tables import Int64Array
from diploee.units import MS_PER_MIN, MS_PER_S


def named_zone(name: str) -> ZoneInfo:
    """Return a zone of the IANA database.

    Raises
    ------
    InputError
        If there is none of that name.
    """
    try:
        return ZoneInfo(name)
    except (LookupError, ValueError, OSError):
        known = available_timezones()
        remedy = (
            f"expected a name of the IANA database such as 'America/Denver'"
            f"{did_you_mean(name, known)}"
            if known
            else "this system has no time zone database, 'pip install tzdata' brings one"
        )
        raise InputError(f"--time-zone: unknown zone '{name}'; {remedy}") from None


def local_stamps(starts_ms: Int64Array, zone: tzinfo, milliseconds: bool) -> pa.Array:
    """Return ISO 8601 stamps with their UTC offset, such as ``2018-11-04T01:30:00-06:00``.

    The offset keeps the two hours 01:00-02:00 of an autumn change apart, so that reading the
    stamps back gives every moment once.

    Parameters
    ----------
    starts_ms : numpy.ndarray, shape (n,), int64
        Moments [ms since 1970 in UTC].
    zone : tzinfo
        Fixed offset or named zone.
    milliseconds : bool
        Show them; all stamps of a file do or none does.
    """
    if isinstance(zone, timezone):
        offset = zone.utcoffset(None)
        offsets_ms = np.full(starts_ms.size, round(offset.total_seconds() * MS_PER_S))
    else:
        there = pd.DatetimeIndex(starts_ms.astype("datetime64[ms]")).tz_localize("UTC")
        naive = there.tz_convert(zone).tz_localize(None)
        offsets_ms = naive.to_numpy().astype("datetime64[ms]").astype(np.int64) - starts_ms
    different, which = np.unique(offsets_ms, return_inverse=True)
    texts = pa.array([_offset_text(int(ms)) for ms in different]).take(pa.array(which))
    return pc.binary_join_element_wise(
        naive_stamps(starts_ms + offsets_ms, milliseconds, "T"), texts, ""
    )


def naive_stamps(times_ms: Int64Array, milliseconds: bool, separator: str = " ") -> pa.Array:
    """Return stamps without a zone, such as ``2018-01-01 00:00:00``.

    Parameters
    ----------
    times_ms : numpy.ndarray, shape (n,), int64
        Times on the clock [ms since 1970].
    milliseconds : bool
        Show them; all stamps of a file do or none does.
    separator : str
        Between date and time.
    """
    stamps = pa.array(times_ms).cast(pa.timestamp("ms"))
    text = (stamps if milliseconds else stamps.cast(pa.timestamp("s"))).cast(pa.string())
    return text if separator == " " else pc.replace_substring(text, " ", separator)


def _offset_text(offset_ms: int) -> str:
    hours, minutes = divmod(abs(offset_ms) // MS_PER_MIN, 60)
    return f"{'-' if offset_ms < 0 else '+'}{hours:02d}:{minutes:02d}"
