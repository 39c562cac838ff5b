"""A site in another size: everything that grows with it grows, and nothing else does."""  # noqa: E501

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
from builders import tiny_library, tiny_scenario

import diploee
from diploee.api.sites import site_of
from diploee.base.column_specs import Column
from diploee.base.errors import InputError, ScenarioError
from diploee.facility import Block
from diploee.facility.base import POWER, REACTIVE
from diploee.importers.input_reader import load_inputs
from diploee.loads.inputs import Inputs
from diploee.scenario import Scenario, load_scenario
from diploee.simulation.prepared import open_stages, size_site
from diploee.simulation.size import rated_at_meter_w, resolve_size, scale_scenario


def test_nodes_rates_and_ratings_grow_and_the_rest_stays() -> None:
    site = load_scenario(
        "mixed_11mw", ["facility.stages=[{kind: auxiliary_load, power_kw: 300}]"]
    )
    large = scale_scenario(site, 15.0)
    for name, pool in site.facility.pools.items():
        assert large.facility.pools[name].n_nodes == 15 * pool.n_nodes
    assert large.facility.rated_power_w == pytest.approx(
        15 * site.facility.rated_power_w
    )
    assert large.facility.stages[0].power_kw == 4_500  # type: ignore[attr-defined]
    for name, requests in site.request_streams.items():
        asked = large.request_streams[name]
        for key in ("request_rate_rps", "requests_per_day"):
            if (rate := getattr(requests, key)) is not None:
                assert getattr(asked, key) == pytest.approx(15 * rate)
        assert asked.fluctuation == requests.fluctuation
        assert asked.calendar == requests.calendar
    assert large.streams == site.streams  # by their share of the nodes


def test_once_scaled_site_is_not_scaled_again() -> None:
    site = tiny_scenario({"facility.size": {"nodes_factor": 2.0}})
    once = resolve_size(site)[0]
    assert once.facility.pools["main"].n_nodes == 24
    assert resolve_size(once)[0] is once


def test_size_at_the_meter_is_what_all_nodes_draw_at_their_ratings() -> None:
    stages = [
        {"kind": "constant_loss", "loss_fraction": 0.1},
        {"kind": "auxiliary_load", "power_kw": 5.0},
    ]
    site = resolve_size(
        tiny_scenario({"facility.stages": stages, "facility.size": {"poi_mw": 12.0}})
    )[0]
    full_w = site.facility.nodes_power_w / 0.9 + site.facility.stages[1].power_kw * 1e3  # type: ignore[attr-defined]
    assert full_w == pytest.approx(12e6, rel=1e-3)  # to a node


def simulate_tiny(site: Scenario, folder: Path) -> diploee.Run:
    library = tiny_library()
    return diploee.run(site, folder / "run", profiles=library, engine="compiled")


def test_run_tells_the_size_that_was_asked_for(tmp_path: Path) -> None:
    site = tiny_scenario({"duration": "6 h", "facility.size": {"nodes_factor": 3.0}})
    run = simulate_tiny(site, tmp_path)
    assert run.manifest["size"] == {"nodes_factor": 3.0}
    assert run.scenario.facility.n_nodes == 36
    assert run.scenario.facility.size is None
    assert run.facility()["busy_nodes"].max() > 12


@pytest.mark.parametrize("given", [{}, {"poi_mw": 3.0, "nodes_factor": 2.0}])
def test_one_size_is_given(given: dict[str, float]) -> None:
    with pytest.raises(ScenarioError, match="give one of 'poi_mw', 'nodes_factor'"):
        tiny_scenario({"facility.size": given})


SPANS = (
    {"start": "2018-01-01", "duration": "1 year"},
    {"start": "2018-01-10", "duration": "2 days"},
    {"start": "2020-02-29T12:00", "duration": "1 day"},
    {"start": "2018-07-15T12:00", "duration": "1 h"},
)


def settled(name: str, **values: Any) -> tuple[Scenario, float]:
    """Return a shipped site in its size, and what it draws at its meter at its ratings
    [W]."""
    scenario = load_scenario(
        name, values={key.replace("__", "."): v for key, v in values.items()}
    )
    inputs = load_inputs(scenario)
    site, _ = size_site(scenario, inputs)
    return site, rated_at_meter_w(site, inputs.weather_year)


