"""Reader of the power and latency curves of all services of a scenario.

Curves are read from files of measurements, or computed from logistic models. Files are
CSV with ``#`` comments. Power samples are measured power over time.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from diploee.base.errors import InputError, did_you_mean, one_line, one_of, shown
from diploee.base.files.paths import shipped_folder
from diploee.base.rng import named_rng
from diploee.base.tables import Float64Array
from diploee.base.units import MS_PER_DAY, MS_PER_S, PROFILE_STEP_MS
from diploee.importers.power_logs.generic_csv import import_plain
from diploee.importers.text.delimited_tables import ReadTable, read_header_table
from diploee.importers.text.numbers_and_labels import Number, fail_values, numbers
from diploee.integrations.openg2g.operating_curves import logistic_curves
from diploee.loads.services.batch_power_model import law_curve
from diploee.loads.services.curves import (
    END_TO_END,
    LATENCY_COLUMNS,
    OUTPUT_TOKENS_COLUMN,
    THROUGHPUT_COLUMN,
    Curves,
    CurveSource,
    LatencyCurve,
    PowerCurve,
    PowerSample,
    ServiceCurves,
    nearest_length,
)
from diploee.loads.services.request_trace import RequestTrace, mean_output_tokens
from diploee.profiles.profile import Boundary, PowerProfile
from diploee.profiles.resample import US_PER_MS, EnergyCurve, common_power_w
from diploee.scenario.serving import (
    BatchPowerModel,
    LatencyMetric,
    RequestStream,
    Service,
)

MIN_POINTS = 3
MIN_NUMBER, MAX_NUMBER = 1e-9, 1e9
"""Valid range of rates, latencies and powers; values beyond would overflow later."""
RATE_COLUMN = "request_rate_rps"
MIN_MS, MAX_MS = 10 * MS_PER_S, MS_PER_DAY
PLAYED_MS = 180 * MS_PER_S
"""Minimum length of a played power sample [ms].

