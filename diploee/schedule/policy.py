"""Protocol of queue disciplines: they select the jobs to start from a cluster view.

Like a scheduler, a policy knows the request of a submitted job and an estimate of its
run time (`Estimate`), but not the true run time. A job that exceeds its estimate
keeps its nodes, and is expected to end in the next ms. A policy is called at
submissions and ends of jobs; with `ClusterView.wake_at` it requests further calls.
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
    """View of one pool for its policy.

    Jobs are numbered in the order of submission to the pool.
    """

    now_ms: int
    """Time since the start of the run [ms], negative in its warm-up."""
    clock: WallClock
    """Local time of the site; ``clock.at(now_ms)`` is the present time (`datetime`)."""
    n_nodes: int
    """Installed nodes of the pool."""
    free_nodes: int
    """Nodes without a job."""
    queue: deque[int]
    """Waiting jobs in the order of submission. Read only: the engine removes jobs that
    start."""
    running: dict[int, int]
    """Running jobs, each with its start plus its estimate [ms], which is in the past if
    the job exceeds its estimate (see `expected_end_ms`). Read only."""
    job_n_nodes: dict[int, int]
    """Number of nodes of each waiting or running job. This table and the following ones
    are read only."""
    job_estimate_ms: dict[int, int]
    """Estimated run time of each job [ms], at least 1, by the policy's `estimate`; the
    true run time if the policy has none."""

    job_submit_ms: dict[int, int]
    """Time of submission of each job [ms]."""
    job_user: dict[int, int]
    """Number of each job's user within its stream; 0 = unknown."""
    job_class: dict[int, int]
    """Index of each job's class."""
    job_profile_id: dict[int, int]
    """Index of each job's power profile in the library."""

    def priority(self, job: int) -> float:
        """Return the priority of a job's class."""
        ...

    def expected_end_ms(self, job: int) -> int:
        """Return the expected end of a running job [ms], after the present.

        The expected end is the start plus the estimate; for a job that has exceeded its
        estimate, it is the next ms.
        """
        ...

    def wake_at(self, time_ms: int) -> None:
        """Request another decision at a time after the present [ms]."""
        ...


class Policy(Protocol):
    """Protocol of a queue discipline, with an optional rule `estimate` for run times.

    If the attribute `wants_idle` is true, the policy is also called while no job waits.
    """

    def select(self, view: ClusterView) -> Sequence[int]:
        """Return the queued jobs to start now, in order.

        Together the jobs must fit the free nodes. The method is called while jobs wait,
        once at each time at which a job is submitted or ends, nodes are added or
        `ClusterView.wake_at` requested a call, after all these events.
        """
        ...


P = TypeVar("P", bound=type)
_COMPILED_ENGINES: dict[type, str] = {}


def register_compiled_engine(engine: str) -> Callable[[P], P]:
    """Return a decorator that registers the compiled engine of a policy class.

    The engine is not used for derived classes, which may select other jobs.

    Parameters
    ----------
    engine : str
        Engine as ``"module:Class"``.
    """

    def register(policy: P) -> P:
        _COMPILED_ENGINES[policy] = engine
        return policy

    return register


def compiled_engine_for(policy: object) -> Callable[..., Any] | None:
    """Return the compiled engine of a policy, or None if it has none."""
    if (engine := _COMPILED_ENGINES.get(type(policy))) is None:
        return None
    try:
        factory: Callable[..., Any] = import_object(engine)
    except ValueError as error:
        raise policy_error(policy)(f": its twin: {error}") from None
    return factory


def policy_error(subject: object) -> ErrorMaker:
    """Return a factory of errors that name a policy, its engine or a controller."""
    return lambda text: PolicyError(f"policy {type(subject).__name__}{text}")


