"""Small Zeus traces with figures that can be worked out by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from diploee.integrations.zeus import (
    TrainingTraces,
    TrainingWorkload,
    WorkloadSpec,
    read_traces,
)
from diploee.integrations.zeus.simulator import Simulation
from diploee.scenario import ZeusSpec

TRAIN_HEADER = (
    "dataset,network,batch_size,optimizer,learning_rate,run,target_metric,target_epoch"
)
POWER_HEADER = (
    "dataset,network,batch_size,optimizer,power_limit,time_per_epoch,average_power"
)
GROUP_HEADER = "group,start_time,end_time,dataset,runtime_ratio"
GROUPS = (
    "g2,100.0,150.0,toy,2.0",
    "g1,1427642.0,1446915.0,TOY,1.5",
    "g2,0,120,toy,1",
    "g3,5,9,other,1",
)
SPEC = WorkloadSpec("toy", "net", "sgd", 16, 0.5)
HAND_TRAIN = (
    "toy,net,8,SGD,0.1,1,0.5,4",
    "toy,net,16,SGD,0.1,1,0.5,9",
    "toy,net,16,SGD,0.1,2,0.5,11",
    "toy,net,32,SGD,0.1,1,0.5,8",
    "toy,net,32,SGD,0.1,2,0.5,",
)
HAND_POWER = (
    "toy,net,8,sgd,100,30,60",
    "toy,net,8,sgd,200,25,100",
    "toy,net,16,sgd,100,12,90",
    "toy,net,16,sgd,200,10,150",
    "toy,net,32,sgd,100,6,95",
    "toy,net,32,sgd,200,5,190",
)


def write(path: Path, header: str, *rows: str) -> Path:
    path.write_text("\n".join([header, *rows]) + "\n")
    return path


def traces(
    folder: Path,
    train: tuple[str, ...] = HAND_TRAIN,
    power: tuple[str, ...] = HAND_POWER,
) -> TrainingTraces:
    return read_traces(
        write(folder / "summary_train.csv", TRAIN_HEADER, *train),
        write(folder / "summary_power_toy.csv", POWER_HEADER, *power),
    )


def workload(
    epochs: dict[int, list[float]],
    time_s: list[list[float]],
    power_w: list[list[float]],
    limits_w: tuple[float, ...] = (100.0, 200.0),
    default: int = 16,
) -> TrainingWorkload:
    return TrainingWorkload(
        WorkloadSpec("toy", "net", "sgd", default, 0.5),
        "toy",
        max(limits_w),
        np.array(list(epochs), dtype=np.int64),
        np.array(limits_w),
        np.array(time_s),
        np.array(power_w),
        tuple(np.array(paths, dtype=np.float64) for paths in epochs.values()),
    )


def hand_workload() -> TrainingWorkload:
    """The workload of `HAND_TRAIN` and `HAND_POWER`."""
    return workload(
        {8: [4], 16: [9, 11], 32: [8, np.inf]},
        [[30, 25], [12, 10], [6, 5]],
        [[60, 100], [90, 150], [95, 190]],
    )


def rules(optimizer: Any = "zeus", limit: Any = None, **more: Any) -> ZeusSpec:
    """Rules with an optimizer of batch sizes, and one of power limits or a limit [W]."""  # noqa: E501
    return ZeusSpec(batch_size_optimizer=optimizer, power_limit=limit, **more)


def simulate(
    workloads: list[TrainingWorkload],
    submissions: pd.DataFrame,
    spec: ZeusSpec,
    seed: int = 0,
) -> pd.DataFrame:
    """Simulate all recurrences at once."""
    return Simulation(workloads, spec, seed).advance(submissions)


class Always:
    """An optimizer of the user's own: one batch size, or one power limit."""

    def __init__(self, setting: object, choice: float) -> None:
        self.choice = choice

    def predict(self, batch_size: int | None = None) -> float:
        return self.choice

    def observe(self, *seen: object) -> None:
        pass


def always(choice: float) -> dict[str, Any]:
    """Name it by its import path."""
    return {"path": f"{__name__}:Always", "choice": choice}