@pytest.mark.parametrize(
    ("name", "station"),
    [("colocation_10mw_poi", "denver"), ("colocation_10mw_poi_air", "greensboro")],
)
def test_a_year_two_days_and_an_hour_are_of_the_same_size(
    name: str, station: str
) -> None:
    size = {"facility.size": {"poi_mw": 10}, "facility.weather.station": station}
    found = [settled(name, **size, **span) for span in SPANS]
    assert len({site.facility.model_dump_json() for site, _ in found}) == 1
    per_node = 10e6 / found[0][0].facility.n_nodes
    assert [rated_w for _, rated_w in found] == pytest.approx(
        [10e6] * len(SPANS), abs=per_node
    )


def test_a_site_is_rated_at_the_worst_hour_of_its_year_in_any_zone() -> None:
    zones = ("-07:00", "+05:30", "+14:00")
    rated_w = [
        settled("colocation_10mw_poi_air", facility__utc_offset=zone)[1]
        for zone in zones
    ]
    # In a zone of half hours the middle of an hour is on a record of the weather, not
    # between two.
    assert rated_w == pytest.approx([rated_w[0]] * len(zones), rel=2e-3)


def test_no_hour_of_a_run_at_full_ratings_draws_more_than_the_rated_power() -> None:
    scenario = load_scenario(
        "colocation_10mw_poi_air", ["duration=1 week", "start=2018-08-01"]
    )
    inputs = load_inputs(scenario)
    facility = scenario.facility
    n = 7 * 24 * 60
    stages, _ = open_stages(scenario, weather=inputs.weather)
    block = Block(
        0,
        60_000,
        {
            "it_power_w": np.full(n, facility.nodes_power_w),
            "it_ac_power_w": np.full(n, facility.supplied_power_w),
            POWER: np.full(n, facility.supplied_power_w),
            REACTIVE: np.full(n, facility.reactive_power_var),
        },
    )
    (passed,) = stages.pass_blocks(iter([block]))
    hourly_w = passed.columns[POWER].reshape(-1, 60).mean(axis=1)
    assert hourly_w.max() <= rated_at_meter_w(scenario, inputs.weather_year) * (
        1 + 1e-6
    )


class Own:
    """A stage of a user that does not grow with the nodes."""

    boundary = None

    def __init__(
        self, role: Literal["load", "source"], own_w: Callable[[Block], Any]
    ) -> None:
        self.columns = (Column("own_w", "W", "facility", "mean", None, "own", role),)
        self.own_w, self.sign = own_w, 1 if role == "load" else -1

    def start(self) -> None:
        """Return no state."""

    def apply(self, block: Block, state: None) -> tuple[dict[str, Any], None]:
        """Add what it draws, or take off what it gives."""
        own_w = self.own_w(block)
        power_w = block.columns[POWER] + self.sign * own_w
        return {"own_w": own_w, POWER: power_w}, None


def higher_at_noon(block: Block) -> Any:
    noon = block.starts_ms // 3_600_000 % 24 == 12
    return np.where(noon, 300e3, 100e3)


OFFICES = Own("load", higher_at_noon)
GENERATOR = Own("source", lambda block: np.full(len(block), 5e3))


BATTERY: dict[str, Any] = {"kind": "battery", "power_mw": 2.0, "energy_mwh": 2.0}
BATTERY |= {"auxiliary_kw": 50, "smoothing_s": 60}
BALLAST = {"kind": "ramp_limit", "down_mw_per_min": 0.1}


def test_batteries_sources_and_ramp_limits_are_no_part_of_the_rated_power() -> None:
    loss = {"kind": "constant_loss", "loss_fraction": 0.1}
    bare = rated_at_meter_w(tiny_scenario({"facility.stages": [loss]}))
    site = tiny_scenario({"facility.stages": [BATTERY, loss, BALLAST]})
    assert rated_at_meter_w(site, further=[GENERATOR]) == bare


