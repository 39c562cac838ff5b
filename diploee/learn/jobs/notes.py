"""Remarks on a fit to read before using it."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from diploee.errors import plural
from diploee.learn.calendar import MIN_SIGHTINGS, covers_months
from diploee.learn.jobs.arrivals import ArrivalFit
from diploee.learn.jobs.class_fits import MIN_JOBS_FOR_DURATIONS, ClassFit
from diploee.learn.jobs.classes import JobGroups
from diploee.loads.jobs.job_log import STATES, TOLD_RATIO, JobRecords
from diploee.units import HOURS_PER_DAY, HOURS_PER_WEEK

NOTABLE_GAP_H = 30 * HOURS_PER_DAY
FEW_JOBS_PER_WEIGHT = 25
NOTABLE_SCALE = 0.05


def pool_notes(
    n_nodes: int | None, n_too_wide: int, share: float, busy_nodes: float
) -> Iterator[str]:
    """Yield what does not fit into the pool."""
    if n_nodes is None:
        return
    if n_too_wide:
        yield (
            f"{plural(n_too_wide, 'job')} of more than the pool's {n_nodes:,} nodes "
            f"{'is' if n_too_wide == 1 else 'are'} left out, with {share:.1%} of the log's node "
            "time; give the pool more nodes to keep them"
        )
    if busy_nodes > n_nodes:
        yield (
            f"the jobs ask for {busy_nodes:,.1f} busy nodes on average, the pool has {n_nodes:,}: "
            "the queue will grow without end; lower jobs_per_day or give the pool more nodes"
        )


def small_notes(jobs: JobRecords, gpus_per_node: int, allocates_gpus: bool) -> Iterator[str]:
    """Yield what whole nodes cost jobs on fewer GPUs, or which jobs have them all the same."""
    if allocates_gpus:
        if gpus_per_node and (n_unknown := int(np.isnan(jobs.n_gpus).sum())):
            yield f"{plural(n_unknown, 'job')} whose GPUs the log does not tell: on whole nodes"
        return
    n_small, ratio = jobs.small_jobs(gpus_per_node) if gpus_per_node else (0, 0.0)
    if ratio >= TOLD_RATIO:
        yield (
            f"{plural(n_small, 'job')} on fewer GPUs than the {gpus_per_node} of a node "
            f"{'takes' if n_small == 1 else 'take'} a whole one each: the GPU jobs take {ratio:.3g}"
            " times the nodes of their GPU time; set allocate: gpus of the pool and fit again"
        )


def arrival_notes(arrivals: ArrivalFit) -> Iterator[str]:
    """Yield what to know about the calendar and the scatter."""
    hours, calendar = arrivals.hours, arrivals.calendar
    weeks = hours.covered_hours / HOURS_PER_WEEK
    most = {"hour_of_day": "weights of 24 hours at most", "uniform": "one rate"}
    if calendar.detail in most and weeks < MIN_SIGHTINGS:
        allows = most[calendar.detail]
        yield f"a span of {weeks:.1f} weeks allows {allows}; days need two whole weeks"
    empty = np.diff(np.flatnonzero(hours.counts)).max(initial=0) - 1
    if empty > NOTABLE_GAP_H:
        yield (
            f"{empty / HOURS_PER_DAY:,.0f} days without a submission count as days of no work; if "
            "a stamp is wrong or the log has a gap, trim it (--from, --to)"
        )
    if not calendar.has_months and not covers_months(hours.month, hours.coverage):
        yield "no weights of months: the span does not cover all twelve"
    per_weight = hours.counts.sum() / max(calendar.n_parameters, 1)
    if per_weight < FEW_JOBS_PER_WEIGHT:
        yield (
            f"{per_weight:.1f} submissions per weight: the weights scatter by "
            f"{1 / np.sqrt(per_weight):.0%} or more by chance alone"
        )
    if arrivals.scatter is None:
        yield "the span is too short to tell how hourly counts scatter"


def class_notes(groups: JobGroups, classes: tuple[ClassFit, ...]) -> Iterator[str]:
    """Yield what to know about classes and durations."""
    if groups.n_joined:
        yield (
            f"{plural(groups.n_joined, 'job')} took a neighbouring node count, with a run time "
            "that keeps the node time"
        )
    if n := sum(c.shares_durations for c in classes):
        yield (
            f"{plural(n, 'class', 'classes')} of fewer than {MIN_JOBS_FOR_DURATIONS} jobs "
            "share tables of durations with those of nearby width, scaled to keep their node time"
        )
    scales = {
        c.name: c.duration.model.scale or 1.0
        for c in classes
        if c.duration is not None and not c.shares_durations
    }
    off = {name: scale for name, scale in scales.items() if abs(scale - 1) > NOTABLE_SCALE}
    if off:
        worst = max(off, key=lambda name: abs(off[name] - 1))
        yield (
            f"the fitted durations are scaled by more than {NOTABLE_SCALE:.0%} to keep the node "
            f"time in {len(off)} of {len(scales)} classes, by {off[worst] - 1:+.0%} in {worst}"
        )


def state_notes(jobs: JobRecords) -> Iterator[str]:
    """Yield how many jobs did not end well but had their nodes, and are fitted too."""
    states = ("failed", "cancelled", "timeout")
    counted = [(int((jobs.state_id == STATES.index(state)).sum()), state) for state in states]
    if found := ", ".join(f"{n:,} {state}" for n, state in counted if n):
        yield f"jobs that ran but did not complete are included: {found}; see --state"
