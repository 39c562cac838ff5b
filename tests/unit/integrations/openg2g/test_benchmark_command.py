"""`diploee fit-models`, from measurements to a scenario."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from benchmark_builders import (
    ITL,
    POWER,
    THROUGHPUT,
    leaderboard_data,
    tiny_spec,
    write_json,
)
from command_line import call
from serving_builders import one_service, plan_of, serving_data

from diploee.scenario import scenario_from_dict

BOARD = "org__Tiny-8B__gpqa.json"
CURVES = {
    "power_w": (POWER, 1.0),
    "itl_ms": (ITL, 1e3),
    "throughput_tps": (THROUGHPUT, 1.0),
}
SPEC = tiny_spec().model_dump(mode="json", exclude_none=True)


@pytest.fixture
def measured(tmp_path):
    """A folder with a leaderboard file that lies on known curves, and the spec of its
    model."""
    write_json(tmp_path / BOARD, leaderboard_data())
    write_specs(tmp_path, SPEC)
    return tmp_path


def write_specs(folder: Path, *specs: dict[str, Any]) -> None:
    (folder / "specs.yaml").write_text(yaml.safe_dump({"models": list(specs)}), "utf-8")


def fit(folder: Path, *more: object) -> Any:
    return call("fit-models", folder / "specs.yaml", "--from", folder / BOARD, *more)


def test_fits_print_as_a_service_that_a_scenario_takes(measured):
    ended = fit(measured)
    assert ended.code == 0, ended.err
    fragment = yaml.safe_load(ended.out)
    without = {"max_request_rate_rps": None, "power_curve": None, "latency_curve": None}
    scenario = scenario_from_dict(serving_data(one_service(**without, **fragment)))
    plan = plan_of(scenario)
    expected = THROUGHPUT.eval(ITL.inverse(0.05)) / 512
    assert plan.services[0].capacity.max_request_rate_rps == pytest.approx(
        expected, rel=1e-3
    )


def test_fits_return_the_curves_that_the_points_lie_on(measured):
    content = json.loads(fit(measured, "--json").out)["Tiny"]
    for name, (curve, factor) in CURVES.items():
        found = [content[name][symbol] for symbol in ("L", "k", "x0", "b0")]
        expected = [curve.span, curve.steepness, curve.midpoint, curve.base]
        scale = np.array([factor, 1, 1, factor])
        assert found == pytest.approx(expected * scale, rel=1e-3)
        assert content[name]["r2"] > 0.999999


def test_batch_sizes_that_are_absent_are_all_that_the_source_has(measured):
    named = json.loads(fit(measured, "--json").out)["Tiny"]
    spec = {key: value for key, value in SPEC.items() if key != "batch_sizes"}
    write_specs(measured, spec)
    assert json.loads(fit(measured, "--json").out)["Tiny"] == named
    write_specs(measured, spec | {"fit_exclude_batch_sizes": [8]})
    assert json.loads(fit(measured, "--json").out)["Tiny"]["smallest_batch"] == 16


def test_models_that_can_not_be_fitted_leave_the_others(measured):
    bad = [SPEC | {"model_label": name, "gpu_model": name} for name in ("H1", "H2")]
    write_specs(measured, bad[0], SPEC, bad[1])
    ended = fit(measured, "--json")
    assert ended.code == 2
    assert list(json.loads(ended.out)) == ["Tiny"]
    refused = ended.err.strip().splitlines()
    assert [line.count("no GPU 'H") for line in refused] == [1, 1]


def test_a_power_curve_that_does_not_follow_its_points_is_noted(measured):
    assert "Note" not in fit(measured).out
    content = leaderboard_data()
    for k, configuration in enumerate(content["configurations"]):
        configuration["avg_power_watts"] = 1_000 + 400 * (k % 2)
    write_json(measured / BOARD, content)
    assert "# Note: power_w: R2 0." in fit(measured).out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--source", "results"), "no 'results.json' below this folder"),
        (("--source", "hub"), "ML.ENERGY"),
    ],
)
def test_sources_that_can_not_be_read_are_one_line(
    measured, arguments, words, monkeypatch
):
    monkeypatch.delenv("HF_TOKEN", raising=False)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    ended = fit(measured, *arguments)
    assert ended.code == 2
    assert words in ended.err
    assert len(ended.err.strip().splitlines()) == 1
