"""Llama-2 70B LoRA on nodes with 8 x H100, at their AC input.

Facts of MLPerf runs, and profiles. Twenty runs of MLPerf Training v4.0 were metered on
both sides of the nodes' power supplies. Their duration and mean power bind here, and
the course of power is that of the medians over each class. The nodes are immersed: no
server has fans.

References
----------
.. [1] mlcommons/training_results_v4.0 (Apache-2.0), folders ``smc-ac-power`` and ``smc-dc-power``;
   every figure is of `diploee.importers.power_logs.mlperf_power`, in steps of 2 s over the time
   that all nodes of a run share
"""  # noqa: E501

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from diploee.base.rng import named_rng
from diploee.base.tables import Float64Array
from diploee.profiles.meter_response import FLAGGED_WINDOWS
from diploee.profiles.profile import PowerBoundary, PowerProfile, Provenance
from diploee.profiles.resample import US_PER_MS, US_PER_S, EnergyCurve, common_power_w
from profiles.build.llama2 import WORKLOAD
from profiles.build.shaping import normal, uniform

SOURCE = (
    "MLPerf Training v4.0, repository mlcommons/training_results_v4.0, smc-ac-power "
    "and smc-dc-power (Apache-2.0)"
)
LICENCE = "Apache-2.0 (facts); this synthesis BSD-3-Clause"
NOTES = (
    "Built by diploee from published measurements (duration and mean of each run, "
    "median course), not measured itself. Readings every 2 s, which may hold folded "
    "faster swings: nothing is claimed above their bandwidth. An idle node of this "
    "kind draws 2.4 kW AC, 2.8 kW with a job loaded."
)
GPU_MODEL, GPUS_PER_NODE, GPU_TDP_W = "NVIDIA H100-SXM5-80GB", 8, 700.0
STEP_MS = 2_000
INTERVAL_S = 2.006
"""Median interval of the readings [s]."""
LOADED_IDLE_W, IDLE_W = 2_800.0, 2_390.0
"""AC power of a node that waits with a job on it, and after it [W]."""

SUPPLY_EFFICIENCY = {2_380.0: 0.936, 2_940.0: 0.9385, 7_280.0: 0.973}
"""Efficiency of a node's supplies by its AC power [W]: energy of both sides over
stretches of 10 s in which neither moves by more than 2 % (AC) and 5 % (DC), one node.
The nodes of ``bert`` and ``unet3d`` lie up to 0.5 points above."""

Points = tuple[tuple[float, float], ...]


@dataclass(frozen=True)
class EightGpuClass:
    """Fine-tuning on one node count."""

    n_nodes: int  # nodes of the job
    # Duration [s] and mean AC power of a node [W] of each run, both binding
    durations_s: tuple[float, ...]
    means_w: tuple[float, ...]
    # Mean power of a node behind its supplies in the same runs [W]
    dc_means_w: tuple[float, ...]
    # Plateau of training [W per node], before the small shift that meets the mean
    training_w: float
    # Standard deviation of readings on the plateau [W per node], by their upper 5 %
    noise_w: float
    # Power [W per node] by time [s] from the start of the run, the start of the first
    # and of each later evaluation, and the end of the last one
    start: Points
    first: Points
    later: Points
    end: Points
    # From start to start, and length of evaluations [s]
    evaluation_interval_s: float
    evaluation_s: float
    after_s: float  # from the end of the last evaluation to the end of the readings [s]
    dip_interval_s: float  # short dips on the plateau, one in so long [s]
    dip_range_w: tuple[float, float]  # range that they reach [W per node]


