"""A site is settled once: its stages are opened once for each span of time that they
stand in."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from builders import tiny_library, tiny_run, tiny_scenario

from diploee import run as simulate
from diploee.api.sites import site_of
from diploee.facility.base import SiteView
from diploee.facility.constant_loss import ConstantLossSpec
from diploee.metrics.flexibility import BASELINE
from diploee.scenario import load_scenario, scenario_from_dict
from diploee.simulation.size import scale_scenario

OPENED: Counter[int] = Counter()
"""How often the stage was opened, by the time that it stands in [h]."""


@pytest.fixture(autouse=True)
def _counted(monkeypatch: pytest.MonkeyPatch) -> None:
    def counted(self: ConstantLossSpec, site: SiteView) -> ConstantLossSpec:
        OPENED[site.clock.horizon_ms // 3_600_000] += 1
        return self

    monkeypatch.setattr(ConstantLossSpec, "open", counted)
    OPENED.clear()


YEAR_H = 366 * 24
STAGE = {
    "facility.stages": [{"kind": "constant_loss", "loss_fraction": 0.1}],
    "duration": "6 h",
}
EVENT = {"id": "e", "start": "2018-01-01 02:00", "end": "2018-01-01 03:00"}
FLEXIBLE = {"flexibility.events": [EVENT | {"target": {"fraction": 0.9}}]}


def test_stages_are_opened_once_for_a_run_and_once_for_the_year_of_the_rating(
    tmp_path: Path,
) -> None:
    tiny_run(tmp_path / "run", STAGE)
    assert OPENED == {6: 1, YEAR_H: 1}


def test_a_controller_and_the_site_without_it_share_the_stages_of_a_run(
    tmp_path: Path,
) -> None:
    scenario = tiny_scenario(STAGE | FLEXIBLE)
    run = simulate(scenario, tmp_path / "run", profiles=tiny_library(), engine=None)
    assert run.manifest["engine"] == "simpy"  # as the compiled one has no controller
    assert BASELINE in run.facility()
    assert OPENED == {6: 1, YEAR_H: 1}


def test_a_size_at_the_meter_opens_them_once_for_each_size_that_is_tried() -> None:
    site = site_of(
        tiny_scenario(STAGE | {"facility.size": {"poi_mw": 0.1}}), tiny_library()
    )
    assert OPENED[6] == 1
    assert 2 <= OPENED[YEAR_H] <= 4
    assert site.rated_power_w == pytest.approx(0.1e6, rel=0.05)


def test_a_site_without_stages_is_not_rated_over_a_year(tmp_path: Path) -> None:
    tiny_run(tmp_path / "run", {"duration": "6 h"})
    assert not OPENED


def test_what_no_file_gave_is_not_given_after_a_site_has_grown() -> None:
    site = load_scenario("campus_100mw_synchronous")
    large = scale_scenario(site, 2.0)
    assert (
        large.ranges(include_set_keys=False).keys()
        == site.ranges(include_set_keys=False).keys()
    )
    assert large == scenario_from_dict(large.model_dump(mode="json")).with_folder(
        site.folder
    )


@pytest.mark.parametrize(
    "name", ["mixed_11mw", "colocation_10mw_poi_air", "replicas_under_a_cap"]
)
def test_a_grown_site_is_one_that_a_file_could_give(name: str) -> None:
    large = scale_scenario(load_scenario(name), 1.7).model_dump(mode="json")
    assert scenario_from_dict(large).model_dump(mode="json") == large
