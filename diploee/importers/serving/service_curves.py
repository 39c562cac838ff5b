"""The curves of all services of a scenario: measured ones from files, logistic ones computed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from diploee.errors import InputError
from diploee.importers.serving.curve_files import (
    CurveFile,
    curve_columns,
    curve_values,
    read_curve_file,
    rows_where,
)
from diploee.importers.serving.sample_files import curve_through, read_power_samples
from diploee.loads.services.curves import (
    LATENCY_COLUMNS,
    OUTPUT_TOKENS_COLUMN,
    THROUGHPUT_COLUMN,
    Curves,
    LatencyCurve,
    PowerCurve,
    ServiceCurves,
    nearest_length,
)
from diploee.loads.services.replayed_rates import mean_output_tokens
from diploee.loads.services.request_trace import RequestTrace
from diploee.neighbours.openg2g.serving import logistic_curves
from diploee.profiles.profile import DEVICE_POWER, NODE_AC_POWER
from diploee.scenario import RequestStream, Service
from diploee.scenario.serving import LatencyMetric
from diploee.textio.values import fail_values


def load_curves(
    specs: Mapping[str, RequestStream], traces: Mapping[str, RequestTrace], folder: Path
) -> Curves:
    """Read or compute the curves of all services of a run."""
    found: Curves = {}
    for stream, spec in specs.items():
        for name, service in spec.services.items():
            try:
                tokens = _output_tokens(name, spec, traces, stream)
                found[stream, name] = _service_curves(f"{stream}.{name}", service, tokens, folder)
            except InputError as error:
                where = f"request_streams.{stream}.services.{name}"
                raise InputError(f"{where}: {error}") from error
    return found


def _output_tokens(
    name: str, spec: RequestStream, traces: Mapping[str, RequestTrace], stream: str
) -> float:
    service, replay = spec.services[name], spec.replay_of(name)
    if service.output_tokens != "trace":
        return service.output_tokens
    assert replay is not None
    key = stream if service.replay is None else f"{stream}.{name}"
    return mean_output_tokens(replay, traces[key], stream)


def _service_curves(name: str, service: Service, tokens: float, folder: Path) -> ServiceCurves:
    files = service.power_samples or {}
    boundary = NODE_AC_POWER if service.power_samples_boundary == "node_ac" else DEVICE_POWER
    nodes = service.nodes_per_instance
    samples, read = read_power_samples(name, files, nodes, folder, boundary)
    if service.logistic is not None:
        metric = service.latency_cap.metric if service.latency_cap else "mean_itl"
        power, latency = logistic_curves(name, service.logistic, tokens, nodes, metric)
        return ServiceCurves(replace(power, samples=samples), latency, read)
    if service.power_curve is None:
        power = curve_through(name, samples)
    else:
        power, power_file = load_power_curve(service.power_curve, folder)
        power, read = replace(power, samples=samples), (power_file, *read)
    if service.latency_curve is None:
        return ServiceCurves(power, None, read)
    latency, latency_file = _latency_curve(service, service.latency_curve, tokens, folder)
    return ServiceCurves(power, latency, (*read, latency_file))


def _latency_curve(
    service: Service, curve: str, tokens: float, folder: Path
) -> tuple[LatencyCurve, CurveFile]:
    if service.output_tokens == "trace":
        file = read_curve_file(curve, folder)
        if OUTPUT_TOKENS_COLUMN in file.table:
            lengths = curve_values(file, OUTPUT_TOKENS_COLUMN).astype(int).tolist()
            tokens = nearest_length(tokens, tuple(sorted(set(lengths))))
    metric = service.latency_cap.metric if service.latency_cap else "mean_e2e"
    return load_latency_curve(curve, folder, metric, int(tokens))


def load_power_curve(name: str, folder: Path) -> tuple[PowerCurve, CurveFile]:
    """Read a power curve.

    Parameters
    ----------
    name : str
        Shipped name, or path of a CSV file.
    folder : pathlib.Path
        Where a relative path starts from.
    """
    file = read_curve_file(name, folder)
    rate_rps, mean_w, peak_w = curve_columns(file, ("mean_power_w", "peak_power_w"))
    fail_values(file.table, "peak_power_w", peak_w >= mean_w, "mean_power_w or more")
    return PowerCurve(file.path.stem, rate_rps, mean_w, peak_w), file


def load_latency_curve(
    name: str, folder: Path, metric: LatencyMetric = "mean_e2e", output_tokens: int = 512
) -> tuple[LatencyCurve, CurveFile]:
    """Read a latency curve.

    Parameters
    ----------
    name : str
        Shipped name, or path of a CSV file.
    folder : pathlib.Path
        Where a relative path starts from.
    metric : str
        Latency that is read, a `latency_metric` of services.
    output_tokens : int
        Length of the answers; the nearest measured one is read.
    """
    file = read_curve_file(name, folder)
    of_length = rows_where(file, OUTPUT_TOKENS_COLUMN, output_tokens)
    columns = curve_columns(of_length, (LATENCY_COLUMNS[metric], THROUGHPUT_COLUMN))
    for other in set(LATENCY_COLUMNS.values()) & set(file.table.names):
        curve_values(file, other)  # a slip in a latency that is not asked for is one, too
    return LatencyCurve(metric, *columns), file
