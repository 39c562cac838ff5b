"""Statistics over the seeds of a sweep point.

These are percentiles of metrics, percentile curves of the load (envelopes), and the
number of seeds required for an accuracy of the mean.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from math import ceil
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from diploee.base.errors import shown
from diploee.base.metric import is_curve_point, is_plain_number
from diploee.base.tables import Float64Array
from diploee.runs.formatting import MIN_RUNS
from diploee.sweeps.draws import Choice
from diploee.sweeps.expand import PlannedRun
from diploee.sweeps.folder import RUNS, write_file
from diploee.sweeps.loading import Sweep
from diploee.sweeps.record import Result, json_bytes, read_load_shape, table_bytes
from diploee.sweeps.spec import SweepSpec

ENSEMBLE_TABLE = "ensemble.parquet"
ENVELOPE_TABLE = "envelope.parquet"
ENSEMBLE_FILE = "ensemble.json"
SCHEMA_VERSION = 1
PERCENTS = (5, 50, 95)
Z_95 = 1.959963984540054
"""Half-width of the central 95 % interval of a standard normal variable."""
STANDS_OUT = 0.5
"""Absolute rank correlation above which a drawn number is reported to move a metric."""
BY_CHANCE = 0.01
"""Probability that, by chance, any draw is reported to move any metric. If runs are
few, this requires a correlation above `STANDS_OUT`."""

MANY = 10**6
"""Number of seeds from which Student's distribution is taken as normal."""

METHOD = {
    "percentiles": "P5, P50 and P95 over the members of a point, numpy's linear percentiles; a "  # noqa: E501
    "percentile near the end of n members is itself uncertain; below "
    f"{MIN_RUNS} members there is no P5 and no P95",
    "moved_by": (
        "Spearman's rank correlation over the members of a metric with each drawn "
        "number (of a choice with each of its values, 1 where it was drawn), above "
        f"{STANDS_OUT} in absolute value and above what the largest of all draws and "
        f"metrics that vary has by chance with a probability of {BY_CHANCE} "
        f"(Bonferroni); of {MIN_RUNS} members on"
    ),
    "seeds_for_mean": (
        "the least n with t s / sqrt(n) <= a |m|, for a 95 % confidence interval of "
        "the mean with the relative half-width a; t: Student's, of n - 1 degrees of "
        "freedom; m, s: mean and sample standard deviation of the members"
    ),
    "envelope": (
        "P5, P50 and P95 over the members, separately at every hour of the week and "
        "at every fraction of time: 5 % of the members exceed the P95 curve there"
    ),
}


@dataclass(frozen=True)
class _MetricSpread:
    """Spread of a metric over the members of a point.

    Half-widths are relative to the magnitude of the value.
    """

    n: int
    mean: float
    std: float
    p5: float | None
    p50: float
    p95: float | None
    min: float
    max: float
    half_width_mean: float | None
    seeds_for_mean: int | None


@dataclass(frozen=True)
class PointEnsemble:
    """Statistics over the members of one point of the axes."""

    point: int
    settings: dict[str, Any]
    metrics: dict[str, _MetricSpread]
    # Rank correlations that stand out, by metric and draw
    moved_by: dict[str, dict[str, float]]


@dataclass(frozen=True)
class Ensemble:
    """Statistics over the seeds of each point, and the required accuracy of means."""

    accuracy: float
    points: list[PointEnsemble]
    draws: tuple[str, ...] = ()  # dotted keys of the drawn values


def write_ensemble(
    folder: Path,
    sweep: Sweep,
    runs: Sequence[PlannedRun],
    results: Mapping[str, Result],
) -> Ensemble | None:
    """Write ``ensemble.parquet``, ``envelope.parquet`` and ``ensemble.json``."""
    members: dict[int, list[PlannedRun]] = {}
    for run in runs:
        if run.run in results:
            members.setdefault(run.point, []).append(run)
    members = {
        point: point_runs
        for point, point_runs in members.items()
        if len(point_runs) > 1
    }
    if not members:
        return None
    points = [
        _point(point_runs, results, sweep.spec) for point_runs in members.values()
    ]
    ensemble = Ensemble(sweep.spec.accuracy, points, tuple(sweep.spec.draw))
    envelopes = [
        _envelope(folder, point, point_runs) for point, point_runs in members.items()
    ]
    table = pa.Table.from_pylist(list(_rows(ensemble)))
    known = [
        f.with_type(pa.float64()) if pa.types.is_null(f.type) else f
        for f in table.schema
    ]
    write_file(folder / ENSEMBLE_TABLE, table_bytes(table.cast(pa.schema(known))))
    write_file(folder / ENVELOPE_TABLE, table_bytes(pa.concat_tables(envelopes)))
    write_file(folder / ENSEMBLE_FILE, json_bytes(_content(sweep, ensemble)))
    return ensemble


def spread(values: Float64Array, accuracy: float) -> _MetricSpread:
    """Return the statistics of a metric over the members of an ensemble."""
    n, mean, std = values.size, float(values.mean()), float(values.std(ddof=1))
    p5, p50, p95 = (float(p) for p in np.percentile(values, PERCENTS))
    supported = n >= MIN_RUNS
    half_width = (
        float(_t_half_width(n) * std / np.sqrt(n) / abs(mean)) if mean else None
    )
    return _MetricSpread(
        n,
        mean,
        std,
        p5 if supported else None,
        p50,
        p95 if supported else None,
        float(values.min()),
        float(values.max()),
        half_width,
        None if half_width is None else _seeds_for_mean(std / abs(mean), accuracy),
    )


def _t_half_width(n: int) -> float:
    """Return the half-width of a mean's 95 % confidence interval in standard errors."""
    from scipy.special import stdtrit  # that of scipy.stats takes a millisecond

    return float(stdtrit(n - 1, 0.975))


