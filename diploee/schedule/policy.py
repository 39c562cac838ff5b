"""Protocol of queue disciplines: choose the jobs to start from a cluster view.

It knows of a job what a scheduler knows: what was submitted and how long the job is
thought to run (`Estimate`), never how long it will run in truth. A job that runs longer
than its estimate keeps its nodes, and counts as ending the next ms.
`ClusterView.wake_at` asks the policy again at a time at which neither a submission nor
an end would.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import astuple
from typing import Annotated, Any, Literal, Protocol, TypeVar, get_args

import numpy as np
from pydantic import BeforeValidator, Field

from diploee.base.boundary import ErrorMaker, import_object
from diploee.base.clock import WallClock
from diploee.base.errors import DiploeeError, PolicyError, one_line, shown
from diploee.base.model import Model, default
from diploee.base.tables import Int64Array
from diploee.scenario.pools import SchedulerSpec
from diploee.scenario.times import SpanMs
from diploee.schedule.actions import Action
from diploee.schedule.job_table import JobTable


class ClusterView(Protocol):
    """View of a policy of one pool.

    Jobs are numbered in the order of submission to the pool.
    """

    now_ms: int
    """Time since the start of the run [ms], negative in its warm-up."""
    clock: WallClock
    """Local time of the site: ``clock.at(now_ms)`` is the time there, a `datetime`."""
    n_nodes: int
    """Nodes of the pool that stand."""
    free_nodes: int
    """Nodes that run nothing."""
    queue: deque[int]
    """Waiting jobs in the order of submission. Read only: the engine removes what
    starts."""
    running: dict[int, int]
    """Jobs that run, each with its start plus its estimate [ms], which lies in the past
    where it runs longer (`expected_end_ms`). Read only."""
    job_n_nodes: dict[int, int]
    """Nodes that each waiting or running job occupies. These tables are read only."""
    job_estimate_ms: dict[int, int]
    """How long each is thought to run [ms], at least 1: its policy's `estimate`, the
    true run time where the policy has none."""

    job_submit_ms: dict[int, int]
    """When each was submitted [ms]."""
    job_user: dict[int, int]
    """Number of each one's user within its stream; 0 = not known."""
    job_class: dict[int, int]
    """Index of each one's job class."""
    job_profile_id: dict[int, int]
    """Index of each one's power profile in the library."""

    def priority(self, job: int) -> float:
        """Return the priority of a job's class."""
        ...

    def expected_end_ms(self, job: int) -> int:
        """Return when a running job is expected to end [ms], after now.

        That is its start plus its estimate; of a job that has run longer the next ms.
        """
        ...

    def wake_at(self, time_ms: int) -> None:
        """Ask for another decision at a time [ms], after now."""
        ...


class Policy(Protocol):
    """A queue discipline; its `estimate`, if any, says how long jobs should run.

    One with an attribute `wants_idle` that is true is asked while no job waits, too.
    """

    def select(self, view: ClusterView) -> Sequence[int]:
        """Return the queued jobs to start now, in order.

        Together they must fit the free nodes. Called while jobs wait, once at each
        instant at which a job is submitted or ends, nodes are added or
        `ClusterView.wake_at` asked for it: after all that happens at that instant.
        """
        ...


P = TypeVar("P", bound=type)
_TWINS: dict[type, str] = {}


def register_compiled_engine(engine: str) -> Callable[[P], P]:
    """Return a decorator that says which engine is the twin of a policy.

    It holds for that class alone: one derived from it may decide otherwise.

    Parameters
    ----------
    engine : str
        ``"module:Class"`` of the twin.
    """

    def register(policy: P) -> P:
        _TWINS[policy] = engine
        return policy

    return register


def compiled_engine_for(policy: object) -> Callable[..., Any] | None:
    """Return the engine that is the twin of a policy, None where it has none."""
    if (engine := _TWINS.get(type(policy))) is None:
        return None
    try:
        made: Callable[..., Any] = import_object(engine)
    except ValueError as error:
        raise refusal(policy)(f": its twin: {error}") from None
    return made


def refusal(of: object) -> ErrorMaker:
    """Return a factory of errors that name a policy, its engine or a controller."""
    return lambda text: PolicyError(f"policy {type(of).__name__}{text}")


def asked(
    of: object, method: str, is_right: Callable[[Any], bool], expected: str
) -> Callable[..., Any]:
    """Return a method of a policy or controller, whose first answer is checked.

    The answer is a list, or arrays of a twin. What is wrong is a `PolicyError` that
    names it and the `expected` answer.
    """
    refuse, call = refusal(of), getattr(of, method, None)
    has_answered = False
    if call is None:
        raise refuse(f" has no method {method}")

    def ask(*arguments: Any) -> Any:
        nonlocal has_answered
        try:
            found = call(*arguments)
            if not (has_answered or is_right(found)):
                what = one_line(shown(found))
                raise refuse(f": {method} must return {expected}, found {what}")
        except (DiploeeError, MemoryError):
            raise
        except Exception as error:
            why = one_line(f"{type(error).__name__}: {error}")
            raise refuse(f": {method} raised {why}") from error
        has_answered = True
        return found

    return ask


