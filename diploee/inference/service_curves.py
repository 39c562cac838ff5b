"""The curves of all services of a scenario: measured ones from files, logistic ones computed."""

from __future__ import annotations

from diploee.errors import InputError
from diploee.inference.curve_files import curve_values, read_curve_file
from diploee.inference.curves import (
    OUTPUT_TOKENS_COLUMN,
    Curves,
    ServiceCurves,
    load_latency_curve,
    load_power_curve,
)
from diploee.inference.logistic_curves import logistic_curves
from diploee.inference.replay import mean_output_tokens
from diploee.scenario import Scenario, Service
from diploee.workload.request_services import nearest_length


def load_curves(scenario: Scenario) -> Curves:
    """Read or compute the curves of all services of a scenario.

    Raises
    ------
    InputError
        If one is missing or not usable; the text names the key, the file and the line.
    """
    found: Curves = {}
    for stream, spec in scenario.request_streams.items():
        for name, service in spec.services.items():
            try:
                found[stream, name] = _service_curves(scenario, stream, name, service)
            except InputError as error:
                place = f"request_streams.{stream}.services.{name}"
                raise InputError(f"{place}: {error}") from error
    return found


def _service_curves(scenario: Scenario, stream: str, name: str, service: Service) -> ServiceCurves:
    tokens: float = (
        mean_output_tokens(scenario, stream)
        if service.output_tokens == "trace"
        else service.output_tokens
    )
    if service.logistic is not None:
        metric = service.latency_cap.metric if service.latency_cap else "mean_itl"
        nodes = service.nodes_per_instance
        power, latency = logistic_curves(
            f"{stream}.{name}", service.logistic, tokens, nodes, metric
        )
        return ServiceCurves(power, latency, ())
    assert service.power_curve is not None
    power, power_file = load_power_curve(service.power_curve, scenario.folder)
    if service.latency_curve is None:
        return ServiceCurves(power, None, (power_file,))
    if service.output_tokens == "trace":
        file = read_curve_file(service.latency_curve, scenario.folder)
        if OUTPUT_TOKENS_COLUMN in file.columns:
            lengths = curve_values(file, OUTPUT_TOKENS_COLUMN).astype(int).tolist()
            tokens = nearest_length(tokens, tuple(sorted(set(lengths))))
    metric = service.latency_cap.metric if service.latency_cap else "mean_e2e"
    latency, latency_file = load_latency_curve(
        service.latency_curve, scenario.folder, metric, int(tokens)
    )
    return ServiceCurves(power, latency, (power_file, latency_file))
