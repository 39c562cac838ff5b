"""Sweep runs on local processes, as many in parallel as memory allows.

If a worker process dies, only its own run has to be repeated.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import threading
import warnings
from collections.abc import Generator, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, suppress
from multiprocessing import parent_process, resource_tracker
from multiprocessing.connection import wait
from multiprocessing.context import SpawnContext, SpawnProcess
from pathlib import Path
from types import ModuleType
from typing import Any

from diploee.simulation.cost_forecast import MB_OF_WINDOW, START_MB
from diploee.sweeps.task import Outcome, RunTask, check_importable, run_task

MAX_ATTEMPTS = 3
"""A run whose worker died so often is given up."""

STOP_TIMEOUT_S = 5.0

RUN_MB = START_MB + 2 * MB_OF_WINDOW
"""Memory that a run is taken to need [MB]. ASSUMPTION: that of a year of 10 MW with
services; a gigawatt takes some 10 % more."""

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
    getattr(signal, name)
    for name in ("SIGINT", "SIGTERM", "SIGHUP")
    if hasattr(signal, name)
}
_M_TRIM_THRESHOLD, _M_MMAP_MAX = -1, -4  # of glibc's malloc.h


def usable_cores() -> int:
    """Return the number of cores that this process may use.

    In a container, these are the cores assigned to it.
    """
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity is not None else os.cpu_count() or 1


def available_mb(meminfo: Path = Path("/proc/meminfo")) -> float | None:
    """Return the memory available to new processes [MB]; None if unknown.

    This is the smaller of the machine's free memory and what the limit of the control
    group (such as a container or a Slurm job) leaves.
    """
    result: list[float] = []
    for line in _text(meminfo).splitlines():
        if line.startswith("MemAvailable:"):
            result.append(int(line.split()[1]) / 1e3)
    for limit, usage in _LIMITS:
        allowed, used = _text(Path(limit)).strip(), _text(Path(usage)).strip()
        if allowed.isdigit() and used.isdigit():
            result.append((int(allowed) - int(used)) / 1e6)
    return max(min(result), 0.0) if result else None


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""


def max_parallel_runs(
    tasks: Sequence[RunTask], n_workers: int, free_mb: float | None
) -> int:
    """Return the number of runs that fit in the free memory [MB], at least one."""
    fitting = n_workers if free_mb is None else int(SHARE * free_mb / RUN_MB)
    return max(1, min(n_workers, fitting, len(tasks)))


def run_locally(tasks: Sequence[RunTask], n_workers: int) -> Iterator[Outcome]:
    """Execute runs on worker processes.

    Imports, compiled code and profiles are loaded once per worker. If a worker dies,
    each run in progress is repeated alone, which identifies the run that failed.

    Parameters
    ----------
    tasks : sequence of RunTask
        The runs, which are started in this order.
    n_workers : int
        Maximum number of processes; fewer are used if memory is short.

    Yields
    ------
    Outcome
        Outcome of each run, in the order of completion. When the generator is closed,
        the workers are stopped.

    Raises
    ------
    InputError
        If the workers can't import the user's own code.
    """
    check_importable(tasks)
    return _run_locally(tasks, n_workers)


def _run_locally(tasks: Sequence[RunTask], n_workers: int) -> Iterator[Outcome]:
    waiting, n_workers = (
        list(tasks),
        max_parallel_runs(tasks, n_workers, available_mb()),
    )
    n_under_way = 2 * n_workers + 1  # with those that the pool has fetched ahead
    while waiting:
        waiting, _ = yield from _run_in_pool(waiting, n_workers)
        suspects, waiting = waiting[:n_under_way], waiting[n_under_way:]
        for task in suspects:
            for _attempt in range(1, MAX_ATTEMPTS):
                lost, code = yield from _run_in_pool([task], 1)
                if not lost:
                    break
            else:
                reason = f"signal {-code}" if code < 0 else f"exit code {code}"
                yield Outcome(
                    task.run,
                    (
                        f"its worker process ended {MAX_ATTEMPTS} times ({reason}); "
                        "short of memory? try fewer --workers"
                    ),
                )


class _Workers(SpawnContext):
    """Multiprocessing context that keeps a list of the processes it started."""

    def __init__(self) -> None:
        super().__init__()
        self.started: list[SpawnProcess] = []

    def Process(self, *args: Any, **options: Any) -> SpawnProcess:  # type: ignore[override]  # noqa: N802
        """Return a new process."""
        self.started.append(SpawnProcess(*args, **options))
        return self.started[-1]


def _run_in_pool(
    tasks: Sequence[RunTask], n_workers: int
) -> Generator[Outcome, None, tuple[list[RunTask], int]]:
    """Yield the outcomes of runs in a pool of workers.

    Returns the runs lost with a dead worker, and its exit code.
    """
    workers = _Workers()
    pool = ProcessPoolExecutor(n_workers, workers, _init_worker)
    futures: dict[Future[Outcome], RunTask] = {}
    done = set()
    try:
        # One that died as others were started
        with suppress(BrokenProcessPool, OSError):
            with _delay_interrupts(), _without_main_script():
                for task in tasks:
                    futures[pool.submit(run_task, task)] = task
            for future in as_completed(futures):
                yield future.result()
                done.add(futures[future].run)
    finally:
        started = [process for process in workers.started if process.pid]
        for process in started:
            process.kill()
        pool.shutdown(cancel_futures=True)
        for process in started:
            process.join(STOP_TIMEOUT_S)
    lost = [task for task in tasks if task.run not in done]
    return lost, next((process.exitcode for process in started if process.exitcode), 0)


@contextmanager
def _delay_interrupts() -> Iterator[None]:
    """Delay interrupts while worker processes are started.

    The new processes inherit the blocked signals.
    """
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        yield
        return
    resource_tracker.ensure_running()  # lets interrupts through when it starts
    previous_signals = signal.pthread_sigmask(signal.SIG_BLOCK, _INTERRUPTS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, previous_signals)


@contextmanager
def _without_main_script() -> Iterator[None]:
    """Start processes that do not import the calling script again.

    A user's script with a sweep thus does not have to check whether it is ``__main__``.
    """
    caller, sys.modules["__main__"] = sys.modules["__main__"], ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = caller


def _init_worker() -> None:
    """Initialize a worker process, which ends with its parent process."""
    # Ctrl-C reaches all; the parent decides
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _INTERRUPTS)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    _reuse_freed_memory()
    if not sys.warnoptions:
        warnings.simplefilter("ignore")  # as in the process that the user started


def _reuse_freed_memory() -> None:
    """Let the allocator reuse the memory of one run for the next.

    Otherwise the pages of large arrays would be mapped and zeroed anew for every run;
    with several workers that costs a fifth of their time. Applies to glibc only.
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
        os._exit(1)
