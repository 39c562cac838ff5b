"""The order of metrics in displays, and the sections of a run's results."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Pivot:
    """A table of metrics, with a row for each match of `<row>` in the keys.

    `columns` maps the part of the key after `<row>` to the column's heading; None means
    the metric's label.
    """

    title: str
    key: str
    columns: Mapping[str, str | None]
    note: str = ""
    first: str = ""  # heading of the first column
    whole: str = ""  # name of a last row, for the keys without `<row>`


@dataclass(frozen=True)
class SectionSpec:
    """The declaration of a section of a run's results.

    `keys` are keys of metrics, or prefixes of keys, in the order of display.
    """

    id: str
    title: str
    keys: tuple[str, ...] = ()
    tables: tuple[Pivot, ...] = ()
    charts: tuple[str, ...] = ()
    note: str = ""
    folded: bool = False


_SIZES = {"max_mw": "Largest", "p999_mw": "P99.9", "p99_mw": "P99"}
_DEMAND = {
    "max_mw": "Active",
    "time": "When",
    "max_mva": "Apparent",
    "max_mvar": "Most reactive",
    "min_mvar": "Least reactive",
    "power_factor": "Power factor",
    "load_factor": "Load factor",
}
_EVENT = {
    "twin_mw": "Without it",
    "mean_mw": "Power",
    "target_mw": "Target",
    "mean_reduction": "Reduction",
    "held_fraction": "Intervals at target",
    "issue_to_target_s": "Issue to target",
    "overshoot_mw": "Overshoot",
    "not_drawn_mwh": "Not drawn",
    "rebound_mw": "Largest rebound",
    "rebound_mwh": "Rebound",
    "weighted_performance": "Weighted performance",
    "money": "Money saved",
    "t_co2": "CO2 saved",
    "times.held": "From",
}
_JOB_COSTS = {
    "mean_wait_change_h": None,
    "p95_wait_change_h": None,
    "lost_node_h": None,
    "restart_node_h": None,
    "paused_node_h": None,
    "deadlines": None,
    "deadline_misses": None,
    "twin_deadline_misses": None,
}

BY_POOL = Pivot(
    "By pool",
    "pools.<row>.",
    {
        "power.mean_mw": "Mean device power",
        "power.max_mw": "Peak device power",
        "power.energy_mwh": "Device energy",
        "power.load_factor": "Load factor",
        "utilization.mean": "Occupancy",
        "jobs.queued_fraction": "Jobs that queued",
    },
    (
        "Power of GPUs and CPU packages; charts of pools show the nodes' AC power if "
        "it is modelled."
    ),
    "Pool",
)

SWINGS = Pivot(
    "Swings",
    "grid.rolling_range.windows.<row>.",
    _SIZES | {"time": "From"},
    (
        "Maximum minus minimum of the interval means within a window, for windows at "
        "every interval of the run."
    ),
    "Within",
)
SPECTRAL_LINES = Pivot(
    "Strongest lines of the mean spectrum",
    "grid.spectrum.lines.<row>.",
    {
        "frequency_hz": "Frequency",
        "period_s": "Period",
        "rms_mw": "Rms",
        "over_floor": "Over the floor",
    },
    (
        "Lines at which the mean over all windows exceeds its floor (the median of the "
        "surrounding bins) by more than noise would."
    ),
    "Rank",
)

RANKED = (
    SectionSpec(
        "demand",
        "Demand and energy",
        (
            "power.max_mw",
            "power.energy_mwh",
            "power.mean_mw",
            "power.load_factor",
            "power.peak_to_average_ratio",
            "grid.maximum_demand.intervals.15min.max_mw",
            "grid.maximum_demand.intervals.30min.max_mw",
            "grid.maximum_demand.intervals.60min.max_mw",
            "grid.maximum_demand.intervals.15min.load_factor",
            "grid.load_duration_curve.0.1%.exceeded_mw",
            "grid.minimum.min_mw",
            "grid.headroom.rated_mw",
            "grid.headroom.mw",
            "grid.headroom.fraction",
            "grid.coincidence.factor",
            "power.",
            "measures.",
        ),
        (
            BY_POOL,
            Pivot(
                "By month",
                "grid.monthly_peaks.<row>.",
                {"max_mw": "Peak", "time": "When"},
                "Times are the start of an interval.",
                "Month",
            ),
        ),
        ("carpet", "peak-week", "bands", "duration", "months", "carpet-pools"),
    ),
    SectionSpec(
        "ramps",
        "Ramps and swings",
        tuple(
            f"grid.voltage_change.{k}"
            for k in ("largest_percent", "within_percent", "flicker_pst")
        ),
        (
            Pivot(
                "Largest rise",
                "grid.changes.windows.<row>.up.",
                {"max_mw": "Largest", "time": "From", "until": "To"},
                ("Between any two interval means that start at most that time apart."),
                "Within",
            ),
            Pivot(
                "Largest fall",
                "grid.changes.windows.<row>.down.",
                {"max_mw": "Largest", "time": "From", "until": "To"},
                "",
                "Within",
            ),
            Pivot(
                "Ramps up: change of adjacent means",
                "grid.ramps.intervals.<row>.up.",
                _SIZES | {"max_mw_per_min": "Largest rate", "time": "When"},
                (
                    "Difference of the means of two adjacent periods of this length, "
                    "for periods at every interval of the run."
                ),
                "Over",
            ),
            Pivot(
                "Ramps down: change of adjacent means",
                "grid.ramps.intervals.<row>.down.",
                _SIZES | {"max_mw_per_min": "Largest rate", "time": "When"},
                "",
                "Over",
            ),
            SWINGS,
            Pivot(
                "Rapid voltage changes",
                "grid.voltage_change.steps.<row>.",
                {
                    "total": "Steps",
                    "most_per_hour": "Most in an hour",
                    "most_per_day": "Most in a day",
                },
                (
                    "Settled voltage changes with the site's short-circuit power; a "
                    "step counts once in each size that it reaches."
                ),
                "From",
            ),
        ),
        ("ramps", "swings", "worst-weeks", "zooms"),
    ),
    SectionSpec(
        "spectrum",
        "Spectrum",
        (),
        (
            Pivot(
                "Band levels",
                "grid.spectrum.bands.<row>.",
                {
                    "rms_p50_mw": "P50 rms",
                    "rms_p99_mw": "P99 rms",
                    "rms_max_mw": "Largest rms",
                    "worst_window": "Worst window from",
                    "worst_window_strongest_hz": "Strongest there",
                },
                (
                    "Over 10-minute windows that overlap by half: linear trend "
                    "removed, Hann window (Welch). Not corrected for attenuation by "
                    "averaging."
                ),
                "Band",
            ),
            SPECTRAL_LINES,
        ),
        ("spectrum",),
        folded=True,
    ),
    SectionSpec(
        "poi",
        "Up to the meter",
        (
            "poi.headroom.",
            "poi.pue",
            "poi.peak.",
            "poi.reactive.",
            "poi.",
            "billing.",
            "*stages*",
        ),
        (
            Pivot(
                "Energy by part",
                "poi.monthly.<row>.",
                {
                    "energy.*_mwh": "",
                    "exported_mwh": "Exported",
                    "pue": "PUE",
                    "tue_device": "Over device energy",
                },
                (
                    "PUE: gross energy (at the meter, plus output of sources, net "
                    "discharge of storage and curtailed energy) per AC energy of the "
                    "nodes, which includes their fans and power supplies. Over device "
                    "energy: gross energy per energy of GPUs and CPU packages."
                ),
                "Month",
                "Whole run",
            ),
            Pivot(
                "Energy and power factor",
                "billing.months.<row>.",
                {
                    "energy_mwh": "Energy",
                    "drawn_mvarh": "Drawn",
                    "supplied_mvarh": "Supplied",
                    "lagging_power_factor": "Lagging power factor",
                    "leading_power_factor": "Leading power factor",
                },
                "Drawn and supplied reactive energy are not netted.",
                "Month",
            ),
            *(
                Pivot(
                    f"Demand over {minutes} min",
                    f"billing.months.<row>.demand.{minutes}min.",
                    _DEMAND,
                    "Maximum means over complete clock intervals; without prices.",
                    "Month",
                )
                for minutes in (15, 30, 60)
            ),
            Pivot(
                "Billed demand",
                "billing.months.<row>.billed.",
                {
                    "for_power_factor_mw": "For power factor",
                    "ratchet_mw": "Ratchet",
                    "max_mw": "Billed",
                    "reactive_mvar": "Reactive above the free amount",
                },
                "By the scenario's rules.",
                "Month",
            ),
        ),
        ("poi",),
    ),
    SectionSpec(
        "flexibility",
        "Demand-response events and their cost",
        ("flexibility.",),
        (
            Pivot(
                "Events",
                "flexibility.events.<row>.",
                _EVENT,
                (
                    "Compared with the same run without control. Weighted performance: "
                    "mean over jobs of work in the event per work without it, weighted "
                    "by 1 minus the tolerated loss (tier). Rebound: largest 15 min "
                    "mean, and energy, above that run within 24 h."
                ),
                "Event",
            ),
            Pivot(
                "Cost to the jobs",
                "flexibility.<row>.",
                _JOB_COSTS,
                (
                    "Each job is compared with itself without control. Deadlines can "
                    "also be missed without control, if the queue takes longer than "
                    "the slack: a job is due its run time plus slack after its "
                    "submission."
                ),
            ),
        ),
        ("events",),
    ),
    SectionSpec(
        "nodes",
        "Nodes and queue",
        ("utilization.", "jobs."),
        (),
        ("occupancy", "queue"),
    ),
    SectionSpec(
        "aggregates",
        "Minimum, mean and maximum",
        (),
        (
            Pivot(
                "By job class",
                "aggregates.<row>.",
                {
                    f"{name}.{kind}": f"{heading}, {kind.partition('_')[0]}"
                    for name, heading, unit in (
                        ("power", "Device power", "_mw"),
                        ("busy_nodes", "Busy nodes", ""),
                        ("utilization", "Occupancy", ""),
                        ("queued_jobs", "Waiting jobs", ""),
                    )
                    for kind in (f"min{unit}", f"mean{unit}", f"max{unit}")
                },
                (
                    "For the whole facility and, with --by-load, for each job class "
                    "without idle nodes; a class's occupancy is per nodes of its pool. "
                    "Busy nodes and waiting jobs are counted at the start of each "
                    "interval."
                ),
                "Of",
            ),
        ),
        folded=True,
    ),
    SectionSpec(
        "layout",
        "Racks, rows and halls",
        (),
        (
            Pivot(
                "By level",
                "layout.<row>.",
                {
                    "count": "Number",
                    "mean_mw": "Mean of one",
                    "p99_mw": "Largest P99",
                    "max_mw": "Largest peak",
                    "peak_to_average": "Peak to average",
                    "coincidence_factor": "Coincidence",
                    "above_rating": "Above their rating",
                    "above_rating_h": "Hours above",
                },
                (
                    "Means are over the whole run, other values after the initial "
                    "filling; every part is in parts.parquet. All nodes of a load draw "
                    "equal power: the coincidence factor is an upper bound, and parts "
                    "fluctuate at least as much as shown."
                ),
                "Level",
            ),
        ),
        folded=True,
    ),
    SectionSpec(
        "services",
        "Inference services",
        ("requests.",),
        (
            Pivot(
                "By service",
                "requests.services.<row>.",
                {
                    "incoming_rps": "Incoming",
                    "per_node_rps": "Served per node",
                    "incomplete_rps": "Unserved",
                    "mean_instances": "Mean instances",
                    "max_instances": "Most instances",
                    "reserved_nodes": "Reserved",
                    "latency_s.mean": "Mean end to end",
                    "latency_s.p90": "P90 end to end",
                    "latency_cap.*.mean_s": None,
                    "hours_with_unserved_requests": "Unserved time",
                    "hours_over_latency_limit": "Over its latency cap",
                },
                (
                    "Rates are means over the whole period; end-to-end latencies "
                    "include waiting time."
                ),
                "Service",
            ),
        ),
        ("request-rates", "unserved", "instances"),
    ),
    SectionSpec(
        "synchronous",
        "Synchronous training",
        ("synchronous.",),
        (
            Pivot(
                "By stream",
                "synchronous.<row>.",
                {
                    "ettr": "Effective training time ratio",
                    "failures": "Failures",
                    "planned_interruptions": "Planned interruptions",
                    "checkpoints": "Checkpoints",
                    "node_h": "Node-hours",
                    "lost_node_h": "Lost node-hours",
                },
                (
                    "Effective training time ratio: progress per time for which nodes "
                    "are allocated to the jobs."
                ),
                "Stream",
            ),
        ),
    ),
    SectionSpec(
        "replicas",
        "Replicas of served models",
        ("replicas.",),
        (
            Pivot(
                "By model",
                "replicas.models.<row>.",
                {
                    "mean_replicas": "Replicas",
                    "mean_batch_size": "Batch size",
                    "batch_changes_per_hour": "Changes",
                    "tokens_per_s": "Tokens",
                    "itl_s.mean": "Mean inter-token latency",
                    "itl_s.p99": "P99 of it",
                    "hours_over_deadline": "Over the deadline",
                },
                "",
                "Model",
            ),
            Pivot(
                "By stream",
                "replicas.streams.<row>.",
                {
                    "mean_mw": "Mean",
                    "energy_mwh": "Energy",
                    "violation_h": "In violation",
                    "violation_mean": "Mean violation",
                },
                "Violations are relative to the cap.",
                "Stream",
            ),
        ),
    ),
)
"""The sections of a run's results, the most requested first."""


