"""Load controller of a facility: delays, caps, suspends and restores jobs.

The controller delays job starts, applies fair power caps, suspends jobs, shrinks them
to fewer nodes, and undoes these actions when power allows. It follows the policies of
the demonstration in Phoenix (arXiv:2507.00909; see docs/FLEXIBILITY.md). Its inputs are
the mean power of jobs at each cap, their estimated run times, issued events, and the
known part of signals.

See also: docs/models/flexibility.md
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from diploee.base.tables import Float64Array, Int64Array
from diploee.base.units import MS_PER_H, MS_PER_MIN, W_PER_MW
from diploee.scenario.flexibility import (
    TOLERATED_LOSS,
    EventTarget,
    FollowSignal,
    RunEvent,
)
from diploee.scenario.times import span_ms
from diploee.schedule.actions import Action, Preempt, Resize, SetLevel
from diploee.schedule.context import FacilityView, PreemptivePool
from diploee.schedule.signals import Signal, quantile

STEP_MS = MS_PER_MIN
"""Step in which a ramp is followed [ms]. Assumed (judgement)."""
MARGIN = 0.01
"""Margin of the power aim below the target, as a fraction, since jobs exceed their mean
at times. Assumed (judgement)."""
BAND = 0.02
"""Width of the band below the power aim in which caps are not loosened, as a fraction.
Assumed (judgement)."""
START_MARGIN = 0.01
"""Margin below the target, as a fraction, that a start must leave if all jobs have
their lowest cap. Assumed (judgement)."""
HOLD_MS = MS_PER_H
"""Time before an event's ramp from which starts are delayed, if the event has been
issued [ms]. Assumed (judgement)."""
MIN_MS = 10_000
"""Time for which the minimum power of all jobs is reused [ms]."""
STAGGER_MS = MS_PER_MIN
"""Time between two restarts of suspended jobs, so that they do not coincide [ms].
Assumed (judgement)."""
NO_LIMIT_W = float("inf")


def fair_levels(
    power_w: Float64Array, allowed_w: float, present_levels: Int64Array | None = None
) -> Int64Array:
    """Return the cap levels of jobs that share a power limit.

    The headroom of a job is its uncapped power minus its power at the lowest level. All
    jobs are capped by a common fraction of their headroom, the smallest one with which
    the jobs together meet the limit. The level of each job is the first one that saves
    at least this fraction. Then jobs go back by one level, one job after another, as
    long as the limit is met, beginning with those that have the highest power level at
    present.
    """
    n_jobs = power_w.shape[0]
    headroom_w = power_w[:, :1] - power_w[:, -1:]
    # Fraction of its headroom that a job gives up at each level; 0 without headroom
    fraction = np.where(headroom_w > 0, power_w[:, :1] - power_w, 0.0)
    fraction = fraction / np.where(headroom_w > 0, headroom_w, 1.0)
    lowest: Int64Array = np.argmin(power_w, axis=1).astype(np.int64)

    def levels_at(common_fraction: float) -> Int64Array:
        """Return each job's first level that gives up at least a fraction."""
        first: Int64Array = np.argmax(fraction >= common_fraction, axis=1).astype(
            np.int64
        )
        first[headroom_w[:, 0] <= 0] = 0
        return first

    def total_w(levels: Int64Array) -> float:
        """Return the power of all jobs at their levels [W]."""
        return float(power_w[np.arange(n_jobs), levels].sum())

    fractions = np.unique(fraction)
    low, high = 0, fractions.size - 1
    if total_w(lowest) > allowed_w:
        return lowest
    while low < high:
        middle = (low + high) // 2
        if total_w(levels_at(fractions[middle])) <= allowed_w:
            high = middle
        else:
            low = middle + 1
    levels = levels_at(fractions[high])
    margin_w = allowed_w - total_w(levels)
    capped = np.flatnonzero(levels > 0)
    if present_levels is not None:  # so that no job alternates between levels
        capped = capped[
            np.argsort(present_levels[capped] >= levels[capped], kind="stable")
        ]
    for job in capped.tolist():
        added_w = power_w[job, levels[job] - 1] - power_w[job, levels[job]]
        if added_w <= margin_w:
            levels[job] -= 1
            margin_w -= added_w
    return levels


