"""Measured samples of an instance's power from files, in place of the synthesised."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from serving_builders import one_service, services_load, write_serving

from diploee import Run
from diploee import run as simulate
from diploee.base.errors import InputError
from diploee.base.tables import Float64Array
from diploee.importers.input_reader import load_inputs
from diploee.metrics.spectral_bands import recorded_readings
from diploee.profiles.profile import PowerBoundary
from diploee.scenario import Scenario, load_scenario, scenario_from_dict
from diploee.sweeps.expand import run_hash

CODING = "request_streams.chat.services.coding"
IDLE_W = 11 * 400
ALONE = {"power_curve": None, "latency_curve": None}


def write_sample(path: Path, power_w: Float64Array, dt_s: float = 0.1) -> Path:
    t_s = np.round(np.arange(power_w.size) * dt_s, 6)
    if path.suffix == ".parquet":
        pq.write_table(pa.table({"t_s": t_s, "power_w": power_w}), path)
    else:
        np.savetxt(
            path, np.c_[t_s, power_w], "%.9g", ",", header="t_s,power_w", comments=""
        )
    return path


def noise(mean_w: float, std_w: float, n: int, seed: int) -> Float64Array:
    """Return noise of a second's correlation with exactly this mean and deviation [W]."""  # noqa: E501
    raw = np.convolve(
        np.random.default_rng(seed).standard_normal(n + 9), np.ones(10), "valid"
    )
    return mean_w + std_w * (raw - raw.mean()) / raw.std()


LOW_W = noise(1500, 60, 1800, 1)
HIGH_W = noise(2500, 240, 2500, 2)


@pytest.fixture
def samples(tmp_path: Path) -> dict[int, str]:
    write_sample(tmp_path / "low.parquet", LOW_W)
    write_sample(tmp_path / "high.csv", HIGH_W)
    return {40: "low.parquet", 100: "high.csv"}


def scenario_of(
    folder: Path, rate_rps: float, duration: str = "1 d", **keys: Any
) -> Scenario:
    changes = {
        **one_service(**keys),
        "request_streams.chat.calendar": None,
        "request_streams.chat.request_rate_rps": rate_rps,
        "duration": duration,
        "resolution": "0.1 s",
    }
    return load_scenario(write_serving(folder / "site.yaml", changes))


def run_of(folder: Path, rate_rps: float, duration: str = "1 d", **keys: Any) -> Run:
    scenario = scenario_of(folder, rate_rps, duration, **keys)
    return simulate(scenario, folder / f"run-{rate_rps:g}")


def power_w(run: Run) -> Float64Array:
    """Return the power of the one node that serves [W]."""
    return run.facility()["it_power_w"].to_numpy(np.float64) - IDLE_W


@pytest.mark.slow
@pytest.mark.parametrize(
    ("rate_rps", "sample_w"), [(40, LOW_W), (100, HIGH_W), (5, LOW_W)]
)
def test_a_constant_rate_draws_its_sample(
    tmp_path: Path, samples: dict[int, str], rate_rps: float, sample_w: Float64Array
) -> None:
    drawn_w = power_w(run_of(tmp_path, rate_rps, power_samples=samples, **ALONE))
    assert drawn_w.mean() == pytest.approx(sample_w.mean(), rel=2e-3)
    assert drawn_w.std() == pytest.approx(sample_w.std(), rel=0.03)
    assert drawn_w.max() == pytest.approx(sample_w.max(), rel=1e-4)


def test_between_two_rates_the_swings_lie_between_the_neighbours(
    tmp_path: Path, samples: dict[int, str]
) -> None:
    drawn_w = power_w(run_of(tmp_path, 70, "4 h", power_samples=samples, **ALONE))
    assert drawn_w.mean() == pytest.approx(2000, rel=5e-3)
    assert 60 < drawn_w.std() < 240


def test_a_power_curve_gives_the_mean_and_the_samples_the_shape(
    tmp_path: Path, samples: dict[int, str]
) -> None:
    drawn_w = power_w(run_of(tmp_path, 65, "4 h", power_samples={40: samples[40]}))
    assert drawn_w.mean() == pytest.approx(2829.9, rel=2e-3)
    assert drawn_w.std() / drawn_w.mean() == pytest.approx(60 / 1500, rel=0.03)


