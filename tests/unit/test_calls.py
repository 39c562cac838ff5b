"""What newcomers type at the front is done, or answered in one line with the remedy."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import yaml
from builders import tiny_library, write_library, write_scenario

import diploee
from diploee import InputError, Run
from diploee.base.errors import OutputExistsError

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
    "metrics of January": lambda run, out: run.statistics(month=1),
    "metrics of a period": lambda run, out: run.statistics(
        month=pd.Period("2018-01")  # type: ignore[arg-type]
    ),
    "times of pandas and numpy": lambda run, out: diploee.run(
        run.scenario,
        out,
        start=pd.Timestamp("2018-03-01"),
        duration=pd.Timedelta("6h"),
        resolution=np.timedelta64(5, "m"),  # type: ignore[arg-type]
        values={"warm_up": timedelta(hours=1)},
        profiles=tiny_library(),
    ),
    "times of an export": lambda run, out: run.export(
        "csv",
        out,
        step=timedelta(hours=1),
        first=date(2018, 1, 1),
        until=np.datetime64("2018-01-01T06:00", "ns"),  # type: ignore[arg-type]
    ),
    "limits as a dict": lambda run, out: run.limits({"peaks": [{"max_mw": 5}]}),
    "limits as dicts": lambda run, out: run.limits([{"peaks": [{"max_mw": 5}]}]),
    "runs to compare in a list": lambda run, out: diploee.compare([run, run.folder]),
    "a sweep over a scenario": lambda run, out: diploee.sweep(
        {"base": run.scenario, "seeds": [1]},
        out,
        profiles=write_library(out.parent / "library"),
    ),
    "a sweep over a dict": lambda run, out: diploee.sweep(
        {"base": run.scenario.model_dump(mode="json"), "seeds": [1]},
        out,
        profiles=write_library(out.parent / "library"),
    ),
    "an ensemble of a scenario": lambda run, out: diploee.ensemble(
        run.scenario, out, seeds=[1, 2], profiles=write_library(out.parent / "library")
    ),
    "an ensemble of a dict": lambda run, out: diploee.ensemble(
        run.scenario.model_dump(mode="json"),
        out,
        seeds=2,
        duration="6 h",
        values={"facility.pools.main.n_nodes": 8},
        profiles=write_library(out.parent / "library"),
    ),
    "an open run": lambda run, out: diploee.open_run(run),
    "a run from another folder": lambda run, out: diploee.open_run(str(run.folder)),
}


@pytest.mark.parametrize("call", DONE.values(), ids=DONE)
def test_calls_that_a_newcomer_types_are_done(
    call: Callable[[Run, Path], Any], run: Run, tmp_path: Path
) -> None:
    call(run, tmp_path / "out")


REFUSED: dict[str, tuple[Callable[[Run], Any], str]] = {
    "a duration of numpy that is none": (
        lambda run: diploee.run(
            run.scenario,
            duration=np.timedelta64("NaT"),  # type: ignore[arg-type]
        ),
        "duration: must be a number and a unit",
    ),
    "a run until its limits are decided, without any": (
        lambda run: diploee.run(run.scenario, until_decided=True),
        "until_decided: has no use without limits",
    ),
    "names for other runs": (
        lambda run: diploee.compare(run, run, labels=["a"]),
        "labels: must be one for each of 2 runs, found 1",
    ),
    "workers below none": (
        lambda run: diploee.ensemble(run.scenario, workers=-1),
        "workers: must be at least 0, found -1",
    ),
    "blocks of no interval": (
        lambda run: list(
            diploee.power_blocks(
                None,  # type: ignore[arg-type]
                run.scenario,
                tiny_library(),
                block_intervals=-5,
            )
        ),
        "block_intervals: must be a whole number from 1, found -5",
    ),
    "records that disconnect before they begin to": (
        lambda run: run.export("psse", "x", parts=["cmld"], vd1=0.5, vd2=0.9),
        "vd2: must be below vd1 0.5, found 0.9",
    ),
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
        "duration: must be a duration with its unit, such as '7 d' .*found 7",
    ),
    "a number as a step": (
        lambda run: run.export("csv", step=15),  # type: ignore[arg-type]
        "step: must be a duration with its unit, such as .*found 15",
    ),
    "None as a value": (
        lambda run: diploee.run(run.scenario, values={"seed": None}),
        "^values seed: must be a whole number, found None$",
    ),
    "None as a value of a file": (
        lambda run: diploee.load_scenario("colocation_10mw", {"seed": None}),
        "^values seed: must be a whole number, found None$",
    ),
    "True as a value": (
        lambda run: diploee.run(run.scenario, values={"seed": True}),
        "^values seed: must be a whole number, found True$",
    ),
    "a nested dict of values": (
        lambda run: diploee.run(
            run.scenario, values={"streams": {"training": {"pool": "main"}}}
        ),
        "replaces the whole group 'streams', use dotted keys such as 'streams.",
    ),
    "a key of the scenario": (
        lambda run: diploee.run(run.scenario, n_nodes=100),  # type: ignore[call-arg]
        "n_nodes: not an argument of run .*; give a key of the scenario by values=",
    ),
    "a start without its name": (
        lambda run: diploee.run(run.scenario, "new", "2018-01-01"),  # type: ignore[misc]
        "run: too many positional arguments; give arguments by name",
    ),
    "a load by its path": (
        lambda run: diploee.run(run.scenario, loads=["my:Load"]),  # type: ignore[list-item]
        "loads: must be objects or classes, .*by values={'loads'",
    ),
    "a stage by its path": (
        lambda run: diploee.run(run.scenario, stages=["my:Stage"]),  # type: ignore[list-item]
        "stages: must be objects or classes, .*by values={'facility.stages'",
    ),
    "no scenario": (lambda run: diploee.load_scenario(""), "^no scenario given"),
    "a file as a run": (
        lambda run: diploee.open_run(run.folder / "manifest.json"),
        "not a run folder .*; give the folder of a run",
    ),
    "a short run": (
        lambda run: diploee.run(
            run.scenario, "new", profiles=tiny_library(), at_most_s=1e-4
        ),
        "more than the 0.0001 s of at_most_s; raise it",
    ),
    "a span after a run": (
        lambda run: run.export("csv", first="2019-01-01"),
        "^first: 2019-01-01T00:00:00 lies outside the run",
    ),
    "a group that is no metric": (
        lambda run: run.metrics["powr"],
        "powr: this key is missing .*; did you mean 'power'",
    ),
    "two letters swapped": (
        lambda run: run.statistics("pwoer"),
        "did you mean 'power'",
    ),
    "another case": (lambda run: run.export("PyPSA"), "did you mean 'pypsa'"),
    "one month in words": (
        lambda run: run.statistics(month="2018-1"),
        "month: must be one of '2018-01', found '2018-1'",
    ),
    "a level as text": (
        lambda run: diploee.firm(run.scenario, level=[2, "3"]),  # type: ignore[list-item]
        "^level.1: must be a number, found '3'$",
    ),
    "seeds as text": (
        lambda run: diploee.ensemble(run.scenario, seeds="2"),  # type: ignore[arg-type]
        "seeds: must be a whole number of seeds, or a list of seeds, found '2'",
    ),
    "a length of a sweep": (
        lambda run: diploee.ensemble("colocation_utilization", duration="1 h"),
        "'duration': colocation_utilization is a sweep; set keys of its base",
    ),
    "no log": (lambda run: diploee.fit("none.csv"), "^none.csv: no such file"),
    "no power": (
        lambda run: diploee.import_profile("none.csv", "plain"),
        "^none.csv: no such file",
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


def test_a_page_of_another_run_is_replaced_with_force_alone(
    run: Run, site: Path, tmp_path: Path
) -> None:
    other = diploee.run(site, tmp_path / "run", seed=5, profiles=tiny_library())
    for write in ("report", "datasheet"):
        page = tmp_path / f"{write}.html"
        for _ in range(2):  # its own page is replaced
            getattr(run, write)(page)
        with pytest.raises(OutputExistsError, match="force=True to replace it"):
            getattr(other, write)(page)
        getattr(other, write)(page, force=True)
        with pytest.raises(OutputExistsError):
            getattr(run, write)(page)


def test_a_sweep_keeps_out_of_the_folder_of_another(run: Run, tmp_path: Path) -> None:
    folder = write_library(tmp_path / "library")

    def swept(n_nodes: list[int], seeds: list[int]) -> int:
        axes = [{"grid": {"facility.pools.main.n_nodes": n_nodes}}]
        content = {"base": run.scenario, "axes": axes, "seeds": seeds}
        return diploee.sweep(content, tmp_path / "out", profiles=folder).n_computed

    assert swept([8], [1]) == 1
    before = (tmp_path / "out" / "summary.parquet").read_bytes()
    with pytest.raises(OutputExistsError, match="holds another sweep"):
        swept([9], [2])
    assert (tmp_path / "out" / "summary.parquet").read_bytes() == before
    assert swept([8, 9], [1]) == 1  # more of the same goes on


def test_objects_say_in_a_line_what_they_are(run: Run) -> None:
    assert ": INCONCLUSIVE (" in repr(run.limits(PRESET))
    assert repr(run.plot("week")) == "<Picture peak-week: The week of the highest peak>"
    assert "0 settings and 0 verdicts differ" in repr(diploee.compare(run, run.folder))


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