class PowerHistory:
    """History of the facility's power, for means over a past period."""

    def __init__(self, keep_ms: int) -> None:
        self._keep_ms = keep_ms
        self._steps: deque[tuple[int, float]] = deque()

    def add(self, time_ms: int, power_w: float) -> None:
        """Add the power after a time [ms, W]."""
        while len(self._steps) > 1 and self._steps[1][0] <= time_ms - self._keep_ms:
            self._steps.popleft()
        self._steps.append((time_ms, power_w))

    def mean_w(self, from_ms: int, until_ms: int) -> float:
        """Return the mean power over a period, or over its recorded part [W]."""
        steps = [*self._steps, (until_ms, 0.0)]
        total, length_ms = 0.0, 0
        for (begin_ms, power_w), (end_ms, _) in pairwise(steps):
            overlap_ms = min(end_ms, until_ms) - max(begin_ms, from_ms)
            if overlap_ms > 0:
                total, length_ms = total + power_w * overlap_ms, length_ms + overlap_ms
        return (
            total / length_ms
            if length_ms
            else (self._steps[-1][1] if self._steps else 0.0)
        )


@dataclass
class _Limit:
    """Power limit of an event, and the power before its ramp."""

    event: RunEvent
    at_meter: bool  # True if the target is power at the meter, not of devices
    baseline_w: float | None = None


@dataclass
class _SignalState:
    """State of a followed signal: whether it is high, since when, and its limit."""

    spec: FollowSignal
    signal: Signal
    high: bool = False
    switched_ms: int | None = None
    limit: _Limit | None = None