A shorter sample is repeated, each time from a random start (ASSUMPTION: the power has
no period of the sample's length)."""


@dataclass(frozen=True)
class CurveFile(CurveSource):
    """A curve file with its table of all columns by name."""

    table: ReadTable


def load_curves(
    specs: Mapping[str, RequestStream], traces: Mapping[str, RequestTrace], folder: Path
) -> Curves:
    """Read or compute the power and latency curves of all services, by stream."""
    result: Curves = {}
    for stream, spec in specs.items():
        for name, service in spec.services.items():
            try:
                tokens: float
                if service.output_tokens == "trace":
                    replay = spec.replay_of(name)
                    assert replay is not None
                    key = stream if service.replay is None else f"{stream}.{name}"
                    tokens = mean_output_tokens(replay, traces[key], stream)
                else:
                    tokens = service.output_tokens
                result[stream, name] = _service_curves(
                    f"{stream}.{name}", service, tokens, folder
                )
            except InputError as error:
                where = f"request_streams.{stream}.services.{name}"
                raise InputError(f"{where}: {error}") from error
    return result


def _service_curves(
    name: str, service: Service, tokens: float, folder: Path
) -> ServiceCurves:
    files = service.power_samples or {}
    boundary: Boundary = (
        "node_ac" if service.power_samples_boundary == "node_ac" else "devices"
    )
    nodes = service.nodes_per_instance
    samples, read = _read_power_samples(name, files, nodes, folder, boundary)
    if service.logistic is not None:
        metric = service.latency_cap.metric if service.latency_cap else "mean_itl"
        power, latency = logistic_curves(name, service.logistic, tokens, nodes, metric)
        return ServiceCurves(replace(power, samples=samples), latency, read)
    if (law := service.batch_power_model) is not None:
        return _computed_curves(name, service, law, tokens, folder)
    if service.power_curve is None:
        power = PowerCurve(
            name,
            np.array([sample.rate_rps for sample in samples]),
            np.array([sample.power_w.mean() for sample in samples]),
            np.array([sample.power_w.max() for sample in samples]),
            samples=samples,
        )
    else:
        power, power_file = load_power_curve(service.power_curve, folder)
        power, read = replace(power, samples=samples), (power_file, *read)
    if service.latency_curve is None:
        return ServiceCurves(power, None, read)
    latency, latency_file = _latency_curve(
        service, service.latency_curve, tokens, folder
    )
    return ServiceCurves(power, latency, (*read, latency_file))


def _computed_curves(
    name: str, service: Service, law: BatchPowerModel, tokens: float, folder: Path
) -> ServiceCurves:
    read: tuple[CurveSource, ...] = ()
    latency = stays = None
    highest_rps = service.max_request_rate_rps or 0.0
    if service.latency_curve is not None:
        latency, file = _latency_curve(service, service.latency_curve, tokens, folder)
        read, highest_rps = (file,), max(highest_rps, float(latency.rate_rps[-1]))
        if not law.has_speeds:
            stays = latency.by_metric.get("mean_e2e")
            if stays is None:
                raise _missing(file, LATENCY_COLUMNS["mean_e2e"])
    power = law_curve(name, law, highest_rps, tokens, service.nodes_per_instance, stays)
    return ServiceCurves(power, latency, read)


def _latency_curve(
    service: Service, curve: str, tokens: float, folder: Path
) -> tuple[LatencyCurve, CurveFile]:
    if service.output_tokens == "trace":
        file = read_curve_file(curve, folder)
        if OUTPUT_TOKENS_COLUMN in file.table:
            lengths = _curve_values(file, OUTPUT_TOKENS_COLUMN).astype(int).tolist()
            tokens = nearest_length(tokens, tuple(sorted(set(lengths))))
    metric = service.latency_cap.metric if service.latency_cap else "mean_e2e"
    return load_latency_curve(curve, folder, metric, int(tokens))


def load_power_curve(name: str, folder: Path) -> tuple[PowerCurve, CurveFile]:
    """Read a power curve: mean and peak power [W] over request rate [1/s].

    Parameters
    ----------
    name : str
        Shipped name, or path of a CSV file.
    folder : pathlib.Path
        Base folder of a relative path.
    """
    file = read_curve_file(name, folder)
    rate_rps, mean_w, peak_w = curve_columns(file, ("mean_power_w", "peak_power_w"))
    fail_values(file.table, "peak_power_w", peak_w >= mean_w, "mean_power_w or more")
    return PowerCurve(file.path.stem, rate_rps, mean_w, peak_w), file


def load_latency_curve(
    name: str,
    folder: Path,
    metric: LatencyMetric = "mean_e2e",
    output_tokens: int = 512,
) -> tuple[LatencyCurve, CurveFile]:
    """Read a latency curve: latency [s] and throughput [1/s] over request rate [1/s].

    Parameters
    ----------
    name : str
        Shipped name, or path of a CSV file.
    folder : pathlib.Path
        Base folder of a relative path.
    metric : str
        Latency metric to read, a `latency_metric` of services.
    output_tokens : int
        Response length [tokens]. If the file's rows have lengths, some must have this
        one.
    """
    file = read_curve_file(name, folder)
    length_rows = rows_where(file, OUTPUT_TOKENS_COLUMN, output_tokens)
    rate_rps, latency_s, throughput_rps = curve_columns(
        length_rows, (LATENCY_COLUMNS[metric], THROUGHPUT_COLUMN)
    )
    for other in set(LATENCY_COLUMNS.values()) & set(file.table.names):
        # Invalid values of unused latencies are refused, too
        _curve_values(file, other)
    end_to_end_s = {
        e2e_metric: _curve_values(length_rows, LATENCY_COLUMNS[e2e_metric])
        for e2e_metric in END_TO_END
        if LATENCY_COLUMNS[e2e_metric] in file.table
    }
    if {"p50_e2e", "p90_e2e"} <= set(end_to_end_s):
        rises = end_to_end_s["p90_e2e"] >= end_to_end_s["p50_e2e"]
        fail_values(
            length_rows.table, LATENCY_COLUMNS["p90_e2e"], rises, "the median or more"
        )
    return LatencyCurve(metric, rate_rps, latency_s, throughput_rps, end_to_end_s), file


def _find_curve_file(name: str, folder: Path) -> Path:
    """Return the path of a curve file, shipped or relative to a folder."""
    files = sorted((shipped_folder("profiles") / "curves").glob("*.csv"))
    shipped = {path.stem: path for path in files}
    path = folder / name
    # Unlike pathlib's methods, os.path's raise no error for invalid paths
    if os.path.isfile(path) or (os.path.exists(path) and name not in shipped):  # noqa: PTH110, PTH113
        return path  # the reader refuses folders and the like
    if name in shipped:
        return shipped[name]
    raise InputError(
        f"{shown(name)}: no such curve file next to the scenario and no built-in "
        f"curve (shipped: {one_of(shipped)}){did_you_mean(Path(name).stem, shipped)}"
    )


def read_curve_file(name: str, folder: Path) -> CurveFile:
    """Read a curve file as a table of text columns, with the file's hash."""
    path = _find_curve_file(name, folder)
    sheet = read_header_table(path, f"a header such as '{RATE_COLUMN},...'")
    columns = [column for column in sheet.names if column] or [RATE_COLUMN]
    return CurveFile(name, path, sheet.text.sha256, sheet.read(columns, "a curve"))


def rows_where(file: CurveFile, column: str, value: int) -> CurveFile:
    """Return the curve file with only the rows that have a value in a column.

    A file without the column keeps all rows.
    """
    if column not in file.table:
        return file
    values = _curve_values(file, column)
    if value not in values:
        have = ", ".join(f"{number:g}" for number in np.unique(values))
        raise InputError(f"{file.path}: no rows with {column} {value} (have: {have})")
    return replace(file, table=file.table.take(values == value))


def curve_columns(
    file: CurveFile, names: Sequence[str], against: str = RATE_COLUMN
) -> tuple[Float64Array, ...]:
    """Return the values of a curve's independent variable, and of other columns.

    The independent variable `against`, by default the request rate [1/s], must increase
    from row to row.
    """
    columns = (against, *names)
    for name in columns:
        if name not in file.table:
            raise _missing(file, name)
    result = tuple(_curve_values(file, name) for name in columns)
    if len(file.table) < MIN_POINTS:
        raise InputError(
            f"{file.path}: {len(file.table)} points, a curve needs at least "
            f"{MIN_POINTS}; measure more"
        )
    rises = np.diff(result[0], prepend=0) > 0
    expected = "a rise from the row before; sort the rows, merge repeated ones"
    fail_values(file.table, against, rises, expected)
    return result


def _missing(file: CurveFile, column: str) -> InputError:
    have = tuple(file.table.columns)
    return InputError(
        f"{file.path}: column '{column}' is missing (have: {one_of(have)})"
        f"{did_you_mean(column, have)}"
    )


def _curve_values(file: CurveFile, column: str) -> Float64Array:
    """Return a column of positive numbers, or raise `InputError` with the line."""
    kind = Number(MAX_NUMBER, at_least=MIN_NUMBER, may_be_missing=False)
    return numbers(file.table, column, kind)


def _read_power_samples(
    name: str,
    files: Mapping[float, str],
    n_nodes: int,
    folder: Path,
    boundary: Boundary = "devices",
) -> tuple[tuple[PowerSample, ...], tuple[CurveSource, ...]]:
    """Read measured power samples of a service at fixed request rates [1/s]."""
    samples, read = [], []
    for rate_rps, file in sorted(files.items()):
        try:
            profile = _profile(name, folder / file, n_nodes, boundary)
        except InputError as error:
            raise InputError(f"power_samples.{rate_rps:g}: {error}") from error
        sha256 = profile.provenance.source_sha256
        samples.append(_sample(name, rate_rps, profile))
        read.append(CurveSource(file, folder / file, sha256))
    return tuple(samples), tuple(read)


def _profile(name: str, path: Path, n_nodes: int, boundary: Boundary) -> PowerProfile:
    profile = import_plain(
        path, workload=name, profile_id=name, n_nodes=n_nodes, power_boundary=boundary
    )
    if not MIN_MS <= profile.duration_ms <= MAX_MS:
        raise InputError(
            f"{one_line(str(path))}: lasts {profile.duration_ms / MS_PER_S:g} s, "
            f"expected {MIN_MS // MS_PER_S} to {MAX_MS // MS_PER_S} s at one "
            "request rate; measure longer, or trim it"
        )
    if not profile.power_w.any():
        raise InputError(
            f"{one_line(str(path))}: power is 0 throughout, expected that of a load"
        )
    return profile


def _sample(name: str, rate_rps: float, profile: PowerProfile) -> PowerSample:
    power_w = profile.power_w.astype(np.float64) / profile.n_nodes
    dt_ms = profile.dt_ms
    # Resample odd steps, as tables would have the common divisor of all steps
    if dt_ms % PROFILE_STEP_MS:
        edges_us = np.arange(power_w.size + 1, dtype=np.int64) * (dt_ms * US_PER_MS)
        energy_j = np.concatenate(([0.0], np.cumsum(power_w * (dt_ms / MS_PER_S))))
        power_w = common_power_w(
            [EnergyCurve(edges_us, energy_j)], PROFILE_STEP_MS * US_PER_MS
        )
        dt_ms = PROFILE_STEP_MS
    copies = -(-PLAYED_MS // (power_w.size * dt_ms))
    rng = named_rng(0, "profiles", "serving", name, f"{rate_rps:g}", "places")
    return PowerSample(
        rate_rps,
        dt_ms,
        _repeat_from_random_starts(power_w, copies, rng),
        profile.provenance,
    )


def _repeat_from_random_starts(
    power_w: Float64Array, copies: int, rng: np.random.Generator
) -> Float64Array:
    """Return a power sample repeated several times, each from a random start [W]."""
    if copies == 1:
        return power_w
    starts = rng.integers(0, power_w.size, copies)
    return np.concatenate([np.roll(power_w, -start) for start in starts.tolist()])
