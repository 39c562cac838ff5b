"""The feedback optimizer finds the optimum that can be worked out without it."""

from __future__ import annotations

import numpy as np
import pytest
import scipy
from benchmark_builders import ITL, POWER, SIZES, tiny_fits

from diploee.integrations.openg2g import LogisticModel
from diploee.integrations.openg2g.replicas.batch_control import FeedbackSpec
from diploee.integrations.openg2g.replicas.settings import CapSpec
from diploee.integrations.openg2g.replicas.views import (
    Constraint,
    ControlSetting,
    ControlView,
    ModelSetting,
    Observed,
)

LOW, HIGH = float(np.log2(SIZES[0])), float(np.log2(SIZES[-1]))
OTHER = tiny_fits(
    power=LogisticModel(500.0, 1.2, 4.0, 300.0),
    throughput=LogisticModel(3000.0, 0.8, 4.5, 0.0),
)


def converged(
    constraints=lambda power_w: (), deadline_s=None, replicas=(40,), n_steps=2_500
):
    """Close the loop over what the fits say at x itself, and return where it ends."""
    fits = dict(zip("ab", (tiny_fits(), OTHER), strict=False))
    models = {
        k: ModelSetting(SIZES, 64, deadline_s, fits[k])
        for k in list(fits)[: len(replicas)]
    }
    optimizer = FeedbackSpec().open(ControlSetting(models, 1.0))
    counts = dict(zip(models, replicas, strict=True))
    for k in range(n_steps):
        x = optimizer.x
        power_w = sum(counts[m] * float(fits[m].power.eval_x(x[m])) for m in models)
        seen = {
            m: Observed(counts[m], 64, float(fits[m].itl.eval_x(x[m]))) for m in models
        }
        optimizer.decide(ControlView(float(k), seen, power_w, constraints(power_w)))
    return optimizer.x


def cap(power_w):
    return lambda found_w: (Constraint("cap", found_w / power_w - 1, 1 / power_w),)


@pytest.mark.parametrize("replica_w", [800.0, 1000.0, 1300.0])
def test_a_cap_is_met_at_the_batch_size_whose_power_it_is(replica_w):
    x = converged(cap(40 * replica_w))["a"]
    assert x == pytest.approx(float(np.log2(POWER.inverse(replica_w))), abs=1e-3)


@pytest.mark.slow
def test_largest_size_if_no_limit_binds_and_smallest_below_the_least_power():
    assert converged()["a"] == HIGH
    assert converged(cap(1e9))["a"] == HIGH
    assert converged(cap(40 * 100.0))["a"] == LOW


def test_a_deadline_is_met_at_the_batch_size_whose_latency_it_is():
    x = converged(deadline_s=0.05)["a"]
    assert x == pytest.approx(float(np.log2(ITL.inverse(0.05))), abs=1e-3)


@pytest.mark.slow
def test_two_models_share_a_cap_as_a_solver_of_the_whole_problem_shares_it():
    limit_w, counts, fits = 40 * 1000.0 + 30 * 600.0, (40, 30), (tiny_fits(), OTHER)
    x = converged(cap(limit_w), replicas=counts, n_steps=5_000)

    def power_w(at):
        return sum(
            n * f.power.eval_x(v) for n, f, v in zip(counts, fits, at, strict=True)
        )

    def throughput(at):
        return -sum(
            n * f.throughput.eval_x(v) for n, f, v in zip(counts, fits, at, strict=True)
        )

    solved = scipy.optimize.minimize(
        lambda at: throughput(at) / 1e5,
        (5.0, 5.0),
        bounds=[(LOW, HIGH)] * 2,
        constraints={"type": "ineq", "fun": lambda at: 1 - power_w(at) / limit_w},
        method="SLSQP",
    )
    assert solved.success
    assert list(x.values()) == pytest.approx(solved.x.tolist(), abs=0.01)


def sizes_under_a_cap(raise_after_s, n_steps=3_600):
    """Batch size and power of a model whose cap lies between two sizes, second by
    second."""
    setting = ControlSetting(
        {"a": ModelSetting(SIZES, SIZES[0], None, tiny_fits())}, 1.0
    )
    optimizer = FeedbackSpec(raise_after_s=raise_after_s).open(setting)
    size, sizes, limit_w = SIZES[0], [], 40 * 1000.0
    for k in range(n_steps):
        power_w = 40 * float(POWER.eval(size))
        view = ControlView(
            k + 1.0, {"a": Observed(40, size, 0.01)}, power_w, cap(limit_w)(power_w)
        )
        size = optimizer.decide(view)["a"]
        sizes.append(size)
    return np.array(sizes), 40 * POWER.eval(np.array(sizes)) / limit_w


@pytest.mark.slow
def test_a_larger_size_waits_and_a_smaller_one_does_not():
    often, alternating = sizes_under_a_cap(0.0)
    seldom, held = sizes_under_a_cap(60.0)
    at = np.flatnonzero(np.diff(seldom))
    raised = seldom[at + 1] > seldom[at]
    assert np.diff(at)[raised[1:]].min() == 60
    assert np.diff(at)[~raised[1:]].max() < 10
    assert 5 * at.size < np.count_nonzero(np.diff(often))
    assert set(seldom[100:]) == set(often[100:])  # the two about the cap
    assert held[100:].mean() < 1
    assert np.mean(held > 1) < np.mean(alternating > 1)


def test_a_cap_holds_from_its_step_on():
    steps = CapSpec(steps=[{"since_s": 10, "mw": 0.1}, {"since_s": 20}])
    assert [steps.at_w(t) for t in (0, 10, 19, 20)] == [np.inf, 1e5, 1e5, np.inf]


def test_sizes_are_the_feasible_ones_next_on_the_scale_of_doublings():
    # log2: 3 and 6, so that 2^4.5 is the middle
    for first, size in ((22, 8), (23, 64)):
        models = {"a": ModelSetting((8, 64), first, None, tiny_fits())}
        optimizer = FeedbackSpec(primal_step=1e-6).open(ControlSetting(models, 1.0))
        view = ControlView(1.0, {"a": Observed(1, 64, 0.02)}, 1e3, ())
        assert optimizer.decide(view) == {"a": size}
        assert optimizer.decide(
            ControlView(2.0, {"a": Observed(0, 64, np.nan)}, 0.0, ())
        ) == {"a": size}
