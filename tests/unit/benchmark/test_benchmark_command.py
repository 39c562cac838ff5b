"""`diploee benchmark`: from measurements to a piece of a scenario, from parameters to a profile."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from command_line import call
from serving_builders import load_curves, one_service, plan_services, serving_data

from diploee.profiles.store import read_profile
from diploee.scenario import scenario_from_dict

SIZES = [8, 16, 32, 64, 128, 256, 512, 1024]
CURVES = {
    "power_w": (900.0, 0.9, 7.0, 1700.0),
    "itl_ms": (110.0, 1.4, 9.0, 20.0),
    "throughput_tps": (8500.0, 0.6, 7.0, -200.0),
}


def logistic(name: str, batch: float) -> float:
    span, k, x0, base = CURVES[name]
    return base + span / (1 + float(np.exp(-k * (np.log2(batch) - x0))))


@pytest.fixture
def measured(tmp_path: Path) -> Path:
    """A folder with a leaderboard file that lies on known curves, and the spec of its model."""
    configurations = [
        {
            "gpu_model": "H100",
            "num_gpus": 4,
            "max_num_seqs": size,
            "avg_batch_size": float(size),
            "avg_power_watts": logistic("power_w", size),
            "output_throughput_tokens_per_sec": logistic("throughput_tps", size),
            "median_itl_ms": logistic("itl_ms", size),
        }
        for size in SIZES
    ]
    model = {"model_id": "org/Model", "task": "chat", "configurations": configurations}
    (tmp_path / "org__Model__chat.json").write_text(json.dumps(model), "utf-8")
    spec = {
        "model_label": "Model",
        "model_id": "org/Model",
        "gpu_model": "H100",
        "task": "chat",
        "gpus_per_replica": 4,
        "itl_deadline_s": 0.05,
        "batch_sizes": SIZES,
    }
    (tmp_path / "specs.yaml").write_text(yaml.safe_dump({"models": [spec]}), "utf-8")
    return tmp_path


def fit(folder: Path, *more: object) -> Any:
    return call(
        *("benchmark", "fit", folder / "specs.yaml", "--from", folder / "org__Model__chat.json"),
        *("--data-dir", folder / "cache", *more),
    )


def test_fits_print_as_a_service_that_a_scenario_takes(measured: Path) -> None:
    ended = fit(measured)
    assert ended.code == 0, ended.err
    fragment = yaml.safe_load(ended.out)
    without = {"max_request_rate_rps": None, "power_curve": None, "latency_curve": None}
    scenario = scenario_from_dict(serving_data(one_service(**without, **fragment)))
    (plan,) = plan_services(scenario, load_curves(scenario))
    batch = 2 ** (9.0 - np.log(110 / 30 - 1) / 1.4)
    expected = logistic("throughput_tps", batch) / 512
    assert plan.services[0].capacity.max_request_rate_rps == pytest.approx(expected, rel=1e-3)


def test_fits_return_the_curves_that_the_points_lie_on(measured: Path) -> None:
    content = json.loads(fit(measured, "--json").out)["Model"]
    for name, coefficients in CURVES.items():
        found = [content[name][symbol] for symbol in ("L", "k", "x0", "b0")]
        assert found == pytest.approx(coefficients, rel=1e-3)
        assert content[name]["r2"] > 0.999999
    assert (measured / "cache").is_dir()
    assert fit(measured).code == 0  # from the cache


def test_batch_sizes_that_are_absent_are_all_that_the_source_has(measured: Path) -> None:
    specs = measured / "specs.yaml"
    (spec,) = yaml.safe_load(specs.read_text("utf-8"))["models"]
    named = json.loads(fit(measured, "--json").out)["Model"]
    del spec["batch_sizes"]
    specs.write_text(yaml.safe_dump({"models": [spec]}), "utf-8")
    assert json.loads(fit(measured, "--json").out)["Model"] == named
    specs.write_text(yaml.safe_dump({"models": [spec | {"fit_exclude_batch_sizes": [8]}]}), "utf-8")
    assert json.loads(fit(measured, "--json").out)["Model"]["smallest_batch"] == 16


def test_models_that_can_not_be_fitted_leave_the_others(measured: Path) -> None:
    specs = measured / "specs.yaml"
    (spec,) = yaml.safe_load(specs.read_text("utf-8"))["models"]
    bad = [spec | {"model_label": name, "gpu_model": name} for name in ("H1", "H2")]
    specs.write_text(yaml.safe_dump({"models": [bad[0], spec, bad[1]]}), "utf-8")
    ended = fit(measured, "--json")
    assert ended.code == 2
    assert list(json.loads(ended.out)) == ["Model"]
    assert [line.count("no GPU 'H") for line in ended.err.strip().splitlines()] == [1, 1]


def test_a_power_curve_that_does_not_follow_its_points_is_noted(measured: Path) -> None:
    assert "Note" not in fit(measured).out
    board = measured / "org__Model__chat.json"
    content = json.loads(board.read_text("utf-8"))
    for k, configuration in enumerate(content["configurations"]):
        configuration["avg_power_watts"] = 1_000 + 400 * (k % 2)
    board.write_text(json.dumps(content), "utf-8")
    assert "# Note: power_w: R2 0." in fit(measured).out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--source", "results"), "no 'results.json' below this folder"),
        (("--source", "hub"), "ML.ENERGY"),
    ],
)
def test_sources_that_can_not_be_read_are_one_line(
    measured: Path, arguments: tuple[str, ...], words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("HF_TOKEN", raising=False)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    ended = fit(measured, *arguments)
    assert ended.code == 2
    assert words in ended.err
    assert len(ended.err.strip().splitlines()) == 1


def test_training_traces_become_profiles(tmp_path: Path) -> None:
    common = ("benchmark", "training-trace", "--out", tmp_path)
    assert call(*common, "--nodes", 2, "--set", "high_power_w=600").code == 0
    profile = read_profile(tmp_path / "synthetic_training-2n.parquet")
    assert profile.n_nodes == 2
    assert profile.duration_ms == 1_000_000
    assert 2 * 4 * 175 < profile.mean_power_w < 2 * 4 * 600
    for text, words in (
        ("high_w=1", "did you mean 'high_power_w'"),
        ("seed=-1", "seed"),
        ("dt_s", "KEY=VALUE"),
    ):
        ended = call(*common, "--nodes", 3, "--set", text)
        assert ended.code == 2
        assert words in ended.problem
