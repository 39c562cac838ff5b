"""Sweeps and ensembles from Python: by name, file or plain data; a notebook shows how they go."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from diploee.progress import NotebookBar, in_notebook
from diploee.sweeps.execute import SweepProgress, SweepResult, run_sweep
from diploee.sweeps.loading import Sweep, load_ensemble, load_sweep, sweep_from_dict
from diploee.sweeps.local import run_locally
from diploee.sweeps.task import Outcome, RunTask


class _NotebookSweepProgress(SweepProgress):
    """Draws one bar for all runs into the output of a notebook's cell."""

    def begin(self, tasks: Sequence[RunTask], n_runs: int) -> None:
        """Draw the bar; runs that are complete already are named before it."""
        before = n_runs - len(tasks)
        self._bar = NotebookBar(f"{n_runs:,} runs" + (f", {before:,} complete" if before else ""))
        self._cost, self._done, self._n = sum(task.cost for task in tasks), 0.0, before

    def ended(self, task: RunTask, outcome: Outcome) -> None:
        """Move on by the cost of a run."""
        self._done += task.cost
        self._n += outcome.status == "finished"
        self._bar.update(self._done / self._cost, f"{self._n:,} done")

    def close(self) -> None:
        """Tell the time taken."""
        self._bar.end()


def sweep(
    asked: Sweep | Mapping[str, Any] | Path | str,
    out: Path | str | None = None,
    *,
    workers: int = 0,
    **options: Any,
) -> SweepResult:
    """Run a scenario over axes and seeds; what is complete at `out` is not repeated.

    Parameters
    ----------
    asked : Sweep, mapping, path or str
        A loaded sweep, the content of a sweep file, the file, or the name of a shipped one.
    out : path, optional
        Folder or fsspec URL; ``sweeps/<name>`` by default.
    workers : int
        Processes on this machine; 0 for none but this one.
    **options : object
        Further arguments of `run_sweep`, such as ``engine="compiled"``.

    Returns
    -------
    SweepResult
        Its `frame()` has a row per run with every metric by dotted key.

    Raises
    ------
    InputError
        As `run_sweep`.
    """
    if isinstance(asked, Mapping):
        asked = sweep_from_dict(asked, str(asked.get("name", "sweep")))
    loaded = asked if isinstance(asked, Sweep) else load_sweep(asked)
    if workers:
        options.setdefault("executor", partial(run_locally, n_workers=workers))
    if in_notebook():
        options.setdefault("progress", _NotebookSweepProgress())
    return run_sweep(loaded, out, **options)


def ensemble(
    asked: Path | str,
    out: Path | str | None = None,
    *,
    seeds: int | None = None,
    accuracy: float | None = None,
    **options: Any,
) -> SweepResult:
    """Run many seeds of a scenario or sweep; `SweepResult.ensemble` has the spread.

    Parameters
    ----------
    asked : path or str
        Name or file of a scenario or of a sweep.
    out : path, optional
        Folder to write.
    seeds : int, optional
        Number of seeds of each point; those of the sweep by default.
    accuracy : float, optional
        Relative half width to reach, 0-1, from which the number of seeds that it needs follows.
    **options : object
        Arguments of `sweep`.
    """
    return sweep(load_ensemble(asked, seeds, accuracy), out, **options)
