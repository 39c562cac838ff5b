"""Rows of a job log that are there twice: the same row, or the same job id with other values."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import numpy as np
import pyarrow.compute as pc

from diploee.importers.job_logs.raw_log import RawJobs, RawLog
from diploee.tables import BoolArray, Int64Array

REPEATED_ROW = "repeated row"
REPEATED_ID = "repeated job id"
RENUMBERED = "repeated job id, kept and renumbered as tasks of an array"


def repeated(rows: RawJobs, raw: RawLog, kept: BoolArray) -> dict[str, BoolArray]:
    """Return which of the rows that stay so far repeat an earlier one."""
    same = np.zeros(len(rows), dtype=bool)
    masks = {REPEATED_ROW: same, REPEATED_ID: same}
    if raw.job_ids is None or raw.ids_repeat:
        return masks
    encoded = raw.job_ids.dictionary_encode()
    if len(encoded.dictionary) == len(encoded) - encoded.null_count:
        return masks
    places = np.flatnonzero(kept & np.asarray(pc.is_valid(encoded)))
    keys = np.asarray(encoded.indices.fill_null(0), dtype=np.int64)[places]
    starts = rows.start_ms[places] if raw.runs_share_id else np.zeros(keys.size, dtype=np.int64)
    order = np.lexsort((starts, keys))  # stable: ties stay in the order of the file
    keys, starts, places = keys[order], starts[order], places[order]
    is_first = np.ones(keys.size, dtype=bool)
    is_first[1:] = (keys[1:] != keys[:-1]) | (starts[1:] != starts[:-1])
    firsts = places[np.maximum.accumulate(np.where(is_first, np.arange(keys.size), 0))]
    equal = _equal_rows(rows, firsts, places)
    repeated_row, repeated_id = same.copy(), same.copy()
    repeated_row[places[~is_first & equal]] = True
    repeated_id[places[~is_first & ~equal]] = True
    return {REPEATED_ROW: repeated_row, REPEATED_ID: repeated_id}


def renumbered(names: Iterable[str]) -> tuple[str, ...]:
    """Return names of which the second and later of one kind have a number: ``7``, ``7#2``."""
    seen: Counter[str] = Counter()
    found = []
    for name in names:
        seen[name] += 1
        found.append(name if seen[name] == 1 else f"{name}#{seen[name]}")
    return tuple(found)


def _equal_rows(rows: RawJobs, first: Int64Array, second: Int64Array) -> BoolArray:
    equal = np.ones(first.size, dtype=bool)
    for name in RawJobs.__dataclass_fields__:
        values = getattr(rows, name)
        one, other = values[first], values[second]
        equal &= (one == other) | ((one != one) & (other != other))  # NaN is NaN
    return equal
