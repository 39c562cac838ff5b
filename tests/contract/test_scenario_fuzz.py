"""Whatever a scenario holds: it loads, or it fails with plain lines that begin with
their place."""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
from builders import tiny_data
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from serving_builders import serving_data

from diploee.base.errors import ScenarioError
from diploee.scenario import Scenario, load_scenario, scenario_from_dict

MIXED = tiny_data(
    {
        "facility.rated_power_mw": 0.04,
        "facility.utc_offset": "-07:00",
        "streams.training.classes": None,
        "streams.training.mix": {
            "workload": {"tune": 0.5, "draw": 0.5},
            "n_nodes": {1: 0.3, 2: 0.7},
        },
        "streams.training.calendar": {"hour_of_day": [1] * 24, "month": [2] * 12},
    }
)
BASES = (tiny_data(), MIXED, serving_data())

HUGE = 10**400
NUMBERS = (0, -1, 1, 2, 0.5, 1e-320, 1e308, -0.0, 2**31, 2**63, 2**64, HUGE, -HUGE)
DATES = (datetime.date(9999, 12, 31), datetime.datetime(1, 1, 1, 5), b"\xff")
TEXTS = (
    "|1|0.5|nan|60 s|1 year|9999 years|2018-01-01|2018-02-30|9999-12-31|+00:00|+14:59"
)
TEXTS += "|1e3 d|\n|a: b|_| "
scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.sampled_from([*NUMBERS, float("nan"), float("inf"), -float("inf")]),
    st.integers(),
    st.floats(),
    st.text(max_size=8),
    st.sampled_from([*DATES, *TEXTS.split("|")]),
)
values = st.recursive(
    scalars,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.lists(inner, min_size=12, max_size=12),
        st.dictionaries(
            st.one_of(st.text(max_size=5), st.integers(), st.none()), inner, max_size=3
        ),
    ),
    max_leaves=15,
)
keys = st.one_of(
    st.text(max_size=6), st.integers(), st.booleans(), st.floats(), st.none()
)

OF_PYDANTIC = re.compile(
    r"Input should|valid (dict|tuple|integer|number|string|list)|pydantic|https?:|type="
    r"|instance of|another value \(|Traceback|Extra inputs|Field required|Value error"
    r"|function-|\[key\]"
)
PLACE = re.compile(r"\S.*?: \S")


# Making a failing scenario smaller takes minutes and tells little: the message tells
# the place.
quick = settings(phases=[Phase.explicit, Phase.reuse, Phase.generate])


def places(data: Any, place: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the place of every value below the top."""
    items = data.items() if isinstance(data, dict) else enumerate(data)
    for key, value in items:
        yield (*place, key)
        if isinstance(value, dict | list):
            yield from places(value, (*place, key))


def container(data: Any, place: tuple[Any, ...]) -> Any:
    for key in place[:-1]:
        data = data[key]
    return data


@st.composite
def mutated(draw: st.DrawFn) -> dict[str, Any]:
    data = deepcopy(draw(st.sampled_from(BASES)))
    for _ in range(draw(st.integers(1, 4))):
        place = draw(st.sampled_from(list(places(data)) or [("name",)]))
        here = container(data, place)
        match draw(
            st.sampled_from(["change", "change", "change", "drop", "add", "copy"])
        ):
            case "change":
                here[place[-1]] = draw(values)
            case "drop" if place[-1] in here or isinstance(here, list):
                del here[place[-1]]
            case "add" if isinstance(here, dict):
                here[draw(keys)] = draw(values)
            case "copy":
                source = draw(st.sampled_from(list(places(data)) or [("name",)]))
                found = container(data, source)
                if isinstance(found, list) or source[-1] in found:
                    here[place[-1]] = deepcopy(found[source[-1]])
    return data


def check_messages(error: ScenarioError) -> None:
    assert error.problems
    for problem in error.problems:
        assert problem.isprintable(), repr(problem)
        assert PLACE.match(problem), problem
        assert len(problem) < 600, problem
        assert not OF_PYDANTIC.search(problem), problem


def check_usable(scenario: Scenario) -> None:
    """Check that what the run asks of a scenario does not fail."""
    assert scenario.n_intervals >= 1
    assert scenario.horizon_ms == scenario.n_intervals * scenario.resolution_ms
    assert scenario.start_with_zone.timestamp() < 1e11
    again = scenario_from_dict(scenario.model_dump(mode="json"))
    assert again.sha256() == scenario.sha256()


@pytest.mark.slow
@settings(quick, max_examples=100)
@given(mutated())
def test_mutated_data_loads_or_fails_in_plain_words(data: dict[str, Any]) -> None:
    try:
        scenario = scenario_from_dict(data)
    except ScenarioError as error:
        check_messages(error)
    else:
        check_usable(scenario)


PARTS = "facility pools main n_nodes streams training classes 0 seed x"
words = st.sampled_from(["", *PARTS.split()])
overrides = st.one_of(
    st.text(max_size=20),
    st.builds(
        lambda key, value: f"{'.'.join(key)}={value}",
        st.lists(words, max_size=5),
        st.text(max_size=9),
    ),
)


@pytest.mark.slow
@settings(quick, max_examples=50)
@given(st.lists(overrides, min_size=1, max_size=3))
def test_any_override_loads_or_fails_with_its_key(
    scenario_file: Path, given_: list[str]
) -> None:
    try:
        load_scenario(scenario_file, given_)
    except ScenarioError as error:
        check_messages(error)


@pytest.mark.parametrize("base", BASES, ids=["classes", "mix", "services"])
def test_what_the_mutations_start_from_is_valid(base: dict[str, Any]) -> None:
    check_usable(scenario_from_dict(base))
