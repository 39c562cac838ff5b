"""Detection of values that a run's resolution does not support, and notes on them.

These values are lower bounds, are not reported, or have a flag.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from diploee.base.units import S_PER_MIN
from diploee.runs.formatting import listed

_LENGTH = re.compile(
    r"grid\.(?:at_step\.)?(?:(?:changes|ramps|rolling_range)|(peaks|"
    r"maximum_demand))\..*?(\d[\d.]*)(s|min)\."
)


def is_lower_bound(values: Mapping[str, Any], key: str) -> bool:
    """Return True if power readings or weather are too coarse for a key's interval."""
    if (match := _LENGTH.match(key)) is None or (
        match[1] and not key.endswith("max_mw")
    ):
        return False
    threshold_key = "interpolated_s" if match[1] else "lower_bound_below_s"
    length_s = float(match[2]) * (S_PER_MIN if match[3] == "min" else 1)
    return length_s < (values.get(f"grid.bandwidth.{threshold_key}") or 0.0)


def data_limits_note(block: Mapping[str, Any]) -> str:
    """Return a paragraph on values that a run flags or does not report, and why."""
    reasons: dict[str, list[str]] = {}
    quantities = (
        ("demand over {interval_min} min", block["maximum_demand"]["absent"]),
        ("changes within {window_s:g} s", block.get("changes", {}).get("absent", ())),
        ("ramps over {interval_s:g} s", block["ramps"]["absent"]),
        ("swings within {window_s:g} s", block["rolling_range"]["absent"]),
        ("the spectrum from {low_hz:g} to {high_hz:g} Hz", block["spectrum"]["absent"]),
    )
    for form, absent in quantities:
        for entry in absent:
            reasons.setdefault(entry["reason"], []).append(form.format(**entry))
    parts = [f"{listed(names)} ({reason})" for reason, names in reasons.items()]
    bounds = [
        form.format(**entry)
        for form, entries in (
            (
                "changes within {window_s:g} s",
                block.get("changes", {}).get("windows", ()),
            ),
            ("ramps over {interval_s:g} s", block["ramps"]["intervals"]),
            ("swings within {window_s:g} s", block["rolling_range"]["windows"]),
        )
        for entry in entries
        if entry["lower_bound"]
    ]
    flagged = [
        f"{band['low_hz']:g} to {band['high_hz']:g} Hz ({band['flag_reason']})"
        for band in block["spectrum"]["bands"]
        if band["flagged"]
    ]
    note, window_s = (
        block["bandwidth"]["note"],
        block["bandwidth"]["averaging_window_s"],
    )
    records_s = block["bandwidth"].get("interpolated_s")
    cloud_note = (
        f"clouds are not seen within {records_s:g} s, and " if records_s else ""
    )
    sentences = [
        f"Withheld: {'; '.join(parts)}." if parts else "",
        f"Flagged: {listed(flagged)}." if flagged else "",
        (
            f"Lower bounds: {listed(bounds)} ({cloud_note}the profiles average over "
            f"{window_s:g} s)."
        )
        if bounds
        else "",
        f"{note[:1].upper()}{note[1:]}.",
    ]
    return " ".join(filter(None, sentences))
