"""Python first: functions at the top, runs as objects, words that name what was given
here."""

from __future__ import annotations

import subprocess
import sys
from ast import literal_eval
from html import unescape
from importlib import import_module
from inspect import isfunction
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from builders import tiny_scenario, write_scenario
from command_line import call
from sweep_builders import UTILIZATION, sweep_file

import diploee
from diploee import Run
from diploee.api import run as run_function
from diploee.base.errors import InputError, ScenarioError

DEMAND = "grid.maximum_demand.intervals.15min.max_mw"


@pytest.fixture(scope="module")
def tiny_run(tmp_path_factory: pytest.TempPathFactory, library_folder: Path) -> Run:
    folder = tmp_path_factory.mktemp("top")
    file = write_scenario(folder / "tiny.yaml")
    return diploee.run(
        file, folder / "run", target_utilization=0.4, seed=3, profiles=[library_folder]
    )


def test_functions_of_the_package_stay_functions_whatever_is_imported() -> None:
    for room in ("simulation.pipeline", "reports.build", "sweeps.execute", "api"):
        import_module(f"diploee.{room}")
    for name in ("run", "sweep", "report", "compare", "limits"):
        assert isfunction(getattr(diploee, name))
    assert diploee.run is run_function
    assert diploee.metrics.catalogue.declared_metrics()


def test_importing_the_package_loads_none_of_its_rooms_and_no_library() -> None:
    code = (
        "import sys; before = {*sys.modules}; import diploee; print({*sys.modules} - "
        "before)"
    )
    ended = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    loaded = literal_eval(ended.stdout)
    known = sys.stdlib_module_names
    libraries = {name for name in loaded if name.partition(".")[0] not in known}
    own = {"diploee", "diploee.base", "diploee.base.version"}
    assert libraries == {*own, "lazy_loader"}


def test_target_seed_and_values_change_a_scenario_object_as_they_change_its_file(
    tmp_path: Path, library_folder: Path, tiny_run: Run
) -> None:
    assert tiny_run.scenario.seed == 3
    assert tiny_run.scenario.streams["training"].target_utilization == 0.4
    options = {"values": {UTILIZATION: 0.4, "seed": 3}, "profiles": [library_folder]}
    again = diploee.run(tiny_scenario(), tmp_path / "run", **options)
    assert again.values == tiny_run.values


@pytest.mark.parametrize(
    ("options", "named"),
    [
        (
            {"values": {"facility.pools.main.n_nodse": 3}},
            "values facility.pools.main.n_nodse: ",
        ),
        ({"target_utilization": 2}, "target_utilization: "),
    ],
)
def test_errors_name_the_key_and_no_option_of_the_command_line(
    tmp_path: Path, options: dict[str, Any], named: str
) -> None:
    with pytest.raises(ScenarioError) as caught:
        diploee.run(write_scenario(tmp_path / "tiny.yaml"), tmp_path / "run", **options)
    assert str(caught.value).startswith(named)
    assert "--" not in str(caught.value)


def test_errors_of_arguments_name_them_or_the_nearest_one(
    tiny_run: Run, tmp_path: Path
) -> None:
    with pytest.raises(InputError, match=r"^engin: .*did you mean 'engine'"):
        diploee.run(write_scenario(tmp_path / "tiny.yaml"), engin="compiled")
    with pytest.raises(InputError, match=r"^kv: ") as caught:
        diploee.export(tiny_run, "opendss", tmp_path / "load.dss", kv=-1)
    assert "--" not in str(caught.value)


def test_a_metric_is_found_by_name_with_unit_and_label(tiny_run: Run) -> None:
    demand = tiny_run.metric(DEMAND)
    assert float(demand) == tiny_run.values[DEMAND]
    assert (demand.unit, "15 min" in demand.label) == ("MW", True)
    with pytest.raises(InputError, match=r"did you mean 'power\.max_mw'"):
        tiny_run.metric("power.max_mv")


def test_a_run_shows_its_metrics_and_pictures_and_writes_pages_and_exports(
    tiny_run: Run, tmp_path: Path
) -> None:
    assert "<td>Peak, 1 min means</td>" in tiny_run._repr_html_()
    assert tiny_run.plot("carpet")._repr_png_().startswith(b"\x89PNG")
    with pytest.raises(InputError, match=r"chart: must be one of .*peak-week"):
        tiny_run.plot("nothing")
    assert diploee.report(tiny_run, tmp_path / "page.html").stat().st_size > 10_000
    assert tiny_run.export("csv", tmp_path / "load.csv", step="15 min").is_file()
    assert diploee.datasheet(tiny_run, tmp_path / "sheet.html").is_file()
    name = next(iter(diploee.scenarios("limits")))
    title = diploee.limits(tiny_run, name).title
    assert title in unescape(tiny_run.limits(name)._repr_html_())


def test_what_ships_is_listed_by_name_with_what_it_is() -> None:
    assert "10 MW" in diploee.scenarios()["colocation_10mw"]
    assert "colocation_utilization" in diploee.scenarios("sweep")


