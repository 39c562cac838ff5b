"""Remarks on a fit to read before using it."""

from __future__ import annotations

import numpy as np

from diploee.errors import plural
from diploee.learn.jobs.arrivals import ArrivalFit
from diploee.learn.jobs.calendar_fit import MIN_SIGHTINGS, covers_all_months
from diploee.learn.jobs.class_fits import MIN_JOBS_FOR_DURATIONS, ClassFit
from diploee.learn.jobs.classes import JobGroups
from diploee.loads.jobs.job_log import STATES, TOLD_RATIO, JobRecords
from diploee.units import HOURS_PER_DAY, HOURS_PER_WEEK

NOTABLE_GAP_H = 30 * HOURS_PER_DAY
FEW_JOBS_PER_WEIGHT = 25
NOTABLE_SCALE = 0.05


def arrival_notes(arrivals: ArrivalFit) -> list[str]:
    """Return what to know about the calendar and the scatter."""
    hours, calendar, notes = arrivals.hours, arrivals.calendar, []
    weeks = hours.covered_hours / HOURS_PER_WEEK
    if calendar.detail in ("hour_of_day", "uniform") and weeks < MIN_SIGHTINGS:
        what = {"hour_of_day": "weights of 24 hours at most", "uniform": "one rate"}
        allows = what[calendar.detail]
        notes.append(f"a span of {weeks:.1f} weeks allows {allows}; days need two whole weeks")
    empty = np.diff(np.flatnonzero(hours.counts)).max(initial=0) - 1
    if empty > NOTABLE_GAP_H:
        notes.append(
            f"{empty / HOURS_PER_DAY:,.0f} days without a submission count as days of no work; if "
            "a stamp is wrong or the log has a gap, trim it (--from, --to)"
        )
    if calendar.month_weight is None and not covers_all_months(hours):
        notes.append("no weights of months: the span does not cover all twelve")
    per_weight = hours.counts.sum() / max(calendar.n_parameters, 1)
    if per_weight < FEW_JOBS_PER_WEIGHT:
        notes.append(
            f"{per_weight:.1f} submissions per weight: the weights scatter by "
            f"{1 / np.sqrt(per_weight):.0%} or more by chance alone"
        )
    scatter = arrivals.scatter
    if scatter is None:
        notes.append("the span is too short to tell how hourly counts scatter")
    return notes


def pool_notes(n_nodes: int, n_too_wide: int, share: float, busy_nodes: float) -> list[str]:
    """Return what does not fit into the pool."""
    notes = []
    if n_too_wide:
        notes.append(
            f"{plural(n_too_wide, 'job')} of more than the pool's {n_nodes:,} nodes "
            f"{'is' if n_too_wide == 1 else 'are'} left out, with {share:.1%} of the log's node "
            "time; give the pool more nodes to keep them"
        )
    if busy_nodes > n_nodes:
        notes.append(
            f"the jobs ask for {busy_nodes:,.1f} busy nodes on average, the pool has {n_nodes:,}: "
            "the queue will grow without end; lower jobs_per_day or give the pool more nodes"
        )
    return notes


def small_notes(jobs: JobRecords, gpus_per_node: int, allocates_gpus: bool) -> list[str]:
    """Return what whole nodes cost jobs on fewer GPUs than they have, or who has them all the same.

    Parameters
    ----------
    jobs : JobRecords
        The jobs.
    gpus_per_node : int
        GPUs of a node.
    allocates_gpus : bool
        Whether the pool gives jobs GPUs.
    """
    if allocates_gpus:
        n_unknown = int(np.isnan(jobs.n_gpus).sum())
        told = f"{plural(n_unknown, 'job')} whose GPUs the log does not tell: on whole nodes"
        return [told] if n_unknown else []
    n_small, ratio = jobs.small_jobs(gpus_per_node)
    if ratio < TOLD_RATIO:
        return []
    return [
        f"{plural(n_small, 'job')} on fewer GPUs than the {gpus_per_node} of a node "
        f"{'takes' if n_small == 1 else 'take'} a whole one each: the GPU jobs take {ratio:.3g} "
        "times the nodes of their GPU time; set allocate: gpus of the pool and fit again"
    ]


def state_notes(jobs: JobRecords) -> list[str]:
    """Return how many jobs did not end well but had their nodes, and are fitted too."""
    found = [f"{n:,} {state}" for state in ("failed", "cancelled", "timeout")
             if (n := int((jobs.state_id == STATES.index(state)).sum()))]  # fmt: skip
    if not found:
        return []
    return [f"jobs that ran but did not complete are included: {', '.join(found)}; see --state"]


def class_notes(groups: JobGroups, classes: tuple[ClassFit, ...]) -> list[str]:
    """Return what to know about classes and durations."""
    notes = []
    if groups.n_joined:
        notes.append(
            f"{plural(groups.n_joined, 'job')} took a neighbouring node count, with a run time "
            "that keeps the node time"
        )
    if n := sum(c.shares_durations for c in classes):
        notes.append(
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
        notes.append(
            f"the fitted durations are scaled by more than {NOTABLE_SCALE:.0%} to keep the node "
            f"time in {len(off)} of {len(scales)} classes, by {off[worst] - 1:+.0%} in {worst}"
        )
    return notes
