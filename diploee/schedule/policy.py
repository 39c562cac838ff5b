"""Queue disciplines: a policy sees the cluster and chooses which jobs to start.

It knows of a job what a scheduler knows: what was submitted and how long the job is
thought to run (`Estimate`), never how long it will run in truth. A job that runs longer
than its estimate keeps its nodes, and counts as ending the next ms.
`ClusterView.wake_at` asks the policy again at a time at which neither a submission nor
an end would.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import fields, replace
from importlib import import_module
from types import MappingProxyType
from typing import Annotated, Any, Literal, Protocol, TypeVar, get_args

import numpy as np
from pydantic import BeforeValidator, Field

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


def has_twin(engine: str) -> Callable[[P], P]:
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


def twin_of(policy: object) -> Callable[..., Any] | None:
    """Return the engine that is the twin of a policy, None where it has none."""
    if (engine := _TWINS.get(type(policy))) is None:
        return None
    module, _, name = engine.partition(":")
    try:
        made: Callable[..., Any] = getattr(import_module(module), name)
    except (ImportError, AttributeError, ValueError) as error:
        raise PolicyError(
            f"policy {type(policy).__name__}: can't import its twin {shown(engine)} "
            f"({one_line(str(error))}), expected 'module:Class'"
        ) from None
    return made


class Viewed:
    """View of an engine for policies and controllers."""


def asked(
    of: Any, method: str, read: Callable[[Any], Any], expected: str
) -> Callable[..., Any]:
    """Return a method of a policy or controller; one from outside is not trusted.

    It sees views that it can't change, and its answer is read; what goes wrong in it is
    a `PolicyError` that names it and the `expected` answer.
    """
    where = f"policy {type(of).__name__}"
    call: Callable[..., Any] | None = getattr(of, method, None)
    if not callable(call):
        raise PolicyError(f"{where} has no method {method}")
    if type(of).__module__.startswith("diploee."):
        return call

    def ask(*arguments: Any) -> Any:
        try:
            return read(call(*map(_read_only, arguments)))
        except DiploeeError:
            raise
        except _UnexpectedError as wrong:
            found = one_line(shown(wrong.args[0]))
            raise PolicyError(
                f"{where}: {method} must return {expected}, found {found}"
            ) from None
        except Exception as error:
            why = one_line(f"{type(error).__name__}: {error}")
            raise PolicyError(f"{where}: {method} raised {why}") from error

    return ask


def jobs_read(found: Any) -> list[int]:
    """Return numbers of jobs, of any sequence or array of whole numbers."""
    return [_whole(job) for job in _items(found)]


def actions_read(found: Any) -> list[Any]:
    """Return actions with whole numbers; the engine refuses what is no action."""
    return [_action(action) for action in _items(found)]


def pairs_read(found: Any) -> list[tuple[str, Any]]:
    """Return actions with the names of their pools."""
    pairs = _items(found)
    for pair in pairs:
        if not (
            isinstance(pair, tuple | list)
            and len(pair) == 2
            and isinstance(pair[0], str)
        ):
            raise _UnexpectedError(pair)
    return [(pool, _action(action)) for pool, action in pairs]


def wake_ms(who: object, time_ms: Any, now_ms: int) -> int:
    """Return the time at which a policy asks to be woken [ms]; it must be after now."""
    if isinstance(time_ms, int | np.integer) and time_ms > now_ms:
        return int(time_ms)
    raise PolicyError(
        f"policy {type(who).__name__} asks to be woken at {shown(time_ms)} ms, "
        f"expected a whole number after now ({now_ms} ms); it is asked again at each "
        "event anyway"
    )


def starts_read(found: Any) -> tuple[Int64Array, Int64Array]:
    """Return numbers of jobs and their starts [ms], of a twin."""
    if not (isinstance(found, tuple | list) and len(found) == 2):
        raise _UnexpectedError(found)
    numbers, start_ms = (np.array(_items(of_one)) for of_one in found)
    if numbers.shape != start_ms.shape or not all(
        of_one.dtype.kind in "iu" or not of_one.size for of_one in (numbers, start_ms)
    ):
        raise _UnexpectedError(found)
    return numbers.astype(np.int64), start_ms.astype(np.int64)


class _UnexpectedError(Exception):
    """An answer is not of the kind that was expected."""


def _items(found: Any) -> list[Any]:
    is_flat = isinstance(found, Iterable) and getattr(found, "ndim", 1) == 1
    if isinstance(found, str | bytes) or not is_flat:
        raise _UnexpectedError(found)
    return list(found)


def _whole(value: Any) -> int:
    if isinstance(value, int | np.integer) and not isinstance(value, bool):
        return int(value)
    raise _UnexpectedError(value)


def _action(action: Any) -> Any:
    if not isinstance(action, get_args(Action)):
        return action
    values = {field.name: getattr(action, field.name) for field in fields(action)}
    numbers = {
        k: v for k, v in values.items() if k != "how" and (k, v) != ("n_nodes", None)
    }
    return replace(action, **{name: _whole(value) for name, value in numbers.items()})


def _read_only(value: Any) -> Any:
    """Return what a policy from outside gets in place of an engine's own object."""
    match value:
        case Viewed():
            return _ReadOnly(value)
        case deque():
            return _QueueView(value)
        case dict():
            if isinstance(next(iter(value.values()), None), Viewed):
                value = {name: _ReadOnly(view) for name, view in value.items()}
            return MappingProxyType(value)
        case list():
            return value.copy()
    return value


class _ReadOnly:
    """The public side of a view, which can't be written."""

    __slots__ = ("_of",)

    def __init__(self, of: Viewed) -> None:
        object.__setattr__(self, "_of", of)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(f"a view has no '{name}'")
        return _read_only(getattr(self._of, name))

    def __setattr__(self, name: str, _: object) -> None:
        raise AttributeError(f"view.{name} is read only")


class _QueueView(Sequence[int]):
    """A queue that can't be changed."""

    __slots__ = ("_jobs",)

    def __init__(self, jobs: deque[int]) -> None:
        self._jobs = jobs

    def __getitem__(self, place: Any) -> Any:
        return (
            tuple(self._jobs)[place] if isinstance(place, slice) else self._jobs[place]
        )

    def __len__(self) -> int:
        return len(self._jobs)

    def __iter__(self) -> Iterator[int]:
        return iter(self._jobs)


EXACT: Literal["exact"] = "exact"
LOGGED_OR_RUN: Literal["logged_or_run"] = "logged_or_run"


class EstimateByFactor(Model):
    """The true run time, times a factor."""

    factor: float = Field(gt=0, le=1e6, description="Factor on the true run time.")


class EstimateByClasses(Model):
    """The shortest of some lengths that the run time fits into."""

    classes: tuple[SpanMs, ...] = Field(
        min_length=1,
        description=(
            "Lengths of which a job asks for the shortest that holds its run time, "
            "the longest where none does."
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
            "How long a job is thought to run: exact, its run time times a factor, "
            "the shortest of some classes that holds it, or logged, what its user "
            "asked for in the log, its run time where the log has no such time. A job "
            "that runs longer keeps its nodes. logged_or_run takes the run time where "
            "it is longer than what was asked for, too, so that drawn jobs have exact "
            "estimates."
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
