"""A site in another size: everything that grows with it grows, and nothing else does."""

from __future__ import annotations

from pathlib import Path

import pytest
from builders import tiny_library, tiny_scenario

import diploee
from diploee.errors import InputError, ScenarioError
from diploee.scenario import load_scenario
from diploee.scenario.size import scaled
from diploee.steps import at_size


def test_nodes_rates_and_ratings_grow_and_the_rest_stays() -> None:
    site = load_scenario("mixed_11mw", ["facility.stages=[{kind: auxiliary_load, power_kw: 300}]"])
    large = scaled(site, 15.0)
    for name, pool in site.facility.pools.items():
        assert large.facility.pools[name].n_nodes == 15 * pool.n_nodes
    assert large.facility.rated_power_w == pytest.approx(15 * site.facility.rated_power_w)
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
    once = at_size(site)
    assert once.facility.pools["main"].n_nodes == 24
    assert at_size(once) is once


def test_size_at_the_meter_is_what_all_nodes_draw_at_their_ratings() -> None:
    stages = [{"kind": "constant_loss", "loss_fraction": 0.1}, {"kind": "auxiliary_load",
              "power_kw": 5.0}]  # fmt: skip
    site = at_size(tiny_scenario({"facility.stages": stages, "facility.size": {"poi_mw": 12.0}}))
    full_w = site.facility.nodes_power_w / 0.9 + site.facility.stages[1].power_kw * 1e3  # type: ignore[attr-defined]
    assert full_w == pytest.approx(12e6, rel=1e-3)  # to a node


def test_run_tells_the_size_that_was_asked_for(tmp_path: Path) -> None:
    site = tiny_scenario({"duration": "6 h", "facility.size": {"nodes_factor": 3.0}})
    run = diploee.simulate(site, tmp_path / "run", library=tiny_library(), engine="compiled")
    assert run.manifest["size"] == {"nodes_factor": 3.0}
    assert run.scenario.facility.n_nodes == 36
    assert run.scenario.facility.size is None
    assert run.facility()["busy_nodes"].max() > 12


@pytest.mark.parametrize("given", [{}, {"poi_mw": 3.0, "nodes_factor": 2.0}])
def test_one_size_is_given(given: dict[str, float]) -> None:
    with pytest.raises(ScenarioError, match="give either poi_mw or nodes_factor"):
        tiny_scenario({"facility.size": given})


def test_size_at_a_meter_that_the_site_does_not_have_is_refused() -> None:
    with pytest.raises(InputError, match=r"poi_mw: the site has no facility\.stages"):
        at_size(tiny_scenario({"facility.size": {"poi_mw": 3.0}}))


def test_site_too_small_for_its_jobs_is_refused() -> None:
    with pytest.raises(ScenarioError, match=r"facility\.size: .*needs 4 nodes"):
        at_size(tiny_scenario({"facility.size": {"nodes_factor": 0.1}}))
