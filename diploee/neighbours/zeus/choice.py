"""Which workloads of some traces to simulate, from their names."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from diploee.errors import WorkloadError, did_you_mean, one_of
from diploee.neighbours.zeus.traces import TrainingTraces
from diploee.neighbours.zeus.workload import KNOWN_WORKLOADS, TrainingWorkload, WorkloadSpec


def chosen_workloads(
    traces: TrainingTraces,
    names: Sequence[str] = (),
    *,
    target_metric: float | None = None,
    default_batch_size: int | None = None,
    max_epochs: int | None = None,
) -> list[TrainingWorkload]:
    """Return workloads by the names of their datasets.

    Parameters
    ----------
    traces : TrainingTraces
        Where they are taken from.
    names : sequence of str
        Datasets; by default all known ones that the traces hold.
    target_metric : float, optional
        Instead of the known target; needed for a dataset that is not in `KNOWN_WORKLOADS`.
    default_batch_size : int, optional
        Instead of the known default; needed for a dataset that is not in `KNOWN_WORKLOADS`.
    max_epochs : int, optional
        Instead of the known highest number of epochs.

    Raises
    ------
    WorkloadError
        If a dataset is not in the traces, its target or default is not known, or as
        `TrainingTraces.workload` says.
    """
    wanted = [name.lower() for name in names] or list(traces.specs())
    if not wanted:
        raise WorkloadError(
            f"the traces hold no known workload, but {one_of(traces.datasets)}; name one, with its "
            "target metric and default batch size"
        )
    workloads = []
    for name in dict.fromkeys(wanted):
        spec = _spec(traces, name, target_metric, default_batch_size)
        given: dict[str, Any] = {
            "target_metric": target_metric,
            "default_batch_size": default_batch_size,
            "max_epochs": max_epochs,
        }
        spec = replace(spec, **{key: value for key, value in given.items() if value is not None})
        workloads.append(traces.workload(spec))
    return workloads


def _spec(
    traces: TrainingTraces, name: str, target_metric: float | None, batch_size: int | None
) -> WorkloadSpec:
    if name not in traces.datasets:
        raise WorkloadError(
            f"unknown dataset '{name}', expected one that both traces hold: "
            f"{one_of(traces.datasets)}{did_you_mean(name, traces.datasets)}"
        )
    if name in KNOWN_WORKLOADS:
        return traces.specs()[name]
    if target_metric is None or batch_size is None:
        raise WorkloadError(
            f"{name}: its target metric and default batch size are not known (known: "
            f"{one_of(KNOWN_WORKLOADS)}); give both"
        )
    keys = np.unique(traces.train.key[traces.train.key[:, 0] == name], axis=0)
    if len(keys) > 1:
        found = [f"{network} with {optimizer}" for _, network, optimizer in keys.tolist()]
        raise WorkloadError(
            f"{name}: trained in several ways, {one_of(found)}, expected one; give a WorkloadSpec "
            "in Python"
        )
    dataset, network, optimizer = keys[0].tolist()
    return WorkloadSpec(dataset, network, optimizer, batch_size, target_metric)