def test_size_counts_the_nodes_of_all_phases() -> None:
    since = {"2018-01-01": 5, "2018-01-02": 12}
    phases = [{"since": day, "n_nodes": n} for day, n in since.items()]
    cooling = {"kind": "auxiliary_load", "design_share": 0.1}
    changes = {"facility.stages": [cooling], "facility.size": {"poi_mw": 1.0}}
    whole = resolve_size(tiny_scenario(changes))[0]
    phased = resolve_size(
        tiny_scenario(changes | {"facility.pools.main.phases": phases})
    )[0]
    assert phased.facility.n_nodes == whole.facility.n_nodes
    assert phased.facility.pools["main"].phases[-1].n_nodes == whole.facility.n_nodes  # type: ignore[index]


def test_size_at_the_meter_is_reached_with_a_stage_that_does_not_grow() -> None:
    site = resolve_size(
        tiny_scenario({"facility.size": {"poi_mw": 2.0}}), further=[OFFICES]
    )[0]
    node_w = site.facility.node_type_of("main").rated_power_w
    assert site.facility.n_nodes == round(1.7e6 / node_w)
    assert rated_at_meter_w(site, further=[OFFICES]) == pytest.approx(2e6, abs=node_w)


ALONE = {
    "streams.training.classes": [{"workload": "draw", "n_nodes": 1, "probability": 1}]
}
BARE = {
    f"facility.node_types.node.{key}_w": 0
    for key in ("gpu_tdp", "cpu_tdp", "idle_power")
}
STAGES = {"facility.stages": [{"kind": "auxiliary_load", "power_kw": 5}]}


@pytest.mark.parametrize(
    ("size", "changes", "further", "words"),
    [
        ({"poi_mw": 3.0}, {}, (), r"poi_mw: the site has no facility\.stages"),
        ({"nodes_factor": 0.1}, {}, (), r"facility\.size: .*needs 4 nodes"),
        ({"poi_mw": 0.001}, ALONE, (OFFICES,), "poi_mw: no number of nodes makes"),
        ({"poi_mw": 0.25}, ALONE, (OFFICES,), "poi_mw: no number of nodes makes"),
        ({"poi_mw": 1.0}, BARE | STAGES, (), "the nodes' ratings are 0 W"),
    ],
)
def test_size_that_the_site_can_not_have_is_refused(
    size: dict[str, float],
    changes: dict[str, Any],
    further: tuple[Any, ...],
    words: str,
) -> None:
    site = tiny_scenario(changes | {"facility.size": size})
    with pytest.raises(InputError, match=words):
        resolve_size(site, further=further)


def test_validation_and_run_have_the_same_nodes_and_ratings(tmp_path: Path) -> None:
    site = tiny_scenario(
        {
            "duration": "6 h",
            "facility.stages": [{"kind": "auxiliary_load", "power_kw": 5.0}],
            "facility.size": {"poi_mw": 0.1},
        }
    )
    found = site_of(site, tiny_library())
    run = simulate_tiny(site, tmp_path)
    assert found.scenario.facility == run.scenario.facility
    assert found.rated_power_w == pytest.approx(0.1e6, rel=0.03)


def test_cap_below_the_idle_power_of_the_site_in_its_size_is_refused(
    tmp_path: Path,
) -> None:
    (tmp_path / "cap.csv").write_text(
        "time,cap\n2018-01-01 00:00,0.010\n2018-01-03 00:00,0.010\n"
    )
    changes: dict[str, Any] = {
        "flexibility.signals.cap": {"file": "cap.csv", "utc_offset": "+00:00"}
    }
    size_site(*with_inputs(tiny_scenario(changes).with_folder(tmp_path)))
    changes |= {"facility.size": {"nodes_factor": 3}}
    with pytest.raises(
        InputError, match=r"cap\.csv: a cap of 0\.01 MW, .* the 0\.0144"
    ):
        size_site(*with_inputs(tiny_scenario(changes).with_folder(tmp_path)))


def with_inputs(scenario: Scenario) -> tuple[Scenario, Inputs]:
    return scenario, load_inputs(scenario, tiny_library())
