"""The synthetic traces: they follow their formulas, and their files read back the same."""

from pathlib import Path

import numpy as np
import pytest

from diploee.neighbours.zeus import (
    SYNTHETIC_WORKLOADS,
    best_savings,
    chosen_workloads,
    read_traces,
    synthetic_traces,
    write_synthetic_traces,
)
from diploee.neighbours.zeus.synthetic import CLOCK_SHARE, IDLE_W, MODELS


def test_files_read_back_as_the_traces_in_memory(tmp_path: Path) -> None:
    train, power, _ = write_synthetic_traces(tmp_path)
    read, made = read_traces(train, power), synthetic_traces()
    assert read.gpu == made.gpu == "synthetic"
    assert read.counts == made.counts
    for trace, columns in (
        ("train", ("key", "batch_size", "target_metric", "target_epoch")),
        ("power", ("key", "batch_size", "power_limit_w", "time_per_epoch_s", "average_power_w")),
    ):
        for column in columns:
            pair = [getattr(getattr(each, trace), column) for each in (read, made)]
            assert np.array_equal(*pair), (trace, column)


def test_all_names_say_that_they_are_synthetic() -> None:
    traces = synthetic_traces()
    assert all(name.startswith("synthetic") for name in (*traces.datasets, traces.gpu))
    assert set(traces.datasets) == set(SYNTHETIC_WORKLOADS) == set(MODELS)


@pytest.mark.parametrize("name", MODELS)
def test_limit_above_the_demand_changes_nothing_and_below_it_binds(name: str) -> None:
    (found,) = chosen_workloads(synthetic_traces(), [name])
    demand_w = found.average_power_w[:, -1:]
    binds = found.power_limits_w < demand_w
    limits_w = np.broadcast_to(found.power_limits_w, binds.shape)
    assert np.array_equal(found.average_power_w[binds], limits_w[binds])
    full_s = np.broadcast_to(found.time_per_epoch_s[:, -1:], binds.shape)
    assert np.array_equal(found.time_per_epoch_s[~binds], full_s[~binds])
    # The dynamic power goes with the cube of the clock, and a share of the time with the clock.
    clock = (full_s / found.time_per_epoch_s - full_s * 0)[binds]
    slowdown = 1 / clock
    f = CLOCK_SHARE / (slowdown - (1 - CLOCK_SHARE))
    wanted = (limits_w - IDLE_W) / (demand_w - IDLE_W)
    assert f**3 == pytest.approx(wanted[binds])


@pytest.mark.parametrize("name", MODELS)
def test_both_knobs_together_save_most_and_a_middle_batch_size_is_best(name: str) -> None:
    (found,) = chosen_workloads(synthetic_traces(), [name])
    savings = best_savings(found)
    assert savings.both.fraction >= max(
        savings.power_limit_only.fraction, savings.batch_size_only.fraction
    )
    assert found.batch_sizes[0] < savings.both.pair.batch_size < found.batch_sizes[-1]


def test_large_batches_of_two_workloads_never_converge() -> None:
    for found in chosen_workloads(synthetic_traces()):
        never = [bool(np.isinf(epochs).all()) for epochs in found.target_epochs]
        bound = MODELS[found.name].never_above
        assert never == (found.batch_sizes > bound).tolist()