N_EVALUATIONS = 5
EIGHT_GPU_CLASSES = (
    EightGpuClass(
        n_nodes=1,
        durations_s=(1806, 1784, 1798, 1806, 1798, 1796, 1798, 1800, 1796, 1798),
        means_w=(
            6942.2,
            6998.5,
            6945.9,
            6927.0,
            6956.5,
            6966.7,
            6958.5,
            6950.0,
            6970.5,
            6941.7,
        ),
        dc_means_w=(
            6752.8,
            6808.4,
            6740.7,
            6710.3,
            6750.0,
            6759.3,
            6754.6,
            6744.5,
            6758.0,
            6750.4,
        ),
        training_w=7_272.0,
        noise_w=22.0,
        start=(
            (0, 2_800),
            (20, 2_830),
            (25, 5_300),
            (29, 3_250),
            (33, 6_650),
            (37, 7_080),
            (43, 7_100),
            (47, 5_900),
            (51, 6_750),
            (59, 6_850),
            (61, 4_950),
            (63, 2_960),
            (65, 2_850),
            (67, 3_900),
            (69, 6_020),
            (71, 7_090),
            (73, 7_250),
        ),
        first=(
            (-12, 7_280),
            (-11, 6_770),
            (-9, 4_100),
            (-7, 3_000),
            (-5, 2_880),
            (1, 2_900),
            (3, 3_790),
            (5, 6_080),
            (7, 6_940),
            (9, 7_100),
            (15, 7_190),
            (20, 7_250),
            (39, 7_250),
        ),
        later=(
            (-1, 7_260),
            (1, 6_840),
            (3, 5_330),
            (5, 6_690),
            (7, 7_190),
            (9, 7_250),
            (41, 7_250),
            (43, 7_190),
            (47, 7_265),
        ),
        end=(
            (-1, 7_210),
            (1, 6_440),
            (3, 4_010),
            (5, 3_160),
            (7, 2_970),
            (23, 2_920),
            (31, 2_830),
            (37, 2_390),
            (56, 2_390),
        ),
        evaluation_interval_s=223.0,
        evaluation_s=39.0,
        after_s=56.0,
        dip_interval_s=51.0,
        dip_range_w=(6_540.0, 7_030.0),
    ),
    EightGpuClass(
        n_nodes=8,
        durations_s=(316, 316, 314, 312, 312, 306, 316, 314, 314, 314),
        means_w=(
            5817.3,
            5817.6,
            5814.8,
            5802.2,
            5841.6,
            5832.8,
            5823.1,
            5839.2,
            5838.6,
            5829.0,
        ),
        dc_means_w=(
            5748.0,
            5705.3,
            5695.9,
            5704.9,
            5759.1,
            5718.2,
            5711.4,
            5724.2,
            5731.5,
            5707.5,
        ),
        training_w=6_278.0,
        noise_w=36.0,
        start=(
            (0, 3_900),
            (1, 3_600),
            (3, 2_720),
            (5, 2_640),
            (9, 2_640),
            (11, 2_770),
            (13, 4_120),
            (15, 5_630),
            (17, 6_130),
            (19, 6_230),
        ),
        first=(
            (-14, 6_280),
            (-13, 5_350),
            (-11, 3_450),
            (-9, 2_760),
            (-7, 2_680),
            (-1, 2_720),
            (1, 2_910),
            (3, 4_230),
            (5, 5_290),
            (9, 5_460),
            (11, 5_820),
            (13, 6_230),
        ),
        later=(
            (-1, 6_280),
            (1, 5_980),
            (3, 5_340),
            (7, 5_340),
            (9, 5_470),
            (11, 5_900),
            (13, 6_210),
            (15, 6_280),
        ),
        end=(),
        evaluation_interval_s=39.7,
        evaluation_s=8.0,
        after_s=-1.0,
        dip_interval_s=122.0,
        dip_range_w=(6_010.0, 6_080.0),
    ),
)


def build_eight_gpu_profiles() -> list[PowerProfile]:
    """Build the profiles of nodes with 8 x H100.

    Returns
    -------
    list of PowerProfile
        One per run, on 1 and on 8 nodes, at 2 s in whole watts; always the same.
    """
    return [
        _profile(of_class, run)
        for of_class in EIGHT_GPU_CLASSES
        for run in range(len(of_class.durations_s))
    ]