class FairPowerCaps:
    """Keeps facility power below the limits of events, a cap and a high price.

    Whenever it is called, the controller compares the mean power of all devices with
    the limit until the next step. If power is above the limit, jobs that tolerate it
    are capped by a common fraction of their headroom. If that is not sufficient, jobs
    are suspended, the most tolerant with the most slack first, and then jobs are shrunk
    to fewer nodes. If power is below the limit, these actions are undone. Jobs of tier
    0, and jobs that would miss their deadlines, are never capped, suspended or shrunk.

    The limits are those of issued `events`, a `cap` [MW] and a signal to `follow`.
    `overhead` returns, for a time [ms] and the power of all devices, the power at the
    meter and the power from on-site sources [W]; without it the meter shows the
    devices' power. With `has_sources`, a target as a fraction is a fraction of the
    meter's power.
    """

    def __init__(
        self,
        events: Sequence[RunEvent] = (),
        cap: Signal | None = None,
        follow: FollowSignal | None = None,
        signals: Mapping[str, Signal] | None = None,
        overhead: Callable[[int, float], tuple[float, float]] | None = None,
        has_sources: bool = False,
    ) -> None:
        self._cap, self._overhead, self._has_sources = cap, overhead, has_sources
        self._limits = [self._event_limit(event) for event in events]
        self._known_limits: tuple[int, list[_Limit], int] | None = None
        self._follow = None
        if follow is not None:
            self._follow = _SignalState(follow, (signals or {})[follow.signal])
        lookback_ms = (
            event.ramp_ms - event.before_ms + event.baseline_ms for event in events
        )
        keep_ms = max(lookback_ms, default=25 * MS_PER_MIN)
        self._history = PowerHistory(keep_ms)
        self._levels_w: dict[tuple[str, int, int], Float64Array] = {}
        self._paused: dict[tuple[str, int], int] = {}
        self._restarting: dict[tuple[str, int], int] = {}
        self._capped: set[tuple[str, int]] = set()
        self._resized: dict[tuple[str, int], int] = {}
        self._last_restart_ms: int | None = None
        self._min_power: tuple[int, float] | None = None
        self._granted_w = 0.0
        # Instant and pool, and the upcoming events for which starts are held
        self._upcoming: tuple[object, list[tuple[int, int, float]]] = None, []
        self._woken_ms: set[int] = set()
        self._aim_w = NO_LIMIT_W
        self._last_reaction_ms: int | None = None

    def settled(self, view: FacilityView) -> list[tuple[str, Action]]:
        """Respond to jobs that have just started, then record the power."""
        now_ms, power_w = view.now_ms, view.power_w
        if power_w > self._aim_w and self._last_reaction_ms != now_ms:
            self._last_reaction_ms = now_ms
            if actions := self.decide(view):
                return actions
        self._history.add(now_ms, power_w)
        return []

    @property
    def holds(self) -> bool:
        """Whether waiting jobs may be delayed."""
        return self._aim_w < NO_LIMIT_W or bool(self._paused) or self._holding

    _holding = False

    def decide(self, view: FacilityView) -> list[tuple[str, Action]]:
        """Return the actions to take, each with the name of its pool."""
        now_ms, self._upcoming = view.now_ms, (None, [])
        self._woken_ms = {time_ms for time_ms in self._woken_ms if time_ms > now_ms}
        self._update_signal(view)
        self._wake_for_events(view)
        self._aim_w = self._allowed_w(view) * (1 - MARGIN)
        self._update_restarts(view)
        has_touched_jobs = (
            self._capped or self._resized
        )  # suspended jobs restart by `may_start`
        if self._aim_w == NO_LIMIT_W and not has_touched_jobs:
            return []
        committed_w = self._committed_w(view)
        if self._aim_w * (1 - BAND) <= committed_w <= self._aim_w:
            return []
        if committed_w < self._aim_w and not has_touched_jobs:
            return []
        return self._balancing_actions(view, committed_w)

    def may_start(self, view: FacilityView, pool: str, job: int) -> bool:
        """Return True if a pool may start a waiting job now."""
        pool_view, now_ms = view.pools[pool], view.now_ms
        if pool_view.flexibility(job).tier == 0:
            return True
        is_suspended = (pool, job) in self._paused
        if is_suspended and any(
            now_ms < limit.event.end_ms for limit in self._active_limits(view)
        ):
            return False
        if is_suspended and self._last_restart_ms is not None:
            next_ms = self._last_restart_ms + STAGGER_MS
            if now_ms < next_ms:
                self._wake(view, next_ms)
                return False
        limit_w = self._aim_w
        if self._upcoming[0] != (now_ms, pool):
            self._upcoming = (now_ms, pool), list(self._upcoming_limits(view))
        for ramp_ms, over_ms, upcoming_w in self._upcoming[1]:
            estimate_ms = pool_view.job_estimate_ms[job]
            # A job that would miss its deadline is not delayed.
            if (
                ramp_ms < now_ms + estimate_ms
                and pool_view.deadline_ms(job) >= over_ms + estimate_ms
            ):
                limit_w = min(limit_w, upcoming_w)
        if limit_w < NO_LIMIT_W:
            n_nodes = pool_view.job_n_nodes[job]
            powers_w = self._power_by_level(pool, pool_view, job)
            added_w = float(powers_w[-1]) - pool_view.idle_w * n_nodes
            min_w = self._min_w(view) + self._granted_w
            if added_w > limit_w * (1 - START_MARGIN) - min_w:
                return False
            if pool_view.free_nodes >= n_nodes:
                self._granted_w += added_w
        if is_suspended and pool_view.free_nodes >= pool_view.job_n_nodes[job]:
            self._last_restart_ms = now_ms
        return True

    def _upcoming_limits(self, view: FacilityView) -> Iterator[tuple[int, int, float]]:
        """Yield ramp start, end [ms] and limit [W] of events that delay job starts."""
        now_ms = view.now_ms
        for limit in self._active_limits(view):
            event = limit.event
            if event.ramp_ms - HOLD_MS <= now_ms < event.ramp_ms:
                until_ms = min(now_ms, event.before_ms)
                before_w = self._history.mean_w(until_ms - event.baseline_ms, until_ms)
                level_w = event.target.level_w(self._metered_w(limit, now_ms, before_w))
                upcoming_w = self._devices_w(limit, view, level_w)
                yield event.ramp_ms, event.over_ms, upcoming_w

    def _min_w(self, view: FacilityView) -> float:
        """Return the power with every job at the lowest cap that it tolerates [W].

        The result is reused for `MIN_MS`; the caller adds the power of jobs that were
        allowed to start since.
        """
        now_ms = view.now_ms
        if self._min_power is None or now_ms - self._min_power[0] >= MIN_MS:
            adjustable = self._cappable_jobs(view)
            headroom_w = sum(
                float(powers_w[level] - powers_w[-1])
                for *_, powers_w, level in adjustable
            )
            self._min_power = now_ms, self._committed_w(view) - headroom_w
            self._granted_w = 0.0
        return self._min_power[1]

    # Limits.

    def _active_limits(self, view: FacilityView) -> list[_Limit]:
        """Return the issued limits that are not over."""
        return self._limits_now(view.now_ms)[1]

    def _remaining_ms(self, view: FacilityView) -> int:
        """Return the time until the end of all issued events [ms]."""
        return self._limits_now(view.now_ms)[2]

    def _limits_now(self, now_ms: int) -> tuple[int, list[_Limit], int]:
        """Return a time, the limits issued by then, and the time to their end [ms]."""
        if self._known_limits is None or self._known_limits[0] != now_ms:
            self._limits = [x for x in self._limits if now_ms < x.event.over_ms]
            limits = [x for x in self._limits if x.event.issued_ms <= now_ms]
            self._holding = any(
                max(x.event.issued_ms, x.event.ramp_ms - HOLD_MS) <= now_ms
                for x in limits
            )
            over_ms = max((x.event.over_ms for x in limits), default=now_ms)
            if self._follow is not None and self._follow.limit is not None:
                limits.append(self._follow.limit)
            self._known_limits = now_ms, limits, over_ms - now_ms
        return self._known_limits

    def _allowed_w(self, view: FacilityView) -> float:
        """Return the power limit of all devices until the next step [W]."""
        now_ms = view.now_ms
        allowed_w = NO_LIMIT_W
        for limit in self._active_limits(view):
            event = limit.event
            if now_ms < event.ramp_ms:
                continue
            if limit.baseline_w is None:
                until_ms = event.before_ms
                before_w = self._history.mean_w(until_ms - event.baseline_ms, until_ms)
                limit.baseline_w = self._metered_w(limit, until_ms - 1, before_w)
            # The ramp back ends at the present power without caps.
            back_w = self._uncapped_w(view) if now_ms >= event.end_ms else 0.0
            back_w = self._metered_w(limit, now_ms, back_w)
            times_ms = now_ms, now_ms + STEP_MS
            level_w = min(
                event.allowed_w(t, limit.baseline_w, back_w) for t in times_ms
            )
            allowed_w = min(allowed_w, self._devices_w(limit, view, level_w))
        if self._cap is not None:
            cap_w = self._cap.at(now_ms) * W_PER_MW
            allowed_w = min(allowed_w, self._devices_w(None, view, cap_w))
        return allowed_w

    def _event_limit(self, event: RunEvent) -> _Limit:
        """Return the limit of an event, at the meter or for devices.

        A fraction is one of the devices' power; with on-site sources it is one of the
        meter's.
        """
        return _Limit(event, self._has_sources or event.target.fraction is None)

    def _uncapped_w(self, view: FacilityView) -> float:
        """Return the power of all devices without caps on running jobs [W]."""
        added_w = 0.0
        for name, job in self._capped:
            pool = view.pools[name]
            if job in pool.running:
                powers_w = self._power_by_level(name, pool, job)
                added_w += float(powers_w[0] - powers_w[pool.job_level.get(job, 0)])
        return self._committed_w(view) + added_w

    def _metered_w(self, limit: _Limit, now_ms: int, devices_w: float) -> float:
        """Return the power to compare with a limit, from the power of devices [W]."""
        if self._overhead is None or not limit.at_meter:
            return devices_w
        return self._overhead(now_ms, devices_w)[0]

    def _devices_w(
        self, limit: _Limit | None, view: FacilityView, meter_w: float
    ) -> float:
        """Return the power of devices for a power at a limit or the meter [W]."""
        now_w: float = view.power_w
        if (
            self._overhead is None
            or not now_w
            or (limit is not None and not limit.at_meter)
        ):
            return meter_w
        metered_w, source_w = self._overhead(view.now_ms, now_w)
        return (meter_w + source_w) * now_w / (metered_w + source_w)

    def _wake_for_events(self, view: FacilityView) -> None:
        """Request a decision at the next changes of the limits."""
        now_ms = view.now_ms
        for limit in self._active_limits(view):
            event = limit.event
            for time_ms in (
                max(event.issued_ms, event.ramp_ms - HOLD_MS),
                event.ramp_ms,
                event.held_ms,
                event.end_ms,
                event.over_ms,
            ):
                if now_ms < time_ms < now_ms + HOLD_MS * 1000:
                    self._wake(view, time_ms)
            ramps = ((event.ramp_ms, event.held_ms), (event.end_ms, event.over_ms))
            if any(begin <= now_ms < end for begin, end in ramps):
                self._wake(view, now_ms + STEP_MS)

    def _wake(self, view: FacilityView, time_ms: int) -> None:
        """Request a decision at a time, once."""
        if time_ms > view.now_ms and time_ms not in self._woken_ms:
            self._woken_ms.add(time_ms)
            view.wake_at(time_ms)

    def _update_signal(self, view: FacilityView) -> None:
        """Switch the limit of the followed signal on or off.

        The signal must have been high, or not high, for the required number of steps.
        """
        state = self._follow
        if state is None:
            return
        spec, now_ms = state.spec, view.now_ms
        known = state.signal.known_at(lambda: now_ms)
        value = known.at(now_ms)
        if np.isnan(value):
            return
        threshold = quantile(
            *known.window(known.known_ms - span_ms(spec.window), known.known_ms),
            spec.quantile,
        )
        # The steps that have begun, up to the present one
        row = int(np.searchsorted(state.signal.times_ms, now_ms, side="right"))
        recent_values = state.signal.values[max(row - spec.steps, 0) : row]
        is_high = (
            bool((recent_values > threshold).all()) and recent_values.size == spec.steps
        )
        is_low = (
            bool((recent_values <= threshold).all())
            and recent_values.size == spec.steps
        )
        switched_ms = state.switched_ms
        if switched_ms is not None and now_ms - switched_ms < span_ms(spec.at_least):
            if is_high != state.high or is_low == state.high:
                self._wake(view, switched_ms + span_ms(spec.at_least))
            return
        self._known_limits = None
        if is_high and not state.high:
            state.high, state.switched_ms = True, now_ms
            state.limit = self._event_limit(_open_event(spec.target, now_ms))
        elif is_low and state.high:
            state.high, state.switched_ms, state.limit = False, now_ms, None

    # Actions.

    def _update_restarts(self, view: FacilityView) -> None:
        """Update the suspended, restarting, capped and shrunk jobs."""
        now_ms = view.now_ms
        for key, restart_ms in list(self._paused.items()):
            pool, job = key
            pool_view = view.pools[pool]
            if job in pool_view.running and job not in pool_view.stopping:
                del self._paused[key]
                self._restarting[key] = now_ms + restart_ms
        self._restarting = {k: t for k, t in self._restarting.items() if t > now_ms}
        self._capped = {
            k for k in self._capped if view.pools[k[0]].job_level.get(k[1], 0)
        }
        self._resized = {
            k: n for k, n in self._resized.items() if k[1] in view.pools[k[0]].running
        }

    def _committed_w(self, view: FacilityView) -> float:
        """Return the power of all devices, with restarting jobs at full power [W]."""
        added_w = 0.0
        for pool, job in self._restarting:
            pool_view = view.pools[pool]
            if job in pool_view.running:
                full_w = pool_view.power_w(job, pool_view.job_level.get(job, 0))
                idle_w = pool_view.idle_w * pool_view.job_n_nodes[job]
                restart_w = max(
                    idle_w,
                    pool_view.flexibility(job).restart_share
                    * pool_view.power_w(job, 0),
                )
                added_w += full_w - restart_w
        return float(view.power_w) + added_w

    def _balancing_actions(
        self, view: FacilityView, committed_w: float
    ) -> list[tuple[str, Action]]:
        """Return the actions that bring power to its limit."""
        adjustable = list(self._cappable_jobs(view))
        if not adjustable:
            return []
        keys, powers_by_level, job_levels = zip(*adjustable, strict=True)
        power_w, present_levels = (
            np.array(powers_by_level),
            np.array(job_levels, dtype=np.int64),
        )
        fixed_w = committed_w - float(
            power_w[np.arange(present_levels.size), present_levels].sum()
        )
        levels = fair_levels(power_w, self._aim_w - fixed_w, present_levels)
        power_w = power_w[np.arange(present_levels.size), levels]
        # Negative if power is above its aim
        margin_w = self._aim_w - (fixed_w + float(power_w.sum()))
        if margin_w < 0:
            actions, margin_w = self._suspend(view, keys, power_w, margin_w)
            actions += self._shrink(
                view, keys, power_w, margin_w, {(n, a.job) for n, a in actions}
            )
        else:
            actions = self._restore_nodes(view, margin_w)
        stopped_jobs = {(name, action.job) for name, action in actions}
        for key, level in zip(keys, levels.tolist(), strict=True):
            name, job = key
            if key not in stopped_jobs and level != view.pools[name].job_level.get(
                job, 0
            ):
                actions.append((name, SetLevel(job, level)))
                self._capped.add(key)
        return actions

    def _cappable_jobs(
        self, view: FacilityView
    ) -> Iterator[tuple[tuple[str, int], Float64Array, int]]:
        """Yield running jobs that may be capped, with power by level [W] and level.

        These are jobs that tolerate a loss and have time for it.
        """
        now_ms, left_ms = view.now_ms, self._remaining_ms(view)
        for name, pool in view.pools.items():
            for job, expected_ms in pool.running.items():
                tier, level = pool.flexibility(job).tier, pool.job_level.get(job, 0)
                if tier == 0 or job in pool.stopping or job in pool.suspended:
                    continue
                if not level:  # a capped job must be able to return to level 0
                    # The delay is at most the work lost during the event.
                    end_ms = max(expected_ms, now_ms + 1)
                    loss = TOLERATED_LOSS[tier]
                    loss_ms = min(left_ms, (end_ms - now_ms) / (1 - loss)) * loss
                    if pool.deadline_ms(job) - end_ms < loss_ms:
                        continue
                yield (name, job), self._power_by_level(name, pool, job), level

    def _power_by_level(
        self, name: str, pool: PreemptivePool, job: int
    ) -> Float64Array:
        """Return the power of a job at each cap level [W].

        Levels that the job does not tolerate have the power of the lowest tolerated
        one.
        """
        key = (name, job, pool.job_n_nodes[job])
        result = self._levels_w.get(key)
        if result is None:
            min_speed = 1 - TOLERATED_LOSS[pool.flexibility(job).tier]
            levels = range(pool.n_levels)
            tolerated = [
                k
                for k in levels
                if k == 0
                or pool.speed(job, k, pool.job_n_nodes[job])
                >= min_speed * pool.speed(job, 0, pool.job_n_nodes[job])
            ]
            result = np.array(
                [pool.power_w(job, min(k, tolerated[-1])) for k in levels]
            )
            if len(self._levels_w) > 100_000:
                self._levels_w.clear()
            self._levels_w[key] = result
        return result

    def _suspend(
        self,
        view: FacilityView,
        keys: Sequence[tuple[str, int]],
        power_w: Float64Array,
        margin_w: float,
    ) -> tuple[list[tuple[str, Action]], float]:
        """Stop jobs until power is at its aim; return actions and the margin left [W].

        The most tolerant jobs are stopped first, and of these the ones with the most
        slack.
        """
        candidates = []
        for row, (name, job) in enumerate(keys):
            pool = view.pools[name]
            flexible = pool.flexibility(job)
            slack_ms = pool.deadline_ms(job) - pool.expected_end_ms(job)
            # The slack must cover the event and the restart
            has_time = slack_ms >= self._remaining_ms(view) + flexible.restart_ms
            if flexible.pausable and has_time and (name, job) not in self._restarting:
                candidates.append((-flexible.tier, -slack_ms, job, row))
        actions: list[tuple[str, Action]] = []
        notices_ms = [
            x.event.held_ms - x.event.issued_ms for x in self._active_limits(view)
        ]
        notice_ms = min(notices_ms, default=_NEVER_MS)
        for *_, job, row in sorted(candidates):
            if margin_w >= 0:
                break
            name = keys[row][0]
            pool = view.pools[name]
            flexible = pool.flexibility(job)
            has_time = notice_ms >= flexible.stop_ms
            actions.append((name, Preempt(job, "checkpoint" if has_time else "kill")))
            margin_w -= pool.idle_w * pool.job_n_nodes[job] - power_w[row]
            self._paused[(name, job)] = flexible.restart_ms
        return actions, margin_w

    def _shrink(
        self,
        view: FacilityView,
        keys: Sequence[tuple[str, int]],
        power_w: Float64Array,
        margin_w: float,
        stopped_jobs: set[tuple[str, int]],
    ) -> list[tuple[str, Action]]:
        """Shrink jobs to their minimum nodes until power is at its aim.

        The most tolerant jobs come first.
        """
        rows = sorted(
            range(len(keys)),
            key=lambda row: (
                -view.pools[keys[row][0]].flexibility(keys[row][1]).tier,
                keys[row],
            ),
        )
        actions: list[tuple[str, Action]] = []
        for row in rows:
            if margin_w >= 0:
                break
            name, job = key = keys[row]
            pool = view.pools[name]
            n_nodes = pool.job_n_nodes[job]
            min_nodes = max(1, -int(-pool.flexibility(job).least_share * n_nodes // 1))
            if (
                key in stopped_jobs
                or key in self._restarting
                or key in self._resized
                or min_nodes >= n_nodes
            ):
                continue
            actions.append((name, Resize(job, min_nodes)))
            self._resized[key] = n_nodes
            margin_w -= (pool.idle_w * n_nodes - power_w[row]) * (
                1 - min_nodes / n_nodes
            )
        return actions

    def _restore_nodes(
        self, view: FacilityView, margin_w: float
    ) -> list[tuple[str, Action]]:
        """Return an action that gives one shrunk job its nodes back.

        It is returned only if power stays at or below its aim.
        """
        for key, full_n_nodes in sorted(self._resized.items()):
            name, job = key
            pool = view.pools[name]
            missing_nodes = full_n_nodes - pool.job_n_nodes[job]
            if missing_nodes <= 0 or job in pool.stopping or key in self._restarting:
                continue
            added_w = (
                pool.power_w(job) / pool.job_n_nodes[job] - pool.idle_w
            ) * missing_nodes
            if missing_nodes <= pool.free_nodes and added_w <= margin_w:
                del self._resized[key]
                self._restarting[key] = view.now_ms + pool.flexibility(job).restart_ms
                return [(name, Resize(job, full_n_nodes))]
        return []


_NEVER_MS = int(np.iinfo(np.int64).max) // 2
"""End of an open-ended event [ms]."""


def _open_event(target: EventTarget, now_ms: int) -> RunEvent:
    """Return the open-ended event of a signal that has become high."""
    ramp_ms = STEP_MS
    return RunEvent(
        "follow",
        now_ms,
        now_ms + ramp_ms,
        _NEVER_MS,
        target,
        ramp_ms,
        0,
        0.0,
        25 * MS_PER_MIN,
    )
