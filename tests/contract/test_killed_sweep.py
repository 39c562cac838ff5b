"""A sweep that is killed at any step, or whose disk fills: the same command again ends
it."""

from __future__ import annotations

import os
import signal
import textwrap
from functools import partial
from pathlib import Path

import pandas as pd
import pytest
from command_line import PATIENCE_S, Ended, call, start
from killing import command, ended, kill_at
from sweep_builders import UTILIZATION, sweep_content, sweep_file

pytestmark = pytest.mark.skipif(
    not hasattr(signal, "SIGKILL"), reason="no SIGKILL on this system"
)

SWEEP = {"axes": [{"grid": {UTILIZATION: [0.2, 0.4]}}], "seeds": 2}
SIGNALS = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT)
INTERRUPTED = 130
MAX_STEPS = 1_000

HOOK = """
    import os, sys, time
    WRITES = ("os.mkdir", "os.rename", "os.remove", "os.rmdir", "shutil.rmtree")
    step, number, place, done = os.environ["KILL_AT"].split("|")
    left = int(step) if "--multiprocessing-fork" in sys.orig_argv else 0

    def hook(event, args):
        global left
        if event not in WRITES and not (event == "open" and args[2] & (os.O_WRONLY | os.O_RDWR)):
            return
        if left > 0 and place in str(args[0]):
            left -= 1
            if left == 0:
                try:
                    os.close(os.open(done, os.O_CREAT | os.O_EXCL))
                except FileExistsError:  # another worker was first
                    return
                os.kill(os.getppid(), int(number))
                time.sleep(600)

    sys.addaudithook(hook)
"""  # noqa: E501
"""Sends a signal to a sweep as one of its workers changes files for the n-th time."""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory, library_folder: Path) -> Path:
    """A folder with a sweep, the hook and the sweep's undisturbed results."""
    folder = tmp_path_factory.mktemp("site")
    sweep_file(folder, SWEEP)
    (folder / "sitecustomize.py").write_text(textwrap.dedent(HOOK), "utf-8")
    assert again(folder, folder / "undisturbed", library_folder) == Ended(0, "", "")
    return folder


def again(site: Path, out: Path, library: Path) -> Ended:
    options = ("--workers", 0, "--profiles", library, "--quiet")
    return call("sweep", site / "sweep.yaml", "--out", out, *options)


def killed(
    site: Path, out: Path, library: Path, step: int, number: signal.Signals
) -> Ended:
    """Run the sweep; its pipes close only when the last of its workers has ended."""
    options = ("--workers", 2, "--profiles", library, "--quiet")
    settings = (step, int(number), out.name, out.with_suffix(".killed"))
    environment = {
        "KILL_AT": "|".join(map(str, settings)),
        "PYTHONPATH": os.pathsep.join([str(site), os.environ.get("PYTHONPATH", "")]),
    }
    line = ("sweep", site / "sweep.yaml", "--out", out, *options)
    process = start(*line, environment=environment)
    stdout, stderr = process.communicate(timeout=PATIENCE_S)
    return Ended(process.returncode, stdout, stderr)


def written(out: Path) -> dict[Path, int]:
    """Return when each finished run was written."""
    manifests = out.glob("runs/[!.]*/manifest.json")
    return {path: path.stat().st_mtime_ns for path in manifests}


def check_that_it_goes_on(site: Path, out: Path, library: Path) -> None:
    """Check that the same command ends the sweep and leaves what was finished."""
    before = written(out)
    assert again(site, out, library) == Ended(0, "", "")
    assert sweep_content(out) == sweep_content(site / "undisturbed")
    assert before.items() <= written(out).items()


@pytest.mark.slow
def test_sweep_that_is_killed_at_any_step_of_a_worker_goes_on_from_there(
    site: Path, tmp_path: Path, library_folder: Path
) -> None:
    for k, number in enumerate(SIGNALS):
        out = tmp_path / f"out-{k}"
        ended = killed(site, out, library_folder, 1 + 12 * k, number)
        assert out.with_suffix(".killed").exists()
        # Python's tracker may note the semaphores that it removes
        if number is signal.SIGKILL:
            assert (ended.code, ended.out) == (-number, "")
        else:
            assert ended.code == INTERRUPTED
            assert ended.problems == [
                "finished runs are kept; the same command goes on from there",
                "interrupted; what was not finished is removed",
            ]
            assert not list(out.rglob(".*"))
            if (out / "summary.parquet").exists():
                status = pd.read_parquet(out / "summary.parquet")["status"].tolist()
                assert status.count("finished") <= len(written(out))
        check_that_it_goes_on(site, out, library_folder)


@pytest.mark.slow
@pytest.mark.parametrize(
    "number",
    [SIGNALS[0], *(pytest.param(n, marks=pytest.mark.fuzz) for n in SIGNALS[1:])],
)
def test_sweep_in_one_process_that_is_killed_at_any_step_goes_on_from_there(
    number: signal.Signals, site: Path, tmp_path: Path, library_folder: Path
) -> None:
    for step in range(SIGNALS.index(number) + 1, MAX_STEPS, 23):
        out = tmp_path / f"out-{step}"
        code = ended(
            lambda out=out: os._exit(again(site, out, library_folder).code),
            lambda out=out, step=step: kill_at(out, step, number),
        )
        if code == 0:
            break
        assert code == (-number if number is signal.SIGKILL else INTERRUPTED)
        assert number is signal.SIGKILL or not list(out.rglob(".*"))
        check_that_it_goes_on(site, out, library_folder)
    assert 50 < step < MAX_STEPS - 23


@pytest.mark.slow
@pytest.mark.parametrize("limit", [64, 6_000])
def test_sweep_on_a_full_disk_ends_with_1_and_leaves_no_half_run(
    limit: int, tmp_path: Path, library_folder: Path
) -> None:
    resource = pytest.importorskip("resource", reason="limits on file size need POSIX")
    file = sweep_file(tmp_path, {"set": {"resolution": "1 s"}})
    out = ("--out", tmp_path / "out", "--workers", 0, "--quiet")
    line = ("sweep", file, "--profiles", library_folder, *out)
    fill = partial(resource.setrlimit, resource.RLIMIT_FSIZE, (limit, limit))
    ended = command(line, fill)
    assert (ended.code, ended.out) == (1, "")
    assert "the disk is full" in ended.problem
    assert not list(tmp_path.glob("out/runs/*"))
    assert not list(tmp_path.rglob(".*"))
    assert call(*line) == Ended(0, "", "")