FIRST = (
    "poi.headroom.use",
    "power.max_mw",
    "grid.maximum_demand.intervals.15min.max_mw",
    "grid.changes.windows.600s.up.max_mw",
    "grid.changes.windows.600s.down.max_mw",
    "power.energy_mwh",
    "power.load_factor",
    "power.peak_to_average_ratio",
    "jobs.mean_queue_time_queued_h",
    "requests.per_node_rps",
    "requests.incomplete_rps",
)
"""Keys of the main metrics, which are displayed first."""


def sort_by_rank(keys: Iterable[str]) -> list[str]:
    """Return keys of metrics in the order of display: main metrics, then by section."""
    order = [
        *FIRST,
        *(key for part in RANKED for key in (*part.keys, *_table_keys(part))),
    ]

    def rank(key: str) -> int:
        return next(
            (k for k, pattern in enumerate(order) if _matches(key, pattern)), len(order)
        )

    return sorted(keys, key=rank)


def _table_keys(part: SectionSpec) -> Iterator[str]:
    """Yield the keys of a section's tables, with `<row>` in place of the row."""
    for pivot in part.tables:
        yield from (f"{pivot.key}{column}" for column in pivot.columns)


def _matches(key: str, pattern: str) -> bool:
    """Return True if a key matches a declared key or prefix."""
    if "<row>" in pattern:
        prefix, suffix = pattern.split("<row>")
        return key.startswith(prefix) and key.endswith(suffix.rpartition("*")[2])
    return key == pattern or (pattern.endswith(".") and key.startswith(pattern))
