"""A sweep end to end in this process: summary, restart, failures, places to write to."""  # noqa: E501

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

import pandas as pd
import pytest
from builders import write_library
from command_line import contents
from sweep_builders import N_NODES, UTILIZATION, Failing, Swept, tiny_sweep

from diploee import open_run
from diploee import run as simulate
from diploee.base.errors import DiploeeError, InputError
from diploee.base.metric import flatten
from diploee.base.progress import Progress
from diploee.base.version import full_version
from diploee.profiles import ProfileLibrary
from diploee.sweeps import RunTask, Sweep
from diploee.sweeps.dask_cluster import check_workers
from diploee.sweeps.task import Outcome, run_task


@pytest.fixture
def sweep(tmp_path: Path) -> Sweep:
    return tiny_sweep(tmp_path, axes=[{"grid": {UTILIZATION: [0.2, 0.4]}}], seeds=2)


@pytest.mark.slow
def test_runs_and_their_rows_of_the_summary_are_those_of_the_same_run_alone(
    sweep: Sweep, tmp_path: Path, library_folder: Path, swept: Swept
) -> None:
    result = swept(sweep)
    summary = pd.read_parquet(tmp_path / "out" / "summary.parquet")
    first = ["run", "point", UTILIZATION, "seed", "status", "folder", "error"]
    assert summary.columns[:7].tolist() == first
    assert summary["status"].tolist() == ["finished"] * 4
    assert result.n_computed == 4
    library = ProfileLibrary.open(str(library_folder))
    scenario = result.runs[3].scenario
    alone = simulate(scenario, tmp_path / "alone", profiles=library, engine="compiled")
    row = summary.iloc[3]
    for name, value in flatten(alone.metrics):
        assert row[name] == value or (value is None and pd.isna(row[name]))
    folder = tmp_path / "out" / "runs" / result.runs[3].run
    for name in ("facility.parquet", "metrics.json"):
        assert (folder / name).read_bytes() == (alone.folder / name).read_bytes()
    own = "facility.parquet load_shape.parquet manifest.json metrics.json record.json"
    assert sorted(path.name for path in folder.iterdir()) == own.split()


@pytest.mark.slow
def test_finished_runs_are_not_repeated_and_new_axes_add_to_them(
    sweep: Sweep, tmp_path: Path, swept: Swept
) -> None:
    swept(sweep)
    before = (tmp_path / "out" / "summary.parquet").read_bytes()
    again = swept(sweep, executor=Failing())
    assert again.n_computed == 0
    assert not again.failed
    assert (tmp_path / "out" / "summary.parquet").read_bytes() == before
    axis = {"grid": {UTILIZATION: [0.2, 0.3, 0.4]}}
    more = tiny_sweep(tmp_path, axes=[axis], seeds=3)
    assert swept(more).n_computed == 5


@pytest.mark.slow
def test_interrupted_sweep_leaves_a_summary_and_goes_on(
    sweep: Sweep, tmp_path: Path, swept: Swept
) -> None:
    executor = Failing(interrupt_after=3)
    with pytest.raises(KeyboardInterrupt):
        swept(sweep, executor=executor)
    status = pd.read_parquet(tmp_path / "out" / "summary.parquet")["status"]
    assert sorted(status) == ["finished", "finished", "finished", "pending"]
    assert swept(sweep).n_computed == 1


def test_failing_run_is_reported_and_the_others_finish(
    tmp_path: Path, swept: Swept
) -> None:
    # A job runs 17 min or more: of ten minutes' jobs, none can reach a simulated
    # utilization.
    sweep = tiny_sweep(
        tmp_path,
        axes=[{"grid": {"streams.training.match": ["list", "simulated"]}}],
        set={UTILIZATION: 1.0, "duration": "10 min"},
    )
    result = swept(sweep)
    assert list(result.failed) == [result.runs[1].run]
    summary = pd.read_parquet(tmp_path / "out" / "summary.parquet")
    assert summary["status"].tolist() == ["finished", "failed"]
    assert "streams.training" in summary["error"][1]
    listed = json.loads((tmp_path / "out" / "sweep.json").read_text())["runs"]
    assert listed[1]["error"] == summary["error"][1]
    assert listed[1]["settings"] == {"streams.training.match": "simulated"}


def test_runs_that_have_no_compiled_twin_are_done_by_simpy(
    tmp_path: Path, swept: Swept
) -> None:
    schedulers = ["fifo", "priority"]
    axis = {"grid": {"facility.pools.main.scheduler": schedulers}}
    sweep = tiny_sweep(tmp_path, axes=[axis])
    result = swept(sweep)
    folders = [tmp_path / "out" / "runs" / run.run for run in result.runs]
    engines = [open_run(folder).manifest["engine"] for folder in folders]
    assert engines == ["compiled", "simpy"]
    with_one = swept(sweep, tmp_path / "one", engine="compiled")
    assert list(with_one.failed) == [result.runs[1].run]


