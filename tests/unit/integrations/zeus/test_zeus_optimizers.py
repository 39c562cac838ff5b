"""The optimizers: the order in which they try, what they leave out, and what they
settle on."""

from collections import Counter
from math import sqrt

import numpy as np
import pytest
from zeus_builders import always, hand_workload, workload

from diploee.base.rng import named_rng
from diploee.integrations.zeus.optimizers import (
    GaussianArm,
    JitPowerLimit,
    Prior,
    PruningRounds,
    Setting,
    ThompsonBatchSize,
    ZeusBatchSize,
    thompson_choice,
)
from diploee.scenario.recurring import BATCH_SIZE_OPTIMIZERS, POWER_LIMIT_OPTIMIZERS

SIZES = [8, 16, 32, 64, 128, 256]
INF = float("inf")


def setting(sizes=None, default=64, rng=None):
    """Inputs of an optimizer; of the workload worked out by hand without batch sizes."""  # noqa: E501
    of = hand_workload()
    if sizes is not None:
        per_size = [[1.0, 1.0]] * len(sizes)
        of = workload(
            {size: [1.0] for size in sizes}, per_size, per_size, default=default
        )
    return Setting(of, 0.5, rng or named_rng(0, "tests"))


def walk(pruning, cost, fails_above=INF, most=50):
    """Return the batch sizes tried, given each one's cost; a cost above the bound is a
    failure."""
    tried = []
    while pruning.next_trial is not None and len(tried) < most:
        size = pruning.next_trial
        tried.append(size)
        pruning.observe(size, cost[size], cost[size] <= fails_above)
    return tried


ALIKE = dict.fromkeys(SIZES, 5)


@pytest.mark.parametrize(
    ("default", "cost", "tried", "kept"),
    [
        # Down, then up, each to the first failure; again from the cheapest seen, over
        # what is left.
        (
            64,
            {8: 99, 16: 12, 32: 8, 64: 9, 128: 10, 256: 99},
            [64, 32, 16, 8, 128, 256, 32, 16, 64, 128],
            [16, 32, 64, 128],
        ),
        # Nothing beyond a failure.
        (64, {8: 1, 16: 1, 32: 99, 64: 9, 128: 99, 256: 1}, [64, 32, 128, 64], [64]),
        # At an edge it goes one way.
        (256, ALIKE, SIZES[::-1] * 2, SIZES),
        # A default that fails is left, and both ways are walked.
        (
            64,
            {8: 9, 16: 7, 32: 8, 64: 99, 128: 12, 256: 99},
            [64, 32, 16, 8, 128, 256, 16, 8, 32, 128],
            [8, 16, 32, 128],
        ),
    ],
)
def test_pruning_walks_both_ways_to_the_first_failure_twice(default, cost, tried, kept):
    pruning = PruningRounds(SIZES, default)
    assert walk(pruning, cost, fails_above=50) == tried
    assert pruning.kept == kept


def test_plain_thompson_sampling_tries_all_before_it_settles():
    optimizer = ThompsonBatchSize().open(setting([8, 16, 32], 16))
    mean, tried = {8: 30.0, 16: 10.0, 32: 20.0}, []
    for recurrence in range(30):
        tried.append(optimizer.predict())
        optimizer.observe(tried[-1], mean[tried[-1]] + 0.1 * (recurrence % 2), True)
    assert Counter(tried[:6]) == {8: 2, 16: 2, 32: 2}
    assert set(tried[6:]) == {16}


def test_posterior_is_the_conjugate_normal_of_a_flat_prior():
    costs = [7.0, 9.0, 14.0]
    arm = GaussianArm()
    for cost in costs:
        arm.observe(cost)
    # N(mean, s2 / n) with the population variance, You et al., Algorithm 2.
    precision = len(costs) / np.var(costs)
    assert arm.posterior == pytest.approx((np.mean(costs), sqrt(1 / precision)))
    informed = GaussianArm(
        Prior(prior_mean_j=20, prior_precision=0.5, window=2)
    )  # and of a prior, over the last two
    for cost in costs:
        informed.observe(cost)
    learnt = 2 / np.var(costs[1:])
    mean = (0.5 * 20 + learnt * np.mean(costs[1:])) / (0.5 + learnt)
    assert informed.posterior == pytest.approx((mean, sqrt(1 / (0.5 + learnt))))


