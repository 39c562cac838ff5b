"""Text of the causes of events: net changes, with gross changes in brackets.

A gross change is one component of a net change, such as the jobs that started.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from diploee.base.errors import plural
from diploee.base.units import (
    MS_PER_MIN,
    S_PER_H,
    S_PER_MIN,
    W_PER_MW,
    PowerUnit,
    power_unit,
)
from diploee.metrics.attribution import RECENT_MS, ComponentKind, OwnerType
from diploee.metrics.causes import grid_extremes
from diploee.metrics.load_changes import CHANGE, RAMP, SWING, Key

MAX_LINES = 4
"""Number of net changes that are listed; there are more only if the unexplained rest
would be too large."""

MIN_SHARE = 0.05
"""Minimum size of a listed component, as a fraction of the largest."""

MAX_REST = 0.1
"""Maximum fraction of a change that is in no line of an explained event."""

# Entry of the metrics
Entry = Mapping[str, Any]


def read_causes(metrics: Mapping[str, Any]) -> Iterator[tuple[Key, str, Entry]]:
    """Yield the key, time and cause of each event of a run.

    Yields nothing for runs of older versions, which have no causes.
    """
    if metrics.get("grid"):
        for key, entry, time in grid_extremes(metrics["grid"]):
            if entry.get("cause") and time:
                yield key, time, entry["cause"]
    for window in (metrics.get("zooms") or {}).get("windows", ()):
        if window.get("cause"):
            yield ("zooms", 0.0, window["name"]), window["at"], window["cause"]


def event_label(key: Key) -> str:
    """Return the label of an event, such as ``ramp up over 60 s``."""
    block, length_s, direction = key
    if block == "peak":
        return "peak"
    length = _duration_text(length_s)
    if block == "changes":
        return CHANGE[direction].format(length)
    if block == "ramps":
        return RAMP.format(direction, length)
    if block == "rolling_range":
        return SWING.format(length)
    kind, _, length = direction.partition("_")
    length_text = (
        f" over {_duration_text(float(length.removesuffix('s')))}" if length else ""
    )
    return f"event window: {kind}{length_text}"


def _duration_text(length_s: float) -> str:
    """Return the text of a duration, such as ``1 min``."""
    for unit, unit_s in (("h", S_PER_H), ("min", S_PER_MIN)):
        if length_s >= unit_s and length_s % unit_s == 0:
            return f"{length_s / unit_s:g} {unit}"
    return f"{length_s:g} s"


def cause_text(cause: Entry, unit: PowerUnit | None = None) -> str:
    """Return the text of a cause: net changes, first those of the event's sign."""
    lines, rest_mw = cause_lines(cause)
    change_mw = _change_mw(cause)
    pools = {part["pool"] for part in cause["parts"] if part.get("pool")}
    formatter = _Formatter(
        max((abs(line.net_mw) for line in lines), default=0), unit, len(pools) > 1
    )
    detailed = lines[:MAX_LINES]
    printed = [line for line in lines if formatter.shows(line.net_mw)]
    supporting, opposing = (
        ", ".join(
            formatter.line(x, cause, x in detailed)
            for x in printed
            if x.opposes(change_mw) == opposes
        )
        for opposes in (False, True)
    )
    texts = [supporting, f"against it {opposing}" if opposing else ""]
    if abs(rest_mw) > MAX_REST * abs(change_mw):
        texts.insert(0, f"{abs(rest_mw / (change_mw or rest_mw)):.0%} unexplained")
    if formatter.shows(rest_mw):
        texts.append(f"the rest {formatter.format_change(rest_mw)}")
    if queued := cause.get("queued_jobs"):
        texts.append(_queue_text(*queued))
    return "; ".join(filter(None, texts))


