"""An export appears whole or not at all, and never over something else."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from shutil import copytree

import pytest
from command_line import call

from diploee.base.errors import InputError, OutputError, OutputExistsError
from diploee.grid.export import FORMATS, Options, export_run

resource = pytest.importorskip(
    "resource", reason="no limits on file sizes on this system"
)


@contextmanager
def disk_of(n_bytes: int) -> Iterator[None]:
    """Let no file grow beyond a size, as on a disk that is full."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (n_bytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.parametrize("name", ["csv", "pypsa", "pandapower"])
def test_full_disk_is_one_line_and_leaves_nothing(
    name, fine_run, tmp_path, monkeypatch
):
    monkeypatch.setattr("diploee.runs.series.BATCH_ROWS", 250)
    place = tmp_path / f"out{(FORMATS[name].suffixes or ('',))[0]}"
    limit = 9_000 if name == "pandapower" else 40_000
    with disk_of(limit), pytest.raises(OutputError) as caught:
        export_run(fine_run, name, place, Options())
    text = str(caught.value)
    assert f"{place}: can't be written (the disk is full" in text
    assert len(text.splitlines()) == 1
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["playback", "pypsa"])
def test_existing_export_is_replaced_by_force_alone(name, fine_run, tmp_path):
    place = tmp_path / "out"
    export_run(fine_run, name, place)
    before = {p: p.read_bytes() for p in tmp_path.rglob("*") if p.is_file()}
    with pytest.raises(
        OutputExistsError, match="exists already; choose another --out, or --force"
    ):
        export_run(fine_run, name, place, Options(step="1 s"))
    assert {p: p.read_bytes() for p in tmp_path.rglob("*") if p.is_file()} == before
    export_run(fine_run, name, place, Options(step="1 s"), force=True)
    after = {p: p.read_bytes() for p in tmp_path.rglob("*") if p.is_file()}
    assert set(after) == set(before) and after != before


def test_a_lone_sidecar_is_not_overwritten(fine_run, tmp_path):
    (tmp_path / "out.csv.meta.json").write_text("mine")
    with pytest.raises(
        OutputExistsError, match=r"out\.csv\.meta\.json: exists already"
    ):
        export_run(fine_run, "csv", tmp_path / "out.csv")


def test_place_that_cannot_be_written_is_named(fine_run, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(
        InputError, match=r"can't be written \(.+ is a file.*\); check --out"
    ):
        export_run(fine_run, "csv", tmp_path / "file" / "out.csv")
    for folder in ("/", "."):
        with pytest.raises(
            OutputExistsError, match=f"^{folder}: is a folder, expected"
        ):
            export_run(fine_run, "csv", folder)


def test_command_line_passes_every_option(minute_run, tmp_path, q_table):
    out, span = tmp_path / "dss", ("--from", "2018-01-01T12:00", "--to", "2018-01-02")
    power = (
        "--column",
        "it_power_w.left",
        "--step",
        "15 min",
        *span,
        "--q-table",
        q_table.path,
    )
    load = ("--name", "dc", "--bus", "b", "--kv", 69, "--actual")
    done = call("export", "opendss", minute_run.folder, "--out", out, *power, *load)
    assert done.code == 0, done.err
    script = (out / "dc.dss").read_text()
    assert (
        "npts=48 minterval=15 pmult=(file=p.csv) qmult=(file=q.csv) useactual=yes"
        in script
    )
    assert "New Load.dc bus1=b kV=69 " in script


@pytest.mark.slow
def test_command_line_takes_year_leap_day_and_zone(leap_run, tmp_path):
    command = ("export", "sam", leap_run.folder, "--out", tmp_path / "x.csv", "--quiet")
    year = ("--year", 2020, "--leap-day", "drop-feb29")
    assert call(*command, *year).out == ""
    failed = call(*command, *year, "--time-zone", "America/Denver", "--force")
    assert failed.problem.startswith("--time-zone: the format 'sam' has no use for it")


def test_default_place_is_beside_the_run_folder_even_from_within(
    fine_run, tmp_path, monkeypatch
):
    copytree(fine_run.folder, tmp_path / "run")
    monkeypatch.chdir(tmp_path / "run")
    assert export_run(".", "playback") == tmp_path / "run-playback.csv"
    assert {p.name for p in tmp_path.iterdir()} == {
        "run",
        "run-playback.csv",
        "run-playback.csv.meta.json",
    }
