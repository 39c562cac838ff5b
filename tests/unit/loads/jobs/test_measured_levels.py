"""Levels of synchronous jobs beyond two: starts, exits, drawn stalls, leads and noise."""  # noqa: E501

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from builders import tiny_library
from synchronous_builders import CPUS_W, synchronous_scenario

from diploee.base.model import assumed_keys, ranges
from diploee.loads.jobs.source import LibraryBuilder, StreamFrame
from diploee.loads.jobs.synchronous import SynchronousJobs
from diploee.loads.jobs.training_phases import (
    NEVER_MS,
    TrainingPhase,
    TrainingPlan,
    store_writes,
    training_phases,
)
from diploee.profiles.iterations import loop_of_iterations
from diploee.scenario.synchronous import RANDOM_DURATION_KEYS, SynchronousJob

FLAT = {
    "n_gpus": 8,
    "period_s": 1.0,
    "work_days": 0.002,
    "high": 0.8,
    "low": 0.8,
    "edge_s": 0,
    "jitter": 0,
    "warm_up_s": 60,
    "load_level": 0.16,
    "checkpoint_interval": 40,
    "checkpoint_write_s": 20,
    "checkpoint_level": 0.22,
    "failures_per_1000_node_days": 0,
    "planned_per_1000_node_days": 0,
}


