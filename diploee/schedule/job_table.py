"""`JobTable`: the submitted jobs that a schedule starts.

Also the flexibility of job classes, and job power as known before a job runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

from diploee.base.tables import (
    Float32Array,
    Float64Array,
    Int16Array,
    Int32Array,
    Int64Array,
    Table,
    column,
)
from diploee.base.units import MS_PER_DAY, MS_PER_MIN
from diploee.profiles.derived import WorkKind, capped_power_w, cpu_power_w
from diploee.profiles.library import ProfileLibrary
from diploee.profiles.looping import find_phases
from diploee.scenario.pools import NodeType

DRAW_MS = MS_PER_DAY // 4
"""Length of a draw span [ms], counted from the start of the run. Random numbers are
drawn for one span at a time, so that they do not depend on the windows that a run is
cut into. Six hours of a gigawatt's jobs take about 200 MB."""


@dataclass(frozen=True, eq=False)
class JobTable(Table):
    """Table of jobs in the order of their submission."""

    job_id: Int64Array = column("int64")  # number of the job, from 0
    # Time of submission since the start of the run [ms]; non-decreasing
    submit_ms: Int64Array = column("int64")
    # Nodes that the job occupies; in a pool that allocates GPUs, slots, of which a
    # node has `Facility.slots_per_node`
    n_nodes: Int32Array = column("int32")
    # Time in which it occupies its nodes [ms], start-up included
    duration_ms: Int64Array = column("int64")
    pool_id: Int16Array = column("int16")  # index of the pool in `Scenario.pool_names`
    class_id: Int16Array = column("int16")  # index into `job_classes`
    profile_id: Int32Array = column("int32")  # index into the profile library
    # Time at idle power before the profile begins [ms]; 0 by default
    startup_ms: Int32Array = column("int32", default=0)
    # Factor on the profile's power, the nodes' `busy_power_factor` included; 1 by
    # default
    power_factor: Float64Array = column("float64", default=1)
    # Number of a synchronous job in its stream, from 1; 0 by default: the job replays
    # its profile
    synchronous_id: Int32Array = column("int32", default=0)
    # Run time that its user requested [ms]; 0 = unknown
    requested_ms: Int64Array = column("int64", default=0)
    # Number of the user in the stream, from 1; 0 = unknown
    user_id: Int32Array = column("int32", default=0)
    # Priority of its class, 0-1; 0 by default
    priority: Float32Array = column("float32", default=0)


@dataclass(frozen=True)
class ClassFlexibility:
    """Flexibility of the jobs of a class.

    Notes
    -----
    Assumed are the default times, and that a job of a class without a table may run on
    any number of nodes. The power during saving and restarting is 0.1 to 0.3 of a job's
    power in the data of the demonstration in arXiv:2507.00909 (computed for restarting
    jobs).
    """

    # Tolerated mean loss of throughput over a job: 0, 10, 25 or 50 % for tier 0 to 3
    tier: int = 0
    kind: WorkKind = "pre_training"  # workload whose measured power caps apply
    pausable: bool = True  # True if jobs may be stopped or suspended
    # Minimum number of nodes, as a fraction of those requested, which are the maximum
    least_share: float = 0.0
    # Work between two checkpoints [ms]; a killed job resumes from the last one
    checkpoint_every_ms: int = 30 * MS_PER_MIN
    stop_ms: int = 2 * MS_PER_MIN  # duration of the checkpoint before a stop [ms]
    restart_ms: int = 10 * MS_PER_MIN  # duration of the restart after a stop [ms]
    # Power during stop and restart, relative to the job's mean; at least idle power
    stop_share: float = 0.25
    restart_share: float = 0.2
    # A job's deadline is (1 + slack) times its estimate after submission; None: none
    slack: float | None = None
    deadline_ms: int | None = None  # deadline of all jobs [ms], in place of `slack`


BY_DEFAULT = ClassFlexibility()
"""Flexibility of the jobs of a class without keys for it."""


class JobPower:
    """Device power of jobs, as known before they run.

    The power of a job is the mean power of its profile, at a power cap that of the
    capped profile. Jobs of classes with `filled` repeat the steady part of their
    profile, so their power is the mean of that part.
    """

    def __init__(
        self,
        library: ProfileLibrary,
        nodes: Sequence[NodeType],
        filled: Sequence[bool] = (),
    ) -> None:
        self._library, self._nodes, self._filled = library, nodes, filled
        self._profile_means_w: dict[int, tuple[float, float]] = {}
        self.job_power_w = cache(self._power_w)

    def _power_w(
        self,
        class_id: int,
        profile_id: int,
        n_nodes: int,
        power_factor: float,
        cap: float,
    ) -> float:
        """Return the power of a job [W]; `cap` is relative to uncapped power."""
        profile_nodes = self._library.entries[profile_id].n_nodes
        is_filled = class_id < len(self._filled) and self._filled[class_id]
        profile_w = np.array([self._profile_power_w(profile_id)[is_filled]])
        capped_w = capped_power_w(
            profile_w, cpu_power_w(self._nodes[class_id]) * profile_nodes, cap
        )
        return float(capped_w[0]) * (n_nodes / profile_nodes * power_factor)

    def idle_w(self, class_id: int) -> float:
        """Return the idle power of a node of a job class [W]."""
        return self._nodes[class_id].idle_power_w

    def _profile_power_w(self, profile_id: int) -> tuple[float, float]:
        """Return the mean power of a profile, and of its steady part [W]."""
        if profile_id not in self._profile_means_w:
            profile = self._library[profile_id]
            power_w = profile.power_w.astype(np.float64)
            phases = find_phases(profile)
            steady_w = power_w[
                phases.steady_ms // profile.dt_ms : phases.ending_ms // profile.dt_ms
            ]
            self._profile_means_w[profile_id] = (
                profile.mean_power_w,
                float(steady_w.mean()),
            )
        return self._profile_means_w[profile_id]
