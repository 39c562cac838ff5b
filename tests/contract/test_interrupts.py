"""A run that is interrupted leaves no run folder, nothing hidden, and the old run as it
was."""

from __future__ import annotations

import signal
import subprocess
from pathlib import Path

import pytest
from builders import write_library, write_scenario
from command_line import PATIENCE_S, Ended, start, wait_until

INTERRUPTED = 130


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A scenario that would run for minutes."""
    folder = tmp_path_factory.mktemp("site")
    write_library(folder / "library")
    long = {"duration": "50 years", "resolution": "1 h"}
    write_scenario(folder / "long.yaml", long | {"facility.pools.main.n_nodes": 200})
    return folder


def start_run(site: Path, out: Path) -> subprocess.Popen[str]:
    """Start the long run and return once it has made its hidden folder."""
    options = ("--profiles", site / "library", "--out", out, "-q")
    process = start("run", site / "long.yaml", *options)
    wait_until(lambda: list(out.parent.glob(f".diploee-*/{out.name}")), process)
    return process


@pytest.mark.slow
@pytest.mark.parametrize(
    "numbers",
    [[signal.SIGINT], [signal.SIGTERM, signal.SIGHUP, signal.SIGINT]],
    ids=len,
)
def test_interrupted_run_leaves_nothing_however_many_signals_come(
    site: Path, tmp_path: Path, numbers: list[signal.Signals]
) -> None:
    process = start_run(site, tmp_path / "run")
    for number in numbers:
        process.send_signal(number)
    out, err = process.communicate(timeout=PATIENCE_S)
    ended = Ended(process.returncode, out, err)
    assert (ended.code, ended.out) == (INTERRUPTED, "")
    assert ended.problem == "interrupted; what was not finished is removed"
    assert not list(tmp_path.iterdir())
