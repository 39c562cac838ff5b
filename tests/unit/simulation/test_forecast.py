"""Time and memory of runs and sweeps, forecast before they run."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest
from builders import checked_site, tiny_library, tiny_scenario, write_scenario
from command_line import call
from sweep_builders import UTILIZATION, sweep_file, tiny_sweep

from diploee import load_scenario
from diploee.simulation.cost_forecast import slowness
from diploee.sweeps.execute import forecast


def test_a_longer_run_takes_more_of_all_and_the_compiled_engine_less_time() -> None:
    library, site = tiny_library(), tiny_scenario({"duration": "200 d"})
    short = checked_site(tiny_scenario(), library).forecast
    long = checked_site(site, library).forecast
    sooner = checked_site(site, library, engine="compiled").forecast
    assert short.time_s < long.time_s
    assert short.memory_mb < long.memory_mb
    assert short.disk_mb < long.disk_mb
    assert sooner.time_s < long.time_s


def test_steps_finer_than_the_resolution_take_more_time_on_one_core(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    site = tiny_scenario({"duration": "200 d", "step": "1 s"})
    times_s = []
    for n_cores in (1, 2, 64):
        monkeypatch.setattr(os, "cpu_count", lambda n=n_cores: n)
        times_s.append(checked_site(site, tiny_library()).forecast.time_s)
    assert times_s[0] > 1.3 * times_s[1] and times_s[1] == times_s[2]


def test_a_quarter_of_the_paper_site_is_forecast_within_a_factor_of_three() -> None:
    found = checked_site(
        load_scenario("colocation_10mw", ["duration=90 d"]), engine="compiled"
    ).forecast
    # Measured on the reference machine, one core: 2.05 s, 563 MB, 10.0 MB of files
    ratios = (
        found.time_s / slowness() / 2.05,
        found.memory_mb / 563,
        found.disk_mb / 10.0,
    )
    assert min(ratios) > 1 / 3 and max(ratios) < 3


def test_a_dry_run_forecasts_all_runs_and_does_none(
    tmp_path: Path, library_folder: Path
) -> None:
    axes = [{"grid": {UTILIZATION: [0.2, 0.3, 0.4]}}]
    file = sweep_file(tmp_path, {"axes": axes, "seeds": 4})
    places = ("--profiles", library_folder, "--out", tmp_path / "out")
    options = (*places, "--workers", "2")
    ended = call("sweep", file, "--dry-run", "--json", *options)
    found = json.loads(ended.out)
    assert found["n_runs"] == 12
    assert not (tmp_path / "out").exists()
    sweep = tiny_sweep(tmp_path, axes=axes, seeds=4)
    n_runs, alone = forecast(sweep, 1, [str(library_folder)])
    assert n_runs == 12
    assert found["time_s"] == pytest.approx(alone.time_s / 2)
    assert found["memory_mb"] == pytest.approx(alone.memory_mb * 2)
    assert "nothing was run" in call("ensemble", file, "--dry-run", *options).out


def test_validate_tells_what_the_run_takes(
    tmp_path: Path, library_folder: Path
) -> None:
    file = write_scenario(tmp_path / "tiny.yaml")
    out = call("validate", file, "--profiles", library_folder).out
    assert re.search(r"a run takes about \d+ s, \d+ MB of memory, \d+ MB on disk", out)
