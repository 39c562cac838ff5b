"""Custom policies run on the SimPy engine through the same interface; and strict FIFO."""  # noqa: E501

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import permutations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from builders import (
    job_table,
    mean_utilization,
    queued_at,
    schedule_pool,
    tiny_library,
    tiny_scenario,
)

from diploee import run as simulate
from diploee.base.errors import PolicyError, WorkloadError
from diploee.scenario import Pool
from diploee.scenario.pools import InstalledNodes
from diploee.schedule import ClusterView, Policy, Schedule, StrictFifo
from diploee.schedule.actions import Start
from diploee.schedule.compiled import CompiledQueue
from diploee.schedule.context import Context
from diploee.schedule.job_table import JobTable
from diploee.schedule.policies.easy import ShortestJobFirst
from diploee.schedule.policy import register_compiled_engine
from diploee.schedule.preemptive_engine import PreemptiveEngine
from diploee.schedule.schedule import Engine
from diploee.schedule.simpy_engine import SimpyCluster
from diploee.schedule.started import NEVER_MS


class NotBefore:
    """Holds the queue until a time, at which nothing is submitted and nothing ends."""

    def __init__(self, opens_ms: int) -> None:
        self.opens_ms = opens_ms
        self.asked_at: list[int] = []

    def select(self, view: ClusterView) -> Sequence[int]:
        self.asked_at.append(view.now_ms)
        if view.now_ms < self.opens_ms:
            view.wake_at(self.opens_ms)
            return []
        return StrictFifo().select(view)


class Greedy:
    """Starts everything, whether it fits or not."""

    def select(self, view: ClusterView) -> Sequence[int]:
        return list(view.queue)


def start_ms(
    jobs: JobTable, n_nodes: int, policy: Policy, horizon_ms: int = 10_000
) -> list[int]:
    pool = Pool(node_type="any", n_nodes=n_nodes)
    return schedule_pool(jobs, pool, horizon_ms, policy=policy).start_ms.tolist()


def test_wake_at_asks_the_policy_at_a_time_of_its_own() -> None:
    policy = NotBefore(500)
    assert start_ms(job_table([3, 7], [1, 1], [10, 10]), 4, policy) == [500, 500]
    assert policy.asked_at == [3, 7, 500]  # the second wake finds nothing to ask about


def test_a_wake_beyond_the_horizon_does_no_harm() -> None:
    assert start_ms(job_table([3], [1], [10]), 4, NotBefore(500), horizon_ms=400) == [
        NEVER_MS
    ]


def test_node_counts_are_never_exceeded_by_any_policy() -> None:
    jobs = job_table([0, 0], [3, 2], [5, 5])
    with pytest.raises(PolicyError, match="Greedy starts job 1 on 2 nodes, 1 are free"):
        start_ms(jobs, 4, Greedy())


class Invents:
    """Starts a job that was never submitted."""

    def select(self, view: ClusterView) -> Sequence[int]:
        return [99]


class Refuses:
    """Starts nothing."""

    def select(self, view: ClusterView) -> Sequence[int]:
        return []


def test_a_policy_may_start_only_jobs_that_wait() -> None:
    with pytest.raises(PolicyError, match="Invents starts job 99, which does not wait"):
        start_ms(job_table([0], [1], [5]), 4, Invents())


def test_a_policy_that_starves_a_free_pool_is_refused_after_a_day() -> None:
    jobs, day_ms = job_table([0], [1], [5]), 86_400_000
    assert start_ms(jobs, 4, Refuses(), horizon_ms=day_ms - 1) == [NEVER_MS]
    with pytest.raises(
        PolicyError, match="Refuses has left all 4 nodes free for 24 h while 1 job"
    ):
        start_ms(jobs, 4, Refuses(), horizon_ms=day_ms)


