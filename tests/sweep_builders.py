"""A sweep of tiny runs, and an executor that fails or is interrupted."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml
from builders import write_scenario

from diploee.sweeps import RunTask, Sweep, SweepResult, load_sweep
from diploee.sweeps.task import Outcome

UTILIZATION = "streams.training.target_utilization"
N_NODES = "facility.pools.main.n_nodes"
Swept = Callable[..., SweepResult]
"""Runs a sweep: the fixture of those tests."""


def sweep_file(folder: Path, content: Mapping[str, Any]) -> Path:
    """Write the tiny scenario (one day) and a sweep of it."""
    write_scenario(folder / "tiny.yaml", {"duration": "1 d"})
    path = folder / "sweep.yaml"
    path.write_text(yaml.safe_dump({"base": "tiny.yaml", **content}, sort_keys=False))
    return path


def tiny_sweep(folder: Path, **content: Any) -> Sweep:
    return load_sweep(sweep_file(folder, content))


def sweep_content(out: Path) -> dict[str, Any]:
    """All files of a sweep by name, hidden ones too; of the manifests, all but the
    times."""
    found: dict[str, Any] = {}
    for path in sorted(p for p in out.rglob("*") if p.is_file()):
        name = str(path.relative_to(out))
        found[name] = path.read_bytes()
        if path.name == "manifest.json":
            found[name] = json.loads(found[name])
            del found[name]["timing"]
    return found


class Failing:
    """Does no run: each one fails, or the whole thing is interrupted after some."""

    def __init__(self, interrupt_after: int | None = None) -> None:
        self.runs: list[str] = []
        self.interrupt_after = interrupt_after

    def __call__(self, tasks: Sequence[RunTask]) -> Iterator[Outcome]:
        from diploee.sweeps.task import run_task

        for task in tasks:
            if (
                self.interrupt_after is not None
                and len(self.runs) == self.interrupt_after
            ):
                raise KeyboardInterrupt
            self.runs.append(task.run)
            if self.interrupt_after is None:
                yield Outcome(task.run, "fails always")
            else:
                yield run_task(task)
