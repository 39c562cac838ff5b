"""Lengths of time, the clock of a scenario, and its hash."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

import pytest
from builders import tiny_data, tiny_scenario, write_scenario

from diploee.scenario import Scenario, load_scenario, scenario_from_dict
from diploee.scenario.times import end_date, parse_resolution_ms

MS_PER_H = 3_600_000


@pytest.mark.parametrize(
    ("start", "duration", "n_hours"),
    [
        ("2018-01-01", "1 year", 8_760),
        ("2020-01-01", "1 year", 8_784),
        ("2100-01-01", "1 year", 8_760),
        ("2020-02-01", "1 month", 29 * 24),
        ("2018-01-31", "1 month", 28 * 24),
        ("2020-02-29", "1 year", 365 * 24),
        ("2018-01-01", "1.5 h", 1.5),
        ("2018-01-01", "2 weeks", 14 * 24),
    ],
)
def test_months_and_years_follow_the_calendar(
    start: str, duration: str, n_hours: float
) -> None:
    scenario = tiny_scenario({"start": start, "duration": duration})
    assert scenario.horizon_ms == n_hours * MS_PER_H
    assert scenario.n_intervals == n_hours * 60


def test_two_half_years_make_a_year() -> None:
    start = datetime(2020, 1, 1)
    assert end_date(end_date(start, "6 months"), "6 months") == end_date(
        start, "1 year"
    )


def test_a_resolution_is_a_number_and_a_unit() -> None:
    texts = {"0.1 s": 100, "100 ms": 100, "60 s": 60_000, "15 min": 900_000}
    assert {text: parse_resolution_ms(text) for text in texts} == texts


def test_equal_scenarios_have_equal_hashes_however_they_are_written(
    tmp_path: Path,
) -> None:
    from_file = load_scenario(write_scenario(tmp_path / "a.yaml"))
    assert from_file.sha256() == tiny_scenario().sha256()
    assert tiny_scenario({"resolution": "1 min"}).sha256() == tiny_scenario().sha256()


def test_what_changes_results_changes_the_hash_and_a_description_does_not() -> None:
    changes: dict[str, object] = {
        "resolution": "1 s",
        "facility.pools.main.n_nodes": 13,
        "facility.node_types.node.idle_power_w": 401,
        "facility.utc_offset": "+01:00",
        "streams.training.target_utilization": 0.61,
        "streams.training.calendar": {"month": [1] * 11 + [2]},
    }
    own = tiny_scenario().sha256()
    others = {tiny_scenario({key: of}).sha256() for key, of in changes.items()}
    assert len({own, *others}) == 1 + len(changes)
    for key in ("name", "description"):
        assert tiny_scenario({key: "other"}).sha256() == own


def test_a_dumped_scenario_loads_back_equal() -> None:
    scenario = load_scenario("colocation_10mw")
    again = scenario_from_dict(scenario.model_dump(mode="json"))
    assert again.model_dump() == scenario.model_dump()
    assert again.sha256() == scenario.sha256()


def test_overrides_reach_lists_numbers_and_new_keys(tmp_path: Path) -> None:
    file = write_scenario(tmp_path / "a.yaml")
    scenario = load_scenario(
        file,
        [
            "streams.training.classes.0.probability=0.25",
            "streams.training.classes.1.probability=0.5",
            "streams.training.calendar.month=[1,1,1,1,1,1,1,1,1,1,1,0]",
            "seed=0",
        ],
        {"facility.pools.main.n_nodes": 20},
    )
    classes = scenario.streams["training"].job_classes()
    assert [c.probability for c in classes] == [0.25, 0.5, 0.25]
    assert scenario.streams["training"].calendar.month_weights()[-1] == 0
    assert scenario.facility.n_nodes == 20
    shipped = load_scenario(
        "colocation_10mw", ["streams.training.mix.n_nodes={2: 1.0}"]
    )
    assert [c.name for c in shipped.streams["training"].job_classes()] == [
        "llama2_70b_lora/2",
        "stable_diffusion/2",
    ]


def test_the_shipped_scenario_is_the_facility_of_the_paper() -> None:
    """arXiv:2604.07345, sections 3.1 and 4.1."""
    scenario: Scenario = load_scenario("colocation_10mw")
    node = scenario.facility.node_type_of("h100")
    assert scenario.facility.n_nodes == 2_840
    assert node.rated_power_w == 3_520
    assert scenario.facility.rated_power_mw == 10
    assert scenario.n_intervals == 525_600
    mix = scenario.streams["training"].mix
    assert mix is not None and mix.workload["llama2_70b_lora"] == 0.45
    assert (mix.n_nodes[2], mix.n_nodes[16]) == (0.5, 0.1)
    assert tiny_data()["seed"] == scenario.seed == 0
