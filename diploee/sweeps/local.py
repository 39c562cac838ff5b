"""Runs on the processes of this machine, as many at once as memory allows.

A worker that dies costs its own run's time only; the memory of a run is an estimate that the runs
themselves correct.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import threading
import warnings
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from multiprocessing import get_context, parent_process, resource_tracker
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from pathlib import Path
from types import ModuleType

from diploee.sweeps.store import remove_staging
from diploee.sweeps.task import Outcome, RunTask, SweepWorker

MAX_ATTEMPTS = 3
"""A run whose worker died so often is given up."""

STOP_TIMEOUT_S = 5.0

BASE_MB = 300.0
"""Memory of a worker that has imported everything and run nothing [MB]."""

PRIOR_MB_PER_NODE_HOUR = 60e-6
"""ASSUMPTION until a run has been measured: twice what the year of 2,840 nodes takes."""

SHARE = 0.9
"""Part of the memory available at the start that runs may take."""

_LIMITS = (
    ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current"),
    (
        "/sys/fs/cgroup/memory/memory.limit_in_bytes",
        "/sys/fs/cgroup/memory/memory.usage_in_bytes",
    ),
)

_INTERRUPTS = {
    getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)
}
_M_TRIM_THRESHOLD, _M_MMAP_MAX = -1, -4  # of glibc's malloc.h


def usable_cores() -> int:
    """Return the cores that this process may use; in a container, those it was given."""
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity is not None else os.cpu_count() or 1


def available_mb(meminfo: Path = Path("/proc/meminfo")) -> float | None:
    """Return the memory that new processes may take [MB]; None where it is unknown.

    The smaller of what the machine has and what its control group (a container, a Slurm job)
    allows.
    """
    found: list[float] = []
    for line in _text(meminfo).splitlines():
        if line.startswith("MemAvailable:"):
            found.append(int(line.split()[1]) / 1e3)
    for limit, usage in _LIMITS:
        allowed, used = _text(Path(limit)).strip(), _text(Path(usage)).strip()
        if allowed.isdigit() and used.isdigit():
            found.append((int(allowed) - int(used)) / 1e6)
    return max(min(found), 0.0) if found else None


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""


class MemoryBudget:
    """Says whether one more run fits in the memory for all [MB]; all do where it is not known."""

    def __init__(self, budget_mb: float | None) -> None:
        self._budget_mb = budget_mb
        self._mb_per_node_hour = PRIOR_MB_PER_NODE_HOUR
        self._measured = False

    @classmethod
    def of_this_machine(cls) -> MemoryBudget:
        """Return a budget of what is available now, less a reserve."""
        found = available_mb()
        return cls(None if found is None else SHARE * found)

    def need_mb(self, task: RunTask) -> float:
        """Return the memory that a run is expected to take [MB]."""
        return BASE_MB + self._mb_per_node_hour * task.node_hours

    def fits(self, task: RunTask, running: list[RunTask]) -> bool:
        """Return whether a run may start; one may always."""
        if self._budget_mb is None or not running:
            return True
        return sum(map(self.need_mb, [task, *running])) <= self._budget_mb

    def measured(self, peak_memory_mb: float, largest_node_hours: float) -> None:
        """Learn from a worker: its peak so far, and its largest run."""
        if not peak_memory_mb or not largest_node_hours:
            return
        found = max(peak_memory_mb - BASE_MB, 0.0) / largest_node_hours
        self._mb_per_node_hour = max(found, self._mb_per_node_hour) if self._measured else found
        self._measured = True

    def killed(self) -> None:
        """Learn from a worker that was killed, as a machine out of memory does it."""
        self._mb_per_node_hour *= 1.5


def run_locally(
    tasks: Sequence[RunTask], n_workers: int, budget: MemoryBudget | None = None
) -> Iterator[Outcome]:
    """Do runs on worker processes; imports, compiled code and profiles are loaded once in each.

    Parameters
    ----------
    tasks : sequence of RunTask
        Started in this order.
    n_workers : int
        Largest number of processes; fewer run where memory is short.
    budget : MemoryBudget, optional
        That of this machine by default.

    Yields
    ------
    Outcome
        As they come. When the generator is closed, the workers are stopped.
    """
    pool = _Pool(tasks, n_workers, budget or MemoryBudget.of_this_machine())
    try:
        while pool.assign():
            yield from pool.wait()
    finally:
        pool.stop()


@dataclass
class _Worker:
    """A process and the run that it does."""

    process: SpawnProcess
    connection: Connection
    task: RunTask | None = None
    attempt: int = 0
    largest_node_hours: float = 0.0

    def start(self, task: RunTask, attempt: int) -> None:
        self.task, self.attempt = task, attempt
        self.largest_node_hours = max(self.largest_node_hours, task.node_hours)
        with suppress(OSError):  # it died while idle; its sentinel tells, the run is tried again
            self.connection.send(task)


@dataclass
class _Pool:
    tasks: Sequence[RunTask]
    n_workers: int
    budget: MemoryBudget
    workers: list[_Worker] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._waiting = deque((task, 1) for task in self.tasks)
        self._context = get_context("spawn")

    def assign(self) -> bool:
        """Give runs to idle workers as memory allows; return whether anything is under way."""
        while self._waiting:
            running = [worker.task for worker in self.workers if worker.task is not None]
            task, attempt = self._waiting[0]
            if len(running) >= self.n_workers:
                break
            idle = [worker for worker in self.workers if worker.task is None]
            if not self.budget.fits(task, running):
                for worker in idle:  # gives its memory back
                    self._dismiss(worker)
                break
            self._waiting.popleft()
            (idle[0] if idle else self._hire()).start(task, attempt)
        return any(worker.task is not None for worker in self.workers)

    def wait(self) -> Iterator[Outcome]:
        """Wait for the next outcomes or deaths."""
        watched = {w.connection: w for w in self.workers} | {
            w.process.sentinel: w for w in self.workers
        }
        ready = {id(watched[event]): watched[event] for event in wait(list(watched))}  # type: ignore[index]
        for worker in ready.values():
            try:
                outcome = worker.connection.recv() if worker.connection.poll() else None
            except (EOFError, OSError):
                outcome = None
            if outcome is not None:
                worker.task = None
                self.budget.measured(outcome.peak_memory_mb, worker.largest_node_hours)
                yield outcome
            elif not worker.process.is_alive() or worker.connection.closed:
                yield from self._bury(worker)

    def _bury(self, worker: _Worker) -> Iterator[Outcome]:
        """Try the run of a dead worker again, unless that was done often enough."""
        self._dismiss(worker)
        if worker.task is None:
            return
        self.budget.killed()
        if worker.attempt < MAX_ATTEMPTS:
            self._waiting.appendleft((worker.task, worker.attempt + 1))
            return
        code = worker.process.exitcode
        reason = f"signal {-code}" if code is not None and code < 0 else f"exit code {code}"
        yield Outcome(
            worker.task.run,
            "failed",
            f"its worker process ended {MAX_ATTEMPTS} times ({reason}); short of memory? "
            "try fewer --workers",
        )

    def _hire(self) -> _Worker:
        ours, theirs = self._context.Pipe()
        process = self._context.Process(target=_serve, args=(theirs,), daemon=True)
        worker = _Worker(process, ours)
        with _interrupts_held(), _caller_left_out():
            process.start()
            self.workers.append(worker)
        theirs.close()
        return worker

    def _dismiss(self, worker: _Worker) -> None:
        worker.process.kill()
        worker.process.join(STOP_TIMEOUT_S)
        self.workers.remove(worker)
        worker.connection.close()
        remove_staging(worker.process.pid or 0)

    def stop(self) -> None:
        """Stop all workers at once."""
        for worker in self.workers:
            worker.process.kill()
        for worker in list(self.workers):
            self._dismiss(worker)


@contextmanager
def _interrupts_held() -> Iterator[None]:
    """Keep an interrupt until a process has started whole; it is born with them held as well."""
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        yield
        return
    resource_tracker.ensure_running()  # lets interrupts through when it starts
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _INTERRUPTS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def _caller_left_out() -> Iterator[None]:
    """Start a process that does not run the calling script again: it needs nothing of it.

    Otherwise a script that sweeps would have to ask whether it is ``__main__``.
    """
    caller, sys.modules["__main__"] = sys.modules["__main__"], ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = caller


def _serve(connection: Connection) -> None:
    """Do runs as they come, until the other end closes or the parent process dies."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches all; the parent decides
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _INTERRUPTS)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    _keep_freed_memory()
    if not sys.warnoptions:
        warnings.simplefilter("ignore")  # as in the process that the user started
    worker = SweepWorker()
    while True:
        try:
            task = connection.recv()
        except (EOFError, OSError):
            return
        connection.send(worker.run(task))


def _keep_freed_memory() -> None:
    """Let the allocator reuse the memory of one run for the next instead of returning it.

    The pages of large arrays would come fresh from the system, zeroed, for every run; with several
    workers at it that costs a fifth of their time. Only glibc is set so; elsewhere it stays.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError, TypeError):
        return
    mallopt(_M_MMAP_MAX, 0)
    mallopt(_M_TRIM_THRESHOLD, 2**31 - 1)


def _end_with_parent() -> None:
    parent = parent_process()
    if parent is not None:
        wait([parent.sentinel])
        remove_staging(os.getpid())
        os._exit(1)