def _profile(of_class: EightGpuClass, run: int) -> PowerProfile:
    n_nodes, duration_s = of_class.n_nodes, of_class.durations_s[run]
    name = f"{WORKLOAD}-8gpu-{n_nodes}n-{run + 1}"
    rng = named_rng(0, "profiles", "reference", name)
    first_s = duration_s - of_class.after_s - of_class.evaluation_s
    first_s -= (N_EVALUATIONS - 1) * of_class.evaluation_interval_s
    starts_s = (
        first_s
        + np.arange(N_EVALUATIONS, dtype=np.float64) * of_class.evaluation_interval_s
    )
    ends_s = starts_s + of_class.evaluation_s
    power_w = _course_w(of_class, duration_s, starts_s, ends_s[-1], rng)
    plateau = power_w > of_class.dip_range_w[0]
    power_w[plateau] += of_class.noise_w * normal(rng, power_w.size)[plateau]
    # What courses of medians and the dips leave of the run's mean is met on the
    # plateau, by less than 1 % of it.
    missing_w = of_class.means_w[run] - power_w.mean()
    power_w[plateau] += missing_w * power_w.size / np.count_nonzero(plateau)
    starts, ends = starts_s.tolist(), np.minimum(ends_s, duration_s).tolist()
    return PowerProfile(
        name,
        WORKLOAD,
        n_nodes,
        STEP_MS,
        np.rint(n_nodes * power_w).astype(np.float32),
        Provenance(
            kind="reference",
            source=SOURCE,
            licence=LICENCE,
            sampling_interval_s=INTERVAL_S,
            averaging_window_s=None,
            bandwidth_hz=FLAGGED_WINDOWS / INTERVAL_S,
            power_boundary=PowerBoundary.NODE_AC,
            notes=NOTES,
            gpus_per_node=GPUS_PER_NODE,
            gpu_tdp_w=GPU_TDP_W,
            gpu_model=GPU_MODEL,
            phases={
                "evaluation": [
                    [round(start, 3), round(end, 3)]
                    for start, end in zip(starts, ends, strict=True)
                ]
            },
        ),
    )


def _course_w(
    of_class: EightGpuClass,
    duration_s: float,
    starts_s: Float64Array,
    end_s: float,
    rng: np.random.Generator,
) -> Float64Array:
    """Return the power of one node without noise [W], mean over each step."""
    parts = [(0.0, of_class.start), (starts_s[0], of_class.first)]
    parts += [(start_s, of_class.later) for start_s in starts_s[1:]]
    parts += [(end_s, of_class.end)] if of_class.end else []
    begins_s = [at_s + part[0][0] for at_s, part in parts] + [duration_s + 1]
    points: list[tuple[float, float]] = []
    for (at_s, part), next_s in zip(parts, begins_s[1:], strict=True):
        points += [(at_s + s, watts) for s, watts in part if at_s + s < next_s]
        # From the named points of a part to those of the next lies the plateau.
        if next_s < duration_s or not of_class.end:
            between = (points[-1][0] + 2, next_s - 1)
            points += [
                (s, of_class.training_w) for s in between if points[-1][0] < s < next_s
            ]
    t_s, power_w = np.array(sorted(points)).T
    grid_s = np.arange(0.0, duration_s + 0.5, 1.0)
    power = np.interp(grid_s, t_s, power_w)
    for at_s in np.cumsum(uniform(rng, 0.5, 1.5, 100) * of_class.dip_interval_s):
        # A reading that is low, and half of its neighbours
        dip = slice(int(at_s), int(at_s) + 3)
        if dip.stop < power.size and power[dip].min() > of_class.dip_range_w[1]:
            power[dip] = uniform(rng, *of_class.dip_range_w, 1)
    curve = EnergyCurve.from_readings((grid_s * US_PER_S).astype(np.int64), power)
    return common_power_w([curve], STEP_MS * US_PER_MS)