def test_the_length_of_a_sample_is_no_period_of_the_load(tmp_path: Path) -> None:
    n = 300
    files = {}
    for rate in (40, 100):
        files[rate] = f"{rate}.csv"
        write_sample(tmp_path / files[rate], noise(2000, 100, n, rate))
    drawn_w = power_w(run_of(tmp_path, 40, "8 h", power_samples=files, **ALONE))
    period = drawn_w[: drawn_w.size // n * n]
    strength = np.abs(np.fft.rfft(period - period.mean())) ** 2
    line = period.size // n
    about = strength[line - line // 3 : line + line // 3]
    assert strength[line] < 0.02 * about.sum()
    assert np.corrcoef(drawn_w[:-n], drawn_w[n:])[0, 1] < 0.35


@pytest.mark.slow
@pytest.mark.parametrize("dt_s", [0.13, 1.0])
def test_the_step_of_a_sample_moves_no_energy(tmp_path: Path, dt_s: float) -> None:
    sample_w = noise(2000, 100, int(180 / dt_s), 3)
    files = dict.fromkeys((40, 100), "one.parquet")
    write_sample(tmp_path / "one.parquet", sample_w, dt_s)
    drawn_w = power_w(run_of(tmp_path, 40, power_samples=files, **ALONE))
    assert drawn_w.mean() == pytest.approx(2000, rel=2e-3)


def test_the_manifest_names_measured_files_by_rate(
    tmp_path: Path, samples: dict[int, str]
) -> None:
    manifest = run_of(tmp_path, 70, "1 h", power_samples=samples, **ALONE).manifest
    sha256 = hashlib.sha256((tmp_path / "high.csv").read_bytes()).hexdigest()
    assert manifest["curves"]["high.csv"] == {"sha256": sha256}
    entry = manifest["power_samples"]["chat.coding"]["100"]
    assert (entry["kind"], entry["source"], entry["source_sha256"]) == (
        "measured",
        "high.csv",
        sha256,
    )
    assert "serving_samples" not in manifest
    assert (
        scenario_from_dict(manifest["scenario"]).sha256() == manifest["scenario_sha256"]
    )


@pytest.mark.parametrize(
    ("told", "boundary"),
    [
        (None, PowerBoundary.DEVICES),
        ("devices", PowerBoundary.DEVICES),
        ("node_ac", PowerBoundary.NODE_AC),
    ],
)
def test_samples_and_what_is_played_of_them_tell_where_they_were_measured(
    tmp_path: Path, samples: dict[int, str], told: str | None, boundary: str
) -> None:
    keys = {**ALONE, "power_samples": samples, "power_samples_boundary": told}
    scenario = scenario_of(tmp_path, 70, "1 h", **keys)
    manifest = simulate(scenario, tmp_path / "run").manifest
    entries = manifest["power_samples"]["chat.coding"]
    assert {entry["power_boundary"] for entry in entries.values()} == {boundary}
    warned = [line for line in manifest["warnings"] if "'chat.coding at " in line]
    assert ["without ac_power" in line for line in warned] == [True] * (
        told == "node_ac"
    )
    load = services_load(scenario)
    played = {
        load.library[index].provenance.power_boundary for index in load.profile_ids
    }
    assert played == {boundary}


def test_no_more_is_claimed_than_coarse_samples_hold(tmp_path: Path) -> None:
    write_sample(tmp_path / "coarse.csv", noise(2000, 100, 90, 4), 5.0)
    files = dict.fromkeys((40, 100), "coarse.csv")
    run = run_of(tmp_path, 70, "1 h", power_samples=files, **ALONE)
    (warning,) = run.manifest["warnings"]
    assert (
        "is finer than the samples of 2 profile(s), such as 'chat.coding at 40"
        in warning
    )
    assert run.metrics["grid"]["bandwidth"]["averaging_window_s"] == 5.0
    assert {of.resolvable.flagged_hz for of in recorded_readings(run.manifest)} == {
        0.05
    }


def test_another_sample_is_another_run(tmp_path: Path, samples: dict[int, str]) -> None:
    scenario = scenario_of(tmp_path, 70, power_samples=samples, **ALONE)
    before = run_hash(scenario, load_inputs(scenario))
    assert run_hash(scenario, load_inputs(scenario)) == before
    write_sample(tmp_path / "high.csv", HIGH_W + 1)
    assert run_hash(scenario, load_inputs(scenario)) != before


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (
            "t_s,power_w\n0,5\n1,5\n2,5\n99,5\n",
            "bad.csv:5: 97.0 s without a good reading, expected 60 s",
        ),
        ("t_s,power_w\n0,5\n1,-5\n2,5\n", "bad.csv:3: column 'power_w' is '-5'"),
        ("t_s,power_w\n0,5\n1,5\n", "bad.csv: lasts 2 s, expected 10 to 86400 s"),
        ("t_s,power_w\n0,0\n10,0\n", "bad.csv: power is 0 throughout"),
        (None, "bad.csv: can't be read"),
    ],
)
def test_a_sample_that_can_not_be_used_is_one_line_with_key_and_file(
    tmp_path: Path, samples: dict[int, str], content: str | None, text: str
) -> None:
    if content is not None:
        (tmp_path / "bad.csv").write_text(content)
    files = {40: samples[40], 70.5: "bad.csv"}
    scenario = scenario_of(tmp_path, 70, power_samples=files, **ALONE)
    with pytest.raises(InputError) as error:
        load_inputs(scenario)
    assert str(error.value).startswith(f"{CODING}: power_samples.70.5: ")
    assert text in str(error.value)
    assert "\n" not in str(error.value)
    assert len(str(error.value)) < 500
