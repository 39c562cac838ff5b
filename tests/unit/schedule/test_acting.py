"""Policies that act: stops, resumes, sizes and levels, and the work that jobs do in all
of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from builders import (
    Planned,
    Restless,
    job_table,
    profile,
    schedule_pool,
    tiny_scenario,
)
from hypothesis import given, settings
from hypothesis import strategies as st

from diploee.base.errors import PolicyError, WorkloadError
from diploee.profiles import ProfileLibrary
from diploee.profiles.derived import CapLevels
from diploee.scenario import Pool
from diploee.scenario.pools import InstalledNodes
from diploee.schedule import (
    Action,
    Preempt,
    PreemptiveSchedule,
    Resize,
    Resume,
    SetLevel,
    Start,
    StrictFifo,
)
from diploee.schedule.context import Context
from diploee.schedule.execution_intervals import KINDS, RESTART, RUN, join_windows
from diploee.schedule.job_table import DRAW_MS, ClassFlexibility, JobPower, JobTable
from diploee.schedule.policies.easy import EasyBackfill
from diploee.schedule.policy import EstimateByFactor
from diploee.schedule.schedule import Cluster
from diploee.schedule.signals import Signal

MIN, H = 60_000, 3_600_000
QUICK = ClassFlexibility(checkpoint_every_ms=10 * MIN, stop_ms=MIN, restart_ms=5 * MIN)


def acted(
    jobs: JobTable,
    policy: Any,
    n_nodes: int = 4,
    horizon_ms: int = 48 * H,
    window_ms: int | None = None,
    flexible: ClassFlexibility = QUICK,
    **context: Any,
) -> PreemptiveSchedule:
    cluster = Cluster(
        {"main": Pool(node_type="any", n_nodes=n_nodes)},
        horizon_ms,
        policies={"main": policy},
        context=Context(flexibility=[flexible], **context),
    )
    parts, done = [], 0
    window_ms = window_ms or horizon_ms
    for until_ms in range(window_ms, horizon_ms + window_ms, window_ms):
        stop = int(np.searchsorted(jobs.submit_ms, until_ms))
        part = cluster.advance(jobs.take(slice(done, stop)), min(until_ms, horizon_ms))
        assert isinstance(part, PreemptiveSchedule)
        parts.append(part)
        done = stop
    return join_windows(parts, jobs, horizon_ms)


def rows(found: PreemptiveSchedule, job: int = 0) -> list[tuple[Any, ...]]:
    """Return the stretches of a job: kind, start, end [min], nodes, work before and
    after [min]."""
    runs = found.runs.take(found.runs.job == job)
    return [
        (KINDS[kind], start / MIN, end / MIN, nodes, before / MIN, after / MIN)
        for kind, start, end, nodes, before, after in zip(
            *(
                values.tolist()
                for values in runs.columns(
                    "kind",
                    "start_ms",
                    "end_ms",
                    "n_nodes",
                    "work_from_ms",
                    "work_to_ms",
                )
            ),
            strict=True,
        )
    ]


ONE = job_table([0], [2], [60 * MIN])


def test_a_suspended_job_keeps_its_nodes_and_ends_as_much_later() -> None:
    plan = {20 * MIN: [Preempt(0, "suspend")], 50 * MIN: [Resume(0)]}
    found = acted(ONE, Planned(plan))
    assert rows(found) == [
        ("run", 0, 20, 2, 0, 20), ("paused", 20, 50, 2, 20, 20), ("run", 50, 90, 2, 20, 60),  # noqa: E501
    ]  # fmt: skip
    assert found.end_ms.tolist() == [90 * MIN]
    assert found.node_ms.tolist() == [2 * 90 * MIN]


def test_a_checkpoint_keeps_all_work_and_costs_a_stop_and_a_restart() -> None:
    found = acted(ONE, Planned({25 * MIN: [Preempt(0, "checkpoint")]}))
    assert rows(found) == [
        ("run", 0, 25, 2, 0, 25), ("checkpoint", 25, 26, 2, 25, 25),
        ("restart", 26, 31, 2, 25, 25), ("run", 31, 66, 2, 25, 60),
    ]  # fmt: skip
    assert (found.requeued_ms.tolist(), found.restarted_ms.tolist()) == (
        [26 * MIN],
        [26 * MIN],
    )


def test_a_killed_job_goes_back_to_its_last_checkpoint() -> None:
    found = acted(ONE, Planned({25 * MIN: [Preempt(0, "kill")], 40 * MIN: [Start(0)]}))
    assert rows(found)[0] == ("run", 0, 25, 2, 0, 25)
    assert rows(found)[1:] == [
        ("restart", 40, 45, 2, 20, 20),
        ("run", 45, 85, 2, 20, 60),
    ]


def test_a_job_that_is_put_back_waits_in_the_order_of_submission() -> None:
    jobs = job_table([0, 1, 2], [4, 4, 4], [60 * MIN] * 3)
    found = acted(jobs, Planned({70 * MIN: [Preempt(1, "kill")], 90 * MIN: []}))
    # Job 1 stands before job 2 again, and strict FIFO starts it at the next event.
    assert rows(found, 1)[0] == ("run", 60, 70, 4, 0, 10)
    assert rows(found, 1)[1][:3] == ("restart", 90, 95)
    assert found.start_ms[2] == found.end_ms[1]


def test_a_level_slows_the_work_and_moves_the_end() -> None:
    speed = CapLevels().speed("pre_training", 4)
    found = acted(
        ONE, Planned({30 * MIN: [SetLevel(0, 4)], 50 * MIN: [SetLevel(0, 0)]})
    )
    done = 30 + 20 * speed
    assert rows(found)[1] == ("run", 30, 50, 2, 30, pytest.approx(done))
    assert found.end_ms[0] == pytest.approx(50 * MIN + (60 - done) * MIN, abs=1)
    assert found.runs.level.tolist() == [0, 4, 0]


def test_fewer_nodes_cost_a_checkpoint_and_a_restart_at_nine_tenths() -> None:
    found = acted(ONE, Planned({10 * MIN: [Resize(0, 1)]}))
    kinds = [(row[0], row[3]) for row in rows(found)]
    assert kinds == [("run", 2), ("checkpoint", 2), ("restart", 1), ("run", 1)]
    left = 50 / 0.5**0.9
    assert found.end_ms[0] == pytest.approx((16 + left) * MIN, abs=1)


def test_nodes_to_grow_on_are_kept_and_nodes_to_leave_are_freed_once_all_is_saved() -> (
    None
):
    free = []

    class Looking(Planned):
        def look(self, view: Any) -> None:
            free.append((view.now_ms / MIN, view.free_nodes))

    acted(
        ONE,
        Looking({10 * MIN: [Resize(0, 1)], 30 * MIN: [Resize(0, 2)]}),
        horizon_ms=35 * MIN,
    )
    assert free == [(0, 4), (10, 2), (11, 3), (16, 3), (30, 3), (31, 2)]


def test_a_policy_is_asked_once_an_instant_after_ends_and_submissions() -> None:
    asked = []

    class Looking(Planned):
        def look(self, view: Any) -> None:
            asked.append((view.now_ms, list(view.queue), list(view.running)))

    jobs = job_table([0, 10, 10], [4, 2, 2], [10, 5, 7])
    acted(jobs, Looking({12: []}), horizon_ms=100)
    assert asked == [
        (0, [0], []),
        (10, [1, 2], []),
        (12, [], [1, 2]),
        (15, [], [2]),
        (17, [], []),
    ]


def test_a_policy_sees_estimates_and_never_true_ends() -> None:
    seen = []

    class Wrong(Planned):
        estimate = EstimateByFactor(factor=0.5)

        def look(self, view: Any) -> None:
            if view.running:
                seen.append((view.now_ms, view.running[0], view.expected_end_ms(0)))

    acted(job_table([0], [1], [100]), Wrong({40: [], 80: []}), horizon_ms=1_000)
    assert seen == [(40, 50, 50), (80, 50, 81)]


REFUSED: dict[str, tuple[list[Action], str]] = {
    "unknown job": ([Preempt(7)], "preempts job 7, which does not run"),
    "not suspended": ([Resume(0)], "resumes job 0, which is not suspended"),
    "level": ([SetLevel(0, 9)], "runs job 0 at level 9; levels are 0 to 4"),
    "how": (
        [Preempt(0, "stop")],
        "preempts job 0 by 'stop' .have: 'checkpoint', 'kill'",
    ),  # type: ignore[arg-type]
    "too wide": ([Resize(0, 3)], "resizes job 0 on 3 nodes; it takes 1 to 2"),
    "saved twice": ([Preempt(0), Preempt(0)], "preempts job 0, which is being saved"),
    "waits not": ([Start(0)], "starts job 0, which does not wait"),
    "no action": (["kill 0"], ("answers 'kill 0', which is no action")),  # type: ignore[list-item]
}


class Says:
    """Starts all that waits and answers something five minutes later."""

    wants_idle = True

    def __init__(self, actions: list[Action]) -> None:
        self.actions = actions

    def decide(self, view: Any) -> list[Action]:
        if view.now_ms == 0:
            view.wake_at(5 * MIN)
        return self.actions if view.running else [Start(job) for job in view.queue]


@pytest.mark.parametrize("case", REFUSED)
def test_what_a_policy_may_not_do_is_refused_in_one_line(case: str) -> None:
    actions, text = REFUSED[case]
    with pytest.raises(PolicyError, match=rf"policy Says {text}"):
        acted(ONE, Says(actions))


def test_a_class_that_is_not_pausable_is_not_stopped() -> None:
    policy = Planned({10 * MIN: [Preempt(0)]})
    with pytest.raises(
        PolicyError, match="preempts job 0, whose class is not pausable"
    ):
        acted(ONE, policy, flexible=ClassFlexibility(pausable=False))


def test_the_compiled_engine_refuses_policies_that_act_and_controllers() -> None:
    pools = {"main": Pool(node_type="any", n_nodes=4)}
    with pytest.raises(
        WorkloadError, match=r"no twin of policy Says; use --engine simpy"
    ):
        Cluster(pools, H, "compiled", {"main": Says([])})
    with pytest.raises(WorkloadError, match="the compiled engine has no controller"):
        Cluster(pools, H, "compiled", context=Context(controller=Holds(0)))


class Holds:
    """A controller that lets nothing start before a time."""

    def __init__(self, until_ms: int) -> None:
        self.until_ms = until_ms

    def decide(self, view: Any) -> list[Any]:
        if view.now_ms < self.until_ms:
            view.wake_at(self.until_ms)
        return []

    def may_start(self, view: Any, pool: str, job: int) -> bool:
        return bool(view.now_ms >= self.until_ms)


def test_a_controller_holds_starts_and_its_pools_are_asked_again_when_it_lets_go() -> (
    None
):
    pools = {name: Pool(node_type="any", n_nodes=4) for name in ("a", "b")}
    context = Context(controller=Holds(30 * MIN))
    cluster = Cluster(pools, 10 * H, context=context)
    jobs = job_table([0, 0, 40 * MIN], [4, 4, 4], [MIN, MIN, MIN], pool_id=[0, 1, 0])
    found = cluster.advance(jobs, 10 * H)
    assert found.start_ms.tolist() == [30 * MIN, 30 * MIN, 40 * MIN]


def test_a_controller_acts_on_any_pool_before_its_policy() -> None:
    class Stops(Holds):
        def decide(self, view: Any) -> list[Any]:
            if view.now_ms == 20 * MIN:
                return [("b", Preempt(1, "kill"))]
            if view.now_ms < 20 * MIN:
                view.wake_at(20 * MIN)
            return []

    pools = {name: Pool(node_type="any", n_nodes=4) for name in ("a", "b")}
    context = Context(controller=Stops(0), flexibility=[QUICK])
    jobs = job_table([0, 0], [4, 4], [60 * MIN, 60 * MIN], pool_id=[0, 1])
    found = Cluster(pools, 10 * H, context=context).advance(jobs, 10 * H)
    # 20 min are saved, the restart takes 5
    assert found.end_ms.tolist() == [60 * MIN, 65 * MIN]


def test_events_are_known_from_their_issue_on_and_wake_all() -> None:
    class Call:
        issued_ms = 7 * MIN

    seen = []

    class Watching(Planned):
        def look(self, view: Any) -> None:
            seen.append(
                (view.now_ms, len(view.events_known), len(view.facility.events_known))
            )

    acted(ONE, Watching({}), horizon_ms=8 * MIN, events=[Call()], wakes_ms=[3 * MIN])
    assert seen == [(0, 0, 0), (3 * MIN, 0, 0), (7 * MIN, 1, 1)]


def test_a_policy_sees_a_signal_up_to_now_and_no_further() -> None:
    seen = []
    cap = Signal(np.array([0, 3 * MIN]), np.array([8.0, 2.0]), 48 * H)

    class Looking(Planned):
        def look(self, view: Any) -> None:
            seen.append([view.signals["cap"].at(time_ms) for time_ms in (0, 3 * MIN)])

    acted(
        ONE, Looking({}), horizon_ms=8 * MIN, signals={"cap": cap}, wakes_ms=[3 * MIN]
    )
    np.testing.assert_array_equal(seen, [[8, np.nan], [8, 2]])


# Invariants, on random lists and random acts.


LISTS = st.lists(
    st.tuples(
        st.integers(0, 20).map(lambda k: k * 30 * MIN),
        st.integers(1, 4),
        st.sampled_from([1, MIN, 45 * MIN, 3 * H, 7 * H]),
    ),
    min_size=1,
    max_size=12,
)


def table(jobs: list[tuple[int, int, int]]) -> JobTable:
    return job_table(*np.array(sorted(jobs, key=lambda job: job[0])).T)


@pytest.mark.slow
@given(LISTS, st.integers(0, 1_000))
@settings(max_examples=60, deadline=None)
def test_nodes_and_work_add_up_whatever_a_policy_does(
    jobs: list[tuple[int, int, int]], seed: int
) -> None:
    listed = table(jobs)
    found = acted(listed, Restless(seed, 7 * MIN), horizon_ms=120 * H)
    runs = found.runs
    times = np.unique(np.concatenate([runs.start_ms, runs.end_ms]))
    busy = [
        int(runs.n_nodes[(runs.start_ms <= t) & (runs.end_ms > t)].sum())
        for t in times.tolist()
    ]
    assert max(busy) <= 4
    assert (runs.end_ms > runs.start_ms).all()
    assert (runs.start_ms // DRAW_MS == (runs.end_ms - 1) // DRAW_MS).all()
    for job in range(len(listed)):
        own = runs.take(runs.job == job)
        assert (own.start_ms[1:] >= own.end_ms[:-1]).all()  # never twice at once
        work_ms = own.work_to_ms - own.work_from_ms
        assert (work_ms[own.kind != RUN] == 0).all()
        lost_ms = own.work_to_ms[:-1] - own.work_from_ms[1:]
        assert (lost_ms >= 0).all()  # what is lost is done again, nothing is skipped
        done_ms = int(work_ms.sum() - lost_ms.sum())
        if found.end_ms[job] < found.horizon_ms and found.started[job]:
            assert done_ms == listed.duration_ms[job]
        starts = own.kind[1:] == RESTART
        assert ((lost_ms == 0) | starts).all()


class Counts(Restless):
    """Looks at the sum of the power that is kept as jobs start, slow, shrink and end."""  # noqa: E501

    def decide(self, view: Any) -> list[Action]:
        if all(view.works(job) for job in view.running):
            jobs_w = sum(view.power_w(job, view.job_level[job]) for job in view.running)
            idle = view.n_nodes - sum(view.job_n_nodes[job] for job in view.running)
            assert view.pool_power_w == pytest.approx(
                jobs_w + idle * view.idle_w, abs=0.01
            )
        return super().decide(view)


@pytest.mark.slow
@given(LISTS, st.integers(0, 1_000))
@settings(max_examples=20, deadline=None)
def test_power_of_a_pool_follows_whatever_a_policy_does(
    jobs: list[tuple[int, int, int]], seed: int
) -> None:
    node = tiny_scenario().facility.node_types["node"]
    power = JobPower(ProfileLibrary([profile("flat-1n-1", [1_500.0] * 120)]), [node])
    acted(
        table(jobs),
        Counts(seed, 7 * MIN),
        power=power,
        idle_power_w=[node.idle_power_w],
    )


@pytest.mark.slow
@given(LISTS, st.integers(0, 1_000))
@settings(max_examples=15, deadline=None)
def test_windows_change_nothing_of_what_policies_do(
    jobs: list[tuple[int, int, int]], seed: int
) -> None:
    listed = table(jobs)
    whole = acted(listed, Restless(seed, 7 * MIN), horizon_ms=60 * H)
    parts = acted(listed, Restless(seed, 7 * MIN), horizon_ms=60 * H, window_ms=DRAW_MS)
    for name, values in vars(whole.runs).items():
        assert getattr(parts.runs, name).tolist() == values.tolist()
    assert whole.start_ms.tolist() == parts.start_ms.tolist()
    assert whole.end_ms.tolist() == parts.end_ms.tolist()


class Nothing:
    """A controller that does nothing."""

    holds = False

    def decide(self, view: Any) -> list[Any]:
        return []


@pytest.mark.slow
@given(LISTS)
@settings(max_examples=40, deadline=None)
@pytest.mark.parametrize("policy", [StrictFifo, EasyBackfill])
def test_a_policy_that_only_starts_gives_the_same_by_decide_and_by_select(
    policy: Callable[[], Any], jobs: list[tuple[int, int, int]]
) -> None:
    class Decides:
        def decide(self, view: Any) -> list[Action]:
            return [Start(job) for job in policy().select(view)]

    listed, pool = table(jobs), Pool(node_type="any", n_nodes=4)
    selected = schedule_pool(listed, pool, 60 * H, policy=policy())
    decided = acted(listed, Decides(), horizon_ms=60 * H)
    held = Cluster(
        {"main": pool},
        60 * H,
        "simpy",
        {"main": policy()},
        context=Context(controller=Nothing()),
    ).advance(listed, 60 * H)
    assert decided.start_ms.tolist() == selected.start_ms.tolist()
    assert decided.end_ms.tolist() == selected.end_ms.tolist()
    assert decided.node_ms.tolist() == selected.node_ms.tolist()
    assert held.start_ms.tolist() == selected.start_ms[selected.started].tolist()


def test_nodes_that_are_added_are_seen_at_once() -> None:
    standing = {"main": InstalledNodes(2, ((50, 2),))}
    pools = {"main": Pool(node_type="any", n_nodes=4)}
    cluster = Cluster(pools, 1_000, policies={"main": Planned({})}, installed=standing)
    found = cluster.advance(job_table([0, 0], [2, 2], [500, 500]), 1_000)
    assert found.start_ms.tolist() == [0, 50]
