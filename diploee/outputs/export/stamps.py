"""Time stamps as text: with the offset of a zone in force, or in naive UTC."""

from __future__ import annotations

from datetime import tzinfo

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from diploee.clock import offset_text, offsets_ms
from diploee.tables import Int64Array
from diploee.units import MS_PER_MIN


def local_stamps(starts_ms: Int64Array, zone: tzinfo, milliseconds: bool) -> pa.Array:
    """Return ISO 8601 stamps with their UTC offset, such as ``2018-11-04T01:30:00-06:00``.

    The offset keeps the two hours 01:00-02:00 of an autumn change apart, so that reading the
    stamps back gives every moment once.
    """
    shift_ms = offsets_ms(starts_ms, zone)
    different, which = np.unique(shift_ms, return_inverse=True)
    texts = pa.array([offset_text(int(ms / MS_PER_MIN)) for ms in different]).take(pa.array(which))
    return pc.binary_join_element_wise(
        naive_stamps(starts_ms + shift_ms, milliseconds, "T"), texts, ""
    )


def naive_stamps(times_ms: Int64Array, milliseconds: bool, separator: str = " ") -> pa.Array:
    """Return stamps without a zone, such as ``2018-01-01 00:00:00``."""
    stamps = pa.array(times_ms).cast(pa.timestamp("ms"))
    text = (stamps if milliseconds else stamps.cast(pa.timestamp("s"))).cast(pa.string())
    return text if separator == " " else pc.replace_substring(text, " ", separator)