def node_power_w(number: int = 1, **keys: Any) -> np.ndarray:
    """Return the power of the job of a number on its one node, every 0.1 s [W]."""
    keys = FLAT | keys
    if "phases" in keys:
        keys = {key: keys[key] for key in keys if key not in RANDOM_DURATION_KEYS}
    scenario = synchronous_scenario(
        keys,
        n_nodes=1,
        duration="1 h",
        resolution="1 s",
        synchronous={"repeat": True},
    )
    builder = LibraryBuilder(tiny_library())
    frame = StreamFrame("pretraining", scenario)
    source = SynchronousJobs(scenario.streams["pretraining"], frame, builder)
    pieces, library = source.sections(number), builder.library
    at_ms = np.arange(source.phases(number).duration_ms // 100 + 1) * 100
    energy_j = np.zeros(at_ms.size)
    for nth in range(len(pieces)):
        profile = library[int(pieces.profile_id[nth])]
        edges_ms = np.arange(profile.power_w.size + 1) * profile.dt_ms
        into_ms = np.clip(at_ms - pieces.into_ms[nth], 0, pieces.length_ms[nth])
        played_j = np.interp(
            into_ms + pieces.offset_ms[nth], edges_ms, profile.cumulative_energy_j
        )
        energy_j += pieces.weight[nth] * (played_j - played_j[0])
    return np.diff(energy_j) / 0.1


def of_gpus_w(share: float) -> float:
    return 5_600 * share + CPUS_W


def test_a_job_starts_on_idle_gpus_and_exits_at_the_level_of_loading() -> None:
    power_w = node_power_w(start_s=30, exit_s=5)
    assert power_w[:300] == pytest.approx(708, rel=1e-6)
    assert power_w[300:900] == pytest.approx(of_gpus_w(0.16), rel=1e-6)
    assert power_w[900:1300] == pytest.approx(of_gpus_w(0.8), rel=1e-6)
    assert power_w[1300:1500] == pytest.approx(of_gpus_w(0.22), rel=1e-6)
    assert power_w[-50:] == pytest.approx(of_gpus_w(0.16), rel=1e-6)
    assert power_w.size == 300 + node_power_w().size + 50


def test_the_gpu_that_writes_leads_into_the_stall_and_out_of_it() -> None:
    plain_w, power_w = node_power_w(), node_power_w(lead_s=0.3)
    leads = np.flatnonzero(~np.isclose(plain_w, power_w))
    # 172.8 s of work in stretches of 40 s: four checkpoints from second 100 on, 60 s
    # apart
    into, out = 1000 + 600 * np.arange(4), 1200 + 600 * np.arange(4)
    assert leads.tolist() == sorted(
        (np.concatenate([into, out])[:, None] - [3, 2, 1]).ravel()
    )
    step_w = (of_gpus_w(0.8) - of_gpus_w(0.22)) / 8
    assert plain_w[into - 1] - power_w[into - 1] == pytest.approx(step_w, rel=1e-5)
    assert power_w[out - 1] - plain_w[out - 1] == pytest.approx(step_w, rel=1e-5)


def test_cpus_work_while_the_job_trains_and_idle_in_its_stalls() -> None:
    power_w = node_power_w(cpu_level=0.3)
    assert power_w[700] == pytest.approx(5_600 * 0.8 + 0.3 * 700, rel=1e-6)
    assert power_w[1100] == pytest.approx(of_gpus_w(0.22), rel=1e-6)


def test_runs_of_one_job_differ_by_their_spread() -> None:
    of_runs = np.array(
        [node_power_w(number, run_spread=0.03) for number in range(1, 9)]
    )
    factors = of_runs / node_power_w()
    # The same all through a run
    assert np.ptp(factors, axis=1) == pytest.approx(0, abs=1e-6)
    assert 0.01 < factors[:, 0].std() < 0.06
    assert len(set(factors[:, 0].round(6))) == 8


WENT = [
    [0, "load"],
    [10, "train"],
    [30.5, "checkpoint"],
    [40, "train"],
    [60, "hung"],
    [70, "end"],
]


def test_a_job_goes_through_the_phases_that_it_went_through() -> None:
    power_w = node_power_w(phases=WENT, hung_level=0.14, exit_s=5)
    for begin, end, share in (
        (0, 100, 0.16),
        (100, 305, 0.8),
        (305, 400, 0.22),
        (400, 600, 0.8),
        (600, 700, 0.14),
        (700, 750, 0.16),
    ):
        assert power_w[begin:end] == pytest.approx(of_gpus_w(share), rel=1e-6)
    assert power_w.size == 750


def test_keys_of_drawn_phases_are_no_assumptions_of_a_job_that_has_its_phases() -> None:
    job = SynchronousJob(
        **{key: FLAT[key] for key in FLAT if key not in RANDOM_DURATION_KEYS},
        phases=WENT,
    )
    names = {key.removeprefix(".") for key, *_ in ranges(job, "", 1.0)}
    assert names == {"duty", "lag_s"}
    assert (
        not {key.removeprefix(".") for key in assumed_keys(job)} & RANDOM_DURATION_KEYS
    )


@pytest.mark.parametrize(
    ("keys", "text"),
    [
        ({"phases": WENT[1:]}, "begin at 0"),
        ({"phases": WENT[:-1]}, "end with end"),
        ({"phases": [*WENT[:2], [9, "end"]]}, "each after the one before"),
        ({"phases": [[0, "train"], [0.0004, "end"]]}, "by 1 ms or more"),
        (
            {"phases": WENT, "tokens": 1e9, "load_s": 20},
            "can't go with 'load_s', 'tokens'",
        ),
    ],
)
def test_phases_that_can_not_be_are_refused(keys: dict[str, Any], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        SynchronousJob(
            **{key: FLAT[key] for key in FLAT if key not in RANDOM_DURATION_KEYS} | keys
        )


def test_stalls_are_of_a_fast_and_a_slow_store() -> None:
    writes = store_writes(np.random.default_rng(0), (17_100, 56_200), (0.03, 0.03), 0.1)
    drawn_ms = np.array(list(itertools.islice(writes, 20_000)))
    slow = drawn_ms > 31_000
    assert not slow[0]
    assert slow.mean() == pytest.approx(0.5, abs=0.03)
    assert (slow[1:] != slow[:-1]).mean() == pytest.approx(0.1, abs=0.01)
    assert np.median(drawn_ms[~slow]) == pytest.approx(17_100, rel=0.01)
    assert np.log(drawn_ms[slow]).std() == pytest.approx(0.03, rel=0.05)


def test_every_drawn_stall_is_played_once_whatever_fails() -> None:
    plan = TrainingPlan(600_000, 10_000, 1_000, reschedule_ms=1_000, load_ms=1_000)
    failures = itertools.chain(
        [95_500, 60_123, 80_000, 3_000], itertools.repeat(NEVER_MS)
    )
    writes = itertools.count(1_000)
    phases = training_phases(
        plan, failures, itertools.repeat(NEVER_MS), lambda: 2_000, writes
    )
    played_ms = phases.length_ms[phases.phase == TrainingPhase.CHECKPOINT]
    # one that is cut short by a failure counts as played
    whole = played_ms >= 1_000
    assert (played_ms[whole] == 1_000 + np.flatnonzero(whole)).all()
    assert whole.sum() >= 59
    assert phases.time_ms(TrainingPhase.TRAIN) == 600_000


def loop(n_nodes: int = 1, gpus: int = 8, **keys: Any) -> np.ndarray:
    job = SynchronousJob(**FLAT | keys)
    return loop_of_iterations(job, 1.0, np.random.default_rng(1), n_nodes, gpus)


@pytest.mark.parametrize(("n_nodes", "gpus"), [(1, 1), (1, 8), (16, 8)])
def test_noise_of_gpus_is_white_and_their_own_part_falls_with_their_number(
    n_nodes: int, gpus: int
) -> None:
    shares = loop(n_nodes, gpus, noise={"common": 0.003, "own": 0.02})
    noise = shares - 0.8
    # variance of means over 0.1 s of white noise, +- 3 standard errors
    law = (0.003**2 + 0.02**2 / (n_nodes * gpus)) / 0.2
    assert noise.var() == pytest.approx(law, rel=3 * np.sqrt(2 / noise.size))
    assert abs(np.corrcoef(noise[1:], noise[:-1])[0, 1]) < 3 / np.sqrt(noise.size)


def test_one_gpu_after_the_other_draws_the_swing_of_one() -> None:
    swing = {"high": 0.9, "low": 0.4, "duty": 0.5}
    in_phase, in_turn = loop(gpus=4, **swing), loop(gpus=4, in_turn=True, **swing)
    assert np.ptp(in_turn) == pytest.approx(np.ptp(in_phase) / 4)
    assert in_turn.min() == pytest.approx((0.4 + 3 * 0.16) / 4)
    noise = {"noise": {"common": 0, "own": 0.02}}
    in_turn = loop(gpus=4, in_turn=True, **noise)
    assert in_turn.std() == pytest.approx(0.02 / np.sqrt(0.2) / 4, rel=0.05)


def test_micro_steps_fall_within_the_high_level_and_keep_their_period() -> None:
    shares = loop(micro_steps={"count": 4, "low": 0.5}, duty=0.75, low=0.4)
    # of a second: 0.8 and 0.5 for 0.125 s each, three times, and 0.25 s of the low
    # level
    assert shares.mean() == pytest.approx(0.375 * 0.8 + 0.375 * 0.5 + 0.25 * 0.4)
    assert shares[7:10] == pytest.approx([(0.5 + 0.4) / 2, 0.4, 0.4])