def checked_method(
    subject: object, method: str, is_valid: Callable[[Any], bool], expected: str
) -> Callable[..., Any]:
    """Return a method of a policy or controller, whose first result is checked.

    The result is a list, or arrays from a compiled engine. A wrong result raises a
    `PolicyError` that names it and the `expected` result.
    """
    make_error, call = policy_error(subject), getattr(subject, method, None)
    is_checked = False
    if call is None:
        raise make_error(f" has no method {method}")

    def call_checked(*arguments: Any) -> Any:
        nonlocal is_checked
        try:
            result = call(*arguments)
            if not (is_checked or is_valid(result)):
                shown_result = one_line(shown(result))
                raise make_error(
                    f": {method} must return {expected}, found {shown_result}"
                )
        except (DiploeeError, MemoryError):
            raise
        except Exception as error:
            reason = one_line(f"{type(error).__name__}: {error}")
            raise make_error(f": {method} raised {reason}") from error
        is_checked = True
        return result

    return call_checked


JOBS = "numbers of jobs of view.queue"
"""Description of the results of `select`, for errors."""


def are_job_numbers(values: Sequence[Any]) -> bool:
    """Return True if all values are integers."""
    return all(map(_is_whole, values))


def are_actions(values: Sequence[Any]) -> bool:
    """Return True if all values are actions with whole numbers."""
    return all(
        isinstance(action, get_args(Action))
        and all(
            _is_whole(v) or v in (None, getattr(action, "how", None))
            for v in astuple(action)
        )
        for action in values
    )


def are_pairs(values: Sequence[Any]) -> bool:
    """Return True if all values are pairs of a pool's name and an action."""
    return are_actions([action for _, action in values])


def are_starts(result: tuple[Int64Array, Int64Array]) -> bool:
    """Return True if a result is integer arrays of job numbers and starts [ms]."""
    numbers, start_ms = result
    return numbers.shape == start_ms.shape and numbers.dtype == start_ms.dtype == "i8"


def _is_whole(value: object) -> bool:
    """Return True for an integer that is not a bool."""
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def wake_ms(policy: object, time_ms: Any, now_ms: int) -> int:
    """Return the time at which a policy asks to be called [ms].

    A time that is not in the future raises a `PolicyError`.
    """
    if _is_whole(time_ms) and time_ms > now_ms:
        return int(time_ms)
    raise policy_error(policy)(
        f" asks to be woken at {shown(time_ms)} ms, expected a whole number after now "
        f"({now_ms} ms); it is asked again at each event anyway"
    )


EXACT: Literal["exact"] = "exact"
LOGGED_OR_RUN: Literal["logged_or_run"] = "logged_or_run"


class EstimateByFactor(Model):
    """Estimate that is the true run time times a factor."""

    factor: float = Field(gt=0, le=1e6, description="Factor on the actual run time.")


class EstimateByClasses(Model):
    """Estimate that is the shortest of several lengths that the run time fits into."""

    classes: tuple[SpanMs, ...] = Field(
        min_length=1,
        description=(
            "Lengths to choose from: a job requests the shortest one that is at least "
            "its run time, or the longest one if none is."
        ),
    )


def _parse_estimate(value: Any) -> Any:
    """Return an estimate as one of its forms, with errors of that form alone."""
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
    BeforeValidator(_parse_estimate),
]
"""Rule for the estimates of run times."""


class EstimatingSpec(SchedulerSpec):
    """Queue discipline that uses estimates of run times."""

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
        """Return the policy; the spec itself if the policy has no state."""
        return self


def estimated_ms(estimate: Estimate, jobs: JobTable) -> Int64Array:
    """Return the estimated run times of jobs [ms]."""
    run_ms: Int64Array = jobs.duration_ms
    match estimate:
        case EstimateByFactor(factor=factor):
            run_ms = np.maximum(np.rint(run_ms * factor), 1).astype(np.int64)
        case EstimateByClasses(classes=classes):
            lengths_ms = np.sort(np.array(classes, dtype=np.int64))
            class_index = np.searchsorted(lengths_ms, run_ms)
            run_ms = lengths_ms[np.minimum(class_index, lengths_ms.size - 1)]
        case "logged":
            run_ms = np.where(jobs.requested_ms > 0, jobs.requested_ms, run_ms)
        case "logged_or_run":
            run_ms = np.maximum(jobs.requested_ms, run_ms)
    return run_ms