def test_a_quiet_pool_is_starved_only_from_when_jobs_wait() -> None:
    day_ms = 86_400_000
    cluster = SimpyCluster(4, Refuses())
    cluster.advance(JobTable.empty(), 5 * day_ms)
    cluster.advance(job_table([5 * day_ms], [1], [5]), 5 * day_ms + 1_000)
    with pytest.raises(PolicyError, match="Refuses has left all 4 nodes free for 24 h"):
        cluster.advance(JobTable.empty(), 6 * day_ms)


class Answers:
    """Calls a function with its view for what to start; acts on all pools where it
    decides."""

    def __init__(self, answer: Any, decides: bool = False) -> None:
        setattr(self, "decide" if decides else "select", answer)
        self.holds = False


def first(view: ClusterView) -> list[int]:
    return list(StrictFifo().select(view))


def acts(policy: Any, jobs: JobTable, n_nodes: int, controller: Any = None) -> Any:
    standing = {"main": InstalledNodes(n_nodes, ())}
    context = Context(controller=controller)
    return PreemptiveEngine({"main": policy}, standing, context, 0, 100).advance(
        jobs, 100
    )


@pytest.mark.parametrize(
    "kind", [np.array, tuple, lambda jobs: np.array(jobs, dtype=np.int32)]
)
def test_jobs_may_be_any_sequence_or_array_of_whole_numbers(kind: Any) -> None:
    jobs = job_table([0, 0, 1], [2, 2, 1], [5, 5, 5])
    expected = start_ms(jobs, 4, StrictFifo())
    assert start_ms(jobs, 4, Answers(lambda view: kind(first(view)))) == expected


@pytest.mark.parametrize(
    "found",
    [None, "0", [0.0], [True], np.array([[0]])],
    ids=str,
)
def test_other_answers_are_refused_in_one_line_that_names_the_policy(
    found: Any,
) -> None:
    text = "policy Answers: select (must return numbers of jobs|raised)"
    with pytest.raises(PolicyError, match=text):
        start_ms(job_table([0], [1], [5]), 4, Answers(lambda _: found))


@pytest.mark.parametrize("later", [0, 1.5, None])
def test_waking_at_no_time_after_now_is_refused_at_once(later: Any) -> None:
    def answer(view: Any) -> list[int]:
        view.wake_at(view.now_ms + later if isinstance(later, int) else later)
        return []

    for decides in (False, True):
        policy, jobs = Answers(answer, decides), job_table([5], [1], [5])
        with pytest.raises(PolicyError, match="policy Answers asks to be woken at"):
            acts(policy, jobs, 4) if decides else start_ms(jobs, 4, policy)


@pytest.mark.parametrize(
    "found",
    [[Start(0, n_nodes=1.5)], [0], 0],
    ids=str,  # type: ignore[arg-type]
)
def test_actions_of_other_kinds_are_refused(found: Any) -> None:
    jobs, text = job_table([0], [1], [5]), "policy Answers: decide (must return|raised)"
    with pytest.raises(PolicyError, match=text):
        acts(Answers(lambda _: found, decides=True), jobs, 4)
    pairs = [("main", action) for action in found] if isinstance(found, list) else found
    with pytest.raises(PolicyError, match=text):
        acts(StrictFifo(), jobs, 4, Answers(lambda _: pairs, decides=True))


def test_an_error_of_the_system_in_a_policy_is_not_blamed_on_the_output(
    tmp_path: Path,
) -> None:
    policy = Answers(lambda _: open("/none"))  # noqa: PTH123, SIM115
    with pytest.raises(
        PolicyError, match="policy Answers: select raised FileNotFoundError"
    ):
        simulate(
            tiny_scenario(),
            tmp_path / "run",
            profiles=tiny_library(),
            policies={"main": policy},
        )
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("policies", "text"),
    [
        (
            {"mian": StrictFifo()},
            r"policies: unknown pool 'mian' \(have: 'main'\); did you mean",
        ),
        (
            {"main": "fifo"},
            "policies: pool 'main' needs an object with select.*, found 'fifo'",
        ),
        ({"main": StrictFifo}, "policies: pool 'main' needs an object with select"),
    ],
)
def test_what_is_no_policy_or_of_no_pool_is_refused_in_one_line(
    tmp_path: Path, policies: dict[str, Any], text: str
) -> None:
    with pytest.raises(WorkloadError, match=text):
        simulate(
            tiny_scenario(),
            tmp_path / "run",
            profiles=tiny_library(),
            policies=policies,
        )
    assert list(tmp_path.iterdir()) == []


