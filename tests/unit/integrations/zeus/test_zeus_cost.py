"""Costs and savings: worked out by hand, in plain Python, and against published
figures."""

import csv
from dataclasses import replace
from pathlib import Path
from statistics import mean
from typing import Any

import numpy as np
import pytest
from samples import PUBLISHED, ZEUS
from zeus_builders import hand_workload, workload

from diploee.base.errors import WorkloadError
from diploee.integrations.zeus import (
    KNOWN_WORKLOADS,
    WorkloadSpec,
    best_savings,
    read_traces,
)
from diploee.integrations.zeus.workload import (
    default_pair,
    expected_cost_j,
    oracle_pair,
)

# Percent saved by the power limit, by the batch size and by both on the V100, as
# published; and the best batch size and power limit.
ENERGY = {
    "cifar100": (31.4, 63.2, 74.7, 128, 100),
    "imagenet": (22.5, 3.0, 23.8, 360, 150),
    "squad": (17.8, 6.7, 27.6, 8, 125),
    "librispeech": (16.2, 18.0, 42.8, 32, 100),
    "movielens-1m": (3.0, 65.0, 66.6, 16384, 150),
    "sentiment140": (21.2, 3.4, 26.4, 32, 125),
}


def percents(savings):
    parts = (savings.power_limit_only, savings.batch_size_only, savings.both)
    return [100 * part.fraction for part in parts]


def costs_in_plain_python(
    folder: Path, spec: WorkloadSpec, eta: float
) -> dict[Any, float]:
    """Return cost [J] by batch size and power limit [W] on the V100, from the rows of
    the files."""
    key = {
        "dataset": spec.dataset,
        "network": spec.network,
        "optimizer": spec.optimizer,
    }

    def rows(name: str) -> list[dict[str, str]]:
        with (folder / name).open(newline="") as file:
            return [row for row in csv.DictReader(file) if key.items() <= row.items()]

    power, epochs, costs = rows("summary_power_v100.csv"), {}, {}
    for row in rows("summary_train.csv"):
        if (
            float(row["target_metric"]) == spec.target_metric
            and row["target_epoch"] != "nan"
        ):
            epochs.setdefault(row["batch_size"], []).append(float(row["target_epoch"]))
    highest_w = max(float(row["power_limit"]) for row in power)
    for row in power:
        if row["batch_size"] in epochs:
            average_w = eta * float(row["average_power"]) + (1 - eta) * highest_w
            time_s = mean(epochs[row["batch_size"]]) * float(row["time_per_epoch"])
            costs[int(row["batch_size"]), float(row["power_limit"])] = (
                time_s * average_w
            )
    return costs


@pytest.mark.parametrize("eta", [1.0, 0.5])
@pytest.mark.parametrize("name", ENERGY)
def test_savings_of_the_sample_are_those_of_plain_python(sample, name, eta):
    folder, spec = sample(ZEUS), KNOWN_WORKLOADS[name]
    costs = costs_in_plain_python(folder, spec, eta)
    full = spec.default_batch_size, max(limit_w for _, limit_w in costs)
    best = min(costs, key=costs.__getitem__)
    ways = (
        (cost for (size, _), cost in costs.items() if size == full[0]),
        (cost for (_, limit_w), cost in costs.items() if limit_w == full[1]),
        costs.values(),
    )
    workload = read_traces(
        folder / "summary_train.csv", folder / "summary_power_v100.csv"
    ).workload(spec)
    savings = best_savings(workload, eta)
    assert percents(savings) == pytest.approx(
        [100 * (1 - min(w) / costs[full]) for w in ways]
    )
    pair = savings.both.pair.batch_size, savings.both.pair.power_limit_w
    assert pair == best
    if eta == 1 and folder == PUBLISHED / ZEUS:
        assert [*percents(savings), *pair] == pytest.approx(ENERGY[name], abs=0.051)


def test_energy_to_accuracy_is_mean_epochs_x_time_x_power():
    assert expected_cost_j(hand_workload(), 1.0).tolist() == [
        [4 * 30 * 60, 4 * 25 * 100],
        [10 * 12 * 90, 10 * 10 * 150],
        [8 * 6 * 95, 8 * 5 * 190],  # of the one path that gets there
    ]


def test_savings_worked_out_by_hand():
    paths = (np.array([4.0]), np.array([9.0, 11.0]), np.array([np.inf]))
    reliable = replace(hand_workload(), target_epochs=paths)
    energy, half = best_savings(reliable, 1.0), best_savings(reliable, 0.5)
    assert percents(energy) == pytest.approx([28.0, 100 / 3, 52.0])
    # At eta = 0.5 and 200 W: 17,500 J by default, 17,400 at 100 W, 15,000 with a batch
    # of 8.
    assert percents(half) == pytest.approx([100 * 100 / 17500, 100 / 7, 100 / 7])
    assert (half.both.pair.batch_size, half.both.pair.power_limit_w) == (8, 200.0)
    assert half.both.pair.cost_j == pytest.approx(15_000)
    assert default_pair(reliable, 0.5).cost_j == pytest.approx(17_500)


def test_oracle_trusts_a_batch_size_that_may_fail_only_where_all_may():
    savings = best_savings(hand_workload(), 1.0)  # by the paths that reach the target
    assert savings.both.pair.batch_size == 32
    assert savings.both.fraction == pytest.approx(1 - 4560 / 15000)
    assert oracle_pair(hand_workload(), 1.0).batch_size == 8
    risky = workload(
        {8: [4, np.inf], 16: [2, np.inf]}, [[1, 1], [1, 1]], [[50, 90], [60, 90]]
    )
    assert oracle_pair(risky, 1.0).batch_size == 16


def test_pair_that_was_not_measured_is_never_the_best():
    nan = float("nan")
    sparse = workload(
        {8: [1], 16: [10]}, [[nan, 25], [12, 10]], [[nan, 100], [90, 150]]
    )
    assert np.isnan(expected_cost_j(sparse, 1.0)[0, 0])
    assert best_savings(sparse, 1.0).both.pair.power_limit_w == 200.0


def test_default_that_never_converges_has_no_savings():
    lost = workload(
        {8: [4], 16: [np.inf]}, [[30, 25], [12, 10]], [[60, 100], [90, 150]]
    )
    with pytest.raises(
        WorkloadError, match=r"default batch size 16 never reaches the target 0\.5"
    ):
        best_savings(lost)


@pytest.mark.parametrize("eta", [-0.1, 1.1, float("nan")])
def test_eta_out_of_range_is_refused(eta):
    with pytest.raises(WorkloadError, match="expected a number from 0"):
        expected_cost_j(hand_workload(), eta)
