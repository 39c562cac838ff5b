"""A sweep on a real Dask scheduler and two real workers, one of which is killed in the
middle."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from command_line import PATIENCE_S, call, start, wait_until
from sweep_builders import UTILIZATION, sweep_content, sweep_file

import diploee

distributed = pytest.importorskip("distributed")
pytestmark = pytest.mark.dask

SWEEP = {
    "set": {"duration": "4 weeks"},
    "axes": [{"grid": {UTILIZATION: [0.2, 0.4, 0.6]}}],
    "seeds": 8,
    "draw": {
        "facility.node_types.node.idle_power_w": {
            "distribution": "uniform",
            "low": 9,
            "high": 99,
        }
    },
}


@dataclass
class Cluster:
    address: str
    folder: Path
    scheduler: subprocess.Popen[bytes]
    workers: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def add_worker(self) -> None:
        arguments = (
            "--no-nanny",
            "--nthreads",
            "1",
            "--no-dashboard",
            "--host",
            "127.0.0.1",
        )
        work = self.folder / f"worker-{len(self.workers)}"
        self.workers.append(
            _dask("worker", self.address, *arguments, "--local-directory", str(work))
        )
        # A run waits for seconds only; on a busy machine a worker takes longer to
        # start.
        with distributed.Client(self.address, set_as_default=False) as client:
            alive = [each for each in self.workers if each.poll() is None]
            client.wait_for_workers(len(alive), timeout=PATIENCE_S)

    def stop(self) -> None:
        for process in [*self.workers, self.scheduler]:
            process.kill()
            process.wait()


def _dask(*arguments: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", "dask", *arguments],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    file = tmp_path / "scheduler.json"
    scheduler = _dask(
        *("scheduler", "--host", "127.0.0.1", "--port", "0", "--no-dashboard"),
        *("--scheduler-file", str(file)),
    )
    wait_until(lambda: file.is_file() and file.read_text())
    found = Cluster(json.loads(file.read_text())["address"], tmp_path, scheduler)
    yield found
    found.stop()


def test_killed_dask_worker_loses_nothing_and_results_equal_the_local_ones(
    cluster: Cluster, tmp_path: Path, library_folder: Path
) -> None:
    cluster.add_worker()
    cluster.add_worker()
    file, out = sweep_file(tmp_path, SWEEP), tmp_path / "by-dask"
    profiles = ("--profiles", library_folder)
    process = start(
        "sweep", file, "--dask", cluster.address, "--out", out, *profiles, "--json"
    )
    wait_until(
        lambda: (
            list(out.glob("runs/.diploee-*")) and len(list(out.glob("runs/[!.]*"))) >= 4
        ),
        process,
    )
    cluster.workers[0].send_signal(signal.SIGKILL)
    stdout, stderr = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0, stderr
    content = json.loads(stdout)
    assert (content["n_computed"], content["failed"]) == (24, {})
    assert cluster.workers[0].wait() == -signal.SIGKILL

    local = tmp_path / "local"
    assert (
        call("sweep", file, "--workers", 2, "--out", local, *profiles, "--quiet").code
        == 0
    )
    assert len([path for path in local.rglob("*") if path.is_file()]) == 24 * 5 + 5
    assert sweep_content(out) == sweep_content(local)


def test_client_of_a_notebook_executes_a_sweep_and_stays_open(
    cluster: Cluster, tmp_path: Path, library_folder: Path
) -> None:
    cluster.add_worker()
    file = sweep_file(tmp_path, {"set": {"duration": "6 h"}, "seeds": 2})
    with distributed.Client(cluster.address, set_as_default=False) as client:
        result = diploee.sweep(
            file, tmp_path / "out", dask=client, profiles=library_folder
        )
        assert client.status == "running"
    assert (result.n_computed, result.failed) == (2, {})
    local = diploee.sweep(file, tmp_path / "local", profiles=library_folder)
    assert result.frame().equals(local.frame())


def test_scheduler_without_workers_is_one_line(
    cluster: Cluster, tmp_path: Path, library_folder: Path
) -> None:
    options = ("--out", tmp_path / "out", "--profiles", library_folder, "--quiet")
    process = start(
        "sweep", sweep_file(tmp_path, {}), "--dask", cluster.address, *options
    )
    _, stderr = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 2
    assert stderr == (
        f"diploee: --dask {cluster.address}: the scheduler has no workers; start some "
        f"with 'dask worker {cluster.address}'\n"
    )
    assert not (tmp_path / "out").exists()


def test_scheduler_that_goes_away_ends_with_one_line_and_keeps_finished_runs(
    cluster: Cluster, tmp_path: Path, library_folder: Path
) -> None:
    cluster.add_worker()
    file, out = sweep_file(tmp_path, SWEEP), tmp_path / "out"
    options = (
        "--dask",
        cluster.address,
        "--out",
        out,
        "--profiles",
        library_folder,
        "--quiet",
    )
    process = start("sweep", file, *options)
    wait_until(lambda: len(list(out.glob("runs/[!.]*"))) >= 2, process)
    cluster.scheduler.kill()
    _, stderr = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 1
    assert stderr.splitlines()[-1].startswith(
        f"diploee: --dask {cluster.address}: the scheduler"
    )
    assert "Traceback" not in stderr
    assert not list(out.rglob(".*"))


def test_dask_address_without_an_answer_is_one_line(
    tmp_path: Path, library_folder: Path
) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"tcp://127.0.0.1:{free.getsockname()[1]}"
    options = ("--out", tmp_path / "out", "--profiles", library_folder, "--quiet")
    process = start("sweep", sweep_file(tmp_path, {}), "--dask", address, *options)
    _, stderr = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 2
    (line,) = stderr.splitlines()
    assert line.startswith(
        f"diploee: --dask {address}: no Dask scheduler answers there within"
    )
    assert not (tmp_path / "out").exists()


def test_dask_address_where_something_else_answers_is_one_line(
    tmp_path: Path, library_folder: Path
) -> None:
    """It answers each connection with a line that is no message of Dask's."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer() -> None:
            with suppress(OSError):  # until the server is closed
                while True:
                    with server.accept()[0] as other:
                        other.sendall(b"HTTP/1.1 400 Bad Request, said at length\r\n")

        threading.Thread(target=answer, daemon=True).start()
        address = f"tcp://127.0.0.1:{server.getsockname()[1]}"
        options = ("--out", tmp_path / "out", "--profiles", library_folder, "--quiet")
        process = start("sweep", sweep_file(tmp_path, {}), "--dask", address, *options)
        _, stderr = process.communicate(timeout=PATIENCE_S)
    (line,) = stderr.splitlines()
    assert line.startswith(
        f"diploee: --dask {address}: no Dask scheduler answers there within"
    )
