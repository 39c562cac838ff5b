"""Load controller of a facility: delays, caps, suspends and restores jobs.

Starts held, fair caps, pauses and fewer nodes, and the way back, after the policies of
the demonstration in Phoenix (arXiv:2507.00909; see docs/FLEXIBILITY.md). It acts on
what is known: the mean power of jobs at each cap, their estimates, events that were
issued and signals as far ahead as they are known.
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
"""ASSUMPTION: a ramp is followed in steps of a minute [J]."""
MARGIN = 0.01
"""ASSUMPTION: what is aimed at lies so far under the target, as jobs draw more at times
[J]."""
BAND = 0.02
"""ASSUMPTION: power may lie so far under its aim before caps are loosened [J]."""
START_MARGIN = 0.01
"""ASSUMPTION: with what starts, all caps together could come so far under the target
[J]."""
HOLD_MS = MS_PER_H
"""ASSUMPTION: starts are held for so long before an event's ramp, if it is known by
then [J]."""
MIN_MS = 10_000
"""How long the least power of all jobs is taken to stay [ms]."""
STAGGER_MS = MS_PER_MIN
"""ASSUMPTION: time between two restarts of paused jobs, so that they do not coincide
[J]."""
NO_LIMIT_W = float("inf")


def fair_levels(
    power_w: Float64Array, allowed_w: float, now: Int64Array | None = None
) -> Int64Array:
    """Return cap levels of jobs that share a limit.

    The same share of each one's headroom. The headroom of a job is its power uncapped
    less that at its lowest level. The common share is the smallest at which all jobs
    together keep the limit, each at the first level that gives at least that share;
    then jobs are loosened by a level where that still keeps it, first those that are
    looser now, in their order.
    """
    n_jobs = power_w.shape[0]
    headroom_w = power_w[:, :1] - power_w[:, -1:]
    # Share of its headroom that a job gives at each level; one without any gives
    # nothing.
    share = np.where(headroom_w > 0, power_w[:, :1] - power_w, 0.0)
    share = share / np.where(headroom_w > 0, headroom_w, 1.0)
    lowest: Int64Array = np.argmin(power_w, axis=1).astype(np.int64)

    def levels_at(common: float) -> Int64Array:
        first: Int64Array = np.argmax(share >= common, axis=1).astype(np.int64)
        first[headroom_w[:, 0] <= 0] = 0
        return first

    def total_w(levels: Int64Array) -> float:
        return float(power_w[np.arange(n_jobs), levels].sum())

    shares = np.unique(share)
    low, high = 0, shares.size - 1
    if total_w(lowest) > allowed_w:
        return lowest
    while low < high:
        middle = (low + high) // 2
        if total_w(levels_at(shares[middle])) <= allowed_w:
            high = middle
        else:
            low = middle + 1
    levels = levels_at(shares[high])
    left_w = allowed_w - total_w(levels)
    capped = np.flatnonzero(levels > 0)
    if now is not None:  # so that no job goes up and down by turns
        capped = capped[np.argsort(now[capped] >= levels[capped], kind="stable")]
    for job in capped.tolist():
        more_w = power_w[job, levels[job] - 1] - power_w[job, levels[job]]
        if more_w <= left_w:
            levels[job] -= 1
            left_w -= more_w
    return levels


class PowerHistory:
    """The power of the past as it was known, for means over a time."""

    def __init__(self, keep_ms: int) -> None:
        self._keep_ms = keep_ms
        self._steps: deque[tuple[int, float]] = deque()

    def add(self, time_ms: int, power_w: float) -> None:
        """Note the power from a time on [ms, W]."""
        while len(self._steps) > 1 and self._steps[1][0] <= time_ms - self._keep_ms:
            self._steps.popleft()
        self._steps.append((time_ms, power_w))

    def mean_w(self, from_ms: int, until_ms: int) -> float:
        """Return the mean over a time, or over that part of it which is kept [W]."""
        steps = [*self._steps, (until_ms, 0.0)]
        total, length_ms = 0.0, 0
        for (begin_ms, power_w), (end_ms, _) in pairwise(steps):
            span = min(end_ms, until_ms) - max(begin_ms, from_ms)
            if span > 0:
                total, length_ms = total + power_w * span, length_ms + span
        return (
            total / length_ms
            if length_ms
            else (self._steps[-1][1] if self._steps else 0.0)
        )


@dataclass
class _Limit:
    """An event that limits power, and the power before its ramp."""

    event: RunEvent
    of_meter: bool  # its target is of the meter, not of what devices draw
    before_w: float | None = None


@dataclass
class _Following:
    """Whether a signal is high, since when, and the limit that this makes."""

    spec: FollowSignal
    signal: Signal
    high: bool = False
    switched_ms: int | None = None
    limit: _Limit | None = None


class FairPowerCaps:
    """Keeps the power of a facility under what events, a cap and a high price allow.

    At each instant at which something happens it compares the mean power of all devices
    with what is allowed up to the next step. Above it, jobs that tolerate it are
    capped, by a common share of their headroom; where that is not enough jobs are
    paused, those that tolerate most and have most time first; then jobs are run on
    fewer nodes. Below it, the same is undone. A job of tier 0 is never touched, nor one
    that would miss its deadline.

    It looks at events that were issued, at a `cap` [MW] and at a signal to `follow`.
    `overhead` gives what the meter shows at a time [ms] when all devices draw some
    power, and what sources give of it [W]; without it the meter shows the devices.
    Where it `has_sources`, a fraction is one of the meter's power.
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
        self._limits = [self._limit(event) for event in events]
        self._known_now: tuple[int, list[_Limit], int] | None = None
        self._follow = None
        if follow is not None:
            self._follow = _Following(follow, (signals or {})[follow.signal])
        reach_ms = (
            event.ramp_ms - event.before_ms + event.baseline_ms for event in events
        )
        keep_ms = max(reach_ms, default=25 * MS_PER_MIN)
        self._history = PowerHistory(keep_ms)
        self._levels_w: dict[tuple[str, int, int], Float64Array] = {}
        self._paused: dict[tuple[str, int], int] = {}
        self._restarting: dict[tuple[str, int], int] = {}
        self._capped: set[tuple[str, int]] = set()
        self._resized: dict[tuple[str, int], int] = {}
        self._last_restart_ms: int | None = None
        self._least: tuple[int, float] | None = None
        self._granted_w = 0.0
        # Instant and pool, and the events ahead that its starts are held for
        self._soon: tuple[object, list[tuple[int, int, float]]] = None, []
        self._woken_ms: set[int] = set()
        self._aim_w = NO_LIMIT_W
        self._made_room_ms: int | None = None

    def settled(self, view: FacilityView) -> list[tuple[str, Action]]:
        """Make room for what has just started, then note the power."""
        now_ms, power_w = view.now_ms, view.power_w
        if power_w > self._aim_w and self._made_room_ms != now_ms:
            self._made_room_ms = now_ms
            if actions := self.decide(view):
                return actions
        self._history.add(now_ms, power_w)
        return []

    @property
    def holds(self) -> bool:
        """Whether waiting jobs may have to wait for longer."""
        return self._aim_w < NO_LIMIT_W or bool(self._paused) or self._holding

    _holding = False

    def decide(self, view: FacilityView) -> list[tuple[str, Action]]:
        """Return actions, each with the name of its pool."""
        now_ms, self._soon = view.now_ms, (None, [])
        self._woken_ms = {time_ms for time_ms in self._woken_ms if time_ms > now_ms}
        self._see_signal(view)
        self._wake_for_events(view)
        self._aim_w = self._allowed_w(view) * (1 - MARGIN)
        self._see_restarts(view)
        touched = self._capped or self._resized  # paused jobs come back by `may_start`
        if self._aim_w == NO_LIMIT_W and not touched:
            return []
        draws_w = self._committed_w(view)
        if self._aim_w * (1 - BAND) <= draws_w <= self._aim_w:
            return []
        if draws_w < self._aim_w and not touched:
            return []
        return self._balance(view, draws_w)

    def may_start(self, view: FacilityView, pool: str, job: int) -> bool:
        """Return whether a pool may start a waiting job now."""
        of, now_ms = view.pools[pool], view.now_ms
        tier = of.flexibility(job).tier
        if tier == 0:
            return True
        paused = (pool, job) in self._paused
        if paused and any(now_ms < limit.event.end_ms for limit in self._known(view)):
            return False
        if paused and self._last_restart_ms is not None:
            next_ms = self._last_restart_ms + STAGGER_MS
            if now_ms < next_ms:
                self._wake(view, next_ms)
                return False
        limit_w = self._aim_w
        if self._soon[0] != (now_ms, pool):
            self._soon = (now_ms, pool), list(self._limits_ahead(view))
        for ramp_ms, over_ms, ahead_w in self._soon[1]:
            estimate_ms = of.job_estimate_ms[job]
            # One that would be late for it is not held.
            if ramp_ms < now_ms + estimate_ms and (
                of.deadline_ms(job) >= over_ms + estimate_ms
            ):
                limit_w = min(limit_w, ahead_w)
        if limit_w < NO_LIMIT_W:
            n_nodes = of.job_n_nodes[job]
            powers_w = self._power_by_level(pool, of, job)
            least_w = float(powers_w[-1]) - of.idle_w * n_nodes
            drawn_w = self._least_w(view, now_ms) + self._granted_w
            if least_w > limit_w * (1 - START_MARGIN) - drawn_w:
                return False
            if of.free_nodes >= n_nodes:
                self._granted_w += least_w
        if paused and of.free_nodes >= of.job_n_nodes[job]:
            self._last_restart_ms = now_ms
        return True

    def _limits_ahead(self, view: FacilityView) -> Iterator[tuple[int, int, float]]:
        """Yield ramp, end [ms] and limit [W] of the events that starts are held for."""
        now_ms = view.now_ms
        for limit in self._known(view):
            event = limit.event
            if event.ramp_ms - HOLD_MS <= now_ms < event.ramp_ms:
                until_ms = min(now_ms, event.before_ms)
                before_w = self._history.mean_w(until_ms - event.baseline_ms, until_ms)
                level_w = event.target.level_w(self._shown_w(limit, now_ms, before_w))
                ahead_w = self._devices_w(limit, view, level_w)
                yield event.ramp_ms, event.over_ms, ahead_w

    def _least_w(self, view: FacilityView, now_ms: int) -> float:
        """Return the power with every job at the lowest cap that it tolerates [W].

        It is found anew every few seconds; in between, starts are added by who grants
        them.
        """
        if self._least is None or now_ms - self._least[0] >= MIN_MS:
            bending = self._bending(view)
            spare_w = sum(
                float(powers_w[level] - powers_w[-1]) for *_, powers_w, level in bending
            )
            self._least = now_ms, self._committed_w(view) - spare_w
            self._granted_w = 0.0
        return self._least[1]

    # What is allowed.

    def _known(self, view: FacilityView) -> list[_Limit]:
        """Return the limits that are known and not over."""
        return self._seen(view.now_ms)[1]

    def _left_ms(self, view: FacilityView) -> int:
        """Return how long what is known goes on [ms]."""
        return self._seen(view.now_ms)[2]

    def _seen(self, now_ms: int) -> tuple[int, list[_Limit], int]:
        """Return a time, the limits known then, and how long they go on [ms]."""
        if self._known_now is None or self._known_now[0] != now_ms:
            self._limits = [x for x in self._limits if now_ms < x.event.over_ms]
            result = [x for x in self._limits if x.event.issued_ms <= now_ms]
            self._holding = any(
                max(x.event.issued_ms, x.event.ramp_ms - HOLD_MS) <= now_ms
                for x in result
            )
            over_ms = max((x.event.over_ms for x in result), default=now_ms)
            if self._follow is not None and self._follow.limit is not None:
                result.append(self._follow.limit)
            self._known_now = now_ms, result, over_ms - now_ms
        return self._known_now

    def _allowed_w(self, view: FacilityView) -> float:
        """Return the power limit of all devices until the next step [W]."""
        now_ms = view.now_ms
        allowed_w = NO_LIMIT_W
        for limit in self._known(view):
            event = limit.event
            if now_ms < event.ramp_ms:
                continue
            if limit.before_w is None:
                until_ms = event.before_ms
                before_w = self._history.mean_w(until_ms - event.baseline_ms, until_ms)
                limit.before_w = self._shown_w(limit, until_ms - 1, before_w)
            # The ramp back leads to what is drawn without caps, which may have grown
            # meanwhile.
            back_w = self._uncapped_w(view) if now_ms >= event.end_ms else 0.0
            back_w = self._shown_w(limit, now_ms, back_w)
            times_ms = now_ms, now_ms + STEP_MS
            level_w = min(event.allowed_w(t, limit.before_w, back_w) for t in times_ms)
            allowed_w = min(allowed_w, self._devices_w(limit, view, level_w))
        if self._cap is not None:
            cap_w = self._cap.at(now_ms) * W_PER_MW
            allowed_w = min(allowed_w, self._devices_w(None, view, cap_w))
        return allowed_w

    def _limit(self, event: RunEvent) -> _Limit:
        """Return the limit of an event.

        Of the meter, but for a fraction of what devices drew. The two are the same
        share but where sources give a part of it.
        """
        return _Limit(event, self._has_sources or event.target.fraction is None)

    def _uncapped_w(self, view: FacilityView) -> float:
        """Return the power of all devices without caps on running jobs [W]."""
        more_w = 0.0
        for name, job in self._capped:
            of = view.pools[name]
            if job in of.running:
                powers_w = self._power_by_level(name, of, job)
                more_w += float(powers_w[0] - powers_w[of.job_level.get(job, 0)])
        return self._committed_w(view) + more_w

    def _shown_w(self, limit: _Limit, now_ms: int, devices_w: float) -> float:
        """Return the power that a limit counts, from the power of devices [W]."""
        if self._overhead is None or not limit.of_meter:
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
            or (limit is not None and not limit.of_meter)
        ):
            return meter_w
        shown_w, given_w = self._overhead(view.now_ms, now_w)
        return (meter_w + given_w) * now_w / (shown_w + given_w)

    def _wake_for_events(self, view: FacilityView) -> None:
        """Ask for a turn wherever what is allowed changes next."""
        now_ms = view.now_ms
        for limit in self._known(view):
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
        if time_ms > view.now_ms and time_ms not in self._woken_ms:
            self._woken_ms.add(time_ms)
            view.wake_at(time_ms)

    def _see_signal(self, view: FacilityView) -> None:
        """Switch on or off where the signal was high or low long enough."""
        following = self._follow
        if following is None:
            return
        spec, now_ms = following.spec, view.now_ms
        seen = following.signal.known_at(lambda: now_ms)
        value = seen.at(now_ms)
        if np.isnan(value):
            return
        level = quantile(
            *seen.window(seen.known_ms - span_ms(spec.window), seen.known_ms),
            spec.quantile,
        )
        # The steps that have begun by now, the last first.
        row = int(np.searchsorted(following.signal.times_ms, now_ms, side="right"))
        last = following.signal.values[max(row - spec.steps, 0) : row]
        is_high = bool((last > level).all()) and last.size == spec.steps
        is_low = bool((last <= level).all()) and last.size == spec.steps
        since = following.switched_ms
        if since is not None and now_ms - since < span_ms(spec.at_least):
            if is_high != following.high or is_low == following.high:
                self._wake(view, since + span_ms(spec.at_least))
            return
        self._known_now = None
        if is_high and not following.high:
            following.high, following.switched_ms = True, now_ms
            following.limit = self._limit(_open_event(spec.target, now_ms))
        elif is_low and following.high:
            following.high, following.switched_ms, following.limit = False, now_ms, None

    # What is done.

    def _see_restarts(self, view: FacilityView) -> None:
        """Notice paused jobs that have started again, and those that are gone."""
        now_ms = view.now_ms
        for key, restart_ms in list(self._paused.items()):
            pool, job = key
            of = view.pools[pool]
            if job in of.running and job not in of.stopping:
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
        """Return the power of all devices, restarting jobs included [W]."""
        more_w = 0.0
        for pool, job in self._restarting:
            of = view.pools[pool]
            if job in of.running:
                full_w = of.power_w(job, of.job_level.get(job, 0))
                idle_w = of.idle_w * of.job_n_nodes[job]
                held_w = max(
                    idle_w, of.flexibility(job).restart_share * of.power_w(job, 0)
                )
                more_w += full_w - held_w
        return float(view.power_w) + more_w

    def _balance(self, view: FacilityView, draws_w: float) -> list[tuple[str, Action]]:
        """Return the actions that bring the power to its aim."""
        bending = list(self._bending(view))
        if not bending:
            return []
        keys, rows, at_level = zip(*bending, strict=True)
        power_w, now = np.array(rows), np.array(at_level, dtype=np.int64)
        fixed_w = draws_w - float(power_w[np.arange(now.size), now].sum())
        levels = fair_levels(power_w, self._aim_w - fixed_w, now)
        power_w = power_w[np.arange(now.size), levels]
        # Negative as long as more is drawn than is aimed at
        left_w = self._aim_w - (fixed_w + float(power_w.sum()))
        if left_w < 0:
            actions, left_w = self._pause(view, keys, power_w, left_w)
            actions += self._shrink(
                view, keys, power_w, left_w, {(n, a.job) for n, a in actions}
            )
        else:
            actions = self._widen(view, left_w)
        stopped = {(name, action.job) for name, action in actions}
        for key, level in zip(keys, levels.tolist(), strict=True):
            name, job = key
            if key not in stopped and level != view.pools[name].job_level.get(job, 0):
                actions.append((name, SetLevel(job, level)))
                self._capped.add(key)
        return actions

    def _bending(
        self, view: FacilityView
    ) -> Iterator[tuple[tuple[str, int], Float64Array, int]]:
        """Yield running jobs that may be touched, their power by level [W], and level.

        Those that tolerate it, and have the time.
        """
        now_ms, left_ms = view.now_ms, self._left_ms(view)
        for name, of in view.pools.items():
            for job, expected_ms in of.running.items():
                tier, level = of.flexibility(job).tier, of.job_level.get(job, 0)
                if tier == 0 or job in of.stopping or job in of.suspended:
                    continue
                if not level:  # one that was touched has to come back
                    # It loses no more than what it does slower while the event lasts.
                    end_ms = max(expected_ms, now_ms + 1)
                    loss = TOLERATED_LOSS[tier]
                    loss_ms = min(left_ms, (end_ms - now_ms) / (1 - loss)) * loss
                    if of.deadline_ms(job) - end_ms < loss_ms:
                        continue
                yield (name, job), self._power_by_level(name, of, job), level

    def _power_by_level(self, name: str, of: PreemptivePool, job: int) -> Float64Array:
        """Return the power of a job by level.

        Those that it does not tolerate repeat the lowest.
        """
        key = (name, job, of.job_n_nodes[job])
        result = self._levels_w.get(key)
        if result is None:
            least = 1 - TOLERATED_LOSS[of.flexibility(job).tier]
            levels = range(of.n_levels)
            allowed = [
                k
                for k in levels
                if k == 0
                or of.speed(job, k, of.job_n_nodes[job])
                >= least * of.speed(job, 0, of.job_n_nodes[job])
            ]
            result = np.array([of.power_w(job, min(k, allowed[-1])) for k in levels])
            if len(self._levels_w) > 100_000:
                self._levels_w.clear()
            self._levels_w[key] = result
        return result

    def _pause(
        self,
        view: FacilityView,
        keys: Sequence[tuple[str, int]],
        power_w: Float64Array,
        left_w: float,
    ) -> tuple[list[tuple[str, Action]], float]:
        """Stop jobs until the rest keeps the aim, and return what is left under it [W].

        Those that tolerate most, then most slack.
        """
        order = []
        for row, (name, job) in enumerate(keys):
            of = view.pools[name]
            flexible = of.flexibility(job)
            slack_ms = of.deadline_ms(job) - of.expected_end_ms(job)
            # Slack for the event and the restart
            in_time = slack_ms >= self._left_ms(view) + flexible.restart_ms
            if flexible.pausable and in_time and (name, job) not in self._restarting:
                order.append((-flexible.tier, -slack_ms, job, row))
        actions: list[tuple[str, Action]] = []
        notices_ms = [x.event.held_ms - x.event.issued_ms for x in self._known(view)]
        notice_ms = min(notices_ms, default=_NEVER_MS)
        for *_, job, row in sorted(order):
            if left_w >= 0:
                break
            name = keys[row][0]
            of = view.pools[name]
            flexible = of.flexibility(job)
            in_time = notice_ms >= flexible.stop_ms
            actions.append((name, Preempt(job, "checkpoint" if in_time else "kill")))
            left_w -= of.idle_w * of.job_n_nodes[job] - power_w[row]
            self._paused[(name, job)] = flexible.restart_ms
        return actions, left_w

    def _shrink(
        self,
        view: FacilityView,
        keys: Sequence[tuple[str, int]],
        power_w: Float64Array,
        left_w: float,
        stopped: set[tuple[str, int]],
    ) -> list[tuple[str, Action]]:
        """Run jobs on their fewest nodes until the aim is kept, by tolerance."""
        rows = sorted(
            range(len(keys)),
            key=lambda row: (
                -view.pools[keys[row][0]].flexibility(keys[row][1]).tier,
                keys[row],
            ),
        )
        actions: list[tuple[str, Action]] = []
        for row in rows:
            if left_w >= 0:
                break
            name, job = key = keys[row]
            of = view.pools[name]
            nodes = of.job_n_nodes[job]
            fewest = max(1, -int(-of.flexibility(job).least_share * nodes // 1))
            if (
                key in stopped
                or key in self._restarting
                or key in self._resized
                or fewest >= nodes
            ):
                continue
            actions.append((name, Resize(job, fewest)))
            self._resized[key] = nodes
            left_w -= (of.idle_w * nodes - power_w[row]) * (1 - fewest / nodes)
        return actions

    def _widen(self, view: FacilityView, left_w: float) -> list[tuple[str, Action]]:
        """Give jobs their nodes back while that keeps the aim, one at a time."""
        for key, nodes in sorted(self._resized.items()):
            name, job = key
            of = view.pools[name]
            more = nodes - of.job_n_nodes[job]
            if more <= 0 or job in of.stopping or key in self._restarting:
                continue
            more_w = (of.power_w(job) / of.job_n_nodes[job] - of.idle_w) * more
            if more <= of.free_nodes and more_w <= left_w:
                del self._resized[key]
                self._restarting[key] = view.now_ms + of.flexibility(job).restart_ms
                return [(name, Resize(job, nodes))]
        return []


_NEVER_MS = int(np.iinfo(np.int64).max) // 2


def _open_event(target: EventTarget, now_ms: int) -> RunEvent:
    """Return the event of a signal that has become high.

    It lasts until that is over.
    """
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
