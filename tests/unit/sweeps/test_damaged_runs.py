"""Whatever happened to a finished run of a sweep, the same sweep again brings it back
whole."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from sweep_builders import Swept, sweep_content, tiny_sweep

from diploee.base.errors import OutputExistsError
from diploee.sweeps import SweepResult, run_sweep
from diploee.sweeps.record import read_warnings
from diploee.sweeps.task import Outcome

FILES = (
    *("facility.parquet", "jobs.parquet", "load_shape.parquet"),
    *("metrics.json", "manifest.json", "record.json"),
)


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-2])


def make_a_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def holding(text: str) -> Callable[[Path], object]:
    return lambda path: path.write_text(text, "utf-8")


DAMAGES: dict[str, Callable[[Path], object]] = {
    "removed": Path.unlink,
    "emptied": holding(""),
    "cut": cut,
    "longer": lambda path: path.write_bytes(path.read_bytes() + b"}"),
    "folder": make_a_folder,
    "list": holding("[]"),
    "number": holding("5"),
    "deep": holding("[" * 100_000),
    "keep": holding('{"keep": ["a"]}'),
}


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory, library_folder: Path) -> Path:
    """A folder with a finished sweep in ``out`` and what it was made of."""
    folder = tmp_path_factory.mktemp("finished")
    again(folder, folder / "out", library_folder)
    return folder


def again(folder: Path, out: Path, library: Path) -> SweepResult:
    return run_sweep(
        tiny_sweep(folder, keep="all", seeds=6), out, profiles=[str(library)]
    )


@pytest.mark.slow
@pytest.mark.parametrize("file", FILES)
def test_damaged_run_is_not_complete(file: str, finished: Path, tmp_path: Path) -> None:
    whole = next((finished / "out" / "runs").iterdir())
    for name, damage in DAMAGES.items():
        run = shutil.copytree(whole, tmp_path / name)
        assert read_warnings(run, "all") is not None
        damage(run / file)
        assert read_warnings(run, "all") is None, name


@pytest.mark.slow
def test_damaged_runs_are_done_again_and_no_others(
    finished: Path, tmp_path: Path, library_folder: Path
) -> None:
    out = tmp_path / "out"
    shutil.copytree(finished / "out", out)
    runs = sorted((out / "runs").iterdir())
    for run, file, damage in zip(
        runs[1:], FILES, ("removed", "cut", "emptied", "list", "folder"), strict=False
    ):
        DAMAGES[damage](run / file)
    untouched = (runs[0] / "manifest.json").stat().st_mtime_ns
    result = again(finished, out, library_folder)
    assert (result.n_computed, result.failed) == (5, {})
    assert sweep_content(out) == sweep_content(finished / "out")
    assert (runs[0] / "manifest.json").stat().st_mtime_ns == untouched


@pytest.mark.slow
@pytest.mark.parametrize("file", ["metrics.json", "load_shape.parquet"])
def test_a_run_with_damaged_bytes_of_the_same_size_is_done_again(
    file: str, finished: Path, tmp_path: Path, library_folder: Path
) -> None:
    out = tmp_path / "out"
    shutil.copytree(finished / "out", out)
    path = next((out / "runs").iterdir()) / file
    path.write_bytes(bytes(path.stat().st_size))
    assert again(finished, out, library_folder).n_computed == 1
    assert sweep_content(out) == sweep_content(finished / "out")


@pytest.mark.slow
def test_a_sweep_is_not_written_into_a_run(
    finished: Path, tmp_path: Path, library_folder: Path
) -> None:
    run = shutil.copytree(next((finished / "out" / "runs").iterdir()), tmp_path / "run")
    with pytest.raises(OutputExistsError, match="is a run; choose another --out"):
        again(finished, run, library_folder)


def test_run_that_is_gone_after_it_was_done_is_a_failure_not_pending(
    tmp_path: Path, swept: Swept
) -> None:
    result = swept(
        tiny_sweep(tmp_path),
        executor=lambda tasks: iter([Outcome(task.run) for task in tasks]),
    )
    (error,) = result.failed.values()
    assert error == (
        "it was done, but its files are damaged or gone; the same command does it again"
    )
    assert result.summary["status"].to_pylist() == ["failed"]


@pytest.mark.slow
def test_file_that_nobody_asks_for_any_more_may_go(
    finished: Path, tmp_path: Path, swept: Swept
) -> None:
    out = tmp_path / "out"
    shutil.copytree(finished / "out", out)
    next(out.glob("runs/*/jobs.parquet")).unlink()
    sweep = tiny_sweep(finished, keep="series", seeds=6)
    assert swept(sweep, out).n_computed == 0
