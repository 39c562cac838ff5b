"""SYNTHETIC traces, for those who do not have Zeus' own: no measurement, but the same format.

For batch size b and power limit p, with constants of each workload in `MODELS`:

- utilization u(b) = b / (b + h); throughput = x u(b) samples/s, at full clock
- power demand P(b) = P0 + (P1 - P0) u(b); average power = min(P(b), p)
- clock under a limit f(b, p) = min(1, (p - P0) / (P(b) - P0)) ** (1/3): dynamic power goes with
  the cube of the clock
- time per epoch = N / throughput x (a / f + 1 - a): the share a of the time goes with the clock
- epochs to the target E(b) = E0 (1 + b / B + (m / b)^2), times a lognormal scatter, rounded up;
  batch sizes above a bound never get there

so that large batches need more epochs, small ones more time, and power limits trade time for
energy. All datasets and the GPU are named ``synthetic``.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

import numpy as np

from diploee.files import writing
from diploee.neighbours.zeus.trace_files import PowerTrace, TrainTrace
from diploee.neighbours.zeus.traces import TrainingTraces, join_traces
from diploee.neighbours.zeus.workload import SYNTHETIC_WORKLOADS, WorkloadSpec
from diploee.streams import stream
from diploee.tables import Float64Array

GPU = "synthetic"
POWER_LIMITS_W = tuple(range(100, 251, 25))
N_RUNS = 8
EPOCH_SCATTER = 0.06
"""Standard deviation of the logarithm of the epochs of a path."""
IDLE_W = 65.0
"""P0 [W]."""
CLOCK_SHARE = 0.9
"""Share a of the time that goes with the clock."""


@dataclass(frozen=True)
class SyntheticModel:
    """Constants of a synthetic workload."""

    batch_sizes: tuple[int, ...]  # batch sizes of the traces
    n_samples: float  # samples of one epoch, N
    peak_rate_per_s: float  # highest throughput x [samples/s]
    half_batch: float  # batch size h of half the highest throughput
    peak_power_w: float  # power demand P1 of a saturated GPU [W]
    epochs: float  # e0
    critical_batch: float  # batch size B beyond which epochs grow with it
    noisy_batch: float  # batch size m below which epochs grow
    never_above: int  # larger batch sizes never reach the target


MODELS: Mapping[str, SyntheticModel] = MappingProxyType(
    {
        "synthetic-vision": SyntheticModel(
            (16, 32, 64, 128, 256, 512, 1024, 2048), 5e4, 5e3, 60, 220, 16, 300, 12, 1024
        ),
        "synthetic-language": SyntheticModel(
            (4, 8, 16, 32, 64, 128), 9e4, 60, 3, 240, 4, 100, 3, 64
        ),
        "synthetic-recommendation": SyntheticModel(
            (256, 512, 1024, 2048, 4096, 8192, 16384), 4e6, 9e5, 4e3, 170, 6, 4e4, 200, 16384
        ),
    }
)
"""The synthetic workloads by dataset."""


def synthetic_traces() -> TrainingTraces:
    """Return the synthetic traces, as if read from files; the same at each call."""
    return join_traces(_train_trace(), _power_trace())


def write_synthetic_traces(folder: Path | str, force: bool = False) -> list[Path]:
    """Write the synthetic traces in Zeus' formats.

    Parameters
    ----------
    folder : pathlib.Path or str
        Gets ``summary_train.csv``, ``summary_power_synthetic.csv`` and ``groups.csv``, a group
        trace of twelve recurring jobs.
    force : bool
        Replace files of these names.

    Returns
    -------
    list of pathlib.Path
        The files.

    Raises
    ------
    InputError
        If one of them is there already and `force` is not set.
    OutputError
        If one can't be written.
    """
    place = Path(folder)
    train, power = _train_trace(), _power_trace()
    specs = SYNTHETIC_WORKLOADS
    tables: dict[str, tuple[str, Iterable[Sequence[object]]]] = {
        "summary_train.csv": (
            "dataset,network,batch_size,optimizer,learning_rate,run,target_metric,target_epoch",
            (
                (*key[:2], size, key[2], 0.001, i % N_RUNS + 1, specs[key[0]].target_metric, epoch)
                for i, (key, size, epoch) in enumerate(
                    zip(
                        train.key.tolist(),
                        train.batch_size.tolist(),
                        ("" if np.isinf(e) else int(e) for e in train.target_epoch),
                        strict=True,
                    )
                )
            ),
        ),
        f"summary_power_{GPU}.csv": (
            "dataset,network,batch_size,optimizer,power_limit,time_per_epoch,average_power",
            (
                (*key[:2], size, key[2], int(limit_w), time_s, power_w)
                for key, size, limit_w, time_s, power_w in zip(
                    power.key.tolist(),
                    power.batch_size.tolist(),
                    power.power_limit_w.tolist(),
                    power.time_per_epoch_s.tolist(),
                    power.average_power_w.tolist(),
                    strict=True,
                )
            ),
        ),
        "groups.csv": ("group,start_time,end_time,dataset,runtime_ratio", _group_rows()),
    }
    with writing(force) as files:
        for name, (header, rows) in tables.items():
            path = files.file(place / name, option="--write-synthetic")
            with path.open("w", newline="") as file:
                writer = csv.writer(file, lineterminator="\n")
                writer.writerow(header.split(","))
                writer.writerows(rows)
    return [place / name for name in tables]


def _specs() -> Iterable[tuple[WorkloadSpec, SyntheticModel]]:
    return ((SYNTHETIC_WORKLOADS[name], model) for name, model in MODELS.items())


def _train_trace() -> TrainTrace:
    keys, sizes, metrics, epochs = [], [], [], []
    for spec, model in _specs():
        size = np.repeat(model.batch_sizes, N_RUNS)
        mean = model.epochs * (1 + size / model.critical_batch + (model.noisy_batch / size) ** 2)
        rng = stream(0, "zeus", "synthetic", spec.name, "epochs")
        epoch = np.ceil(mean * np.exp(EPOCH_SCATTER * rng.standard_normal(size.size)))
        keys += [(spec.dataset, spec.network, spec.optimizer)] * size.size
        sizes.append(size)
        metrics.append(np.full(size.size, spec.target_metric))
        epochs.append(np.where(size > model.never_above, np.inf, epoch))
    return TrainTrace(
        np.array(keys),
        np.concatenate(sizes).astype(np.int64),
        np.concatenate(metrics),
        np.concatenate(epochs),
    )


def _power_trace() -> PowerTrace:
    keys, parts = [], []
    for spec, model in _specs():
        size, limit_w = (
            grid.ravel().astype(np.float64)
            for grid in np.meshgrid(model.batch_sizes, POWER_LIMITS_W, indexing="ij")
        )
        keys += [(spec.dataset, spec.network, spec.optimizer)] * size.size
        parts.append(np.stack([size, limit_w, *_time_and_power(model, size, limit_w)]))
    size, limit_w, time_s, power_w = np.concatenate(parts, axis=1)
    return PowerTrace(GPU, np.array(keys), size.astype(np.int64), limit_w, time_s, power_w)


def _time_and_power(
    model: SyntheticModel, size: Float64Array, limit_w: Float64Array
) -> tuple[Float64Array, Float64Array]:
    """Return time per epoch [s] and average power [W] of pairs, each shape (n,)."""
    used = size / (size + model.half_batch)
    demand_w = IDLE_W + (model.peak_power_w - IDLE_W) * used
    clock = np.minimum(1.0, (limit_w - IDLE_W) / (demand_w - IDLE_W)) ** (1 / 3)
    full_speed_s = model.n_samples / (model.peak_rate_per_s * used)
    time_s = full_speed_s * (CLOCK_SHARE / clock + 1 - CLOCK_SHARE)
    return time_s, np.minimum(demand_w, limit_w)


def _group_rows() -> Iterable[Sequence[object]]:
    """Yield twelve groups of 40 recurrences; starts of a Poisson process, some overlapping."""
    traces = synthetic_traces()
    workloads = [traces.workload(spec) for spec, _ in _specs()]
    for group in range(12):
        workload = workloads[group % len(workloads)]
        row = workload.default_row
        mean_s = workload.mean_epochs[row] * workload.time_per_epoch_s[row, -1]
        rng = stream(0, "zeus", "synthetic", "groups", group)
        ratio = np.exp(0.3 * rng.standard_normal(40) - 0.3**2 / 2)
        start_s = np.cumsum(rng.exponential(2 * mean_s, 40))
        end_s = start_s + mean_s * ratio
        for values in zip(start_s.round(1), end_s.round(1), ratio.round(6), strict=True):
            yield (f"synthetic-{group:02d}", values[0], values[1], workload.name, values[2])
