"""A disk that fills while a run or an import writes: exit 1, one line, nothing left, nothing lost.

The limit on file size of a process of its own makes the writing really fail, in pyarrow as well.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from builders import write_library, write_scenario
from command_line import Ended, contents, run

resource = pytest.importorskip("resource", reason="limits on file size need POSIX")

FILES = ("facility.parquet", "jobs.parquet", "metrics.json")


def limited(n_bytes: int) -> Callable[[], None]:
    return lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (n_bytes, n_bytes))


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a library, scenarios of which each has another largest file, and their runs."""
    folder = tmp_path_factory.mktemp("site")
    write_library(folder / "library")
    rate = {"streams.training.target_utilization": None, "streams.training.jobs_per_day": 1e-9}
    write_scenario(folder / "facility.parquet.yaml", {"resolution": "0.2 s", **rate})
    write_scenario(folder / "jobs.parquet.yaml", {"duration": "20 d", "resolution": "1 h"})
    write_scenario(folder / "metrics.json.yaml", {"resolution": "1 h", **rate})
    for file in FILES:
        assert run_to(folder, file, folder / "old" / file) == Ended(0, "", "")
    return folder


def run_to(site: Path, file: str, out: Path, *more: str, limit: int | None = None) -> Ended:
    arguments = ("run", site / f"{file}.yaml", "--profiles", site / "library", "--quiet")
    preexec = None if limit is None else limited(limit)
    return run(*arguments, "--engine", "compiled", "--out", out, *more, preexec_fn=preexec)


@pytest.mark.parametrize("file", FILES)
def test_run_on_a_full_disk_keeps_nothing_and_loses_nothing(site: Path, file: str) -> None:
    sizes = {path.name: path.stat().st_size for path in (site / "old" / file).iterdir()}
    largest, second, *_ = sorted(sizes.values(), reverse=True)
    assert sizes[file] == largest, "the scenario must make this file the largest"
    before = contents(site)
    limit = (largest + second) // 2
    for out, more in ((site / "new" / file, ()), (site / "old" / file, ("--force",))):
        ended = run_to(site, file, out, *more, limit=limit)
        assert ended.code == 1
        assert not ended.out
        assert ended.problem.startswith(
            f"{out}: the disk is full or a limit on file size is reached ("
        )
        assert "nothing was kept, free some space" in ended.problem
        needed = re.search(r"the run needs about ([\d.]+) MB", ended.problem)
        assert needed is not None
        if file == "jobs.parquet":  # the others' year is held to its estimate in tests/bench
            assert 0.3 < float(needed[1]) * 1e6 / largest < 3
    assert contents(site) == before


def test_import_on_a_full_disk_keeps_nothing_and_loses_nothing(tmp_path: Path) -> None:
    table = tmp_path / "job.csv"
    rows = "".join(f"{t},{(t * t * 7_919) % 9_973}.{t % 89}\n" for t in range(20_000))
    table.write_text(f"t_s,power_w\n{rows}", "utf-8")
    arguments = ("plain", table, "--workload", "x", "--nodes", 1, "--out", tmp_path / "library")
    full = {"preexec_fn": limited(4_096)}

    ended = run("profiles", "import", *arguments, **full)
    place = tmp_path / "library" / "x-1n.parquet"
    message = f"{place}: can't be written (the disk is full); nothing was kept"
    assert (ended.code, ended.out, ended.problem) == (1, "", message)
    assert list(contents(tmp_path)) == ["job.csv"]

    assert run("profiles", "import", *arguments).code == 0
    before = contents(tmp_path)
    ended = run("profiles", "import", *arguments, "--force", **full)
    assert (ended.code, ended.out, ended.problem) == (1, "", message)
    assert contents(tmp_path) == before


def test_drawing_on_a_full_disk_keeps_the_old_picture(site: Path, tmp_path: Path) -> None:
    picture = tmp_path / "x.png"
    picture.write_text("old", "utf-8")
    arguments = ("show", "draw-1n-1", "--profiles", site / "library", "--out", picture, "--force")
    ended = run("profiles", *arguments, preexec_fn=limited(4_096))
    assert (ended.code, ended.out) == (1, "")
    assert ended.problem == f"{picture}: can't be written (the disk is full); nothing was kept"
    assert {path.name: path.read_text("utf-8") for path in tmp_path.iterdir()} == {"x.png": "old"}
