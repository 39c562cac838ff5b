"""Contents of a sweep file, and the one line that each mistake gives."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from sweep_builders import N_NODES, UTILIZATION, tiny_sweep

from diploee.base.errors import InputError, ScenarioError
from diploee.base.files.paths import shipped
from diploee.profiles import ProfileLibrary
from diploee.sweeps import load_ensemble, load_sweep, sweep_from_dict
from diploee.sweeps.expand import expand

GOOD = [0.2, 0.4]


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        ("facility.pools.main.n_node", "main.n_node: unknown key 'n_node' (allowed: "),
        ("facility.pools.mian.n_nodes", "mian.n_nodes = 1): this key is missing"),
        (f"{UTILIZATION}.x", f"'{UTILIZATION}' is a single value, not a group of keys"),
    ],
)
def test_unknown_key_of_an_axis_is_named_as_a_scenario_names_it(
    tmp_path: Path, library: ProfileLibrary, key: str, expected: str
) -> None:
    sweep = tiny_sweep(tmp_path, axes=[{"grid": {key: [1]}}])
    with pytest.raises(ScenarioError) as caught:
        expand(sweep, library)
    (line,) = str(caught.value).splitlines()
    assert line.startswith(f"{tmp_path}/sweep.yaml")
    assert expected in line


GRID = {"grid": {UTILIZATION: GOOD}}
UNEVEN = {"zip": {UTILIZATION: GOOD, N_NODES: [12]}}
OVERLAPPING = {"grid": {"facility.pools.main": [{}], N_NODES: [1]}}
NO_RANGE = {"distribution": "uniform", "low": 2, "high": 1}


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ({"axes": [{"grid": {UTILIZATION: []}}]}, "must be at least 1 long, found an"),
        ({"axes": [{"cases": {}}]}, "axes.0.cases: must be"),
        ({"axes": [{}]}, "give exactly one of 'grid', 'zip', 'cases' per block, found"),
        (
            {"axes": [GRID, {"zip": {UTILIZATION: GOOD}}]},
            f"axes.1.zip.{UTILIZATION}: two axes on one key, the other at axes.0",
        ),
        (
            {"axes": [OVERLAPPING]},
            "overlaps 'facility.pools.main' at axes.0: one would",
        ),
        ({"set": {UTILIZATION: 0.5}, "axes": [GRID]}, "is also given under 'set'"),
        ({"axes": [UNEVEN]}, f"one length, found 2 for '{UTILIZATION}', 1 for"),
        ({"axes": [{"grid": {"seed": [1]}}]}, "list seeds under 'seeds:'"),
        ({"seeds": [1, 2, 1]}, "sweep.yaml:2 seeds: seed 1 is given twice; every seed"),
        ({"seeds": []}, "seeds: an empty list"),
        ({"base": "nowhere"}, "sweep.yaml:1 base: nowhere: no such scenario file or"),
        (
            {"draw": {UTILIZATION: {"distribution": "zeta"}}},
            f"sweep.yaml:3 draw.{UTILIZATION}: must be a kind of distribution (",
        ),
        (
            {"draw": {UTILIZATION: NO_RANGE}},
            "low must be less than high, found 2 and 1",
        ),
    ],
)
def test_mistake_gives_one_clear_line(
    tmp_path: Path, content: dict[str, Any], expected: str
) -> None:
    with pytest.raises(ScenarioError) as caught:
        tiny_sweep(tmp_path, **content)
    (line,) = str(caught.value).splitlines()
    assert expected in line


def test_value_that_makes_a_scenario_invalid_is_named_with_its_line(
    tmp_path: Path, library: ProfileLibrary
) -> None:
    sweep = tiny_sweep(tmp_path, axes=[{"grid": {N_NODES: [12, -3, 2]}}], seeds=5)
    with pytest.raises(ScenarioError) as caught:
        expand(sweep, library)
    first, second = str(caught.value).splitlines()
    assert first.startswith(
        f"{tmp_path}/sweep.yaml:4 axes.0.grid.{N_NODES}: must be above 0, found -3"
    )
    assert "class 'tune/4' needs 4 nodes, pool 'main' has 2" in second
    assert f"(where {N_NODES} = 2)" in second


def test_more_runs_than_allowed_are_refused_before_they_are_built(
    tmp_path: Path, library: ProfileLibrary
) -> None:
    sweep = tiny_sweep(
        tmp_path, axes=[{"grid": {N_NODES: list(range(4, 104))}}], seeds=10**9
    )
    with pytest.raises(
        InputError, match=r"100 points x 1,000,000,000 .* --max-runs 50"
    ):
        expand(sweep, library, max_runs=50)


def test_unknown_name_of_a_sweep_lists_the_shipped_ones() -> None:
    with pytest.raises(ScenarioError, match="did you mean 'facility_size'"):
        load_sweep("facility_sizes")


@pytest.mark.slow
@pytest.mark.parametrize("name", shipped("sweep"))
def test_shipped_sweep_expands(name: str) -> None:
    sweep = load_sweep(name)
    runs = expand(sweep, ProfileLibrary.open())
    assert len(runs) == len({run.run for run in runs}) >= 4


def test_shipped_utilization_sweep_contains_the_shipped_scenario() -> None:
    sweep = load_sweep("colocation_utilization")
    runs = expand(sweep, ProfileLibrary.open())
    levels = [run.settings[UTILIZATION] for run in runs]
    assert levels == [0.2014, 0.4024, 0.6034, 0.8034]
    assert runs[2].scenario.sha256() == sweep.base.sha256()


def test_ensembles_of_scenarios_have_seeds_alone_and_sweeps_may_be_plain_data() -> None:
    sweep = load_ensemble("colocation_10mw", 7)
    assert (sweep.spec.seed_list(0), sweep.spec.n_points()) == (tuple(range(7)), 1)
    assert sweep.name == "colocation_10mw-ensemble"
    plain = sweep_from_dict({"base": "colocation_10mw", "seeds": [4]}, "mine")
    assert plain.spec.seed_list(0) == (4,)
