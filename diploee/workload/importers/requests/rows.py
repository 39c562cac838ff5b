"""The requests of one block as arrays, before any rule is applied: what every format gives."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from diploee.tables import Float64Array, Int64Array
from diploee.workload.importers.requests.blocks import Block

TimeUnit = Literal["stamp", "s", "ms"]

US_PER_UNIT = {"s": 1e6, "ms": 1e3}

MISSING = int(np.iinfo(np.int64).min)
"""In place of a time or a token count that the trace leaves empty."""

LARGEST_TOKENS = 2**31 - 1
LARGEST_TIME_US = 10**18
"""Some 31,000 years."""

MISSING_WORDS = ("", "-", "NA", "N/A", "nan", "NaN", "null", "NULL", "none", "None")
"""How a trace writes an empty field."""


@dataclass(frozen=True, eq=False)
class RequestRows:
    """Rows of one block.

    Parameters
    ----------
    block : Block
        Where they stand.
    time_us : numpy.ndarray, shape (n,), int64
        Arrival [us], since 1970 UTC or since the trace's own origin, or `MISSING`.
    input_tokens, output_tokens : numpy.ndarray, shape (n,), int64, or None
        Lengths [tokens], or `MISSING`; None where the trace has no such column.
    service : numpy.ndarray, shape (n,), int64, or None
        Index into `service_names`; None where the trace does not tell.
    service_names : tuple of str
        Names that occur in this block; ``""`` where the field is empty.
    n_headers : int
        Headers repeated between the rows, as in concatenated files.
    """

    block: Block
    time_us: Int64Array
    input_tokens: Int64Array | None
    output_tokens: Int64Array | None
    service: Int64Array | None = None
    service_names: tuple[str, ...] = ()
    n_headers: int = 0

    def __len__(self) -> int:
        return int(self.time_us.size)


def us_of(times: Float64Array, unit: str) -> Int64Array:
    """Return times in a unit as whole microseconds; beyond `LARGEST_TIME_US` where not finite."""
    beyond = 2.0 * LARGEST_TIME_US
    with np.errstate(over="ignore"):
        us = np.nan_to_num(np.rint(times * US_PER_UNIT[unit]), nan=beyond)
    return np.asarray(np.clip(us, -beyond, beyond).astype(np.int64))


def is_usual(values: Int64Array, largest: int) -> bool:
    """Return whether no value but `MISSING` is larger than a limit, of either sign."""
    if values.max(initial=0) > largest:
        return False
    return bool(values.min(initial=0) >= -largest or (values[values != MISSING] >= -largest).all())


def number_of(text: str) -> float | None:
    """Return a finite number, or None; unlike `float`, not with underscores."""
    try:
        value = float(text)
    except ValueError:
        return None
    return value if np.isfinite(value) and "_" not in text else None
