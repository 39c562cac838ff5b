"""From axes and seeds to runs with names that say what they depend on."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
from builders import tiny_library, tiny_scenario, wavy_profile
from sweep_builders import N_NODES, UTILIZATION, tiny_sweep

from diploee.importers.input_reader import load_inputs
from diploee.profiles import ProfileLibrary
from diploee.scenario import Scenario
from diploee.sweeps.draws import DRAWS, Draw
from diploee.sweeps.expand import PlannedRun, expand, run_hash

IDLE = "facility.node_types.node.idle_power_w"


def test_blocks_multiply_and_seeds_come_last(
    tmp_path: Path, library: ProfileLibrary
) -> None:
    sweep = tiny_sweep(
        tmp_path,
        axes=[
            {"grid": {UTILIZATION: [0.2, 0.4]}},
            {"zip": {N_NODES: [12, 20, 30], IDLE: [300, 310, 320]}},
        ],
        seeds=[5, 7],
    )
    runs = expand(sweep, library)
    found = [
        (r.settings[UTILIZATION], r.settings[N_NODES], r.settings[IDLE], r.seed)
        for r in runs
    ]
    zipped = [(12, 300), (20, 310), (30, 320)]
    assert found == [
        (u, n, i, s) for u, (n, i), s in product([0.2, 0.4], zipped, [5, 7])
    ]
    assert [r.point for r in runs] == [k // 2 for k in range(12)]
    assert runs[-1].scenario.facility.n_nodes == 30
    assert runs[-1].scenario.seed == 7


def test_cases_are_named_and_take_what_they_leave_out_from_the_base(
    tmp_path: Path, library: ProfileLibrary
) -> None:
    cases = {"as is": {}, "small": {N_NODES: 6}, "cold": {IDLE: 100}}
    runs = expand(tiny_sweep(tmp_path, axes=[{"cases": cases}]), library)
    keys = ("case", N_NODES, IDLE)
    assert [tuple(run.settings[key] for key in keys) for run in runs] == [
        ("as is", 12, 400.0),
        ("small", 6, 400.0),
        ("cold", 12, 100),
    ]


def test_set_applies_to_every_run_and_may_put_a_group(
    tmp_path: Path, library: ProfileLibrary
) -> None:
    sweep = tiny_sweep(
        tmp_path,
        set={
            UTILIZATION: None,
            "duration": "6 h",
            "streams.training.calendar": {"month": [1] * 12},
        },
        axes=[{"grid": {"streams.training.jobs_per_day": [10, 20]}}],
    )
    first, second = expand(sweep, library)
    assert first.scenario.duration == second.scenario.duration == "6 h"
    assert second.scenario.streams["training"].jobs_per_day == 20
    assert second.scenario.streams["training"].calendar.month == (1.0,) * 12


def test_item_of_a_list_can_be_an_axis(tmp_path: Path, library: ProfileLibrary) -> None:
    keys = {
        f"streams.training.classes.{k}.probability": values
        for k, values in enumerate([[0.5, 0.2], [0.25, 0.2], [0.25, 0.6]])
    }
    runs = expand(tiny_sweep(tmp_path, axes=[{"zip": keys}]), library)
    classes = runs[1].scenario.streams["training"].classes
    assert [of_class.probability for of_class in classes] == [0.2, 0.2, 0.6]


def hash_of(scenario: Scenario, library: ProfileLibrary) -> str:
    return run_hash(scenario, load_inputs(scenario, library))


def test_name_of_a_run_depends_on_its_profiles_scenario_and_version_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    library = tiny_library()
    used = [p for p in library.entries if p.profile_id != "draw-1n-1"]
    other = ProfileLibrary([*used, wavy_profile("draw-1n-1", 1, 5_400, seed=5)])
    more = ProfileLibrary(
        [*library.entries, wavy_profile("unused-8n-1", 8, 100, seed=5)]
    )
    base = hash_of(tiny_scenario(), library)
    assert hash_of(tiny_scenario({"name": "renamed"}), more) == base
    assert hash_of(tiny_scenario(), other) != base
    assert hash_of(tiny_scenario({"seed": 1}), library) != base
    monkeypatch.setitem(run_hash.__globals__, "full_version", lambda: "99")
    assert hash_of(tiny_scenario(), library) != base


def idle_w(runs: list[PlannedRun]) -> list[float]:
    return [run.scenario.facility.node_types["node"].idle_power_w for run in runs]


def test_draws_repeat_by_seed_and_do_not_shift_each_other(
    tmp_path: Path, library: ProfileLibrary
) -> None:
    idle = {IDLE: {"distribution": "normal", "mean": 400, "std": 20}}
    other = {UTILIZATION: {"distribution": "uniform", "low": 0.3, "high": 0.5}}
    alone = expand(tiny_sweep(tmp_path, seeds=4, draw=idle), library)
    both = expand(tiny_sweep(tmp_path, seeds=4, draw=other | idle), library)
    values = idle_w(alone)
    assert values == idle_w(both)
    assert values == [run.drawn[f"draw.{IDLE}"] for run in alone]
    assert len(set(values)) == 4


def test_factor_on_a_list_draws_for_each_element(
    tmp_path: Path, library: ProfileLibrary
) -> None:
    key = "streams.training.calendar.month"
    weights = list(range(1, 13))
    draw = {"distribution": "lognormal", "median": 1, "sigma": 0.2, "apply": "factor"}
    calendar = {"streams.training.calendar": {"month": weights}}
    sweep = tiny_sweep(
        tmp_path, set=calendar, draw={key: {**draw, "each": True}}, seeds=2
    )
    run = expand(sweep, library)[0]
    factors = np.array([run.drawn[f"draw.{key}.{k}"] for k in range(12)])
    assert np.unique(factors).size == 12
    months = run.scenario.streams["training"].calendar.month
    np.testing.assert_allclose(months, factors * weights)


def test_a_distribution_from_outside_has_a_name_in_a_sweep(
    tmp_path: Path, library: ProfileLibrary, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(DRAWS, "added", {})

    @DRAWS.register
    class Either(Draw):
        """One of two numbers, with even chances."""

        distribution: Literal["either"] = "either"
        one: float
        other: float

        def draw(
            self, rng: np.random.Generator, base: Any
        ) -> tuple[Any, dict[str, float]]:
            number = self.one if rng.random() < 0.5 else self.other
            return number, {"": number}

    draw = {"distribution": "either", "one": 300.0, "other": 500.0}
    runs = expand(tiny_sweep(tmp_path, draw={IDLE: draw}, seeds=12), library)
    found = idle_w(runs)
    assert set(found) == {300.0, 500.0}
    assert [run.drawn[f"draw.{IDLE}"] for run in runs] == found


def test_factor_multiplies_what_an_axis_gives(
    tmp_path: Path, library: ProfileLibrary
) -> None:
    draw = {"distribution": "uniform", "low": 0.5, "high": 1.5, "apply": "factor"}
    sweep = tiny_sweep(tmp_path, axes=[{"grid": {IDLE: [100, 200]}}], draw={IDLE: draw})
    low, high = expand(sweep, library)
    factor = low.drawn[f"draw.{IDLE}"]
    # The same seed draws the same at every point
    assert factor == high.drawn[f"draw.{IDLE}"]
    expected = pytest.approx([100 * factor, 200 * factor], rel=1e-12)
    assert idle_w([low, high]) == expected
