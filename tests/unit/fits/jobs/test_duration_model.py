"""`DurationModel`: what is drawn follows the distribution that is said, and its mean."""  # noqa: E501

from __future__ import annotations

import json
from itertools import pairwise

import numpy as np
import pytest
from builders import tiny_data, tiny_scenario
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError
from scipy import integrate, stats

from diploee.base.errors import ScenarioError
from diploee.scenario import DurationModel, scenario_from_dict

N_DRAWN = 20_000
MODELS = {
    "quantiles": {"quantiles_s": {0: 5, 0.25: 60, 0.5: 600, 0.9: 7_200, 1: 86_400}},
    "clipped quantiles": {
        "quantiles_s": {0: 5, 0.5: 600, 1: 86_400},
        "min_s": 30,
        "max_s": 20_000,
    },
    "lognormal": {"lognormal": [{"weight": 1, "median_s": 300, "sigma": 1.2}]},
    "mixture": {
        "lognormal": [
            {"weight": 0.3, "median_s": 20, "sigma": 0.5},
            {"weight": 0.7, "median_s": 4_000, "sigma": 1.5},
        ],
        "min_s": 10,
        "max_s": 172_800,
    },
}
every_model = pytest.mark.parametrize("name", MODELS)


def model(name: str) -> DurationModel:
    return DurationModel.model_validate(MODELS[name])


@every_model
def test_draws_follow_the_distribution_function(name: str) -> None:
    of = model(name)
    drawn = of.draw(np.random.default_rng(1), N_DRAWN)
    inside = np.unique(drawn)[1:-1]  # limits that many draws share are steps
    upto = np.searchsorted(np.sort(drawn), inside, "right") / N_DRAWN
    distance = np.abs(upto - of.cdf(inside)).max()
    assert stats.kstwo.sf(distance, N_DRAWN) > 0.001


@every_model
def test_mean_is_that_of_the_draws(name: str) -> None:
    drawn = model(name).draw(np.random.default_rng(2), N_DRAWN)
    error = drawn.std() / np.sqrt(N_DRAWN)
    assert abs(model(name).mean_s() - drawn.mean()) < 4 * error


@every_model
@pytest.mark.parametrize("longest_s", [1.0, 25.0, 500.0, 1e5])
def test_mean_up_to_a_time_is_the_integral_of_what_still_runs(
    name: str, longest_s: float
) -> None:
    of = model(name)
    breaks = sorted(
        {b for b in (5, 10, 30, 60, 600, 7_200, 20_000, 86_400) if b < longest_s}
    )
    edges = [0.0, *breaks, longest_s]
    wanted = sum(
        integrate.quad(lambda t: 1 - of.cdf(t).item(), a, b, limit=200)[0]
        for a, b in pairwise(edges)
    )
    assert of.mean_s(longest_s) == pytest.approx(wanted, rel=1e-6)


@every_model
def test_quantiles_invert_the_distribution_function(name: str) -> None:
    of = model(name)
    levels = np.linspace(0.01, 0.99, 99)
    seconds = of.quantile(levels)
    within = (seconds > seconds.min()) & (seconds < seconds.max())
    np.testing.assert_allclose(of.cdf(seconds[within]), levels[within], atol=1e-9)


@every_model
def test_number_of_random_numbers_depends_on_the_count_alone(name: str) -> None:
    """Two models that differ in numbers leave the generator at the same place."""
    of, other = model(name), model("quantiles" if "quantiles" in name else "mixture")
    first, second = np.random.default_rng(3), np.random.default_rng(3)
    of.draw(first, 100)
    other.draw(second, 100)
    assert first.random() == second.random()


def test_a_lognormal_without_spread_is_one_duration() -> None:
    step = DurationModel.model_validate(
        {"lognormal": [{"weight": 1, "median_s": 90, "sigma": 0}]}
    )
    np.testing.assert_allclose(step.draw(np.random.default_rng(0), 10), 90)
    np.testing.assert_allclose(step.cdf([89.9, 90.1]), [0, 1])
    assert step.mean_s() == pytest.approx(90)
    assert step.mean_s(60) == pytest.approx(60)


@settings(max_examples=60)
@given(
    st.lists(st.floats(0.001, 1e8), min_size=2, max_size=12),
    st.integers(0, 2**32),
    st.floats(0.001, 1e8),
)
def test_any_rising_durations_are_quantiles(
    seconds: list[float], seed: int, longest_s: float
) -> None:
    levels = (
        np.sort(np.random.default_rng(seed).permutation(999)[: len(seconds) - 2] + 1)
        / 1000
    )
    of = DurationModel(
        quantiles_s=dict(
            zip([0.0, *levels.tolist(), 1.0], sorted(seconds), strict=True)
        )
    )
    drawn = of.draw(np.random.default_rng(seed), 50)
    low, high = min(seconds) * (1 - 1e-9), max(seconds) * (1 + 1e-9)
    assert drawn.min() >= low and drawn.max() <= high
    assert min(low, longest_s) <= of.mean_s(longest_s) * (1 + 1e-9)
    assert of.mean_s(longest_s) <= min(high, longest_s) * (1 + 1e-9)


@every_model
def test_json_returns_the_model(name: str) -> None:
    text = json.dumps(model(name).model_dump(mode="json"))
    assert DurationModel.model_validate(json.loads(text)) == model(name)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({}, "give one of 'quantiles_s', 'lognormal'"),
        ({"quantiles_s": {0.1: 1, 1: 2}}, "must begin with 0"),
        ({"quantiles_s": {0: 1, 0.5: 2}}, "end with 1"),
        ({"quantiles_s": {0: 1, 0.5: 5, 0.4: 6, 1: 7}}, "must rise"),
        ({"quantiles_s": {0: 9, 1: 2}}, "must not fall"),
        ({"lognormal": [{"weight": 0.5, "median_s": 1, "sigma": 1}]}, "must sum to 1"),
        (
            {"quantiles_s": {0: 1, 1: 2}, "min_s": 9, "max_s": 3},
            "min_s 9 is above max_s 3",
        ),
    ],
)
def test_what_is_no_distribution_is_refused(
    value: dict[str, object], text: str
) -> None:
    with pytest.raises(ValidationError, match=text):
        DurationModel.model_validate(value)


def test_bad_durations_of_a_class_are_named_by_their_place() -> None:
    data = tiny_data(
        {"streams.training.classes.0.duration": {"quantiles_s": {0: 9, 1: 2}}}
    )
    with pytest.raises(ScenarioError) as caught:
        scenario_from_dict(data)
    (problem,) = caught.value.problems
    assert problem.startswith(
        "streams.training.classes.0.duration.quantiles_s: durations must not"
    )


def test_dispersion_and_durations_change_the_hash_only_where_given() -> None:
    plain = tiny_scenario()
    dispersed = tiny_scenario({"streams.training.dispersion": 0.5})
    lasting = tiny_scenario(
        {"streams.training.classes.0.duration": MODELS["quantiles"]}
    )
    assert len({s.sha256() for s in (plain, dispersed, lasting)}) == 3
    assert "dispersion" not in plain.model_dump(mode="json")["streams"]["training"]
