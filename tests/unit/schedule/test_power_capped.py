"""EASY over nodes and watts: EASY itself without a cap; caps of jobs in fair shares."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from builders import job_table, profile, schedule_pool, tiny_library, tiny_scenario
from hypothesis import given, settings
from hypothesis import strategies as st

from diploee import simulate
from diploee.base.errors import PolicyError
from diploee.profiles import ProfileLibrary
from diploee.scenario import Pool
from diploee.schedule import Schedule
from diploee.schedule.actions import Start
from diploee.schedule.context import Context
from diploee.schedule.controller import PowerHistory, fair_levels
from diploee.schedule.job_table import Headroom, JobPower, JobTable
from diploee.schedule.policies.easy import EasyBackfill
from diploee.schedule.policies.power_capped import PowerCapped
from diploee.schedule.policy import EstimateByFactor
from diploee.schedule.schedule import Cluster
from diploee.schedule.signals import Signal

MIN, H, NEVER = 60_000, 3_600_000, 10**15
NODE = tiny_scenario().facility.node_types["node"]
IDLE_W = NODE.idle_power_w
LIBRARY = ProfileLibrary([profile("draw-1n-1", [1_000.0] * 60 + [3_000.0] * 60)])
"""One node that draws 1 kW for a minute and 3 kW for another: 2 kW by mean, 2.9 kW by
P95."""


def capped(
    jobs: JobTable,
    cap_mw: float | None,
    n_nodes: int = 4,
    horizon_ms: int = 60 * H,
    services_w: Callable[[int], float] = lambda _: 0.0,
    signals: dict[str, Any] | None = None,
    policy: type[PowerCapped] = PowerCapped,
    **keys: Any,
) -> Schedule:
    cluster = Cluster(
        {"main": Pool(node_type="any", n_nodes=n_nodes)},
        horizon_ms,
        policies={"main": policy(cap_mw, **keys)},
        context=Context(
            power=JobPower(LIBRARY, [NODE]),
            idle_power_w=[IDLE_W],
            service_power_w=services_w,
            signals=signals or {},
        ),
    )
    return cluster.advance(jobs, horizon_ms)


def table(jobs: Sequence[tuple[int, int, int]], *factors: float) -> JobTable:
    listed = job_table(*np.array(sorted(jobs, key=lambda job: job[0])).T)
    return replace(listed, power_factor=np.resize(factors or 1.0, len(listed)))


LISTS = st.lists(
    st.tuples(
        st.integers(0, 10).map(lambda k: k * 10 * MIN),
        st.integers(1, 4),
        st.sampled_from([1, 7 * MIN, 10 * MIN, 45 * MIN, 3 * H]),
    ),
    min_size=1,
    max_size=14,
)


@pytest.mark.slow
@given(
    LISTS,
    st.sampled_from(["submission", "sjbf"]),
    st.sampled_from([None, 1, 3]),
    st.sampled_from([0.5, 1.0, 2.0]),
)
@settings(max_examples=80, deadline=None)
def test_without_a_cap_it_is_easy_start_for_start(
    jobs: list[tuple[int, int, int]], order: Any, depth: int | None, factor: float
) -> None:
    listed = table(jobs)
    estimate = EstimateByFactor(factor=factor)
    easy = schedule_pool(
        listed,
        Pool(node_type="any", n_nodes=4),
        60 * H,
        policy=EasyBackfill(estimate=estimate, order=order, depth=depth),
    )
    found = capped(listed, float("inf"), estimate=estimate, order=order, depth=depth)
    assert found.start_ms.tolist() == easy.start_ms[easy.started].tolist()


class Slowly(PowerCapped):
    """The same rules, read off anew at each decision: one job, one piece of time after
    another."""

    def decide(self, view: Any) -> list[Start]:
        now_ms, queue, cap = view.now_ms, list(view.queue), view.signals["cap"]
        n_nodes, estimate_ms = view.job_n_nodes, view.job_estimate_ms
        drawn_w = {
            job: view.power_w(job, 0, self.power_basis)
            for job in [*view.running, *queue]
        }
        ends_ms = {job: view.expected_end_ms(job) for job in view.running}
        last_ms = now_ms + max(estimate_ms[job] for job in queue)
        hours = range((now_ms // H + 1) * H, last_ms, H)
        edges = sorted({now_ms, *hours, *(t for t, _ in cap.steps if t > now_ms)})

        def left_w(time_ms: int) -> float:
            at = bisect_right(edges, time_ms)
            until_ms = edges[at] if at < len(edges) else edges[-1] + 1
            hours = range(edges[at - 1] // H, -(-until_ms // H))
            services_w = max(view.service_power_w(hour * H) for hour in hours)
            nodes = [
                n_nodes[job] for job, end_ms in ends_ms.items() if end_ms > time_ms
            ]
            jobs_w = [
                drawn_w[job] for job, end_ms in ends_ms.items() if end_ms > time_ms
            ]
            idle = view.n_nodes - sum(nodes)
            return float(
                cap.at(time_ms) * 1e6 - services_w - sum(jobs_w) - idle * IDLE_W
            )

        def beyond_w(job: int) -> float:
            return drawn_w[job] - n_nodes[job] * IDLE_W

        def least_w(job: int, from_ms: int) -> float:
            times = [
                from_ms,
                *(t for t in edges if from_ms < t < from_ms + estimate_ms[job]),
            ]
            return min(map(left_w, times))

        def fits(job: int, at_ms: int) -> bool:
            free = view.n_nodes - sum(
                n_nodes[j] for j, end_ms in ends_ms.items() if end_ms > at_ms
            )
            return n_nodes[job] <= free and beyond_w(job) <= least_w(job, at_ms)

        started = []
        while queue and fits(queue[0], now_ms):
            started.append(queue.pop(0))
            ends_ms[started[-1]] = now_ms + estimate_ms[started[-1]]
        if not queue:
            return [Start(job) for job in started]
        head, *behind = queue
        if n_nodes[head] <= view.n_nodes - sum(n_nodes[job] for job in ends_ms):
            view.wake_at(
                min(
                    (now_ms // H + 1) * H,
                    *(t for t, _ in cap.steps if t > now_ms),
                    NEVER,
                )
            )
        times = sorted({*edges[1:], *ends_ms.values()})
        shadow_ms = next((t for t in times if fits(head, t)), None)
        extra = 0, 0.0
        if shadow_ms is not None:
            busy = sum(
                n_nodes[job] for job, end_ms in ends_ms.items() if end_ms > shadow_ms
            )
            extra = (
                view.n_nodes - busy - n_nodes[head],
                least_w(head, shadow_ms) - beyond_w(head),
            )
        behind = behind[: None if self.depth is None else self.depth - 1]
        if self.order == "sjbf":
            behind.sort(key=lambda job: estimate_ms[job])
        for job in behind:
            if not fits(job, now_ms):
                continue
            if shadow_ms is not None and now_ms + estimate_ms[job] > shadow_ms:
                if n_nodes[job] > extra[0] or beyond_w(job) > extra[1]:
                    continue
                extra = extra[0] - n_nodes[job], extra[1] - beyond_w(job)
            started.append(job)
            ends_ms[job] = now_ms + estimate_ms[job]
        return [Start(job) for job in started]


@pytest.mark.slow
@given(
    LISTS,
    st.sampled_from(["submission", "sjbf"]),
    st.sampled_from([None, 1, 3]),
    st.sampled_from([0.5, 1.0, 2.0]),
    st.lists(st.tuples(st.integers(1, 20), st.integers(6_000, 14_000)), max_size=4),
    st.lists(st.sampled_from([0, 500, 2_500]), min_size=5, max_size=5),
    st.sampled_from(["mean", "p95_60s", "rated"]),
)
@settings(max_examples=60, deadline=None)
def test_it_starts_jobs_as_the_same_rules_read_off_slowly(
    jobs: list[tuple[int, int, int]],
    order: Any,
    depth: int | None,
    factor: float,
    caps_w: list[tuple[int, int]],
    services_w: list[int],
    basis: Any,
) -> None:
    steps = {
        0: 0.013,
        **{at * 17 * MIN: cap_w / 1e6 for at, cap_w in caps_w},
        12 * H: 0.018,
    }
    facility: dict[str, Any] = {
        "signals": {"cap": Steps(*sorted(steps.items()))},
        "services_w": lambda time_ms: (
            services_w[time_ms // H] if time_ms < 5 * H else 0
        ),
    }
    found = [
        capped(
            table(jobs, 1.0, 0.5, 1.25),
            None,
            power_basis=basis,
            policy=policy,
            order=order,
            depth=depth,
            estimate=EstimateByFactor(factor=factor),
            **facility,
        ).start_ms.tolist()
        for policy in (PowerCapped, Slowly)
    ]
    assert found[0] == found[1]
    assert len(found[0]) == len(jobs)


BASES = {"mean": 2_000.0, "p95_60s": 2_900.0, "rated": NODE.rated_power_w}


@pytest.mark.slow
@given(LISTS, st.sampled_from(sorted(BASES)), st.floats(0.0, 1.0))
@settings(max_examples=60, deadline=None)
def test_the_estimates_of_all_that_runs_never_exceed_the_cap(
    jobs: list[tuple[int, int, int]], basis: Any, share: float
) -> None:
    listed = table(jobs)
    node_w, widest = BASES[basis], int(listed.n_nodes.max())
    floor_w = 4 * IDLE_W + widest * (node_w - IDLE_W)
    cap_w = floor_w + share * (4 * node_w - floor_w)
    found = capped(listed, (cap_w + 1e-6) / 1e6, power_basis=basis)
    assert len(found.jobs) == len(listed)
    for time_ms in found.start_ms.tolist():
        runs = (found.start_ms <= time_ms) & (found.end_ms > time_ms)
        busy = int(found.jobs.n_nodes[runs].sum())
        assert busy * node_w + (4 - busy) * IDLE_W <= cap_w + 1e-3


def test_a_job_waits_for_watts_and_a_smaller_one_may_pass_it() -> None:
    # 3 nodes at 2 kW and one idle: 6.4 kW. Job 1 wants 2 more, job 2 one for as long as
    # job 0.
    jobs = table([(0, 2, 60 * MIN), (1, 2, 60 * MIN), (2, 1, 30 * MIN)])
    found = capped(jobs, 6_500 / 1e6, power_basis="mean")
    assert found.start_ms.tolist() == [0, 60 * MIN, 2]


def test_services_leave_less_for_jobs_and_hours_to_come_count() -> None:
    def services_w(time_ms: int) -> float:
        return 3_000.0 if H <= time_ms < 2 * H else 0.0

    jobs = table([(0, 2, 90 * MIN), (0, 1, 30 * MIN)])
    # 4 nodes idle draw 1.6 kW; two more busy nodes 3.2 kW on top, which the service
    # lacks at 1 h.
    found = capped(jobs, 5_500 / 1e6, power_basis="mean", services_w=services_w)
    assert found.start_ms.tolist() == [2 * H, 0]


class Steps:
    """A cap that is known all along."""

    def __init__(self, *steps: tuple[int, float]) -> None:
        self.steps = steps

    def at(self, time_ms: int) -> float:
        return [value for begin_ms, value in self.steps if begin_ms <= time_ms][-1]

    def next_change_ms(self, time_ms: int) -> int | None:
        return next(
            (begin_ms for begin_ms, _ in self.steps if begin_ms > time_ms), None
        )


def test_a_cap_from_a_signal_is_kept_ahead_of_its_change() -> None:
    signal = Steps((0, 0.0082), (50 * MIN, 0.0049), (110 * MIN, 0.0082))
    jobs = table([(0, 4, 40 * MIN), (1, 4, 40 * MIN), (2, 2, 30 * MIN)])
    found = capped(jobs, None, signals={"cap": signal}, power_basis="mean")
    # The second can't end before the cap falls at 50 min; the third fits under it.
    assert found.start_ms.tolist() == [0, 110 * MIN, 40 * MIN]


def test_a_change_of_the_cap_that_is_not_known_yet_changes_no_start_before_it() -> None:
    jobs = table([(0, 2, 40 * MIN), (1, 2, 90 * MIN), (2, 2, 30 * MIN)])
    starts = []
    for later_mw in (0.0020, 0.0082):
        times_ms = np.array([0, 60 * MIN])
        signal = Signal(times_ms, np.array([0.0082, later_mw]), 300 * H)
        found = capped(jobs, None, signals={"cap": signal}, power_basis="mean")
        starts.append([t for t in found.start_ms.tolist() if t < 60 * MIN])
    assert starts[0] == starts[1] == [0, 1, 40 * MIN]


def test_a_cap_below_idle_power_is_refused_in_one_line() -> None:
    with pytest.raises(
        PolicyError, match=r"cap of 0\.001 MW at 0 h of the run lies below"
    ) as got:
        capped(table([(0, 1, MIN)]), 0.001)
    assert "\n" not in str(got.value)


def test_a_job_that_could_never_start_under_the_cap_is_refused_in_one_line() -> None:
    with pytest.raises(
        PolicyError, match=r"job 0 draws 0\.0064 MW beyond idle .mean., more than"
    ):
        capped(table([(0, 4, MIN)]), 0.004, power_basis="mean")


def test_without_a_cap_or_a_signal_it_says_what_to_give() -> None:
    with pytest.raises(
        PolicyError, match="power_capped has no cap; give it cap_mw, or add"
    ):
        capped(table([(0, 1, MIN)]), None)


def test_a_scenario_keeps_its_cap(tmp_path: Any) -> None:
    scheduler = {"kind": "power_capped", "cap_mw": 0.018, "power_basis": "p95_60s"}
    scenario = tiny_scenario({"facility.pools.main.scheduler": scheduler})
    run = simulate(scenario, tmp_path / "run", library=tiny_library())
    plain = simulate(tiny_scenario(), tmp_path / "plain", library=tiny_library())
    power_w = run.facility()["it_power_w"]
    assert plain.facility()["it_power_w"].max() > 18_000
    assert (power_w > 18_000).mean() < 0.05
    assert run.metrics["jobs"]["mean_queue_time_all_h"] > 0


ROW = st.lists(st.floats(1, 1000), min_size=4, max_size=4).map(
    lambda row: sorted(row)[::-1]
)


def test_jobs_give_the_same_share_of_their_headroom() -> None:
    big, small = [400.0, 300, 200, 100], [40.0, 30, 20, 10]
    levels = fair_levels(np.array([big, small, big]), 840 * 2 / 3)
    # One of the big ones a level more than the others
    assert levels.tolist() == [1, 1, 2]


@given(st.lists(ROW, min_size=1, max_size=8), st.floats(0, 1))
def test_caps_keep_what_can_be_kept_within_the_largest_step(
    rows: list[list[float]], part: float
) -> None:
    power_w = np.array(rows)
    low_w, high_w = power_w[:, -1].sum(), power_w[:, 0].sum()
    allowed_w = low_w + part * (high_w - low_w) + 1e-9
    levels = fair_levels(power_w, allowed_w)
    own_w = power_w[np.arange(len(rows)), levels]
    assert own_w.sum() <= allowed_w * (1 + 1e-12)
    if levels.any():
        assert allowed_w - own_w.sum() <= -np.diff(power_w, axis=1).min() + 1e-9


def test_room_under_a_cap_is_negative_until_enough_is_given_back() -> None:
    room = Headroom(100.0, 130.0)
    assert not room.holds(0)
    room.take(-40.0)
    assert room.holds(10)
    assert not room.holds(10.5)


def test_the_mean_of_the_past_is_of_what_was_drawn_from_each_time_on() -> None:
    past = PowerHistory(100)
    for time_ms, power_w in ((0, 10.0), (50, 20), (80, 40), (80, 60)):
        past.add(time_ms, power_w)
    assert past.mean_w(0, 100) == pytest.approx((50 * 10 + 30 * 20 + 20 * 60) / 100)
    assert past.mean_w(60, 90) == pytest.approx((20 * 20 + 10 * 60) / 30)
    past.add(400, 0.0)
    assert past.mean_w(300, 400) == 60
