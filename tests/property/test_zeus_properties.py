"""Properties of any recurring job: its energy, its cost, its stops, and the order of
its rows."""

from __future__ import annotations

from itertools import pairwise
from math import inf
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from diploee.integrations.zeus import (
    TrainingWorkload,
    WorkloadSpec,
    best_savings,
    simulate_sequence,
)
from diploee.integrations.zeus.optimizers import PruningRounds
from diploee.integrations.zeus.simulator import Epoch, Simulation, run_once
from diploee.integrations.zeus.workload import expected_cost_j, oracle_pair
from diploee.scenario import ZeusSpec

OPTIMIZERS = st.sampled_from(["zeus", "default", "oracle", "thompson"])
LIMITS = st.sampled_from(["jit", "max", "oracle"])
ETA = st.floats(0, 1)
BETA = st.floats(1.1, 10) | st.just(1000.0)


def _rules(optimizer: str, **more: Any) -> ZeusSpec:
    return ZeusSpec(batch_size_optimizer=optimizer, **more)


def _submissions(group_id: Any, start_s: Any, ratio: Any) -> pd.DataFrame:
    given = {
        "group_id": group_id,
        "workload_id": 0,
        "start_s": start_s,
        "end_s": np.nan,
    }
    return pd.DataFrame(given).assign(runtime_ratio=ratio)


@st.composite
def workloads(draw: st.DrawFn) -> TrainingWorkload:
    """Any workload of up to six batch sizes; its default converges, other paths may
    not."""
    n_sizes, n_limits = draw(st.integers(1, 6)), draw(st.integers(1, 4))
    rng = np.random.Generator(np.random.PCG64(draw(st.integers(0, 2**32 - 1))))
    default = int(rng.integers(n_sizes))
    epochs = [
        rng.integers(1, 60, rng.integers(1, 6)).astype(np.float64)
        for _ in range(n_sizes)
    ]
    for row, paths in enumerate(epochs):
        if row != default:
            paths[rng.random(paths.size) < 0.3] = np.inf
    limits_w = 100.0 + 25.0 * np.arange(n_limits)
    time_s = rng.uniform(1, 1000, (n_sizes, n_limits))
    time_s[:, :-1][rng.random((n_sizes, n_limits - 1)) < 0.2] = np.nan
    power_w = np.where(
        np.isnan(time_s), np.nan, rng.uniform(0.4, 1, time_s.shape) * limits_w
    )
    sizes = 2 ** np.arange(3, 3 + n_sizes)
    spec = WorkloadSpec("any", "net", "sgd", int(sizes[default]), 0.5)
    return TrainingWorkload(
        spec,
        "gpu",
        float(limits_w[-1]),
        sizes,
        limits_w,
        time_s,
        power_w,
        tuple(epochs),
    )


@settings(max_examples=40)
@given(workloads(), OPTIMIZERS, LIMITS, ETA, BETA, st.integers(0, 1000))
def test_every_recurrence_keeps_the_books(
    of: TrainingWorkload, optimizer: str, limit: str, eta: float, beta: float, seed: int
) -> None:
    table = simulate_sequence(
        [of], _rules(optimizer, power_limit=limit, eta=eta, beta=beta), 25, (seed,)
    )
    assert (table.time_s > 0).all()
    np.testing.assert_allclose(table.energy_j, table.average_power_w * table.time_s)
    # The cost of the paper, also of profiled and of stopped recurrences.
    cost_j = eta * table.energy_j + (1 - eta) * of.max_power_w * table.time_s
    np.testing.assert_allclose(table.cost_j, cost_j, rtol=1e-9)
    assert not (table.converged & table.stopped).any()
    oracle_j = np.where(table.attempt == 0, oracle_pair(of, eta).cost_j, 0)
    np.testing.assert_allclose(table.cost_j - table.regret_j, oracle_j, atol=1e-6)
    total_j = np.bincount(table.recurrence, table.cost_j)
    done = np.bincount(table.recurrence, table.converged) > 0
    lowest_j = np.minimum.accumulate(np.where(done, total_j, np.inf))
    threshold_j = beta * np.concatenate([[np.inf], lowest_j])[table.recurrence]
    plain = ~table.profiled  # a profile may cost more than the epoch it stands for
    assert (table.cost_j[plain] <= threshold_j[plain] * (1 + 1e-9)).all()
    assert (np.bincount(table.recurrence) <= 20).all()


@settings(max_examples=40)
@given(workloads(), OPTIMIZERS, st.integers(0, 1000))
def test_each_batch_size_is_profiled_once_at_most_and_uses_measured_limits(
    of: TrainingWorkload, optimizer: str, seed: int
) -> None:
    table = simulate_sequence([of], _rules(optimizer, power_limit="jit"), 25, (seed,))
    profiled = table.batch_size[table.profiled]
    assert profiled.size == np.unique(profiled).size == np.unique(table.batch_size).size
    for size, limit_w in set(
        zip(table.batch_size.tolist(), table.power_limit_w.tolist(), strict=True)
    ):
        assert limit_w in of.limits_of(of.batch_index(size))


