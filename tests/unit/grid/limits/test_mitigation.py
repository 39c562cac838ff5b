"""A battery sized by limits: the run keeps them with it, and tighter ones need no
smaller one."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from builders import tiny_run, write_library, write_scenario
from command_line import call

from diploee import Run
from diploee import run as simulate
from diploee.base.errors import InputError
from diploee.grid.limits import Limits, check_limits, mitigation
from diploee.grid.limits.mitigation import meter_power, mitigate
from diploee.reports.battery_alternatives import battery_sections

AGAIN = partial(simulate, engine="compiled")
SPAN = {"duration": "12 h", "resolution": "5 s", "facility.rated_power_mw": 0.06}
RAMP = {"interval": "1 min", "between": "end_points", "mw_per_min": 0.0005}


pytestmark = pytest.mark.usefixtures("any_run_is_a_year")


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "tiny"
    return tiny_run(folder, SPAN)


WAVES = {"low_hz": 0.002, "high_hz": 0.02, "max_rms_mw": 0.0001}
FILTER = {"low_hz": 0.005, "high_hz": 0.04}
OF_PEAK = {
    "interval": "1 min",
    "up_mw_per_min": {"percent_of_peak": 2},
    "down_mw_per_min": {"percent_of_peak": 5},
}
CASES = {
    "ramps": {"ramps": [RAMP]},
    "swings": {"swings": [{"window": "30 s", "max_mw": 0.001}]},
    "bands": {"band_rms": [WAVES]},
    "lines": {
        "lines": [{"low_hz": 0.002, "high_hz": 0.01, "max_amplitude_mw": 0.0003}]
    },
    "filtered": {"swings": [{"window": "1 min", "max_mw": 0.0008, "filter": FILTER}]},
    "of the peak": {"ramps": [OF_PEAK]},
    "of nominal": {
        "swings": [{"window": "5 min", "max_mw": {"percent_of_nominal": 5}}]
    },
    "ramps and bands": {"ramps": [RAMP], "band_rms": [WAVES]},
}
MORE = set(CASES) - {"ramps", "bands"}


@pytest.mark.parametrize(
    "limits",
    [
        pytest.param(limits, id=name, marks=[pytest.mark.slow] if name in MORE else [])
        for name, limits in CASES.items()
    ],
)
def test_a_run_with_the_printed_stage_keeps_its_limits_and_covers_all_that_is_asked(
    run, limits, tmp_path
):
    read = Limits.model_validate(limits)
    found = mitigate(run, read)
    assert found.before[0].verdict == "not met"
    assert not found.after[0].not_met
    printed = found.section().notes[-1].partition("entry for facility.stages")[2]
    (entry,) = yaml.safe_load(printed.partition("\n")[2])
    assert entry == found.as_dict()["stage"]
    held = tiny_run(tmp_path / "all", SPAN | {"facility.stages": [entry]})
    assert not check_limits(held, read).not_met
    # What the command says of the stage is what the run measures of it: it covers
    # everything.
    measured = {
        f"battery.{key}": value for key, value in held.metrics["battery"].items()
    }
    assert measured == pytest.approx(found.metrics, rel=1e-3, abs=1e-4)
    assert measured["battery.uncovered_h"] == 0
    for key in ("power_mw", "energy_mwh"):
        less = tiny_run(
            tmp_path / key,
            SPAN | {"facility.stages": [{**entry, key: 0.8 * entry[key]}]},
        )
        assert less.metrics["battery"]["uncovered_h"] > 0, key


@pytest.mark.slow
@pytest.mark.parametrize(
    "limit",
    [
        {"ramps": [{"interval": "10 s", "mw_per_min": 0.002}]},
        {"swings": [{"window": "2 s", "max_mw": 0.0015}]},
    ],
)
def test_at_a_tenth_of_a_second_the_printed_stage_keeps_limits(tmp_path, limit):
    read, span = Limits.model_validate(limit), SPAN | {"duration": "30 min"}
    fine = tiny_run(tmp_path / "fine", span | {"resolution": "0.1 s"})
    # Checked while it passes at 0.1 s, and written in means of 5 s.
    stepped = span | {
        "step": "0.1 s",
        "facility.stages": [mitigate(fine, read).entry()],
    }
    held = tiny_run(tmp_path / "held", stepped, limits=[read])
    assert held.verdicts[0].verdict == "met"
    assert held.metrics["battery"]["uncovered_h"] == 0


NODE = {
    "n_gpus": 8,
    "gpu_tdp_w": 700,
    "n_cpus": 2,
    "cpu_tdp_w": 350,
    "idle_power_w": 708,
}


def of_training(folder: Path, **job: Any) -> Run:
    """Run a site whose largest job iterates each 12 s, and fails every quarter of an
    hour."""
    changes = {
        "duration": "2 h",
        "resolution": "0.2 s",
        "facility": {
            "node_types": {"h100": NODE},
            "pools": {"all": {"node_type": "h100", "n_nodes": 120}},
        },
        "streams": {
            "training": {
                "pool": "all",
                "synchronous": {
                    "jobs": [
                        {
                            "n_nodes": 100,
                            "period_s": 12,
                            "work_days": 1,
                            "spare_nodes": 20,
                            "repair_s": 0,
                            "failures_per_1000_node_days": 1_000,
                            "warm_up_s": 10,
                            **job,
                        }
                    ]
                },
            }
        },
    }
    return tiny_run(folder, changes)


@pytest.fixture(scope="module")
def training(tmp_path_factory):
    return of_training(tmp_path_factory.mktemp("runs") / "training")


@pytest.fixture(scope="module")
def held(training):
    return mitigate(training, ramps(0.2, 0.2))


def ramps(up: float, down: float) -> Limits:
    ramp = {"interval": "1 min", "between": "end_points"}
    rates = {"up_mw_per_min": up, "down_mw_per_min": down}
    return Limits.model_validate({"name": f"{up}/{down}", "ramps": [{**ramp, **rates}]})


def test_the_store_of_a_large_job_s_battery_stays_about_its_reference(held):
    assert held.metrics["battery.mean_state_of_charge"] == pytest.approx(0.5, abs=0.1)


def test_the_energy_does_not_hang_on_the_feedback(training, held, monkeypatch):
    """Nobody chose one of the lacking energy per hour: twice of it gives the same."""
    plain = mitigation.PLAIN_BATTERY.model_copy(update={"feedback_per_h": 2})
    endless = mitigation.ENDLESS_STORE._replace(feedback_per_s=2 / 3600)
    monkeypatch.setattr(mitigation, "PLAIN_BATTERY", plain)
    monkeypatch.setattr(mitigation, "ENDLESS_STORE", endless)
    assert mitigate(training, ramps(0.2, 0.2)).usable_mwh == pytest.approx(
        held.usable_mwh, rel=0.2
    )


def test_a_limit_that_is_tightened_or_added_never_gets_a_smaller_battery(run, tmp_path):
    short = tiny_run(tmp_path / "short", SPAN | {"duration": "1 h"})
    rng = np.random.default_rng(11)
    for _ in range(3):
        up, down, swing, rms = np.exp(rng.uniform(np.log(2e-4), np.log(4e-3), 4))
        tighter = np.exp(-rng.uniform(0, 1, 3) * rng.integers(0, 2, 3))
        swings = {"window": "1 min", "max_mw": 3 * swing}
        band = {"low_hz": 0.002, "high_hz": 0.02, "max_rms_mw": rms}
        tight = ramps(up * tighter[0], down * tighter[1])
        less = {"swings": [{**swings, "max_mw": 3 * swing * tighter[2]}]}
        rules = [
            [ramps(up, down)],
            [tight],
            [tight, Limits.model_validate({"swings": [swings]})],
            [tight, Limits.model_validate(less | {"band_rms": [band]})],
        ]
        sizes = [
            (of.power_mw, of.usable_mwh)
            for of in (mitigate(short, *each) for each in rules)
        ]
        assert sizes == sorted(sizes) and (np.diff(sizes, axis=0) >= 0).all(), rules


def test_one_battery_keeps_several_rules(training, held):
    found = mitigate(training, ramps(0.3, 0.3), ramps(0.2, 0.25))
    assert [report.name for report in found.after] == ["0.3/0.3", "0.2/0.25"]
    assert not any(report.not_met for report in found.after)
    assert found.power_mw <= held.power_mw and found.usable_mwh <= held.usable_mwh


def test_what_a_battery_makes_worse_is_said(training, held):
    # Losses alone make the energy larger; what it holds is smaller.
    before, after, unit = held.comparison["energy"]
    assert unit == "MWh" and after > before * 1.001
    assert before == pytest.approx(meter_power(training).mean() * 2 / 1e6)
    assert [text for text in held.worse() if text.startswith("energy ")]
    within = held.comparison["largest change within 1 min"]
    assert within[1] < 0.7 * within[0]
    worse = replace(
        held, comparison={"largest change within 10 min": (10.25, 11.64, "MW")}
    )
    assert worse.worse() == ["largest change within 10 min 10.25 to 11.64 MW"]
    said = "worse with it: largest change within 10 min 10.25 to 11.64 MW"
    assert said in worse.section().notes


def test_cures_stand_side_by_side_as_each_is_simulated(training, held, tmp_path):
    rule = ramps(0.2, 0.2)
    _, cures = battery_sections(training, [rule], held, AGAIN)
    rows = cures.tables[0].rows
    names = list(rows)
    assert names[:4] == [
        "as it is",
        "battery",
        "power_smoothing: {}",
        "largest job on 50 nodes",
    ]
    sizes = [rows["battery"][of].value for of in ("battery", "usable", "full cycles")]
    assert sizes == [held.power_mw, held.usable_mwh, held.full_cycles]
    assert str(rows["battery"]["0.2/0.2"].value).startswith("met: ")
    smaller = of_training(tmp_path / "smaller", n_nodes=50)
    assert rows[names[3]]["peak"].value == pytest.approx(
        smaller.metrics["power"]["max_mw"]
    )
    verdict = check_limits(smaller, rule).span_verdict
    assert str(rows[names[3]]["0.2/0.2"].value).startswith(f"{verdict}: ")


def test_cures_that_time_does_not_allow_are_named_and_not_simulated(training, held):
    _, cures = battery_sections(training, [ramps(0.2, 0.2)], held, AGAIN, at_most_s=0)
    assert list(cures.tables[0].rows) == ["as it is", "battery"]
    said, *left_out = cures.notes
    assert "no synchronous job" not in said
    smaller = [f"largest job on {n} nodes" for n in (50, 25, 12)]
    names = [note.partition(": not")[0] for note in left_out]
    assert names == ["power_smoothing: {}", *smaller]
    assert all("not simulated" in note for note in left_out)


def test_limits_that_no_battery_keeps_are_refused(run, monkeypatch):
    monkeypatch.setattr("diploee.grid.limits.mitigation.OCTAVES", 0)
    with pytest.raises(
        InputError, match="no battery that smooths the power and holds ramps"
    ):
        mitigate(run, Limits.model_validate(CASES["bands"]))


def test_run_within_its_limits_needs_none(run):
    wide = {"interval": "1 min", "mw_per_min": 50}
    found = mitigate(run, Limits.model_validate({"ramps": [wide]}))
    assert (found.power_mw, found.usable_mwh, found.stage) == (0, 0, None)
    assert found.as_dict()["stage"] is None


def test_limits_that_no_battery_is_sized_for_are_refused(run):
    with pytest.raises(InputError, match="nothing to size a battery for"):
        mitigate(run, Limits.model_validate({"daily_energy_mwh": 5}))
    with pytest.raises(
        InputError, match=r"run the site with --set resolution='0\.1 s'"
    ):
        mitigate(
            run, Limits.model_validate({"swings": [{"window": "1 s", "max_mw": 1e-6}]})
        )


def test_limits_that_the_steps_of_a_run_hide_are_named_with_the_step_that_shows_them(
    run,
):
    loose = [{"interval": "1 min", "between": "end_points", "mw_per_min": 100}]
    hidden = {"ramps": loose, "swings": [{"window": "7 s", "max_mw": 1e-6}]}
    found = mitigate(run, Limits.model_validate(hidden))
    assert found.stage is None
    (said,) = [
        note for note in found.section().notes if note.startswith("not sized for: ")
    ]
    assert "swings.0" in said
    assert said.endswith("--set resolution='0.5 s'")


@pytest.mark.slow
def test_command_tells_before_and_after(run, tmp_path):
    limits = tmp_path / "limits.yaml"
    limits.write_text(
        "ramps: [{interval: 1 min, between: end_points, mw_per_min: 0.0005}]\n"
    )
    told = call("battery", run.folder, "--limits", limits)
    assert told.code == 0
    words = " ".join(told.out.split())
    assert "on means over" in words
    found = json.loads(call("battery", run.folder, "--limits", limits, "--json").out)
    assert found["usable_energy_mwh"] > 0
    assert found["nominal_energy_mwh"] == pytest.approx(
        found["usable_energy_mwh"] / 0.8
    )
    assert found["stage"]["energy_mwh"] == found["nominal_energy_mwh"]
    assert [report["verdict"] for report in found["after"]] == ["met"]
    assert [section["id"] for section in found["sections"]] == ["battery", "cures"]
    assert "rainflow" in words
    # One way loses 5 %, so that the store goes through about as much as is given and
    # taken.
    measured = found["metrics"]
    assert measured["battery.cycled_depth"] == pytest.approx(
        measured["battery.equivalent_full_cycles"], rel=0.06
    )


@pytest.mark.slow
def test_a_scenario_is_run_first_at_the_step_that_its_rules_need(tmp_path):
    rules = []
    for name, window in (("swings", "20 s"), ("fine", "4 s")):
        rules += ["--limits", tmp_path / f"{name}.yaml"]
        rules[-1].write_text(
            f"name: {name}\nswings: [{{window: {window}, max_mw: 0.001}}]\n"
        )
    site = write_scenario(
        tmp_path / "tiny.yaml", SPAN | {"duration": "1 h", "resolution": "1 min"}
    )
    library = write_library(tmp_path / "library")
    told = call("battery", site, *rules, "--profiles", library, "--json")
    assert told.code == 0, told.err
    found = json.loads(told.out)
    assert [report["name"] for report in found["after"]] == ["swings", "fine"]
    assert [len(report["results"]) for report in found["after"]] == [1, 1]
    # 4 s in ten steps, and a part of a minute
    assert {report["resolution_s"] for report in found["before"]} == {0.4}
    assert not any(
        result["violations"] for of in found["after"] for result in of["results"]
    )


def test_run_with_a_battery_is_not_given_another(run, tmp_path):
    battery = {"kind": "battery", "power_mw": 1e-5, "energy_mwh": 1, "smoothing_s": 60}
    held = tiny_run(tmp_path / "held", SPAN | {"facility.stages": [battery]})
    with pytest.raises(InputError, match="the site has a battery already"):
        mitigate(held, Limits.model_validate({"ramps": [RAMP]}))


@pytest.mark.slow
def test_entry_for_a_site_in_another_size_says_so(tmp_path):
    run = tiny_run(tmp_path / "run", SPAN | {"facility.size": {"nodes_factor": 2}})
    found = mitigate(run, Limits.model_validate({"ramps": [RAMP]}))
    entry = found.section().notes[-1]
    assert "in a scenario with facility.size it would be multiplied" in entry


def test_a_run_too_coarse_for_what_a_battery_holds_is_refused(tmp_path):
    coarse = tiny_run(tmp_path / "run", SPAN | {"resolution": "1 min"})
    with pytest.raises(
        InputError, match=r"means over 60 s .* run the site with --set resolution"
    ):
        mitigate(coarse, Limits.model_validate({"ramps": [RAMP]}))


def test_with_nothing_to_size_it_says_so_and_names_what_no_battery_mends(run):
    wide = {
        "ramps": [{"interval": "1 min", "mw_per_min": 50}],
        "peaks": [{"max_mw": 0.001}],
    }
    section = mitigate(run, Limits.model_validate(wide)).section()
    assert [(f.item, f.value) for f in section.figures] == [("Battery", "none")]
    said = "not met still, as no battery is sized for it: peaks.0"
    assert said in section.notes
