"""The worst windows, against a dense search of the same series."""

from __future__ import annotations

import numpy as np
import pyarrow.parquet as pq
import pytest
from builders import tiny_library, tiny_scenario

from diploee import simulate
from diploee.power import find_zooms, job_segments, power_series, zoom_blocks
from diploee.schedule import schedule_jobs
from diploee.workload import generate_jobs


@pytest.fixture(scope="module")
def load():
    scenario, library = tiny_scenario({"duration": "6 h", "resolution": "1 s"}), tiny_library()
    schedule = schedule_jobs(generate_jobs(scenario, library).jobs, scenario, "compiled")
    return job_segments(schedule, library), scenario, library


def largest_step(power_w: np.ndarray, length: int, sign: int) -> float:
    means = np.convolve(power_w, np.full(length, 1 / length), mode="valid")
    return float((sign * (means[length:] - means[:-length])).max() * sign)


def test_zooms_find_the_extremes_of_a_dense_search(load) -> None:
    power_w = power_series(*load)["facility_power_w"].to_numpy()
    zooms = {zoom.name: zoom for zoom in find_zooms(*load)}
    assert zooms["peak"].value_w == pytest.approx(power_w.max())
    for length in (1, 10, 60):
        for name, sign in (("rise", 1), ("drop", -1)):
            expected_w = largest_step(power_w, length, sign)
            assert zooms[f"{name}_{length}s"].value_w == pytest.approx(expected_w, rel=1e-9)


def test_zooms_do_not_depend_on_where_blocks_end(load, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = find_zooms(*load)
    monkeypatch.setattr("diploee.power.direct.DirectSum.block_intervals", 97)
    in_pieces = find_zooms(*load)
    assert [(z.name, z.at_ms) for z in in_pieces] == [(z.name, z.at_ms) for z in whole]


def test_zoom_holds_its_extreme_at_the_stated_time(load) -> None:
    for zoom in find_zooms(*load):
        fine_w = np.concatenate([block.facility_power_w for block in zoom_blocks(zoom, *load)])
        seconds_w = fine_w.reshape(-1, 10).mean(axis=1)
        at = (zoom.at_ms - zoom.start_ms) // 1000
        if zoom.name == "peak":
            assert seconds_w[at] == pytest.approx(zoom.value_w)
        else:
            length = int(zoom.name.split("_")[1].removesuffix("s"))
            step_w = seconds_w[at : at + length].mean() - seconds_w[at - length : at].mean()
            assert step_w == pytest.approx(zoom.value_w)


def test_run_keeps_its_zooms_at_a_tenth_of_a_second(tmp_path) -> None:
    scenario = tiny_scenario({"duration": "6 h"})
    run = simulate(scenario, tmp_path / "run", library=tiny_library(), zooms=True)
    windows = run.metrics["zooms"]["windows"]
    assert {window["name"] for window in windows} >= {"peak", "rise_1s", "drop_60s"}
    for window in windows:
        rows = pq.read_table(run.folder / window["file"]).num_rows
        assert rows == window["window_s"] * 10