@settings(max_examples=40)
@given(workloads(), OPTIMIZERS, st.randoms(use_true_random=False), st.floats(0.1, 5))
def test_order_of_the_rows_changes_nothing(
    of: TrainingWorkload, optimizer: str, random: object, ratio: float
) -> None:
    rng = np.random.Generator(np.random.PCG64(random.getrandbits(32)))  # type: ignore[attr-defined]
    n = 30
    start_s = rng.permutation(n) * 500.0  # distinct starts
    given_ = _submissions(rng.integers(3, size=n), start_s, ratio)
    order = rng.permutation(n)
    plain = Simulation([of], _rules(optimizer), 0).advance(given_)
    shuffled = Simulation([of], _rules(optimizer), 0).advance(given_.take(order))
    pd.testing.assert_frame_equal(shuffled, plain, check_exact=True)


@settings(max_examples=40)
@given(
    workloads(),
    OPTIMIZERS,
    st.integers(0, 2**32),
    st.lists(st.integers(0, 40), max_size=4),
)
def test_recurrences_are_the_same_however_many_come_at_a_time(
    of: TrainingWorkload, optimizer: str, seed: int, cuts: list[int]
) -> None:
    rng = np.random.Generator(np.random.PCG64(seed))
    n = 40
    start_s = np.sort(rng.uniform(0, 1e4, n))
    given_ = _submissions(rng.integers(3, size=n), start_s, rng.uniform(0.1, 5, n))
    parts = Simulation([of], _rules(optimizer), 0)
    edges = [0, *sorted(cuts), n]
    until_s = [*start_s, inf]
    table = pd.concat(
        [
            parts.advance(given_[slice(*edge)], until_s[edge[1]])
            for edge in pairwise(edges)
        ]
    )
    whole = Simulation([of], _rules(optimizer), 0).advance(given_)
    by_job, expected = (
        each.sort_values(["group_id", "recurrence", "attempt"], ignore_index=True)
        for each in (table, whole)
    )
    pd.testing.assert_frame_equal(by_job, expected, check_exact=True)


@given(workloads(), ETA)
def test_both_knobs_save_at_least_what_each_saves_alone(
    of: TrainingWorkload, eta: float
) -> None:
    savings = best_savings(of, eta)
    assert savings.power_limit_only.fraction >= 0
    assert savings.batch_size_only.fraction >= 0
    assert savings.both.fraction >= savings.power_limit_only.fraction
    assert savings.both.fraction >= savings.batch_size_only.fraction
    assert savings.both.fraction < 1
    assert oracle_pair(of, eta).cost_j >= np.nanmin(expected_cost_j(of, eta))


@given(workloads())
def test_more_weight_on_energy_never_makes_the_best_pair_draw_more(
    of: TrainingWorkload,
) -> None:
    energy_j, time_j = expected_cost_j(of, 1.0), expected_cost_j(of, 0.0)
    chosen = [oracle_pair(of, eta) for eta in (0.0, 0.25, 0.5, 0.75, 1.0)]
    energies = [energy_j[pair.row, pair.column] for pair in chosen]
    times = [time_j[pair.row, pair.column] for pair in chosen]
    assert all(np.diff(energies) <= 1e-6 * energies[0])
    assert all(np.diff(times) >= -1e-6 * times[0])


@given(
    st.floats(0.1, 1e4),
    st.floats(1, 1e6),
    st.integers(1, 500) | st.just(inf),
    st.floats(1, 1e7) | st.just(inf),
    st.booleans(),
)
def test_run_costs_its_epochs_or_the_threshold(
    time_s: float, cost_j: float, n_epochs: float, stop_at_j: float, profiles: bool
) -> None:
    epoch = Epoch(time_s, cost_j / 2, cost_j)
    profile = Epoch(2 * time_s, cost_j, 2 * cost_j) if profiles else None
    run = run_once(epoch, n_epochs, stop_at_j, profile, max_epochs=100)
    n_run = round(run.cost_j / cost_j - (profiles and run.cost_j > 0))
    if run.converged:
        assert n_run == n_epochs <= 100
    elif run.stopped:
        assert n_run * cost_j <= stop_at_j < (n_run + 1) * cost_j * (1 + 1e-9)
    else:
        assert n_run == 100 < n_epochs
    if n_run == 0:
        return
    # Both go with the epochs
    assert run.time_s * cost_j / time_s == pytest.approx(run.cost_j)
    assert run.energy_j == pytest.approx(run.cost_j / 2)


@given(st.integers(1, 12), st.data())
def test_pruning_ends_and_keeps_what_converged_twice(
    n: int, data: st.DataObject
) -> None:
    sizes = [8 * (i + 1) for i in range(n)]
    pruning = PruningRounds(sizes, data.draw(st.sampled_from(sizes)))
    good: dict[int, int] = {}
    tries = 0
    while (size := pruning.next_trial) is not None:
        tries += 1
        assert tries <= 2 * n
        converged = data.draw(st.booleans())
        good[size] = good.get(size, 0) + converged
        pruning.observe(size, data.draw(st.floats(1, 100)), converged)
    assert pruning.kept
    assert pruning.kept == sorted(pruning.kept)
    twice = [size for size in sizes if good.get(size) == 2]
    assert pruning.kept == twice or (not twice and len(pruning.kept) == 1)
