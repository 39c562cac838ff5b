"""`JobTable`: the submitted jobs that a schedule starts.

How they bend, and their power as known before they run.
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
"""Span that is drawn at once, counted from the start of the run: however long the
windows of a run are, what is drawn for a span is the same. A gigawatt's jobs of six
hours fill some 200 MB."""


@dataclass(frozen=True, eq=False)
class JobTable(Table):
    """Jobs in the order of their submission."""

    job_id: Int64Array = column("int64")  # number of the job, from 0
    # Submission, from the start of the run [ms]; non-decreasing
    submit_ms: Int64Array = column("int64")
    # Nodes that the job occupies; in a pool that allocates GPUs slots,
    # `Facility.slots_per_node` of a node
    n_nodes: Int32Array = column("int32")
    # Time for which it occupies its nodes [ms], its start-up included
    duration_ms: Int64Array = column("int64")
    pool_id: Int16Array = column("int16")  # index of the pool in `Scenario.pool_names`
    class_id: Int16Array = column("int16")  # index into `job_classes`
    profile_id: Int32Array = column("int32")  # index into the profile library
    # Time at idle power before the profile begins [ms]; 0 unless given
    startup_ms: Int32Array = column("int32", default=0)
    # Factor on the profile's power, the nodes' `busy_power_factor` included; 1 unless
    # given
    power_factor: Float64Array = column("float64", default=1)
    # Number of a synchronous job among those of its stream, from 1; 0, unless given,
    # plays its profile
    synchronous_id: Int32Array = column("int32", default=0)
    # Run time that its user asked for [ms]; 0 = not known
    requested_ms: Int64Array = column("int64", default=0)
    # Who submitted it, numbered within its stream from 1; 0 = not known
    user_id: Int32Array = column("int32", default=0)
    # Priority of its class, 0-1; 0 unless given
    priority: Float32Array = column("float32", default=0)


@dataclass(frozen=True)
class ClassFlexibility:
    """How the jobs of a class bend.

    Notes
    -----
    ASSUMPTION: the default times [A]. The shares of power lie within the 0.1 to 0.3 of
    a job's that jobs drew while they restarted in the demonstration of arXiv:2507.00909
    [C]. ASSUMPTION: without a table any job may be run on fewer nodes [J].
    """

    # 0 to 3: mean loss of throughput that is tolerated, 0, 10, 25 or 50 % over the job
    tier: int = 0
    kind: WorkKind = "pre_training"  # whose measured caps the class follows
    pausable: bool = True  # its jobs may be stopped or suspended
    # Fewest nodes over those that a job asks for, which are the most
    least_share: float = 0.0
    # work between two checkpoints [ms]; a killed job goes back to one
    checkpoint_every_ms: int = 30 * MS_PER_MIN
    stop_ms: int = 2 * MS_PER_MIN  # time of a checkpoint before a stop [ms]
    restart_ms: int = 10 * MS_PER_MIN  # time of a start after a stop [ms]
    # Power meanwhile, over the job's mean power; idle power at least
    stop_share: float = 0.25
    restart_share: float = 0.2
    # Due 1 + slack of its estimate after its submission; never if None
    slack: float | None = None
    deadline_ms: int | None = None  # when all its jobs are due [ms], instead


BY_DEFAULT = ClassFlexibility()
"""How jobs of a class without keys of its own bend."""


class JobPower:
    """Device power of jobs as it is known before they run.

    A profile's mean stands for all of its jobs, and is scaled for a cap as the profile
    is.

    Jobs of classes that are `filled` play the steady part of their profile in a loop,
    so that their mean is that part's.
    """

    def __init__(
        self,
        library: ProfileLibrary,
        nodes: Sequence[NodeType],
        filled: Sequence[bool] = (),
    ) -> None:
        self._library, self._nodes, self._filled = library, nodes, filled
        self._found: dict[int, tuple[float, float]] = {}
        self.of = cache(self._of)

    def _of(
        self,
        class_id: int,
        profile_id: int,
        n_nodes: int,
        power_factor: float,
        cap: float,
    ) -> float:
        """Return the power of a job [W]; `cap` as a share of the power without it."""
        own_nodes = self._library.entries[profile_id].n_nodes
        is_filled = class_id < len(self._filled) and self._filled[class_id]
        own_w = np.array([self._of_profile(profile_id)[is_filled]])
        capped_w = capped_power_w(
            own_w, cpu_power_w(self._nodes[class_id]) * own_nodes, cap
        )
        return float(capped_w[0]) * (n_nodes / own_nodes * power_factor)

    def idle_w(self, class_id: int) -> float:
        """Return the idle power of a node that a class runs on [W]."""
        return self._nodes[class_id].idle_power_w

    def _of_profile(self, profile_id: int) -> tuple[float, float]:
        """Return the mean power, and that of the steady part [W]."""
        if profile_id not in self._found:
            profile = self._library[profile_id]
            power_w = profile.power_w.astype(np.float64)
            of = find_phases(profile)
            steady_w = power_w[
                of.steady_ms // profile.dt_ms : of.ending_ms // profile.dt_ms
            ]
            self._found[profile_id] = profile.mean_power_w, float(steady_w.mean())
        return self._found[profile_id]