@dataclass(frozen=True)
class NetChange:
    """Net change of one stream, service, stage or kind of noise.

    The net change is the sum of its components.
    """

    kind: OwnerType
    of: str  # name of the stream, service or stage
    pool: str  # name of the pool
    parts: list[Entry] = field(default_factory=list)

    @property
    def net_mw(self) -> float:
        """Net change [MW]; for a peak, power above the run's mean."""
        return sum(map(_net_mw, self.parts))

    def opposes(self, change_mw: float) -> bool:
        """Return True if the net change goes against a change's direction."""
        return self.net_mw * change_mw < 0


def cause_lines(cause: Entry) -> tuple[list[NetChange], float]:
    """Return the listed net changes of a cause, and the remaining change [MW].

    The largest change of the event's sign is the first. The largest of the other
    changes follow.
    """
    lines: dict[tuple[OwnerType, str, str], NetChange] = {}
    for part in cause["parts"]:
        owner_type, owner = (
            ComponentKind(part["what"]).owner_type,
            (part.get("of", ""), part.get("pool", "")),
        )
        key = (
            (owner_type, *owner)
            if owner_type is not OwnerType.NOISE
            else (owner_type, "", "")
        )
        lines.setdefault(key, NetChange(*key)).parts.append(part)
    rest_mw = change_mw = _change_mw(cause)
    by_size = sorted(lines.values(), key=lambda line: -abs(line.net_mw))
    first_line = next((line for line in by_size if not line.opposes(change_mw)), None)
    by_size.sort(key=lambda line: line is not first_line)
    min_mw = MIN_SHARE * max((abs(line.net_mw) for line in by_size), default=0.0)
    listed: list[NetChange] = []
    for line in by_size:
        is_large = len(listed) < MAX_LINES and abs(line.net_mw) > min_mw
        if is_large or abs(rest_mw) > MAX_REST * abs(change_mw):
            listed.append(line)
            rest_mw -= line.net_mw
    return listed, rest_mw


def _net_mw(part: Entry) -> float:
    """Return the net change of a component [MW]."""
    return part["mw"] - part.get("mean_mw", 0.0)


def _change_mw(cause: Entry) -> float:
    """Return the change of an event [MW].

    If the cause has no change, the change is the sum of the components.
    """
    return cause.get("change_mw", sum(map(_net_mw, cause["parts"])))


class _Formatter:
    """Formatter of net changes in one unit with a fixed number of decimals.

    Pools are named if there are several.
    """

    def __init__(
        self, largest_mw: float, unit: PowerUnit | None, with_pool: bool
    ) -> None:
        self._unit = unit or power_unit(largest_mw * W_PER_MW)
        self._with_pool = with_pool
        self._factor = W_PER_MW / self._unit.watts
        size = largest_mw * self._factor
        self._digits = (
            min(max(2 - math.floor(math.log10(size)), 0), 6) if size > 0 else 0
        )

    def shows(self, mw: float) -> bool:
        """Return True if a power is not 0 at the printed decimals."""
        return round(abs(mw) * self._factor, self._digits) > 0

    def format_change(self, mw: float) -> str:
        """Return the text of a signed change, such as ``-3.10 MW``."""
        return f"{self._signed_number(mw)} {self._unit.power}"

    def line(self, line: NetChange, cause: Entry, full: bool) -> str:
        """Return the text of a net change, if `full` with gross changes in brackets."""
        name = f"{line.kind} {line.of}".rstrip()
        if self._with_pool and line.pool and line.pool != line.of:
            name += f" in pool {line.pool}"
        net = f"{name} {self.format_change(line.net_mw)}"
        if not full:
            return net
        parts = [component for part in line.parts for component in _gross_parts(part)]
        parts.sort(key=lambda part: -abs(_net_mw(part)))
        min_mw = MIN_SHARE * abs(_net_mw(parts[0]))
        parts = [
            p for p in parts if abs(_net_mw(p)) >= min_mw and self.shows(_net_mw(p))
        ]
        texts = [self._gross_text(p, line, len(parts) > 1) for p in parts]
        texts += [
            f"the calendar {_calendar_text(entry['change'])}: "
            f"{self._signed_number(entry['mw'])}"
            for entry in cause.get("calendar", ())
            if line.kind in (OwnerType.STREAM, OwnerType.SERVICE)
            and (entry["of"], entry["pool"]) == (line.of, line.pool)
            and self.shows(entry["mw"])
            and entry["mw"] * line.net_mw > MIN_SHARE * line.net_mw**2
        ]
        detail = ", ".join(filter(None, texts))
        return f"{net} ({detail})" if detail else net

    def _signed_number(self, mw: float) -> str:
        """Return the text of a signed number without unit."""
        return f"{mw * self._factor:+,.{self._digits}f}"

    def _gross_text(self, part: Entry, line: NetChange, with_power: bool) -> str:
        """Return the text of a component, if `with_power` with its power."""
        text = _action_text(part, line)
        if "mean_mw" in part:
            drew, mean = (
                f"{part[k] * self._factor:,.{self._digits}f}" for k in ("mw", "mean_mw")
            )
            return f"{text} drew {drew}, in the mean of the run {mean}".lstrip()
        if text and with_power:
            text += f" {self._signed_number(part['mw'])}"
        recent, largest = part.get("recent"), part.get("largest")
        if (
            recent
            and part["count"] > 1
            and 2 * recent["mw"] * part["mw"] > part["mw"] ** 2
        ):
            since = f"that had started in the {RECENT_MS // MS_PER_MIN} min before"
            recent_mw = self._signed_number(recent["mw"])
            return f"{text}: {recent_mw} of it {recent['count']:,} {since}"
        if not largest or 2 * abs(largest["mw"]) < abs(part["mw"]):
            return text
        part_text = (
            f"{self._signed_number(largest['mw'])} of it " if part["count"] > 1 else ""
        )
        return (
            f"{text}: {part_text}job {largest['job_id']} on "
            f"{plural(largest['n_nodes'], 'node')}"
        )


