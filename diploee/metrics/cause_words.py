"""Causes of events in words that a planner understands."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from diploee.errors import plural
from diploee.metrics.attribution import RECENT_MS
from diploee.metrics.causes import grid_events
from diploee.metrics.event import Key
from diploee.metrics.grid.changes import RAMP, SWING
from diploee.units import MS_PER_MIN, S_PER_H, S_PER_MIN, W_PER_MW, PowerUnit, power_unit

MOST_PARTS = 4
"""Parts that are told one by one; the others are a rest."""

LEAST_SHARE = 0.05
"""A part under this share of the largest is among the rest."""

BEHIND_DEVICES = {
    "node overhead": "the nodes' supplies, fans and network",
    "electrical losses": "electrical losses",
    "cooling": "the cooling",
    "auxiliary load": "the auxiliary load",
    "other stages": "other stages",
    "stages": "the facility's stages",
}
"""Parts between the devices and the meter, in words; runs of older versions hold the last, all."""

Words = Mapping[str, Any]


def causes_of(metrics: Mapping[str, Any]) -> Iterator[tuple[Key, str, Words]]:
    """Yield key, time and cause of the events of a run; none of one of an older version."""
    if metrics.get("grid"):
        for key, entry, time in grid_events(metrics["grid"]):
            if entry.get("cause") and time:
                yield key, time, entry["cause"]
    for window in (metrics.get("zooms") or {}).get("windows", ()):
        if window.get("cause"):
            yield ("zooms", 0.0, window["name"]), window["at"], window["cause"]


def event_words(key: Key) -> str:
    """Return what an event is, such as ``ramp up over 60 s``."""
    block, length_s, way = key
    if block == "peak":
        return "peak"
    length = span_words(length_s)
    if block == "ramps":
        return RAMP.format(way, length)
    if block == "rolling_range":
        return SWING.format(length)
    kind, _, length = way.partition("_")
    of_length = f" over {span_words(float(length.removesuffix('s')))}" if length else ""
    return f"event window: {kind}{of_length}"


def span_words(length_s: float) -> str:
    """Return a length such as ``1 min``."""
    for unit, unit_s in (("h", S_PER_H), ("min", S_PER_MIN)):
        if length_s >= unit_s and length_s % unit_s == 0:
            return f"{length_s / unit_s:g} {unit}"
    return f"{length_s:g} s"


def cause_words(cause: Words, unit: PowerUnit | None = None, most: int = MOST_PARTS) -> str:
    """Return a cause in words, the largest part first.

    Parameters
    ----------
    cause : mapping
        As it stands in the metrics.
    unit : PowerUnit, optional
        Unit of the powers; by default that of the largest part's size.
    most : int
        Parts of a change that are told one by one; the others are a rest.
    """
    parts: Sequence[Words] = sorted(cause["parts"], key=lambda part: -abs(part["mw"]))
    largest_mw = max((abs(part["mw"]) for part in parts), default=0.0)
    write = _Writer(largest_mw, unit, len({part["pool"] for part in parts if "pool" in part}) > 1)
    if any("mean_mw" in part for part in parts):
        return ", ".join(write.level(part) for part in parts if part["mw"] or part.get("mean_mw"))
    told = [part for part in parts if abs(part["mw"]) > LEAST_SHARE * largest_mw][:most]
    words = [write.change(part) for part in told]
    rest_mw = sum(part["mw"] for part in parts) - sum(part["mw"] for part in told)
    if write.shows(rest_mw):
        words.append(f"the rest {write.signed(rest_mw)}")
    streams = {part.get("of") for part in parts if part["what"].startswith("jobs")}
    for entry in cause.get("calendar", ()):
        if write.shows(entry["mw"]) and abs(entry["mw"]) > LEAST_SHARE * largest_mw:
            owner = write.owner("stream" if entry["of"] in streams else "service", entry)
            words[-1] += (
                f"; the calendar of {owner} {_moved(entry['change'])} "
                f"({write.signed(entry['mw'])} of this)"
            )
    if words and (queued := cause.get("queued_jobs")):
        words[-1] += f"; {_queue(*queued)}"
    return ", ".join(words)


class _Writer:
    """Writes parts in one unit with like decimals; names pools where there are several."""

    def __init__(self, largest_mw: float, unit: PowerUnit | None, with_pool: bool) -> None:
        self._unit = unit or power_unit(largest_mw * W_PER_MW)
        self._with_pool = with_pool
        self._factor = W_PER_MW / self._unit.watts
        size = largest_mw * self._factor
        self._digits = min(max(2 - math.floor(math.log10(size)), 0), 6) if size > 0 else 0

    def shows(self, mw: float) -> bool:
        """Whether a power is more than nothing at the digits shown."""
        return round(abs(mw) * self._factor, self._digits) > 0

    def signed(self, mw: float) -> str:
        """Return a change such as ``-3.10 MW``."""
        return f"{mw * self._factor:+,.{self._digits}f} {self._unit.power}"

    def size(self, mw: float) -> str:
        """Return a power without its unit."""
        return f"{mw * self._factor:,.{self._digits}f}"

    def owner(self, kind: str, part: Words) -> str:
        """Return whose a part is, such as ``stream training``."""
        name, pool = part.get("of", ""), part.get("pool", "")
        return (
            f"{kind} {name} in pool {pool}"
            if self._with_pool and pool != name
            else f"{kind} {name}"
        )

    def level(self, part: Words) -> str:
        """Return a part of a peak."""
        what, power = part["what"], f"{self.size(part['mw'])} {self._unit.power}"
        who = BEHIND_DEVICES.get(what, what)
        if what == "jobs":
            who = f"{plural(part.get('count', 0), 'job')} of {self.owner('stream', part)}"
        elif what == "instances":
            who = f"{plural(part.get('count', 0), 'instance')} of {self.owner('service', part)}"
        elif what == "replicas":
            who = f"{plural(part.get('count', 0), 'replica')} of {self.owner('stream', part)}"
        elif what == "idle nodes":
            who = plural(part.get("count", 0), "idle node")
        return f"{who} drew {power} (mean of the run {self.size(part.get('mean_mw') or 0.0)})"

    def change(self, part: Words) -> str:
        """Return a part of a change."""
        what, power = part["what"], self.signed(part["mw"])
        more = "more" if part["mw"] > 0 else "less"
        if what == "instances":
            did, more = _scaled(part)
            return f"{self.owner('service', part)} {did} ({power}{more})"
        if what == "rate per instance":
            before, after = (f"{rate:,.4g}" for rate in part.get("rate_rps") or (0, 0))
            each = f"each instance of {self.owner('service', part)} drew {more}"
            return f"{each} ({power}; {before} to {after} requests/s)"
        if what == "replicas":
            before, after = (f"{count:,.1f}" for count in part.get("replicas") or (0, 0))
            numbers = f"{before} to {after} replicas"
            return f"the replicas of {self.owner('stream', part)} drew {more} ({power}; {numbers})"
        if what in BEHIND_DEVICES:
            return f"{BEHIND_DEVICES[what]} ({power})"
        if what == "nodes added":
            return f"{plural(part.get('count', 0), 'node')} came to stand ({power})"
        jobs = f"{plural(part.get('count', 0), 'job')} of {self.owner('stream', part)}"
        did = what.removeprefix("jobs ")
        if did == "ran on":
            did = f"ran on and drew {more}"
        if did == "wrote checkpoints" and part["mw"] > 0:
            did = "trained on after writing checkpoints"
        return f"{jobs} {did} ({power}{self._largest(part)})"

    def _largest(self, part: Words) -> str:
        """Tell of the jobs that are most of a part: those that began recently, or one."""
        recent, largest = part.get("recent"), part.get("largest")
        if recent and part.get("count", 0) > 1 and 2 * abs(recent["mw"]) > abs(part["mw"]):
            since = f"that had started in the {RECENT_MS // MS_PER_MIN} min before"
            return f"; {self.signed(recent['mw'])} of it {recent['count']:,} {since}"
        if not largest or 2 * abs(largest["mw"]) < abs(part["mw"]):
            return ""
        nodes = plural(largest["n_nodes"], "node")
        if part.get("count", 0) == 1:
            return f"; job {largest['job_id']} on {nodes}"
        return f"; {self.signed(largest['mw'])} of it job {largest['job_id']} on {nodes}"


def _scaled(part: Words) -> tuple[str, str]:
    """Return what a service did with its instances, and more of it."""
    started, stopped = (part.get(did, 0) for did in ("started", "stopped"))
    if started and stopped:
        before, after = (f"{count:,.1f}" for count in part.get("instances") or (0, 0))
        changes = f"; {started:,} started, {stopped:,} stopped"
        return f"went from {before} to {after} instances", changes
    did = "started" if started else "stopped"
    return f"{did} {plural(started + stopped, 'instance')}", ""


def _moved(change: float | None) -> str:
    """Return what a calendar did, of its change relative to before; None is from nothing."""
    if change is None:
        return "rose from nothing"
    return f"rose by {change:.0%}" if change > 0 else f"fell by {min(-change, 1.0):.0%}"


def _queue(before: float, after: float) -> str:
    """Return what the queue did."""
    if not before:
        return f"a queue of {after:,.0f} jobs built up"
    if not after:
        return f"the queue of {before:,.0f} jobs emptied"
    return f"{before:,.0f} jobs were queued before, {after:,.0f} after"