def test_sweeps_and_ensembles_give_a_frame_of_every_run(
    tmp_path: Path, library_folder: Path
) -> None:
    axes = [{"grid": {UTILIZATION: [0.2, 0.4]}}]
    file = sweep_file(tmp_path, {"axes": axes, "seeds": 1})
    profiles = [str(library_folder)]
    frame = diploee.sweep(file, tmp_path / "sweep", profiles=profiles).frame()
    assert frame[UTILIZATION].tolist() == [0.2, 0.4]
    found = diploee.ensemble(
        tmp_path / "tiny.yaml", tmp_path / "many", seeds=2, profiles=profiles
    )
    assert found.ensemble is not None
    assert found.ensemble.points[0].metrics[DEMAND].n == 2
    assert "<td>Maximum power" in found._repr_html_()


def test_a_fit_needs_one_of_workload_and_rules(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="either workload or rules"):
        diploee.fit(write_log(tmp_path / "log.csv"))
    with pytest.raises(InputError, match=r"^workload: must be a name"):
        diploee.fit(write_log(tmp_path / "log.csv"), " ")


def write_log(path: Path) -> Path:
    rows = "".join(
        f"2024-01-{1 + k // 24:02d}T{k % 24:02d}:00:00Z,2,600\n" for k in range(480)
    )
    path.write_text(f"submit_time,nodes,duration\n{rows}", encoding="utf-8")
    return path


def test_a_fit_gives_and_writes_what_the_command_does(
    tmp_path: Path, library_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("diploee.fits.jobs.goodness_of_fit.YEAR_D", 14)
    log, out = write_log(tmp_path / "log.csv"), tmp_path / "stream.yaml"
    monkeypatch.chdir(tmp_path)  # the log is named from where the stream goes
    options = ("--workload", "tune", "--profiles", library_folder, "--no-months")
    ended = call("fit", log, *options, "--stream", "own")
    found = diploee.fit(
        log, "tune", profiles=[library_folder], months=False, stream="own", out=out
    )
    assert found.fragment == out.read_text("utf-8") == ended.out
    assert {figure.name for figure in found.figures} >= {"busy nodes, mean"}
    assert f"years generated of {found.generated_days} days" in found._repr_html_()
    with pytest.raises(InputError, match=r"stream\.yaml: exists"):
        diploee.fit(log, "tune", profiles=[library_folder], out=out)
    base = write_scenario(tmp_path / "base.yaml")
    site = tmp_path / "site.yaml"
    diploee.fit(log, "tune", profiles=[library_folder], scenario=base, out=site)
    assert list(diploee.load_scenario(site).streams) == ["jobs"]


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"scenario": tiny_scenario(), "pool": "mian"}, "pool: must be one of 'main'"),
        ({"stats": ("completed",)}, "stats"),
        ({"out": "log.csv", "force": True}, "out: .* is an input"),
    ],
)
def test_errors_of_fits_name_the_argument(
    tmp_path: Path,
    library_folder: Path,
    options: dict[str, Any],
    problem: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match=problem) as caught:
        diploee.fit(
            write_log(Path("log.csv")), "tune", profiles=[library_folder], **options
        )
    assert "--" not in str(caught.value)


def test_a_measured_profile_is_imported_and_added(tmp_path: Path) -> None:
    rows = "".join(f"{t},{500 + t % 7}\n" for t in range(120))
    (tmp_path / "power.csv").write_text(f"t_s,power_w\n{rows}", encoding="utf-8")
    given = {"workload": "own", "n_nodes": 1, "profile_id": "own-1n"}
    library = tmp_path / "library"
    profile = diploee.import_profile(
        tmp_path / "power.csv", "plain", **given, out=library
    )
    assert profile.workload == "own"
    assert diploee.ProfileLibrary.open(str(library)).ids == ("own-1n",)
    with pytest.raises(
        InputError, match=r"source_format: .*'nvidia-smi'.*did you mean 'plain'"
    ):
        diploee.import_profile(tmp_path / "power.csv", "plane", workload="own")
    with pytest.raises(InputError, match="workload: this key is missing"):
        diploee.import_profile(tmp_path / "power.csv", "nvidia-smi")
    with pytest.raises(InputError, match="no folder '00_raw_datasets' in it"):
        diploee.import_profile(tmp_path, "nlr-genai")


def test_a_notebook_draws_a_bar_for_each_stage(
    tmp_path: Path, library_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn: list[str] = []

    def display(html: str, **_: object) -> SimpleNamespace:
        drawn.append(html)
        return SimpleNamespace(update=drawn.append)

    monkeypatch.setitem(sys.modules, "ipykernel", ModuleType("ipykernel"))
    fake = SimpleNamespace(HTML=str, display=display)
    monkeypatch.setitem(sys.modules, "IPython", ModuleType("IPython"))
    monkeypatch.setitem(sys.modules, "IPython.display", fake)  # type: ignore[arg-type]
    diploee.run(tiny_scenario(), tmp_path / "run", profiles=[library_folder])
    stages = [html.split()[0] for html in drawn if "value=0>" in html]
    assert stages == ["read", "plan", "simulate"]
    assert drawn[-1].endswith(" s")
    content = {"base": str(write_scenario(tmp_path / "t.yaml")), "seeds": [1]}
    diploee.sweep(content, tmp_path / "sweep", profiles=[str(library_folder)])
    assert any(text.startswith("sweep <progress max=1 value=1>") for text in drawn)


def test_what_is_no_run_is_not_taken_for_an_open_one(tiny_run: Run) -> None:
    assert diploee.open_run(tiny_run) is tiny_run
    with pytest.raises(InputError, match="folder: must be a run or its folder"):
        diploee.open_run(3)  # type: ignore[arg-type]
