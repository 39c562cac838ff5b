"""How many runs fit into memory at once: an estimate per run that the runs themselves correct."""

from __future__ import annotations

from pathlib import Path

from diploee.sweeps.task import RunTask

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
    """Says whether one more run fits beside those under way.

    Parameters
    ----------
    budget_mb : float or None
        Memory for all runs [MB]; None means that it is unknown and everything fits.
    """

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
