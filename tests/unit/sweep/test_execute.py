"""A sweep end to end in this process: summary, restart, failures, places to write to."""

from __future__ import annotations

import json
from pathlib import Path

import fsspec
import pandas as pd
import pytest
from builders import write_library
from sweep_builders import N_NODES, UTILIZATION, Failing, tiny_sweep

from diploee import simulate
from diploee.errors import InputError
from diploee.profiles import ProfileLibrary
from diploee.sweep import Sweep, run_sweep
from diploee.sweep.summary import flattened


@pytest.fixture
def sweep(tmp_path: Path) -> Sweep:
    return tiny_sweep(tmp_path, axes=[{"grid": {UTILIZATION: [0.2, 0.4]}}], seeds=2)


@pytest.fixture
def profiles(library_folder: Path) -> list[str]:
    return [str(library_folder)]


def test_summary_has_a_row_per_run_with_the_metrics_of_the_same_run_alone(
    sweep: Sweep, tmp_path: Path, profiles: list[str]
) -> None:
    result = run_sweep(sweep, tmp_path / "out", profiles=profiles)
    summary = pd.read_parquet(tmp_path / "out" / "summary.parquet")
    assert summary.columns[:7].tolist() == [
        "run",
        "point",
        UTILIZATION,
        "seed",
        "status",
        "folder",
        "error",
    ]
    assert summary["status"].tolist() == ["finished"] * 4
    assert result.n_computed == 4
    library = ProfileLibrary.open(*profiles)
    alone = simulate(result.runs[3].scenario, tmp_path / "alone", library=library)
    row = summary.iloc[3]
    for name, value in flattened(alone.metrics):
        assert row[name] == value or (value is None and pd.isna(row[name]))


def test_finished_runs_are_not_repeated_and_new_axes_add_to_them(
    sweep: Sweep, tmp_path: Path, profiles: list[str]
) -> None:
    run_sweep(sweep, tmp_path / "out", profiles=profiles)
    before = (tmp_path / "out" / "summary.parquet").read_bytes()
    again = run_sweep(sweep, tmp_path / "out", profiles=profiles, executor=Failing())
    assert again.n_computed == 0
    assert not again.failed
    assert (tmp_path / "out" / "summary.parquet").read_bytes() == before
    more = tiny_sweep(tmp_path, axes=[{"grid": {UTILIZATION: [0.2, 0.3, 0.4]}}], seeds=3)
    assert run_sweep(more, tmp_path / "out", profiles=profiles).n_computed == 5


def test_interrupted_sweep_leaves_a_summary_and_goes_on(
    sweep: Sweep, tmp_path: Path, profiles: list[str]
) -> None:
    with pytest.raises(KeyboardInterrupt):
        run_sweep(sweep, tmp_path / "out", profiles=profiles, executor=Failing(interrupt_after=3))
    status = pd.read_parquet(tmp_path / "out" / "summary.parquet")["status"]
    assert sorted(status) == ["finished", "finished", "finished", "pending"]
    assert run_sweep(sweep, tmp_path / "out", profiles=profiles).n_computed == 1


def test_failing_run_is_told_and_the_others_finish(tmp_path: Path, profiles: list[str]) -> None:
    # A job runs 17 min or more: of ten minutes' jobs, none can reach a simulated utilization.
    sweep = tiny_sweep(
        tmp_path,
        axes=[{"grid": {"streams.training.match": ["list", "simulated"]}}],
        set={UTILIZATION: 1.0, "duration": "10 min"},
    )
    result = run_sweep(sweep, tmp_path / "out", profiles=profiles)
    assert list(result.failed) == [result.runs[1].run]
    summary = pd.read_parquet(tmp_path / "out" / "summary.parquet")
    assert summary["status"].tolist() == ["finished", "failed"]
    assert "streams.training" in summary["error"][1]
    listed = json.loads((tmp_path / "out" / "sweep.json").read_text())["runs"]
    assert listed[1]["error"] == summary["error"][1]
    assert listed[1]["settings"] == {"streams.training.match": "simulated"}


