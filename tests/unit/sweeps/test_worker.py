"""A sweep's worker: what runs share is read once, and again when it changed."""

from __future__ import annotations

import pickle
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml
from builders import tiny_data
from sweep_builders import Swept, sweep_file

from diploee.sweeps import RunTask, load_sweep
from diploee.sweeps.task import Outcome, SweepWorker, in_process

LOG = "submit,start,duration,nodes\n0,0,600,1\n60,90,1200,2\n"


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often each file was opened, by name."""
    opens: Counter[str] = Counter()
    plain = Path.open

    def counted(path: Path, *args: Any, **options: Any) -> Any:
        opens[path.name] += 1
        return plain(path, *args, **options)

    monkeypatch.setattr(Path, "open", counted)
    return opens


def replay_sweep(folder: Path, n_seeds: int) -> Path:
    columns = {name: name for name in ("submit", "start", "duration", "nodes")}
    rules = [{"workload": "tune"}]
    replay = {"log": "jobs.csv", "columns": columns, "time_format": "s", "rules": rules}
    replay |= {"align": "start", "unmatched": "drop"}
    data = tiny_data({"duration": "6 h"})
    data["streams"] = {"logged": {"pool": "main", "replay": replay}}
    folder.mkdir(exist_ok=True)
    (folder / "jobs.csv").write_text(LOG, "utf-8")
    (folder / "base.yaml").write_text(yaml.safe_dump(data), "utf-8")
    path = folder / "sweep.yaml"
    path.write_text(yaml.safe_dump({"base": "base.yaml", "seeds": n_seeds}), "utf-8")
    return path


@pytest.mark.slow
def test_runs_that_replay_one_log_read_it_no_oftener_than_one_run_does(
    tmp_path: Path, swept: Swept, opened: Counter[str]
) -> None:
    of_one = 0
    for n_seeds in (1, 5):
        sweep = load_sweep(replay_sweep(tmp_path / str(n_seeds), n_seeds))
        opened.clear()
        result = swept(sweep, tmp_path / f"out {n_seeds}")
        assert result.n_computed == n_seeds
        of_one = of_one or opened["jobs.csv"]
        assert opened["jobs.csv"] == of_one > 0


def test_a_log_that_changes_while_its_runs_are_done_is_read_again(
    tmp_path: Path, swept: Swept
) -> None:
    path = replay_sweep(tmp_path, 3)

    def changing(tasks: Sequence[RunTask]) -> Iterator[Outcome]:
        for outcome in in_process(tasks):
            (tmp_path / "jobs.csv").write_text(LOG.replace("600", "601"), "utf-8")
            yield outcome

    result = swept(path, executor=changing)
    assert result.n_computed == 1
    assert all("differ here from those" in error for error in result.failed.values())
    assert len(result.failed) == 2


def test_a_worker_drops_what_the_last_run_did_not_read(
    tmp_path: Path, swept: Swept, opened: Counter[str]
) -> None:
    tasks: list[RunTask] = []

    def kept(given: Sequence[RunTask]) -> Iterator[Outcome]:
        tasks.extend(given)
        return iter(())

    for folder in ("a", "b"):
        path = replay_sweep(tmp_path / folder, 1)
        swept(path, tmp_path / f"out {folder}", executor=kept)
    worker, opens = SweepWorker(), []
    for task in (tasks[0], tasks[1], tasks[0]):
        opened.clear()
        assert worker.run(
            RunTask(**{**vars(task), "target": str(tmp_path / str(len(opens)))})
        )
        opens.append(opened["jobs.csv"])
    assert opens[0] == opens[1] == opens[2] > 0


ALONE = """
import pickle, sys, threading
from pathlib import Path
from diploee.sweeps.task import SweepWorker

started, start = [], threading.Thread.start
threading.Thread.start = lambda thread: (started.append(thread.name), start(thread))
outcome = SweepWorker().run(pickle.loads(Path(sys.argv[1]).read_bytes()))
print(outcome.error)
print(*sys.modules)
print(*started)
"""


@pytest.mark.slow
def test_a_worker_keeps_to_one_thread_and_imports_nothing_slow(
    tmp_path: Path, swept: Swept
) -> None:
    """Workers beside each other have a core each, and each starts on its own."""
    sent = tmp_path / "task"

    def kept(tasks: Sequence[RunTask]) -> Iterator[Outcome]:
        sent.write_bytes(pickle.dumps(tasks[0]))
        return iter(())

    path = sweep_file(tmp_path, {"seeds": 1})
    swept(path, executor=kept)
    command = [sys.executable, "-c", ALONE, sent]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    error, modules, threads = done.stdout.split("\n")[:3]
    assert (error, threads) == ("", "")
    slow = "pandas scipy.optimize scipy.special scipy.stats simpy vl_convert"
    assert not {*slow.split()} & {*modules.split()}
