"""`TrainingTraces`: a train and a power trace joined, and the workloads in them.

Rows belong together by dataset, network, optimizer and batch size, as in Zeus' own simulator.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from diploee.errors import WorkloadError, did_you_mean, one_of
from diploee.files.places import shipped_folder
from diploee.neighbours.zeus.trace_files import (
    KEY,
    PowerTrace,
    TextArray,
    TrainTrace,
    read_power_trace,
    read_train_trace,
    row_codes,
)
from diploee.neighbours.zeus.workload import KNOWN_WORKLOADS, TrainingWorkload, WorkloadSpec, listed
from diploee.tables import BoolArray, Float64Array, Int64Array


@dataclass(frozen=True, eq=False)
class TrainingTraces:
    """The rows of a train trace and of the power trace of one GPU model that have a partner.

    Parameters
    ----------
    train : TrainTrace
        Training runs whose batch size was measured.
    power : PowerTrace
        Time and power of the batch sizes that were trained.
    max_power_w : float
        Highest power limit of the GPU, of all rows of its trace [W].
    counts : mapping of str to int
        Rows read and rows without a partner in the other trace, by cause.
    """

    train: TrainTrace
    power: PowerTrace
    max_power_w: float
    counts: Mapping[str, int]

    @property
    def gpu(self) -> str:
        """GPU model of the power trace."""
        return self.power.gpu

    @property
    def datasets(self) -> tuple[str, ...]:
        """Datasets that both traces hold, in alphabetical order."""
        return tuple(np.unique(self.train.key[:, 0]).tolist())

    def specs(self, known: Mapping[str, WorkloadSpec] = KNOWN_WORKLOADS) -> dict[str, WorkloadSpec]:
        """Return those of the known workloads that the traces hold, by name.

        A default batch size beyond the largest that was measured on this GPU is clipped to it, as
        the GPU's memory holds no more.
        """
        found = {}
        for name, spec in known.items():
            if spec.dataset in self.datasets:
                measured = self.power.batch_size[self.power.key[:, 0] == spec.dataset]
                largest = min(spec.default_batch_size, int(measured.max()))
                found[name] = replace(spec, default_batch_size=largest)
        return found

    def workload(self, spec: WorkloadSpec) -> TrainingWorkload:
        """Return what the traces know of a workload.

        A batch size without a path to the target metric is left out; a path that never reaches the
        target is kept, as one of infinite length.

        Parameters
        ----------
        spec : WorkloadSpec
            Which; see `KNOWN_WORKLOADS`.

        Raises
        ------
        WorkloadError
            If a name, the target, or the default batch size at its highest power limit is not in
            the data, or no path reaches the target; the text says what is.
        """
        rows = self._rows_of(spec)
        trained = np.unique(self.train.batch_size[rows])
        paths = rows & self._at_target(spec, rows)
        batch_sizes = np.unique(self.train.batch_size[paths])
        limits_w, time_s, power_w = self._grid(spec, batch_sizes)
        epochs = tuple(
            self.train.target_epoch[paths & (self.train.batch_size == size)] for size in batch_sizes
        )
        counts = {
            "paths": sum(e.size for e in epochs),
            "paths that never reach the target": sum(int(np.isinf(e).sum()) for e in epochs),
            "batch sizes without a path to the target": trained.size - batch_sizes.size,
            "pairs that were not measured": int(np.isnan(time_s).sum()),
        }
        return TrainingWorkload(
            spec,
            self.gpu,
            self.max_power_w,
            batch_sizes,
            limits_w,
            time_s,
            power_w,
            epochs,
            MappingProxyType(counts),
        )

    def _rows_of(self, spec: WorkloadSpec) -> BoolArray:
        """Return the training runs of a workload; its names are looked up one by one."""
        rows = np.ones(self.train.batch_size.size, dtype=bool)
        for position, (name, wanted) in enumerate(zip(KEY, _names(spec).tolist(), strict=True)):
            known = np.unique(self.train.key[rows, position]).tolist()
            if wanted not in known:
                raise WorkloadError(
                    f"{spec.name}: unknown {name} '{wanted}', expected one that both traces hold: "
                    f"{one_of(known)}{did_you_mean(wanted, known)}"
                )
            rows &= self.train.key[:, position] == wanted
        return rows

    def _at_target(self, spec: WorkloadSpec, rows: BoolArray) -> BoolArray:
        metric = self.train.target_metric
        at_target: BoolArray = np.isclose(metric, spec.target_metric, rtol=1e-9, atol=0)
        if not at_target[rows].any():
            raise WorkloadError(
                f"{spec.name}: target metric {spec.target_metric:g} is not in the train trace, "
                f"expected one of {listed(np.unique(metric[rows]))}"
            )
        return at_target

    def _grid(
        self, spec: WorkloadSpec, batch_sizes: Int64Array
    ) -> tuple[Float64Array, Float64Array, Float64Array]:
        """Return the limits, and time and power by batch size and limit; NaN where not measured."""
        power = self.power
        rows = (power.key == _names(spec)).all(axis=1) & np.isin(power.batch_size, batch_sizes)
        limits_w = np.unique(power.power_limit_w[rows])
        at = (
            np.searchsorted(batch_sizes, power.batch_size[rows]),
            np.searchsorted(limits_w, power.power_limit_w[rows]),
        )
        time_s, power_w = np.full((2, batch_sizes.size, limits_w.size), np.nan)
        time_s[at], power_w[at] = power.time_per_epoch_s[rows], power.average_power_w[rows]
        return limits_w, time_s, power_w


def join_traces(train: TrainTrace, power: PowerTrace) -> TrainingTraces:
    """Join two traces by dataset, network, optimizer and batch size; rows without partner count."""
    n_train = train.batch_size.size
    codes = row_codes(
        np.concatenate([train.key, power.key]),
        [np.concatenate([train.batch_size, power.batch_size])],
    )
    trained, measured = codes[:n_train], codes[n_train:]
    has_power, has_path = np.isin(trained, measured), np.isin(measured, trained)
    if not has_power.any():
        raise WorkloadError(
            f"the train trace and the power trace of '{power.gpu}' have no dataset, network, "
            "optimizer and batch size in common; give two traces that belong together"
        )
    counts = {
        "train rows": n_train,
        "train rows without a power measurement": int(np.sum(~has_power)),
        "power rows": measured.size,
        "power rows that were never trained": int(np.sum(~has_path)),
    }
    return TrainingTraces(
        train.take(has_power),
        power.take(has_path),
        float(power.power_limit_w.max()),
        MappingProxyType(counts),
    )


def read_traces(
    train_csv: Path | str | None = None,
    power_csv: Path | str | None = None,
    gpu: str | None = None,
) -> TrainingTraces:
    """Read and join a train and a power trace.

    Parameters
    ----------
    train_csv, power_csv : pathlib.Path or str, optional
        ``summary_train.csv`` and ``summary_power_<gpu>.csv``, or a folder of the latter; by
        default the SYNTHETIC traces that ship, which no one measured.
    gpu : str, optional
        GPU model; chooses the file of a folder.

    Raises
    ------
    LogFormatError, WorkloadError
        If one can't be read, lacks the GPU, or they have nothing in common.
    """
    shipped = shipped_folder("profiles") / "zeus"
    train = read_train_trace(train_csv or shipped / "summary_train.csv")
    return join_traces(train, read_power_trace(power_csv or shipped, gpu))


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
        spec = _asked(traces, name, target_metric, default_batch_size)
        given: dict[str, Any] = {
            "target_metric": target_metric,
            "default_batch_size": default_batch_size,
            "max_epochs": max_epochs,
        }
        spec = replace(spec, **{key: value for key, value in given.items() if value is not None})
        workloads.append(traces.workload(spec))
    return workloads


def _asked(
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


def _names(spec: WorkloadSpec) -> TextArray:
    return np.char.lower(np.array([spec.dataset, spec.network, spec.optimizer]))
