"""Percentiles over seeds, the seeds that an accuracy needs, envelopes of the load."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from scipy.stats import t
from sweep_builders import UTILIZATION, Swept, tiny_sweep

from diploee import open_run
from diploee.sweeps import run_sweep
from diploee.sweeps.ensemble import spread

IDLE = "facility.node_types.node.idle_power_w"
MONTHS = "streams.training.calendar.month"


def test_seeds_for_the_mean_follow_the_formula() -> None:
    values = np.array([9.0, 10.0, 11.0, 10.0])
    found = spread(values, 0.01)
    std = values.std(ddof=1)
    assert found.half_width_mean == pytest.approx(t.ppf(0.975, 3) * std / 2 / 10)
    n = found.seeds_for_mean
    assert n is not None
    with_n, with_less = (t.ppf(0.975, k - 1) * std / np.sqrt(k) for k in (n, n - 1))
    assert with_n <= 0.1 < with_less
    same = spread(np.full(20, 3.0), 0.01)
    assert (same.seeds_for_mean, same.p5, same.p95) == (2, 3.0, 3.0)


def test_the_reported_number_of_seeds_reaches_the_stated_accuracy() -> None:
    rng = np.random.default_rng(1)
    pilot = spread(rng.normal(100, 20, 4_000), 0.02)
    assert pilot.seeds_for_mean is not None
    # Expected (1.96 x 20 / 2)^2 = 384
    assert pilot.seeds_for_mean == pytest.approx(384, rel=0.1)
    means = rng.normal(100, 20, (2_000, pilot.seeds_for_mean)).mean(axis=1)
    covered = np.mean(np.abs(means - 100) < 2)
    assert covered == pytest.approx(0.95, abs=0.03)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, library_folder: Path) -> Path:
    """A real ensemble: 16 seeds of 30 hours, idle power drawn, two utilizations."""
    work = tmp_path_factory.mktemp("ensemble")
    sweep = tiny_sweep(
        work,
        set={"duration": "30 h", "start": "2018-01-05T22:30:00"},
        axes=[{"grid": {UTILIZATION: [0.2, 0.5]}}],
        draw={IDLE: {"distribution": "uniform", "low": 300, "high": 500}},
        seeds=16,
    )
    run_sweep(sweep, work / "out", profiles=[str(library_folder)])
    return work / "out"


@pytest.mark.slow
def test_drawn_lists_count_number_by_number_and_choices_value_by_value(
    tmp_path: Path, swept: Swept
) -> None:
    draw = {
        IDLE: {"distribution": "choice", "values": [300, 500]},
        MONTHS: {
            "distribution": "uniform",
            "low": 0.9,
            "high": 1.1,
            "apply": "factor",
            "each": True,
        },
    }
    sweep = tiny_sweep(tmp_path, set={MONTHS: [1.0] * 12}, draw=draw, seeds=20)
    found = swept(sweep)
    assert found.ensemble is not None
    moved = found.ensemble.points[0].moved_by
    assert sum(name.startswith(f"draw.{MONTHS}.") for name in found.runs[0].drawn) == 12
    assert moved["power.min_mw"][f"{IDLE}=500"] > 0.8
    assert moved["power.min_mw"][f"{IDLE}=300"] < -0.8
    assert not any(key.startswith(IDLE) for key in moved["utilization.mean"])


def test_envelope_is_that_of_the_runs_series(folder: Path) -> None:
    summary = pd.read_parquet(folder / "summary.parquet")
    runs = [open_run(folder / place) for place in summary[summary.point == 0]["folder"]]
    power = pd.concat(
        [run.facility()["facility_power_w"] for run in runs], axis=1
    ).astype(float)
    hour = (power.index.day_of_week * 24 + power.index.hour).to_numpy()
    envelope = pd.read_parquet(folder / "envelope.parquet")
    envelope = envelope[envelope.point == 0].set_index(["kind", "at"])

    means = power.groupby(hour).mean()
    assert set(means.index) == set(range(118, 149))  # Friday 22:30 to Sunday 04:30
    expected = np.percentile(means, 95, axis=1)
    hourly = envelope.loc["hour_of_week_mean"]["p95_w"]
    np.testing.assert_allclose(hourly, expected, rtol=1e-9)

    duration = np.percentile(power, [100, 50, 0], axis=0)
    curve = envelope.loc["duration_curve"]["p50_w"]
    found = [curve[0.0], curve[0.5], curve[1.0]]
    np.testing.assert_allclose(found, np.median(duration, axis=1), rtol=1e-9)


def test_shape_needs_few_bytes(folder: Path) -> None:
    shape = next(folder.glob("runs/*/load_shape.parquet"))
    assert pq.read_table(io.BytesIO(shape.read_bytes())).num_rows < 1_400
    assert shape.stat().st_size < 30_000


def test_load_duration_ramps_and_swings_of_every_run_stand_in_both_tables(
    folder: Path,
) -> None:
    summary = pd.read_parquet(folder / "summary.parquet")
    table = pd.read_parquet(folder / "ensemble.parquet").set_index(["point", "metric"])
    first = open_run(folder / summary.folder[0])
    curve = first.metrics["grid"]["load_duration_curve"]
    keys = [f"{percent:g}%.exceeded_mw" for percent in curve["percent_of_time"]]
    found = [summary[f"grid.load_duration_curve.{key}"][0] for key in keys]
    assert found == curve["exceeded_mw"]
    for key in (
        "grid.load_duration_curve.1%.exceeded_mw",
        "grid.ramps.intervals.60s.up.p999_mw",
        "grid.maximum_demand.intervals.15min.max_mw",
        "grid.rainflow.p99_mw",
    ):
        values = summary[summary.point == 0][key]
        row = table.loc[(0, key)]
        assert row.n == 16
        expected = np.percentile(values, [50, 0, 100]).tolist()
        assert [row.p50, row["min"], row["max"]] == expected
        assert pd.isna(row.p5)  # of 16 members
