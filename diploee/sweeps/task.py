"""Single run of a sweep, as a function for any process on any machine."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from operator import attrgetter
from pathlib import Path

import pyarrow.parquet as pq

from diploee import api
from diploee.base.errors import Brief, DiploeeError, InputError
from diploee.base.files import whole_folder
from diploee.base.units import MS_PER_H
from diploee.importers.input_reader import InputReader
from diploee.profiles.library import ProfileLibrary
from diploee.runs.parquet_files import JOBS_FILE
from diploee.scenario.models import Scenario
from diploee.schedule.schedule import Engine
from diploee.simulation.own_parts import HashedObjects, OwnPart
from diploee.sweeps.expand import NAME_DIGITS, own_parts_of, run_hash
from diploee.sweeps.folder import RUN_OF_SWEEP, RUNS
from diploee.sweeps.record import SHAPE_FILE, load_shape, read_result, write_record
from diploee.sweeps.spec import KEPT_FILES, Keep

START_COST = 2e6
"""Cost of a run without jobs, in node-hours of jobs."""


@dataclass(frozen=True)
class RunTask(Brief):
    """Complete input of one run for a worker process."""

    run: str  # name of the run
    scenario: Scenario  # as resolved
    target: str  # folder of the sweep
    profiles: tuple[str, ...] = ()  # profile folders; none means the shipped ones
    # Scheduler; by default that which gives the run sooner
    engine: Engine | None = None
    keep: Keep = "series"  # kept files of the run
    own: Sequence[OwnPart] = ()  # code of it that is not of the package

    @property
    def cost(self) -> float:
        """Expected node-hours of jobs, an estimate of the run's computing time."""
        pools, hours = (
            self.scenario.facility.pools,
            self.scenario.clock.simulated_ms / MS_PER_H,
        )
        busy = sum(
            pools[stream.pool].n_nodes * (stream.target_utilization or 1.0)
            for stream in self.scenario.streams.values()
        )
        return START_COST + busy * hours


@dataclass(frozen=True)
class Outcome:
    """Outcome of a run: finished, or failed with an error."""

    run: str
    error: str = ""  # one line where it failed


Executor = Callable[[Sequence[RunTask]], Iterator[Outcome]]
"""Does runs and yields each outcome as it comes, in any order."""


class SweepWorker:
    """Worker that executes runs in sequence, and reads shared profiles and files once.

    `n_threads` is the number of threads that compute power. With 0, a run uses a single
    core, as is best for several workers on one machine. With 1, power is computed while
    the next window is generated.
    """

    def __init__(self, n_threads: int = 0) -> None:
        self._n_threads = n_threads
        self._reader = InputReader()
        self._library: tuple[tuple[str, ...], ProfileLibrary] | None = None
        self._known: HashedObjects = {}

    def run(self, task: RunTask) -> Outcome:
        """Execute a run unless it is complete; an error is returned as its outcome."""
        try:
            self._complete(task)
        except DiploeeError as problem:
            return Outcome(task.run, "; ".join(str(problem).splitlines()))
        # One failing run must not end the others
        except Exception as problem:  # noqa: BLE001
            words = f"{type(problem).__name__}: {' '.join(str(problem).split())}"
            return Outcome(task.run, f"internal error: {words}")
        return Outcome(task.run)

    def _complete(self, task: RunTask) -> None:
        place = Path(task.target, RUNS, task.run)
        if read_result(place, task.keep) is not None:
            return
        if self._library is None or self._library[0] != task.profiles:
            self._library = task.profiles, ProfileLibrary.open(*task.profiles)
        inputs = self._reader.load(task.scenario, self._library[1])
        custom_code = own_parts_of(task.scenario, inputs, self._known)
        whole_hash = run_hash(task.scenario, inputs, custom_code)
        if whole_hash[:NAME_DIGITS] != task.run:
            raise InputError(
                "diploee, your own code, profiles, curves or input files (logs, "
                "traces, weather, signals) differ here from those of the sweep; use "
                "the same ones on every machine"
            )
        with whole_folder(place, force=True, kind=RUN_OF_SWEEP) as folder:
            run = api.run(
                task.scenario,
                folder,
                inputs=inputs,
                engine=task.engine,
                force=True,  # an empty folder
                jobs_file=JOBS_FILE in KEPT_FILES[task.keep],
                n_threads=self._n_threads,
            )
            # The load's shape and the record; files that are not kept go.
            pq.write_table(load_shape(run), folder / SHAPE_FILE)
            for name in set(KEPT_FILES["all"]) - set(KEPT_FILES[task.keep]):
                (folder / name).unlink(missing_ok=True)
            write_record(folder, whole_hash, task.keep)


_of_this_process = cache(SweepWorker)


def check_importable(tasks: Iterable[RunTask]) -> None:
    """Raise an error if another process can't import the user's code."""
    tasks = list(tasks)
    for name in dict.fromkeys(name for task in tasks for name in task.scenario.modules):
        if name == "__main__" or find_spec(name) is None:
            raise InputError(f"modules {name}: worker processes can't import it")
    for part in dict.fromkeys(part for task in tasks for part in task.own):
        module, _, name = part.name.partition(":")
        with suppress(ImportError, ValueError, AttributeError):
            if module != "__main__" and find_spec(module) is not None:
                attrgetter(name)(import_module(module))
                continue
        raise InputError(
            f"{part.kind} {part.name}: worker processes can't import it; put it into "
            "a module, a .py file on the path, and import it from there, or take no "
            "workers"
        )


def run_task(task: RunTask) -> Outcome:
    """Execute a run in a worker process, which caches shared inputs."""
    for module in task.scenario.modules:
        import_module(module)
    for part in task.own:  # registers what no scenario refers to, such as a measure
        import_module(part.name.partition(":")[0])
    return _of_this_process().run(task)


def in_process(tasks: Sequence[RunTask]) -> Iterator[Outcome]:
    """Execute runs one by one in this process."""
    return map(SweepWorker(n_threads=1).run, tasks)