JOBS = "numbers of jobs of view.queue"
"""Answers of `select`, for errors."""


def are_jobs(found: Sequence[Any]) -> bool:
    """Return whether an answer is numbers of jobs."""
    return all(map(_is_whole, found))


def are_actions(found: Sequence[Any]) -> bool:
    """Return whether an answer is actions, with whole numbers."""
    return all(
        isinstance(action, get_args(Action))
        and all(
            _is_whole(v) or v in (None, getattr(action, "how", None))
            for v in astuple(action)
        )
        for action in found
    )


def are_pairs(found: Sequence[Any]) -> bool:
    """Return whether an answer is actions, each with the name of its pool."""
    return are_actions([action for _, action in found])


def are_starts(found: tuple[Int64Array, Int64Array]) -> bool:
    """Return whether an answer of a twin is numbers of jobs and their starts [ms]."""
    numbers, start_ms = found
    return numbers.shape == start_ms.shape and numbers.dtype == start_ms.dtype == "i8"


def _is_whole(value: object) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def wake_ms(who: object, time_ms: Any, now_ms: int) -> int:
    """Return the time at which a policy asks to be woken [ms]; it must be after now."""
    if _is_whole(time_ms) and time_ms > now_ms:
        return int(time_ms)
    raise refusal(who)(
        f" asks to be woken at {shown(time_ms)} ms, expected a whole number after now "
        f"({now_ms} ms); it is asked again at each event anyway"
    )


EXACT: Literal["exact"] = "exact"
LOGGED_OR_RUN: Literal["logged_or_run"] = "logged_or_run"


class EstimateByFactor(Model):
    """The true run time, times a factor."""

    factor: float = Field(gt=0, le=1e6, description="Factor on the actual run time.")


class EstimateByClasses(Model):
    """The shortest of some lengths that the run time fits into."""

    classes: tuple[SpanMs, ...] = Field(
        min_length=1,
        description=(
            "Lengths to choose from: a job requests the shortest one that is at least "
            "its run time, or the longest one if none is."
        ),
    )


def _read(value: Any) -> Any:
    """Return an estimate as one of its forms, with errors of that one alone."""
    if isinstance(value, dict) and set(value) == {"factor"}:
        return EstimateByFactor.model_validate(value)
    if isinstance(value, dict) and set(value) == {"classes"}:
        return EstimateByClasses.model_validate(value)
    if value in (EXACT, "logged", LOGGED_OR_RUN) or isinstance(
        value, EstimateByFactor | EstimateByClasses
    ):
        return value
    raise ValueError(
        "must be 'exact', 'logged', 'logged_or_run', {factor: 2} or {classes: [30 "
        f"min, 4 h]}}, found {shown(value)}"
    )


Estimate = Annotated[
    Literal["exact", "logged", "logged_or_run"] | EstimateByFactor | EstimateByClasses,
    BeforeValidator(_read),
]
"""A policy's rule for the estimates of its jobs."""


class EstimatingSpec(SchedulerSpec):
    """A queue discipline that looks at how long jobs are thought to run."""

    estimate: Estimate = default(
        LOGGED_OR_RUN,
        (
            "Estimated run time of a job: exact; its run time times a factor; the "
            "shortest of some classes that is long enough; or logged, the time "
            "requested in the log (its run time if the log has none). A job that "
            "exceeds its estimate keeps its nodes. logged_or_run takes the longer of "
            "requested time and run time, so that synthetic jobs have exact estimates."
        ),
    )

    def open(self) -> Any:
        """Return the policy: itself, where it needs no state."""
        return self


def estimated_ms(estimate: Estimate, jobs: JobTable) -> Int64Array:
    """Return how long jobs are thought to run."""
    run_ms: Int64Array = jobs.duration_ms
    match estimate:
        case EstimateByFactor(factor=factor):
            run_ms = np.maximum(np.rint(run_ms * factor), 1).astype(np.int64)
        case EstimateByClasses(classes=classes):
            lengths_ms = np.sort(np.array(classes, dtype=np.int64))
            fitting = np.searchsorted(lengths_ms, run_ms)
            run_ms = lengths_ms[np.minimum(fitting, lengths_ms.size - 1)]
        case "logged":
            run_ms = np.where(jobs.requested_ms > 0, jobs.requested_ms, run_ms)
        case "logged_or_run":
            run_ms = np.maximum(jobs.requested_ms, run_ms)
    return run_ms
