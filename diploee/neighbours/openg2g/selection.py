"""Finding the measurements that a spec asks for, or saying which there are instead."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from diploee.errors import InputError, did_you_mean, one_of
from diploee.neighbours.openg2g.spec import InferenceModelSpec

T = TypeVar("T")

MATCHED = {
    "model_id": "model",
    "task": "task",
    "gpu_model": "GPU",
    "gpus_per_replica": "number of GPUs",
    "tensor_parallel": "tensor parallelism",
    "expert_parallel": "expert parallelism",
    "precision": "precision",
}
"""Fields by which measurements are found, in the order in which errors name them."""


@dataclass(frozen=True)
class Measured(Generic[T]):
    """Measured values, under the names of `InferenceModelSpec`; None where not available."""

    # Model, task and GPU
    model_id: str | None
    task: str | None
    gpu_model: str | None
    # GPUs of the replica, and those that share a layer
    gpus_per_replica: int | None
    tensor_parallel: int | None
    batch_size: int  # sequences served at once at most
    data: T  # what the source holds of it
    # GPUs that share the experts of each layer, and the precision of the weights
    expert_parallel: int | None = None
    precision: str | None = None


def select(
    measured: Iterable[Measured[T]], spec: InferenceModelSpec, source: str
) -> list[Measured[T]]:
    """Return the measurements of a spec, by increasing batch size.

    Parameters
    ----------
    measured : iterable of Measured
        All that the source has.
    spec : InferenceModelSpec
        What is asked for.
    source : str
        Named in errors.
    """
    found = list(measured)
    if not found:
        raise InputError(f"{source}: holds no measurements of language models")
    passed: list[str] = []
    for name, what in MATCHED.items():
        wanted = getattr(spec, name)
        if wanted is None:
            _check_single(found, name, spec, source)
            continue
        kept = [one for one in found if getattr(one, name) in (None, wanted)]
        if not kept:
            have = _sorted(getattr(one, name) for one in found)
            of = f" of {', '.join(passed)}" if passed else ""
            raise InputError(
                f"{source}: no {what} '{wanted}'{of} (have: {one_of(have)}); set {name} of "
                f"'{spec.model_label}'{did_you_mean(str(wanted), map(str, have))}"
            )
        found = kept
        passed.append(str(wanted))
    return _batches(found, spec, source)


def _check_single(
    found: Sequence[Measured[T]], name: str, spec: InferenceModelSpec, source: str
) -> None:
    have = _sorted(getattr(one, name) for one in found)
    if len(have) > 1:
        raise InputError(
            f"{source}: '{spec.model_label}' was measured with {MATCHED[name]} {one_of(have)}; "
            f"set {name} to one of them"
        )


def _batches(
    found: Sequence[Measured[T]], spec: InferenceModelSpec, source: str
) -> list[Measured[T]]:
    have = sorted({one.batch_size for one in found})
    missing = sorted(set(spec.batch_sizes) - set(have))
    if missing:
        raise InputError(
            f"{source}: no batch size {one_of(missing)} of '{spec.model_label}' "
            f"(have: {one_of(have)}); remove it from batch_sizes"
        )
    wanted = [one for one in found if one.batch_size in (spec.batch_sizes or have)]
    return sorted(wanted, key=lambda one: one.batch_size)


def _sorted(values: Iterable[object]) -> list[object]:
    """Return the distinct values that are given; foreign files may mix types."""
    told = {value for value in values if value is not None}
    return sorted(told, key=lambda value: (type(value).__name__, value))