class HalfFull:
    """FIFO on half of the nodes; it remembers when it was asked, so that each run needs
    its own."""

    def __init__(self) -> None:
        self.asked_at: list[int] = []

    def select(self, view: ClusterView) -> Sequence[int]:
        assert not self.asked_at or view.now_ms >= self.asked_at[-1], (
            "used for two runs"
        )
        self.asked_at.append(view.now_ms)
        free_nodes, chosen = view.free_nodes - view.n_nodes // 2, []
        for job in view.queue:
            free_nodes -= view.job_n_nodes[job]
            if free_nodes < 0:
                break
            chosen.append(job)
        return chosen


@pytest.mark.slow
def test_match_simulated_meets_its_target_under_an_own_policy(tmp_path: Path) -> None:
    changes = {
        "streams.training.match": "simulated",
        "streams.training.target_utilization": 0.4,
    }
    scenario, library = tiny_scenario({"duration": "7 d", **changes}), tiny_library()
    own = simulate(
        scenario, tmp_path / "own", profiles=library, policies={"main": HalfFull()}
    )
    fifo = simulate(scenario, tmp_path / "fifo", profiles=library)
    for run in (own, fifo):
        (match,) = run.manifest["workload"]
        assert match["matched_utilization"] == pytest.approx(0.4, abs=0.002)
        reached = run.metrics["utilization"]["mean"]
        assert reached == pytest.approx(match["matched_utilization"], rel=1e-9)
    assert own.metrics["utilization"]["max"] <= 0.5 < fifo.metrics["utilization"]["max"]


POOL = Pool(node_type="node", n_nodes=2)


class Twin:
    """A compiled twin of strict FIFO whose answer is changed."""

    def __init__(
        self, policy: Altered, n_nodes: int, begin_ms: int, added: object
    ) -> None:
        self._alter = policy.alter
        self._queue = CompiledQueue(StrictFifo(), n_nodes, begin_ms, added)  # type: ignore[arg-type]

    def advance(self, jobs: JobTable, until_ms: int) -> Any:
        return self._alter(*self._queue.advance(jobs, until_ms))


@register_compiled_engine(f"{__name__}:Twin")
class Altered(StrictFifo):
    def __init__(self, alter: Callable[[Any, Any], Any]) -> None:
        self.alter = alter


def scheduled_by_twin(alter: Callable[[Any, Any], Any]) -> Any:
    jobs = job_table(submit_ms=[0, 10, 20], n_nodes=[1, 1, 1], duration_ms=[50, 50, 50])
    return schedule_pool(jobs, POOL, 100, "compiled", Altered(alter), window_ms=25)


def test_twin_from_outside_answers_as_the_shipped_one() -> None:
    found = scheduled_by_twin(lambda numbers, start_ms: (numbers, start_ms))
    assert found.start_ms.tolist() == [0, 10, 50]


@pytest.mark.parametrize(
    ("alter", "words"),
    [
        (
            lambda numbers, start_ms: None,
            "advance raised TypeError",
        ),
        (
            lambda numbers, start_ms: (numbers, start_ms[1:]),
            "advance must return numbers of jobs",
        ),
        (
            lambda numbers, start_ms: (numbers, start_ms + 0.5),
            "advance must return numbers",
        ),
        (
            lambda numbers, start_ms: (numbers + 5, start_ms),
            "advance starts jobs which do not wait",
        ),
        (
            lambda numbers, start_ms: (0 * numbers, start_ms),
            "advance starts jobs which do not wait",
        ),
        (
            lambda n, start_ms: (n, start_ms - 5),
            "advance starts job 0 at -5 ms, expected 0, when",
        ),
        (
            lambda n, start_ms: (n, start_ms + 90),
            "advance starts job 0 at 90 ms, expected 0, when",
        ),
    ],
)
def test_starts_that_jobs_can_not_have_are_refused_of_a_twin(
    alter: Callable[[Any, Any], Any], words: str
) -> None:
    with pytest.raises(PolicyError, match=f"^policy Twin: {words}"):
        scheduled_by_twin(alter)