def test_arm_of_equal_costs_is_certain_and_large_costs_do_not_cancel():
    arm = GaussianArm()
    for _ in range(3):
        arm.observe(1e15)
    assert arm.posterior == (1e15, 0)
    arm.observe(1e15 + 4)
    assert arm.posterior[1] == pytest.approx(np.std([0, 0, 0, 4]) / 2)


def test_arm_is_drawn_as_often_as_it_is_likely_to_be_the_cheapest():
    arms = {8: GaussianArm(), 16: GaussianArm()}
    for size, costs in ((8, (9.0, 11.0)), (16, (10.0, 12.0))):
        for cost in costs:
            arms[size].observe(cost)
    # Means 10 and 11, each with the variance 1/2: the difference is N(1, 1); P(< 0) =
    # 0.1587.
    n, p = 4000, 0.15866
    rng = named_rng(0, "tests", "thompson")
    drawn = Counter(thompson_choice(arms.items(), rng) for _ in range(n))
    assert abs(drawn[16] / n - p) < 3.3 * sqrt(p * (1 - p) / n)


def test_thompson_sampling_settles_on_the_cheapest_batch_size():
    rng, noise = named_rng(0, "tests", "zeus"), named_rng(0, "tests", "noise")
    mean = {8: 100.0, 16: 80.0, 32: 95.0, 64: 130.0}
    late = []
    for _ in range(40):
        optimizer = ZeusBatchSize().open(setting(mean, rng=rng))
        for recurrence in range(60):
            size = optimizer.predict()
            optimizer.observe(
                size, mean[size] * (1 + 0.05 * noise.standard_normal()), True
            )
            if recurrence >= 50:
                late.append(mean[size])
    assert np.mean(late) < 1.02 * min(mean.values())


def test_jit_wants_a_profile_of_each_new_batch_size_once():
    jit = JitPowerLimit().open(setting())
    assert jit.predict(8) is None
    for limit_w, cost_j in ((100.0, 30.0), (150.0, 20.0), (200.0, 25.0)):
        jit.observe(8, limit_w, cost_j)
    assert jit.predict(8) == 150.0
    assert jit.predict(16) is None
    jit.observe(8, 150.0, 27.0)  # it was measured again, and got worse
    assert jit.predict(8) == 200.0


def test_named_optimizers_choose_as_they_should():
    batch_sizes, limits = BATCH_SIZE_OPTIMIZERS.by_name, POWER_LIMIT_OPTIMIZERS.by_name
    first = {
        name: spec().open(setting()).predict()
        for name, spec in batch_sizes.items()
        if name not in ("path", "thompson")
    }
    assert first == {"zeus": 16, "default": 16, "oracle": 8}
    made = {
        name: spec().open(setting()) for name, spec in limits.items() if name != "path"
    }
    at_16 = {name: optimizer.predict(16) for name, optimizer in made.items()}
    # An epoch of 16 costs 12 x 145 = 1,740 J at 100 W, 10 x 175 = 1,750 J at 200 W.
    assert at_16 == {"jit": None, "max": 200.0, "oracle": 100.0}
    assert made["oracle"].predict(8) == 200.0  # 30 x 130 against 25 x 150


def test_own_optimizer_is_named_by_its_import_path():
    own = BATCH_SIZE_OPTIMIZERS.read(always(8))
    assert own.open(setting()).predict() == 8
    assert BATCH_SIZE_OPTIMIZERS.read(own.model_dump()) == own
    for path, words in (
        ("nowhere:Loyal", "can't import"),
        (f"{__name__}:SIZES", "'module:Class'"),
    ):
        with pytest.raises(ValueError, match=words):
            BATCH_SIZE_OPTIMIZERS.read({"path": path})