def test_runs_differ_from_the_direct_ones_in_nothing_but_what_is_not_kept(
    sweep: Sweep, tmp_path: Path, profiles: list[str]
) -> None:
    result = run_sweep(sweep, tmp_path / "out", profiles=profiles)
    library = ProfileLibrary.open(*profiles)
    alone = simulate(
        result.runs[0].scenario, tmp_path / "alone", library=library, engine="compiled"
    )
    folder = tmp_path / "out" / "runs" / result.runs[0].run
    for name in ("facility.parquet", "metrics.json"):
        assert (folder / name).read_bytes() == (alone.folder / name).read_bytes()
    names = {path.name for path in folder.iterdir()}
    assert names == {
        "facility.parquet",
        "load_shape.parquet",
        "manifest.json",
        "metrics.json",
        "record.json",
    }


def test_asking_to_keep_more_repeats_the_runs_that_kept_less(
    tmp_path: Path, profiles: list[str]
) -> None:
    for keep, computed in (("metrics", 1), ("all", 1), ("series", 0)):
        result = run_sweep(tiny_sweep(tmp_path, keep=keep), tmp_path / "out", profiles=profiles)
        assert result.n_computed == computed
        assert not result.failed
    assert (tmp_path / "out" / "runs" / result.runs[0].run / "jobs.parquet").is_file()


@pytest.mark.parametrize("scheme", ["memory", "local"])
def test_url_gets_the_same_files_as_a_folder(
    scheme: str, sweep: Sweep, tmp_path: Path, profiles: list[str]
) -> None:
    url = f"{scheme}://{tmp_path}/by-url"
    run_sweep(sweep, tmp_path / "out", profiles=profiles)
    result = run_sweep(sweep, url, profiles=profiles)
    assert not result.failed
    fs = fsspec.filesystem(scheme)
    for path in sorted((tmp_path / "out").rglob("*")):
        if path.is_file() and path.name not in ("manifest.json", ".sweep.lock"):
            there = f"{tmp_path}/by-url/{path.relative_to(tmp_path / 'out')}"
            assert fs.cat_file(there) == path.read_bytes(), path.name
    assert run_sweep(sweep, url, profiles=profiles, executor=Failing()).n_computed == 0


def test_run_without_its_manifest_is_not_complete(
    sweep: Sweep, tmp_path: Path, profiles: list[str]
) -> None:
    result = run_sweep(sweep, tmp_path / "out", profiles=profiles)
    (tmp_path / "out" / "runs" / result.runs[2].run / "manifest.json").unlink()
    assert run_sweep(sweep, tmp_path / "out", profiles=profiles).n_computed == 1


def test_place_that_cannot_be_written_stops_the_sweep_before_any_run(
    sweep: Sweep, tmp_path: Path, profiles: list[str]
) -> None:
    (tmp_path / "file").write_text("in the way")
    (tmp_path / "out" / "summary.parquet").mkdir(parents=True)
    for place in (tmp_path / "file", tmp_path / "out"):
        executor = Failing()
        with pytest.raises(InputError, match="can't be written"):
            run_sweep(sweep, place, profiles=profiles, executor=executor)
        assert not executor.runs


def test_second_sweep_of_the_same_folder_is_kept_out(
    sweep: Sweep, tmp_path: Path, profiles: list[str]
) -> None:
    from diploee.sweep.store import open_store

    with (
        open_store(tmp_path / "out").claim(),
        pytest.raises(InputError, match="another sweep is writing here"),
    ):
        run_sweep(sweep, tmp_path / "out", profiles=profiles)


def test_unknown_kind_of_url_is_one_line(sweep: Sweep, profiles: list[str]) -> None:
    with pytest.raises(InputError, match="--out nosuch://x: ") as caught:
        run_sweep(sweep, "nosuch://x", profiles=profiles)
    assert len(str(caught.value).splitlines()) == 1


def test_worker_with_other_profiles_refuses_the_run(
    tmp_path: Path, profiles: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    sweep = tiny_sweep(tmp_path, axes=[{"grid": {N_NODES: [12]}}])
    monkeypatch.setattr("diploee.sweep.task.run_hash", lambda *_: "0" * 64)
    result = run_sweep(sweep, tmp_path / "out", profiles=profiles)
    assert "another version of diploee" in next(iter(result.failed.values()))


def test_partial_folders_of_a_killed_sweep_are_removed(
    sweep: Sweep, tmp_path: Path, profiles: list[str]
) -> None:
    left = tmp_path / "out" / "runs" / ".0123.partial-x"
    write_library(left)
    run_sweep(sweep, tmp_path / "out", profiles=profiles)
    assert not left.exists()
