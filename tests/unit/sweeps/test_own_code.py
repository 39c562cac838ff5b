"""Runs of a sweep with code of the user's own: computed anew when it changed, never
without it."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any

import pytest
from builders import tiny_library, tiny_run, tiny_scenario
from sweep_builders import Swept, tiny_sweep

from diploee import run as simulate
from diploee.base.errors import InputError
from diploee.metrics import MEASURES
from diploee.reports.compare import compare
from diploee.scenario import SCHEDULERS
from diploee.sweeps import SweepResult, run_locally

SOURCE = """
from typing import Literal
from diploee.base import Metric
from diploee.metrics import MEASURES, RunMeasure
from diploee.scenario import SCHEDULERS, SchedulerSpec

def order(view, job):
    return view.job_n_nodes[job]

class Narrowest:
    def select(self, view):
        free, chosen = view.free_nodes, []
        for job in sorted(view.queue, key=lambda job: order(view, job)):
            if view.job_n_nodes[job] <= free:
                free -= view.job_n_nodes[job]
                chosen.append(job)
        return chosen

@SCHEDULERS.register
class NarrowestSpec(SchedulerSpec):
    kind: Literal["narrowest"] = "narrowest"
    def open(self):
        return Narrowest()

class Count:
    n_window = 1
    def __init__(self, clock):
        self.n = 0
    def add(self, stretch):
        self.n += stretch.n_new
    def result(self):
        return {"n": self.n}

MEASURES.register(RunMeasure("count", (Metric("measures.count.n", "1", "values"),), Count))
"""  # noqa: E501
NARROWEST = {"facility.pools.main.scheduler": "narrowest"}


@pytest.fixture
def written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Write the module `mine` and import it as in a new process."""
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(SCHEDULERS, "added", {})
    monkeypatch.setattr(MEASURES, "by_name", {})

    def write(before: str = "", after: str = "") -> Any:
        SCHEDULERS.added.clear()
        MEASURES.by_name = {}
        sys.modules.pop("mine", None)
        (tmp_path / "mine.py").write_text(SOURCE.replace(before, after))
        for cached in tmp_path.glob("__pycache__/*"):
            cached.unlink()
        importlib.invalidate_caches()
        return importlib.import_module("mine")

    yield write
    sys.modules.pop("mine", None)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("    return view.job_n_nodes[job]", "    return -view.job_n_nodes[job]"),
        ("self.n += stretch.n_new", "self.n += 2 * stretch.n_new"),
    ],
)
def test_sweep_is_computed_anew_where_the_code_of_its_own_policy_or_measure_changed(
    written: Any, tmp_path: Path, swept: Swept, before: str, after: str
) -> None:
    def run() -> SweepResult:
        sweep = tiny_sweep(tmp_path, set=NARROWEST)
        return swept(sweep)

    written()
    assert [run().n_computed for _ in range(2)] == [1, 0]
    written(before, after)
    assert [run().n_computed for _ in range(2)] == [1, 0]


def test_manifest_names_own_parts_alone_and_compare_shows_them(
    written: Any, tmp_path: Path
) -> None:
    run = tiny_run(tmp_path / "run", {"duration": "6 h"})
    assert "own_parts" not in run.manifest
    mine, library = written(), tiny_library()
    scenario = tiny_scenario({"duration": "6 h"})
    plain = simulate(scenario, tmp_path / "plain", profiles=library)
    own = simulate(
        scenario,
        tmp_path / "own",
        profiles=library,
        policies={"main": mine.Narrowest()},
    )
    parts = {part["kind"]: part["name"] for part in own.manifest["own_parts"]}
    assert parts == {"policy": "mine:Narrowest", "measure": "mine:Count"}
    settings = compare(plain, own).settings
    ((key, values),) = settings.items()
    assert (key, values[0]) == ("own policy", None)
    assert values[1].startswith("mine:Narrowest (")
    by_name = simulate(
        tiny_scenario({"duration": "6 h", **NARROWEST}),
        tmp_path / "n",
        profiles=library,
    )
    kinds = [part["kind"] for part in by_name.manifest["own_parts"]]
    assert kinds == ["policy", "measure"]
    written("    return view.job_n_nodes[job]", "    return -view.job_n_nodes[job]")
    changed = simulate(
        tiny_scenario({"duration": "6 h", **NARROWEST}),
        tmp_path / "c",
        profiles=library,
    )
    assert list(compare(by_name, changed).settings) == ["own policy"]


def test_worker_processes_are_refused_code_that_they_cannot_import(
    written: Any, tmp_path: Path, swept: Swept
) -> None:
    written()
    names: dict[str, Any] = {"__name__": "__main__"}
    SCHEDULERS.added.clear()
    MEASURES.by_name = {}
    exec(compile(SOURCE, "cell", "exec", dont_inherit=True), names)
    sweep = tiny_sweep(tmp_path, set=NARROWEST)
    with pytest.raises(InputError, match="NarrowestSpec: worker processes can't"):
        swept(sweep, executor=lambda tasks: run_locally(tasks, 2))
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
def test_worker_processes_import_the_modules_of_own_policies_and_measures(
    written: Any, tmp_path: Path, swept: Swept
) -> None:
    written()
    result = swept(
        tiny_sweep(tmp_path, set=NARROWEST),
        executor=lambda tasks: run_locally(tasks, 2),
    )
    assert not result.failed
    minutes_of_a_day = 24 * 60  # less those in which the run fills up
    assert 0 < result.frame()["measures.count.n"][0] <= minutes_of_a_day