@pytest.mark.parametrize(
    "engine", ["nowhere:Queue", "diploee.schedule:Nope", "diploee"]
)
def test_twin_that_can_not_be_imported_gives_one_line(engine: str) -> None:
    policy = register_compiled_engine(engine)(type("Mine", (StrictFifo,), {}))()
    with pytest.raises(
        PolicyError, match=f"^policy Mine: its twin: can't import '{engine}'"
    ):
        schedule_pool(job_table([0], [1], [9]), POOL, 9, "compiled", policy)


Row = tuple[int, int, int]  # submit_ms, n_nodes, duration_ms


@pytest.fixture(params=["simpy", "compiled"])
def engine(request: pytest.FixtureRequest) -> Engine:
    found: Engine = request.param
    return found


def run(engine: Engine, n_nodes: int, *rows: Row, horizon_ms: int = 1_000) -> Schedule:
    columns = zip(*rows, strict=True) if rows else ([], [], [])
    pool = Pool(node_type="any", n_nodes=n_nodes)
    return schedule_pool(job_table(*columns), pool, horizon_ms, engine)


def test_a_pool_without_jobs_gives_an_empty_schedule(engine: Engine) -> None:
    schedule = run(engine, 3)
    assert len(schedule.jobs) == 0
    assert mean_utilization(schedule, 3) == 0


def test_a_job_wider_than_the_pool_is_refused_before_the_run(engine: Engine) -> None:
    with pytest.raises(
        WorkloadError, match=r"job 1 needs 5 nodes, the pool has 4 \(2 such jobs\)"
    ):
        run(engine, 4, (0, 4, 1), (0, 5, 1), (0, 6, 1))


def test_waits_and_ends_follow_from_the_starts(engine: Engine) -> None:
    schedule = run(engine, 1, (0, 1, 60), (10, 1, 60), (20, 1, 60), horizon_ms=100)
    assert schedule.start_ms.tolist() == [0, 60, NEVER_MS]
    assert schedule.wait_ms.tolist() == [0, 50, -1]
    # The planned end, past the horizon
    assert schedule.end_ms.tolist() == [60, 120, NEVER_MS]
    assert mean_utilization(schedule, 2) == 0.5
    assert queued_at(schedule, schedule.jobs.submit_ms) == [0, 1, 2]


class InOrder:
    """Starts jobs in an order of its own; the head blocks."""

    def __init__(self, order: Sequence[int]) -> None:
        self.order = order

    def select(self, view: ClusterView) -> Sequence[int]:
        waiting = [job for job in self.order if job in view.queue]
        return waiting[:1] if view.free_nodes == view.n_nodes else []


def test_shortest_first_waits_least_where_all_jobs_are_equally_wide() -> None:
    jobs = job_table([0] * 5, [4] * 5, [70, 20, 50, 10, 40])
    waits = [sum(start_ms(jobs, 4, InOrder(order))) for order in permutations(range(5))]
    assert sum(start_ms(jobs, 4, ShortestJobFirst())) == min(waits) < max(waits)


def test_shortest_first_bounds_no_wait_where_a_wide_job_blocks_the_others() -> None:
    """Of four nodes two run; the wide job waits for all, and the narrow one for it."""
    jobs = job_table([0, 1, 1], [2, 2, 4], [10, 5, 1])
    assert start_ms(jobs, 4, StrictFifo()) == [0, 1, 10]
    assert start_ms(jobs, 4, ShortestJobFirst()) == [0, 11, 10]
