"""Shipped files are found, shown and copied by name; a first scenario is made from
answers."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
import yaml
from builders import checked_site, write_scenario
from command_line import call

from diploee import load_scenario, open_run
from diploee.base.files.paths import shipped
from diploee.grid.limits import load_limits
from diploee.scenario.starter import SiteAnswers, starter_text

SHIPPED = {**shipped("scenario"), **shipped("sweep"), **shipped("limits")}


def test_every_shipped_file_is_listed_once_with_what_it_is() -> None:
    rows = json.loads(call("scenarios", "list", "--json").out)
    assert sorted(row["name"] for row in rows) == sorted(SHIPPED)
    assert len(SHIPPED) == len(shipped("scenario")) + len(shipped("sweep")) + len(
        shipped("limits")
    )
    assert all(row["description"] for row in rows)
    assert {row["kind"] for row in rows} == {"scenario", "sweep", "limits"}


def test_show_prints_the_file() -> None:
    shown = call("scenarios", "show", "mixed_11mw")
    assert shown.out == shipped("scenario")["mixed_11mw"].read_text("utf-8")


def test_unknown_name_is_refused_with_the_nearest() -> None:
    problem = call("scenarios", "show", "colocation_10nw").problem
    assert "did you mean 'colocation_10mw'?" in problem


def test_copied_file_is_the_shipped_one_wherever_it_lies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in shipped("scenario"):
        assert call("scenarios", "copy", name).out == f"{name}.yaml\n"
        assert load_scenario(f"{name}.yaml").sha256() == load_scenario(name).sha256()
    assert call("scenarios", "copy", "ieso_3_0", "--out", "mine.yaml").code == 0
    assert load_limits(Path("mine.yaml")) == load_limits("ieso_3_0")


def test_init_asks_what_is_not_given_and_asks_again_what_is_wrong(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(
        "sys.stdin", io.StringIO("lots\n3\n\n0.1\n\n0.5\nMars/Base\n-06:00\n\n")
    )
    ended = call("init")
    assert ended.code == 0
    assert "must be a number, found 'lots'" in ended.err
    assert "must be a time zone such as" in ended.err
    scenario = load_scenario("my_site.yaml")
    assert scenario.streams["training"].target_utilization == 0.5
    nodes = {name: pool.n_nodes for name, pool in scenario.facility.pools.items()}
    total, trained = sum(nodes.values()), nodes["training"] + nodes["pretraining"]
    shares = [n / total for n in (trained, nodes["colocation"], nodes["serving"])]
    expected = [0.7, 0.1, 0.2, SiteAnswers().largest_job]
    assert [*shares, nodes["pretraining"] / trained] == pytest.approx(
        expected, abs=2e-3
    )


def test_shares_of_more_than_all_nodes_are_refused(tmp_path: Path) -> None:
    shares = ("--training-share", 0.7, "--colocation-share", 0.4)
    ended = call("init", *shares, "--defaults", "--out", tmp_path / "site.yaml")
    assert ended.code == 2
    assert "0.7 and colocation_share 0.4 are more than 1 together" in ended.problem


def test_init_that_nobody_answers_names_the_option(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("5\n"))
    ended = call("init", "--out", tmp_path / "site.yaml")
    assert ended.code == 2
    assert ended.err.splitlines()[-1].endswith(
        "there is nobody to ask; give it, or --defaults"
    )
    assert not list(tmp_path.iterdir())


def test_init_replaces_a_scenario_only(tmp_path: Path) -> None:
    place = tmp_path / "site.yaml"
    line = ("init", "--defaults", "--force", "--out", place)
    for text in ("- my notes\n", '{"name": "a manifest"}', "PAR1\0\1\xff"):
        place.write_text(text, "utf-8")
        problem = call(*line).problem
        assert "is no scenario (no key 'facility')" in problem
        assert place.read_text("utf-8") == text
    place.write_text("facility: {}\n", "utf-8")
    assert call(*line).code == 0
    assert load_scenario(place).facility.n_nodes


def test_site_of_init_runs_and_never_draws_more_than_it_is_made_for(
    tmp_path: Path,
) -> None:
    place = tmp_path / "site.yaml"
    answers = ("--poi-mw", 2, "--colocation-share", 0.2, "--defaults")
    assert call("init", *answers, "--out", place).code == 0
    short = ("duration=1 day", "warm_up=6 h", "resolution=15 min")
    options = ("--engine", "compiled", "-q", "--out", tmp_path / "run")
    assert call("run", place, *(f"--set={each}" for each in short), *options).code == 0
    headroom = open_run(tmp_path / "run").metrics["poi"]["headroom"]
    assert headroom["contract_mva"] == 2
    assert 0 < headroom["mva"] < 2


def test_jobs_of_init_tolerate_a_call_by_a_line_without_its_comment(
    tmp_path: Path,
) -> None:
    text = starter_text(SiteAnswers(colocation_share=0.2), "site", 300)
    line = "# flexibility: {tier: 1}"
    assert text.count(line) == 2
    place = tmp_path / "site.yaml"
    for shown, tier in ((text, 0), (text.replace(line, line[2:]), 1)):
        place.write_text(shown, "utf-8")
        streams = load_scenario(place).streams
        for name in ("training", "colocation"):
            flexibility = streams[name].flexibility
            assert (flexibility.tier if flexibility else 0) == tier


@pytest.mark.parametrize(
    ("training", "let", "largest", "n_nodes", "zone"),
    [
        (0, 0, 0.5, 300, "+00:00"),
        (0, 1, 0, 300, "+00:00"),
        (0.01, 0, 1, 7, "Europe/London"),
        (0.3, 0.2, 0.25, 7, "+00:00"),
        (0.3, 0.2, 0.25, 300, "Australia/Adelaide"),
        (0.99, 0.01, 0.01, 7, "+00:00"),
        (1, 0, 1, 300, "-03:30"),
    ],
)
def test_text_of_any_answers_is_a_valid_scenario_with_all_nodes(
    training: float, let: float, largest: float, n_nodes: int, zone: str, tmp_path: Path
) -> None:
    site = SiteAnswers(
        training_share=training,
        colocation_share=let,
        largest_job=largest,
        time_zone=zone,
    )
    place = tmp_path / "site.yaml"
    text = starter_text(site, "site", n_nodes)
    place.write_text(
        text.replace("1 year", "1 day").replace("warm_up: 1 week", ""), "utf-8"
    )
    scenario = load_scenario(place)
    if zone == "+00:00":
        checked_site(scenario)
    assert scenario.facility.n_nodes == n_nodes
    if pretraining := scenario.streams.get("pretraining"):
        assert pretraining.synchronous is not None
        for job in pretraining.synchronous.jobs:
            pool = scenario.facility.pools["pretraining"].n_nodes
            assert (job.n_nodes or 0) + (job.spare_nodes or 0) == pool
    if "colocation" in scenario.streams:
        shipped = load_scenario("colocation_10mw").streams["training"].calendar
        assert scenario.streams["colocation"].calendar == shipped
    weather = yaml.safe_load(place.read_text("utf-8"))["facility"]["weather"]
    standard = {"Europe/London": "+00:00", "Australia/Adelaide": "+09:30"}
    assert weather["utc_offset"] == standard.get(zone, zone)


def test_long_run_on_simpy_says_that_the_twin_is_quicker_and_gives_the_same(
    tmp_path: Path, library_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_scenario(tmp_path / "tiny.yaml", {"duration": "6 h"})
    line = ("run", path, "--profiles", library_folder, "--out")
    assert "compiled" not in call(*line, tmp_path / "short").err
    monkeypatch.setattr("diploee.cli.run.LONG_NODE_H", 1)
    assert "--engine compiled gives the same" in call(*line, tmp_path / "simpy").err
    assert call(*line, tmp_path / "quiet", "--quiet").err == ""
    assert "note" not in call(*line, tmp_path / "compiled", "--engine", "compiled").err
    of_simpy, of_twin = (
        (tmp_path / name / "metrics.json").read_bytes()
        for name in ("simpy", "compiled")
    )
    assert of_simpy == of_twin
