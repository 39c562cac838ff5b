"""One recurrence: its first epoch, its end and its early stop, worked out by hand."""

from math import inf

import pytest
from zeus_builders import hand_workload, workload

from diploee.neighbours.zeus.recurrence import Epoch, EpochTable, run_once

EPOCH = Epoch(time_s=10.0, energy_j=1000.0, cost_j=1500.0)
PROFILE = Epoch(time_s=16.0, energy_j=1200.0, cost_j=1800.0)


def test_run_takes_its_epochs() -> None:
    run = run_once(EPOCH, 4)
    assert (run.time_s, run.energy_j, run.cost_j) == (40, 4000, 6000)
    assert run.converged
    assert not run.stopped


def test_first_epoch_of_a_profiled_run_costs_the_mean_over_limits() -> None:
    run = run_once(EPOCH, 4, profile=PROFILE)
    assert (run.time_s, run.energy_j, run.cost_j) == (46, 4200, 6300)
    assert run.converged


def test_profile_of_the_epoch_table_is_the_mean_over_the_measured_limits() -> None:
    table = EpochTable(hand_workload(), 0.5)
    assert table.profiles[1] == Epoch(11.0, (12 * 90 + 10 * 150) / 2, (12 * 145 + 10 * 175) / 2)
    nan = float("nan")
    sparse = workload({8: [1], 16: [10]}, [[nan, 25], [12, 10]], [[nan, 100], [90, 150]])
    table = EpochTable(sparse, 1.0)
    assert table.profiles[0] == Epoch(25.0, 2500.0, 2500.0)
    assert list(table.pairs[0]) == [200.0]


def test_run_that_gets_dear_is_stopped_at_the_threshold() -> None:
    run = run_once(EPOCH, 100, stop_at_j=4500)
    assert run.cost_j == 4500
    assert (run.time_s, run.energy_j) == pytest.approx((30, 3000))
    assert run.stopped
    assert not run.converged


def test_run_that_reaches_its_target_at_the_threshold_is_not_stopped() -> None:
    run = run_once(EPOCH, 3, stop_at_j=4500)
    assert run.converged
    assert not run.stopped


def test_run_is_stopped_before_the_epoch_that_would_cross_the_threshold() -> None:
    run = run_once(EPOCH, 100, stop_at_j=4499, profile=PROFILE)  # two epochs, one a profile
    assert (run.time_s, run.energy_j, run.cost_j) == (26, 2200, 3300)
    assert run.stopped
    never = run_once(EPOCH, 100, stop_at_j=1499, profile=PROFILE)
    assert (never.time_s, never.energy_j, never.cost_j) == (0, 0, 0)
    assert not never.converged


def test_path_that_never_converges_runs_to_the_threshold_or_its_highest_number_of_epochs() -> None:
    stopped = run_once(EPOCH, inf, stop_at_j=15_000)
    assert (stopped.time_s, stopped.stopped, stopped.converged) == (100, True, False)
    for n_epochs, stop_at_j in ((inf, inf), (4, inf), (inf, 15_000)):
        ended = run_once(EPOCH, n_epochs, stop_at_j, max_epochs=3)
        assert (ended.time_s, ended.stopped, ended.converged) == (30, False, False)
