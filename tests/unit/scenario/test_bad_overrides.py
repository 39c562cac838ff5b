"""Bad ``--set`` and options are named as the user wrote them."""

from __future__ import annotations

from pathlib import Path

import pytest
from builders import write_scenario

from diploee.base.errors import ScenarioError
from diploee.scenario import load_scenario, target_values

CLASSES = "streams.training.classes"
POI = "colocation_10mw_poi"
STAGES = "facility.stages"


@pytest.mark.parametrize(
    ("override", "words"),
    [
        ("seed", "--set seed: expected dotted.key=value, such as facility.pools"),
        ("=3", "--set =3: expected dotted.key=value"),
        ("a..b=3", "--set a..b=3: expected dotted.key=value"),
        ("seeed=3", "--set seeed: unknown key 'seeed' (allowed: "),
        ("seed=", "--set seed: must be a whole number, found null"),
        ("seed=[1", "--set seed: not valid YAML: "),
        ("name.first=x", "--set name.first: 'name' is a single value, not a group of"),
        (f"{CLASSES}.3.n_nodes=1", "'3' is no item of the list (0 to 2)"),
        (f"{CLASSES}.\u00b2=1", "is no item of the list (0 to 2)"),
        (
            "facility.pools.main={n_nodes: 0}",
            "--set facility.pools.main.n_nodes: must be above 0, found 0",
        ),
        (
            f"{STAGES}.4={{kind: point_of_interconnection}}",
            "would replace 'transformers' by 'po",
        ),
        (f"{STAGES}.pdu=dlc_tower", f"--set {STAGES}.dlc_tower.KEY=VALUE for a key of"),
        (f"{STAGES}.ups.mode=x", f"--set {STAGES}.ups.mode: must be 'double_conv"),
        (f"{STAGES}.battery.power_mw=1", "'battery' is no item of the list (0 to 5)"),
    ],
)
def test_bad_override_is_named_and_a_stage_not_replaced_by_another_part_of_the_chain(
    scenario_file: Path, override: str, words: str
) -> None:
    with pytest.raises(ScenarioError) as caught:
        load_scenario(POI if STAGES in override else scenario_file, [override])
    assert any(words in problem for problem in caught.value.problems)
    assert all(problem.startswith("--set ") for problem in caught.value.problems)


def test_keys_of_a_stage_are_set_by_its_kind_and_others_of_its_place_take_its_own() -> (
    None
):
    wanted = [
        "facility.stages.point_of_interconnection.contract_mw=9.8",
        "facility.stages.2=wse",
    ]
    before = load_scenario("colocation_10mw_poi").facility.stages
    after = load_scenario("colocation_10mw_poi", wanted).facility.stages
    assert after[5] == before[5].model_copy(update={"contract_mw": 9.8})
    assert after[2].kind == "wse"
    assert [after[k] for k in (0, 1, 3, 4)] == [before[k] for k in (0, 1, 3, 4)]


def test_keys_of_one_of_two_stages_are_set_by_its_name() -> None:
    two = "[{kind: solar, dc_mw: 1}, {kind: solar, name: roof, dc_mw: 1}]"
    wanted = [f"facility.stages={two}", "facility.stages.roof.dc_mw=2"]
    stages = load_scenario("colocation_10mw_poi", wanted).facility.stages
    assert [stage.model_dump()["dc_mw"] for stage in stages] == [1, 2]


def test_all_bad_overrides_are_reported_at_once(scenario_file: Path) -> None:
    with pytest.raises(ScenarioError) as caught:
        load_scenario(scenario_file, ["seed", "name.x=1", "seed=4", "=2"])
    assert len(caught.value.problems) == 3


def test_bad_value_of_an_option_names_the_option(scenario_file: Path) -> None:
    values = {"seed": True, "streams.training.target_utilization": 2.0}
    names = {
        "seed": "--seed",
        "streams.training.target_utilization": "--target-utilization",
    }
    with pytest.raises(ScenarioError) as caught:
        load_scenario(scenario_file, values=values, names=names)
    assert sorted(caught.value.problems) == [
        "--seed: must be a whole number, found true",
        "--target-utilization: must be at most 1, found 2.0",
    ]


POOL = "facility.pools.main"


@pytest.mark.parametrize(
    ("key", "words"),
    [
        (f"{POOL}.nodes", f"{POOL}.nodes: unknown key 'nodes' (allow"),
        ("facility.pool.x.n_nodes", "facility.pool.x.n_nodes (in facility.pool): unkn"),
        ("streams.training.pool", "streams.training.pool: must be a pool ('main'), "),
    ],
)
def test_bad_value_given_in_python_names_its_key_and_the_nearest(
    scenario_file: Path, key: str, words: str
) -> None:
    with pytest.raises(ScenarioError) as caught:
        load_scenario(scenario_file, values={key: 5 if "nodes" in key else "mian"})
    (problem,) = caught.value.problems
    assert problem.startswith(words)
    assert "--" not in problem
    assert "; did you mean '" in problem


def test_override_changes_its_own_key_alone_where_an_anchor_serves_two(
    tmp_path: Path,
) -> None:
    path = write_scenario(tmp_path / "two.yaml")
    text = path.read_text("utf-8").replace(
        "pools:\n    main:", "pools:\n    main: &pool"
    )
    path.write_text(text.replace("streams:", "    spare: *pool\nstreams:"), "utf-8")
    pools = load_scenario(path, ["facility.pools.spare.n_nodes=5"]).facility.pools
    assert (pools["main"].n_nodes, pools["spare"].n_nodes) == (12, 5)


def test_target_of_several_streams_asks_for_one(tmp_path: Path) -> None:
    stream = {
        "pool": "main",
        "jobs_per_day": 3,
        "mix": {"workload": {"a": 1}, "n_nodes": {1: 1}},
    }
    path = write_scenario(tmp_path / "two.yaml", {"streams.other": stream})
    with pytest.raises(
        ScenarioError, match="the scenario has several streams; set one of"
    ):
        target_values(load_scenario(path), 0.5)