def test_asking_to_keep_more_repeats_the_runs_that_kept_less(
    tmp_path: Path, swept: Swept
) -> None:
    for keep, computed in (("metrics", 1), ("all", 1), ("series", 0)):
        result = swept(tiny_sweep(tmp_path, keep=keep))
        assert result.n_computed == computed
        assert not result.failed
    assert (tmp_path / "out" / "runs" / result.runs[0].run / "jobs.parquet").is_file()


def test_worker_that_does_not_see_the_folder_is_named(
    sweep: Sweep, tmp_path: Path
) -> None:
    class Blind:
        def run(self, *_: object) -> dict[str, bool]:
            return {"tcp://w:1": False}

    task = RunTask("a", sweep.base, str(tmp_path / "out"))
    with pytest.raises(InputError, match="worker tcp://w:1 does not see --out"):
        check_workers(Blind(), "tcp://s:1", [task])
    assert not list((tmp_path / "out").iterdir())


def test_place_that_cannot_be_written_stops_the_sweep_before_any_run(
    sweep: Sweep, tmp_path: Path, swept: Swept
) -> None:
    (tmp_path / "file").write_text("in the way")
    (tmp_path / "out" / "summary.parquet").mkdir(parents=True)
    for place in (tmp_path / "file", tmp_path / "out"):
        executor = Failing()
        with pytest.raises(DiploeeError, match=r"can't be written|is a folder"):
            swept(sweep, place, executor=executor)
        assert not executor.runs


@pytest.mark.parametrize(
    ("name", "text"),
    [("summary.parquet", ""), ("sweep.json", "[]"), ("sweep.json", '{"my": "own"}')],
)
def test_files_of_others_are_not_replaced(
    name: str, text: str, sweep: Sweep, tmp_path: Path, swept: Swept
) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / name).write_text(text)
    problem = f"out: holds a {name} that no sweep of diploee wrote"
    with pytest.raises(InputError, match=problem):
        swept(sweep, executor=Failing())
    assert contents(tmp_path / "out") == {name: text.encode()}


def test_second_sweep_of_the_same_folder_is_kept_out(
    sweep: Sweep, tmp_path: Path, swept: Swept
) -> None:
    from diploee.sweeps.folder import lock_folder

    with (
        lock_folder(tmp_path / "out"),
        pytest.raises(InputError, match="another sweep is writing here"),
    ):
        swept(sweep)


@pytest.mark.parametrize(
    ("place", "problem"),
    [
        ("", "--out: is empty; name a file or folder"),
        ("s3:/bucket", "is a URL; name a local file or folder"),
    ],
)
def test_place_that_is_none_is_one_line_and_nothing_is_written(
    place: str,
    problem: str,
    sweep: Sweep,
    tmp_path: Path,
    swept: Swept,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    before = contents(tmp_path)
    with pytest.raises(InputError) as caught:
        swept(sweep, place)
    (line,) = str(caught.value).splitlines()
    assert problem in line
    assert contents(tmp_path) == before


def test_worker_with_other_profiles_refuses_the_run(
    tmp_path: Path, swept: Swept, monkeypatch: pytest.MonkeyPatch
) -> None:
    sweep = tiny_sweep(tmp_path, axes=[{"grid": {N_NODES: [12]}}])
    monkeypatch.setattr("diploee.sweeps.task.run_hash", lambda *_: "0" * 64)
    result = swept(sweep)
    assert "differ here from those of the sweep" in next(iter(result.failed.values()))


def test_partial_folders_of_dead_workers_are_removed_before_and_after(
    sweep: Sweep, tmp_path: Path, swept: Swept
) -> None:
    before, after = (tmp_path / "out" / "runs" / f".diploee-1234567{k}" for k in "89")

    write_library(before / "new")

    def interrupted(tasks: Sequence[RunTask]) -> Iterator[Outcome]:
        assert not before.exists()
        write_library(after / "new")
        yield run_task(tasks[0])
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        swept(sweep, executor=interrupted)
    assert not list((tmp_path / "out").rglob(".*"))


def test_executor_that_is_not_there_leaves_nothing(
    sweep: Sweep, tmp_path: Path, swept: Swept
) -> None:
    def lost(tasks: Sequence[RunTask]) -> Iterator[Outcome]:
        raise InputError("no workers")

    for place in (tmp_path / "sweeps" / "out", tmp_path / "stands"):
        with pytest.raises(InputError, match="no workers"):
            swept(sweep, place, executor=lost)
        assert not place.exists() or not any(place.iterdir())
        (tmp_path / "stands").mkdir(exist_ok=True)
    assert not (tmp_path / "sweeps").exists()


def test_sweep_of_another_version_says_so_and_is_computed_anew(
    tmp_path: Path, swept: Swept, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[str] = []

    class Told(Progress):
        def tell(self, text: str) -> None:
            told.append(text)

    def run() -> int:
        sweep = tiny_sweep(tmp_path)
        return swept(sweep, progress=Told()).n_computed

    assert [run(), run(), told] == [1, 0, []]
    for module in ("expand", "execute", "record"):
        monkeypatch.setattr(f"diploee.sweeps.{module}.full_version", lambda: "99")
    assert [run(), run()] == [1, 0]
    assert len(told) == 1
    assert f"begun with diploee {full_version()}, this is 99" in told[0]
