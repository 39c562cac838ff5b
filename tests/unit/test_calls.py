"""What newcomers type at the front is done, or answered in one line with the remedy."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from builders import tiny_library, write_scenario

import diploee
from diploee import InputError, Run

PRESET = "ercot_nprr1191"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_scenario(tmp_path_factory.mktemp("site") / "tiny.yaml")


@pytest.fixture(scope="module")
def run(site: Path) -> Run:
    return diploee.run(
        site, site.parent / "run", profiles=tiny_library(), engine="compiled"
    )


DONE: dict[str, Callable[[Run, Path], Any]] = {
    "a scenario as text of its path": lambda run, out: diploee.run(
        str(run.folder.parent / "tiny.yaml"), out, profiles=tiny_library()
    ),
    "a scenario as a dict": lambda run, out: diploee.run(
        yaml.safe_load((run.folder.parent / "tiny.yaml").read_text()),
        out,
        profiles=tiny_library(),
    ),
    "root keys as arguments": lambda run, out: diploee.run(
        run.scenario,
        out,
        start=date(2018, 3, 1),
        duration=timedelta(hours=6),
        resolution="5 min",
        seed=np.int64(2),
        profiles=tiny_library(),
    ),
    "values as texts": lambda run, out: diploee.run(
        run.scenario, out, values=["duration=6 h"], profiles=tiny_library()
    ),
    "one value as a text": lambda run, out: diploee.load_scenario(
        run.scenario, "seed=7"
    ),
    "limits by one name": lambda run, out: run.limits(PRESET),
    "limits by several names": lambda run, out: run.limits([PRESET, "example"]),
    "loaded limits": lambda run, out: diploee.limits(run, [PRESET]),
    "a report of one run": lambda run, out: diploee.report(run, out, limits=PRESET),
    "a report of runs": lambda run, out: diploee.report([run, run.folder], out),
    "an export of a folder": lambda run, out: diploee.export(
        run.folder, "csv", out, step="1 h", first="2018-01-01T06:00"
    ),
    "a chart by a plain name": lambda run, out: run.plot("year").save(
        out.with_suffix(".svg")
    ),
    "a metric by its last name": lambda run, out: run.statistics("max_mw"),
    "metrics of a pool": lambda run, out: run.statistics(pool="main"),
    "metrics of a month": lambda run, out: run.statistics(month="2018-01"),
    "an open run": lambda run, out: diploee.open_run(run),
    "a run from another folder": lambda run, out: diploee.open_run(str(run.folder)),
}


@pytest.mark.parametrize("call", DONE.values(), ids=DONE)
def test_calls_that_a_newcomer_types_are_done(
    call: Callable[[Run, Path], Any], run: Run, tmp_path: Path
) -> None:
    call(run, tmp_path / "out")


REFUSED: dict[str, tuple[Callable[[Run], Any], str]] = {
    "engine": (
        lambda run: diploee.run(run.scenario, engine="fast"),  # type: ignore[arg-type]
        "engine: must be 'simpy' or 'compiled', found 'fast'",
    ),
    "unknown argument": (
        lambda run: diploee.run(run.scenario, duraton="1 d"),  # type: ignore[call-arg]
        "duraton: not an argument of run .*did you mean 'duration'",
    ),
    "no argument": (diploee.run, "scenario: must be a scenario"),
    "several scenarios": (
        lambda run: diploee.run([run.scenario]),  # type: ignore[arg-type]
        "scenario: must be a scenario, its name or file, .*found a list of 1",
    ),
    "a number as a length": (
        lambda run: diploee.run(run.scenario, duration=7),  # type: ignore[arg-type]
        "duration: must be",
    ),
    "a word as a seed": (
        lambda run: diploee.run(run.scenario, seed="x"),  # type: ignore[arg-type]
        "seed: must be a whole number, found 'x'",
    ),
    "None as a switch": (
        lambda run: diploee.run(run.scenario, force=None),  # type: ignore[arg-type]
        "force: must be true or false, found None",
    ),
    "a run that is there": (
        lambda run: diploee.run(run.scenario, run.folder),
        "exists already; choose another out, or force=True to replace it",
    ),
    "an unknown preset": (lambda run: run.limits("ercot"), "did you mean 'ercot"),
    "a number as limits": (
        lambda run: run.limits(3),  # type: ignore[call-overload]
        "limits: must be limits, their file or the name of a preset",
    ),
    "an unknown chart": (
        lambda run: run.plot("carpt"),
        "chart: must be one of .*did you mean 'carpet'",
    ),
    "an unknown metric": (lambda run: run.statistics("pwr.max_mw"), "did you mean"),
    "an unknown pool": (
        lambda run: run.statistics(pool="man"),
        "pool: must be one of 'main', found 'man'; did you mean 'main'",
    ),
    "an unknown format": (
        lambda run: diploee.export(run, "cvs"),
        "unknown export format 'cvs'.*did you mean 'csv'",
    ),
    "an unknown option": (
        lambda run: run.export("csv", stepp="1 h"),  # type: ignore[call-arg]
        "stepp: not an argument of export .*did you mean 'step'",
    ),
    "a number as a sweep": (
        lambda run: diploee.sweep(3),  # type: ignore[arg-type]
        "sweep: must be a sweep, its name or file",
    ),
    "workers as text": (
        lambda run: diploee.sweep("colocation_utilization", workers="2"),  # type: ignore[arg-type]
        "workers: must be a whole number, found '2'",
    ),
    "an unknown kind": (
        lambda run: diploee.scenarios("x"),  # type: ignore[arg-type]
        "kind: must be 'scenario', 'sweep' or 'limits', found 'x'",
    ),
    "a number as a run": (
        lambda run: diploee.report(3),  # type: ignore[arg-type]
        "runs: must be runs or their folders",
    ),
    "an event": (
        lambda run: run.answer(3),  # type: ignore[arg-type]
        "event: must be an event, its name or its CSV file, found 3",
    ),
}


@pytest.mark.parametrize(("call", "words"), REFUSED.values(), ids=REFUSED)
def test_a_mistake_is_one_line_in_words_of_python(
    call: Callable[[Run], Any], words: str, run: Run
) -> None:
    with pytest.raises(InputError, match=words) as caught:
        call(run)
    assert "\n" not in str(caught.value)
    assert "--" not in str(caught.value)
    assert "null" not in str(caught.value)


def test_statistics_are_those_of_the_metrics(run: Run) -> None:
    table = run.statistics()
    assert dict(table["value"]) == run.values
    assert table.loc["power.mean_mw", "unit"] == "MW"


def test_a_dataset_has_the_values_units_and_boundaries_of_the_series(
    run: Run, tmp_path: Path
) -> None:
    xarray = pytest.importorskip("xarray")
    run.to_xarray().to_netcdf(tmp_path / "run.nc")
    stored = xarray.open_dataset(tmp_path / "run.nc")
    frame = run.facility()
    power = stored["facility_power_w"]
    np.testing.assert_array_equal(power, frame["facility_power_w"])
    assert (power.units, power.boundary) == ("W", run.boundary())
    np.testing.assert_array_equal(
        stored["time"], frame.index.tz_convert("UTC").tz_localize(None)
    )
