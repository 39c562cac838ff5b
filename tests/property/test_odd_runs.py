"""Odd but valid scenarios: each run that ends is read, and used in all ways or refused."""  # noqa: E501

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from builders import profile, tiny_data
from hypothesis import given, settings
from hypothesis import strategies as st
from serving_builders import SERVING

import diploee
from diploee import Run
from diploee.base.errors import InputError
from diploee.grid.export import FORMATS
from diploee.grid.limits import load_limits
from diploee.grid.limits.mitigation import mitigate
from diploee.profiles import ProfileLibrary
from diploee.scenario import Scenario, scenario_from_dict

LIBRARY = ProfileLibrary(
    [
        profile(
            "square-2n-1", ([500.0] * 15 + [1500.0] * 30 + [500.0] * 15) * 60, n_nodes=2
        ),
        profile("flat-2n-1", [2000.0] * 900, n_nodes=2),
    ]
)
SPANS = (
    {"duration": "1 min"},
    {"duration": "60 s", "resolution": "1 s"},
    {"duration": "1 h", "resolution": "1 h"},
    {"duration": "30 min", "resolution": "1 s"},
    {"duration": "26 h"},
)
BATTERY = {"kind": "battery", "power_mw": 1e-3, "energy_mwh": 1e-4, "smoothing_s": 60}
STAGES: tuple[dict[str, Any], ...] = (
    {},
    {"facility.stages": [{"kind": "constant_loss", "loss_fraction": 0.05}, BATTERY]},
    {
        "facility.node_types.node.ac_power": "dlc",
        "facility.stages": [
            "pdu",
            {"kind": "point_of_interconnection", "contract_mva": 0.01},
        ],
    },
)
CLASSES = [{"workload": "flat", "n_nodes": 2, "probability": 1}]
DRAWN: dict[str, dict[str, Any]] = {
    "drawn": {"target_utilization": 0.6, "classes": CLASSES},
    "no job": {"jobs_per_day": 1e-9, "classes": CLASSES},
}
LOGGED = {"one job": (1, "flat"), "strictly periodic": (2, "square")}
"""Jobs of an hour that start with the run, on two of four nodes each, and their
profile."""


def replayed(n_jobs: int, workload: str) -> dict[str, Any]:
    return {
        "log": f"{n_jobs}.csv",
        "format": "csv",
        "align": "date",
        "repeat": False,
        "columns": {"duration": "duration_s"},
        "rules": [{"workload": workload}],
    }


@st.composite
def odd_data(draw: st.DrawFn) -> dict[str, Any]:
    """Draw a scenario as plain data."""
    load = draw(st.sampled_from([*LOGGED, *DRAWN]))
    changes: dict[str, Any] = {
        **draw(st.sampled_from(SPANS)),
        **draw(st.sampled_from(STAGES)),
        "facility.node_types.node.idle_power_w": draw(st.sampled_from([0, 400])),
        "facility.pools.main.n_nodes": 4,
        "streams": {"jobs": {"pool": "main", **DRAWN.get(load, {})}},
    }
    if load in LOGGED:
        changes["streams"]["jobs"]["replay"] = replayed(*LOGGED[load])
    if draw(st.booleans()):
        changes["facility.pools.serving"] = {"node_type": "node", "n_nodes": 12}
        chat = {**SERVING["request_streams"]["chat"], "pool": "serving"}
        changes["request_streams"] = {"chat": chat}
    return tiny_data(changes)


def scenario_in(folder: Path, data: dict[str, Any]) -> Scenario:
    for n_jobs in (1, 2):
        at = "2018-01-01T00:00:00Z"
        rows = [f"{k},{at},{at},3600,2" for k in range(n_jobs)]
        lines = ["job_id,submit_time,start_time,duration_s,n_nodes", *rows, ""]
        (folder / f"{n_jobs}.csv").write_text("\n".join(lines), "utf-8")
    return scenario_from_dict(data).with_folder(folder)


def made_of(run: Run, folder: Path) -> Iterator[Callable[[], object]]:
    """Yield what is made of a run beside reading it: each gives something or is
    refused."""
    yield lambda: run.report(folder / "report.html", limits=["example"])
    yield lambda: diploee.datasheet(run, folder / "datasheet.html", limits=["ieso_3_0"])
    yield lambda: str(diploee.compare(run, run))
    for name in ("example", "ieso_3_0", "ercot_lcl_2026_06"):
        yield lambda name=name: run.limits(name).sections()
    yield lambda: mitigate(run, load_limits("example")).section()
    for name in FORMATS:
        out = {"pandapower": folder / "export.csv"}.get(name, folder / f"export-{name}")
        yield lambda name=name, out=out: run.export(name, out)


def check(data: dict[str, Any], event_windows: bool, folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    scenario = scenario_in(folder, data)
    diploee.run(
        scenario,
        folder / "run",
        profiles=LIBRARY,
        engine="compiled",
        event_windows=event_windows,
    )
    run = diploee.open_run(folder / "run")
    assert len(run.facility()) == scenario.n_intervals
    assert run.metrics["power"]["max_mw"] >= 0 and run.values and run._repr_html_()
    run.jobs()
    for name in run.event_windows:
        assert len(run.event_window(name))
    for make in made_of(run, folder):
        try:
            assert make()
        except InputError as refusal:
            assert "\n" not in str(refusal)


@settings(max_examples=2)
@given(odd_data(), st.booleans())
def test_every_run_that_ends_is_read_and_used_or_refused_in_a_line(
    tmp_path: Path, data: dict[str, Any], event_windows: bool
) -> None:
    check(data, event_windows, tmp_path / "odd")


@pytest.mark.slow
@settings(max_examples=60)
@given(odd_data(), st.booleans())
def test_every_of_many_runs_that_end_is_read_and_used_or_refused_in_a_line(
    tmp_path: Path, data: dict[str, Any], event_windows: bool
) -> None:
    check(data, event_windows, tmp_path / "odd")


def test_run_of_a_strictly_periodic_load_is_read_again(tmp_path: Path) -> None:
    stream = {"pool": "main", "replay": replayed(*LOGGED["strictly periodic"])}
    changes = {
        "duration": "1 h",
        "resolution": "1 s",
        "streams": {"jobs": stream},
        "facility.pools.main.n_nodes": 4,
    }
    scenario = scenario_in(tmp_path, tiny_data(changes))
    run = diploee.run(scenario, tmp_path / "run", profiles=LIBRARY, engine="compiled")
    lines = run.metrics["grid"]["spectrum"]["lines"]
    assert lines and all(
        line["over_floor"] is None or line["over_floor"] < 1e12 for line in lines
    )