def _seeds_for_mean(relative_std: float, accuracy: float) -> int:
    n = max(2, ceil((Z_95 * relative_std / accuracy) ** 2))
    while n < MANY and _t_half_width(n) * relative_std > accuracy * n**0.5:
        n += 1
    return n


def _point(
    members: Sequence[PlannedRun], results: Mapping[str, Result], spec: SweepSpec
) -> PointEnsemble:
    inputs = _inputs(members, spec)
    metrics: dict[str, _MetricSpread] = {}
    # Metrics that the same members have are ranked at once.
    values_by_mask: dict[bytes, dict[str, Float64Array]] = {}
    for name in dict.fromkeys(
        name for run in members for name in results[run.run].metrics
    ):
        result = [results[run.run].metrics.get(name) for run in members]
        has_value = np.array([is_plain_number(value) for value in result])
        values = np.array([value for value in result if is_plain_number(value)], float)
        if values.size < 2:
            continue
        metrics[name] = spread(values, spec.accuracy)
        if inputs and not is_curve_point(name):  # hundreds of points
            values_by_mask.setdefault(has_value.tobytes(), {})[name] = values
    moved_by: dict[str, dict[str, float]] = {}
    vary = [
        np.ptp(column) > 0
        for group in values_by_mask.values()
        for column in group.values()
    ]
    n_pairs = len(inputs) * sum(map(bool, vary))
    for mask, values_by_metric in values_by_mask.items():
        member_inputs = {
            key: x[np.frombuffer(mask, np.bool_)] for key, x in inputs.items()
        }
        moved_by |= significant_correlations(member_inputs, values_by_metric, n_pairs)
    return PointEnsemble(members[0].point, members[0].settings, metrics, moved_by)


def significant_correlations(
    inputs: Mapping[str, Float64Array],
    metrics: Mapping[str, Float64Array],
    n_pairs: int | None = None,
) -> dict[str, dict[str, float]]:
    """Return the significant rank correlations by metric and input, largest first.

    `n_pairs` is the number of pairs that are tested together (Bonferroni); by default
    all pairs of these inputs and metrics.
    """
    from scipy.stats import rankdata, t

    def ranked(columns: Mapping[str, Float64Array]) -> Any:
        ranks = rankdata(np.stack(list(columns.values())), axis=1)
        ranks -= ranks.mean(axis=1, keepdims=True)
        size = np.linalg.norm(ranks, axis=1, keepdims=True)
        return ranks / np.where(size > 0, size, np.inf)

    n = next(iter(inputs.values())).size
    if n < MIN_RUNS:
        return {}
    by_chance = t.ppf(
        1 - BY_CHANCE / (2 * (n_pairs or len(inputs) * len(metrics))), n - 2
    )
    min_correlation = max(STANDS_OUT, by_chance / np.sqrt(n - 2 + by_chance**2))
    result = zip(metrics, ranked(metrics) @ ranked(inputs).T, strict=True)
    return {
        name: {
            k: float(rho)
            for rho, k in sorted(zip(correlations, inputs, strict=True), key=_size)
            if abs(rho) > min_correlation
        }
        for name, correlations in result
    }


def _size(correlation: tuple[float, str]) -> float:
    return -abs(correlation[0])


def _inputs(members: Sequence[PlannedRun], spec: SweepSpec) -> dict[str, Float64Array]:
    """Return the drawn numbers of all members by name, shape (n,).

    The values of a choice have no order, so each has its own array: 1 for members that
    drew it, 0 for others.
    """
    result: dict[str, Float64Array] = {}
    for name, key in members[0].draw_keys.items():
        sampled = np.array([run.drawn[name] for run in members])
        if isinstance(draw := spec.draw[key], Choice):
            for k, value in enumerate(draw.values):
                result[f"{key}={shown(value)}"] = (sampled == k).astype(np.float64)
        else:
            result[name.removeprefix("draw.")] = sampled
    return result


def _envelope(folder: Path, point: int, members: Sequence[PlannedRun]) -> pa.Table:
    shapes = [read_load_shape(folder / RUNS / run.run) for run in members]
    first = shapes[0].select(["kind", "at"])
    alike = [shape for shape in shapes if shape.select(["kind", "at"]).equals(first)]
    power_w = np.stack([shape["power_w"].to_numpy() for shape in alike])
    p5, p50, p95 = np.percentile(power_w, PERCENTS, axis=0)
    return pa.table(
        {
            "point": pa.array(np.full(len(first), point, dtype=np.int32)),
            "kind": first["kind"],
            "at": first["at"],
            "p5_w": p5,
            "p50_w": p50,
            "p95_w": p95,
            "min_w": power_w.min(axis=0),
            "max_w": power_w.max(axis=0),
        }
    )


def _rows(ensemble: Ensemble) -> Iterator[dict[str, Any]]:
    """Yield one row per point and metric, all with the same columns."""
    for point in ensemble.points:
        for name, metric in point.metrics.items():
            row: dict[str, Any] = {
                "point": point.point,
                "metric": name,
                **asdict(metric),
            }
            if ensemble.draws:
                moved = point.moved_by.get(name, {}).items()
                row["moved_by"] = ", ".join(f"{key} ({rho:+.2f})" for key, rho in moved)
            yield row


def _content(sweep: Sweep, ensemble: Ensemble) -> dict[str, Any]:
    return {
        "schema_version": SCHEMA_VERSION,
        "name": sweep.name,
        "method": METHOD,
        "accuracy": ensemble.accuracy,
        "draw": {
            key: draw.model_dump(mode="json") for key, draw in sweep.spec.draw.items()
        },
        "points": [asdict(point) for point in ensemble.points],
    }