def _gross_parts(part: Entry) -> list[Entry]:
    """Return a service's started and stopped instances as two components.

    Other components are returned unchanged.
    """
    return [
        {"what": kind, "count": part[action], "mw": part[f"{action}_mw"]}
        for action, kind in (
            ("started", ComponentKind.INSTANCES_STARTED),
            ("stopped", ComponentKind.INSTANCES_STOPPED),
        )
        if f"{action}_mw" in part
    ] or [part]


def _action_text(part: Entry, line: NetChange) -> str:
    """Return the action text of a component, from its counted items."""
    kind = ComponentKind(part["what"])
    if "count" in part:
        is_over = kind is ComponentKind.CHECKPOINTS and part["mw"] > 0
        action = "trained on after writing checkpoints" if is_over else kind.action
        return f"{plural(part['count'], kind.noun)} {action}".rstrip()
    if "rate_rps" in part:
        counts = next((p["instances"] for p in line.parts if "instances" in p), (1, 1))
        rates = (
            rate / (n or 1) for rate, n in zip(part["rate_rps"], counts, strict=True)
        )
        return "{:,.4g} to {:,.4g} requests/s each".format(*rates)
    if "replicas" in part:
        before, after = (f"{number:,.1f}" for number in part["replicas"])
        return (
            f"{before} to {after} replicas"
            if before != after
            else f"each of {after} replicas"
        )
    return (
        str(part["of"]) if kind is ComponentKind.NOISE and len(line.parts) > 1 else ""
    )


def _calendar_text(change: float | None) -> str:
    """Return the text of a calendar's relative change.

    None means that the earlier mean is 0.
    """
    if change is None:
        return "rose from nothing"
    return f"rose by {change:.0%}" if change > 0 else f"fell by {min(-change, 1.0):.0%}"


def _queue_text(before: float, after: float) -> str:
    """Return the text of the change of queue length."""
    if not before:
        return f"a queue of {after:,.0f} jobs built up"
    if not after:
        return f"the queue of {before:,.0f} jobs emptied"
    return f"{before:,.0f} jobs were queued before, {after:,.0f} after"
