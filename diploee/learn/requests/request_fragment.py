"""A fitted request trace as YAML: the entry of `request_streams` that brings requests like it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import yaml

from diploee.errors import one_line
from diploee.learn.requests.fit import RequestFit
from diploee.learn.requests.fluctuation import FluctuationFit
from diploee.learn.requests.services import ServiceFit
from diploee.learn.week_shape import in_words
from diploee.tables import Float64Array
from diploee.units import HOURS_PER_DAY, MS_PER_DAY

DEFAULT_SERVICE: Mapping[str, Any] = {
    "latency_cap": {"metric": "mean_e2e", "limit_s": 10},
    "power_curve": "llama3_70b_conversation_power",
    "latency_curve": "llama3_70b_conversation_latency",
}
"""ASSUMPTION: what a trace does not tell about a service: a shipped model and its latency cap."""

_DECIMALS = 4
_FAR = 2.0


def request_stream(
    fit: RequestFit, *, pool: str, service_keys: Mapping[str, Any] = DEFAULT_SERVICE
) -> dict[str, Any]:
    """Return an entry of `request_streams` as plain data."""
    stream: dict[str, Any] = {"pool": pool, "request_rate_rps": float(f"{fit.week_rate_rps:.6g}")}
    if fit.fluctuation is not None and (spec := _fluctuation(fit.fluctuation)):
        stream["fluctuation"] = spec
    stream["services"] = {
        service.name: {
            "probability": probability,
            **({"output_tokens": service.output_length} if service.output_length else {}),
            **service_keys,
        }
        for service, probability in zip(fit.services, _probabilities(fit.services), strict=True)
    }
    calendar: dict[str, Any] = {}
    if fit.detail in ("hour_of_week", "day_and_hour"):
        calendar["hour_of_week"] = _rounded(fit.week_weight)
    elif fit.detail == "hour_of_day":
        calendar["hour_of_day"] = _rounded(fit.week_weight[:HOURS_PER_DAY])
    if fit.month_weight is not None:
        calendar["month"] = _rounded(fit.month_weight)
    if fit.weeks is not None and fit.weeks.is_told:
        calendar["week_to_week"] = fit.weeks.entry
    if calendar:
        stream["calendar"] = calendar
    return stream


def _fluctuation(fit: FluctuationFit) -> dict[str, float]:
    """Return the scenario's keys; nothing where the requests scatter as Poisson counts do."""
    std = round(fit.relative_std.value, _DECIMALS)
    if not std:
        return {}
    keys = {"relative_std": std, "reference_rate_rps": float(f"{fit.rate_rps:.6g}")}
    # Fluctuation without correlation between minutes is as short as a scenario allows.
    time = fit.correlation_time_s
    keys["correlation_time_s"] = 5.0 if time is None else float(f"{time.value:.3g}")
    if fit.common_share is not None:
        keys["common_share"] = round(fit.common_share.value, _DECIMALS)
    return keys


def request_stream_yaml(
    fit: RequestFit,
    *,
    name: str = "requests",
    pool: str = "serving",
    service_keys: Mapping[str, Any] = DEFAULT_SERVICE,
) -> str:
    """Return the YAML of a `request_streams` group with one entry, commented."""
    entry = {"request_streams": {name: request_stream(fit, pool=pool, service_keys=service_keys)}}
    text = yaml.dump(entry, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=110)
    return "".join(f"# {line}\n" for line in fit_remarks(fit)) + text


def fit_remarks(fit: RequestFit) -> list[str]:
    """Return what a reader of the fitted stream should know, a line each."""
    d = fit.dispersion
    lines = [
        f"Fitted to {one_line(fit.source)} ({fit.trace_format}): {fit.n_requests:,.0f} requests in "
        f"{fit.span_ms / MS_PER_DAY:.3g} days, mean {fit.mean_rate_rps:.4g}/s, "
        f"peak {fit.peak_rate_rps:.4g}/s over {fit.step_ms / 1000:g} s.",
        f"Weights: {in_words(fit.detail, fit.deviance)}",
        *([] if fit.months is None else [fit.months.line()]),
    ]
    if not fit.is_counted:
        lines.append("The trace gives rates, not requests: their scatter is that of its means.")
    elif np.isfinite(d.high):
        lines.append(
            f"Variance over mean of the requests per {fit.step_ms / 1000:g} s within an hour of "
            f"the week: {d.index:.4g} ({d.low:.4g} to {d.high:.4g}; 1 if Poisson)."
        )
    if fit.n_dead_hours:
        lines.append(
            f"No request in {fit.n_dead_hours} whole hours ({fit.n_gaps} gaps) that should have "
            "many: outages, or gaps of the trace; the weights count them as they are."
        )
    if fit.weeks is not None:
        lines.append(fit.weeks.line())
    if fit.fluctuation is not None and fit.fluctuation.relative_std.value > 0:
        lines.extend(_fluctuation_remarks(fit.fluctuation))
    for service in fit.services:
        lines.extend(_length_remarks(service))
    lines.append(
        "ASSUMPTION: the trace does not tell model, latency cap and hardware; set them below."
    )
    return lines


def _fluctuation_remarks(fit: FluctuationFit) -> list[str]:
    std, time, share = fit.relative_std, fit.correlation_time_s, fit.common_share
    of_time = "minutes do not correlate"
    if time is not None:
        of_time = f"correlation time {time.value:.3g} s ({time.low:.3g} to {time.high:.3g})"
    of_share = "one service tells no common share (ASSUMPTION: one half)"
    if share is not None:
        of_share = f"common share {share.value:.2g} ({share.low:.2g} to {share.high:.2g})"
    return [
        f"Fluctuation of minutes at {fit.rate_rps:.4g}/s: relative std {std.value:.3g} "
        f"({std.low:.3g} to {std.high:.3g}), {of_time};",
        f"{of_share}.",
    ]


def _length_remarks(service: ServiceFit) -> list[str]:
    found = []
    sides = (("Prompts", service.input_tokens), ("Answers", service.output_tokens))
    for what, lengths in sides:
        if lengths is not None:
            found.append(
                f"{what} of {one_line(service.name)}: mean {lengths.mean:.4g} tokens, median "
                f"{lengths.p50:.4g}, p90 {lengths.p90:.4g}, p99 {lengths.p99:.4g}."
            )
    if service.output_tokens is not None and service.output_length is not None:
        ratio = max(service.output_tokens.mean, 1e-9) / service.output_length
        if not 1 / _FAR <= ratio <= _FAR:
            found.append(
                f"The nearest output length at hand, {service.output_length}, is "
                f"{1 / ratio if ratio < 1 else ratio:.2g} times too "
                f"{'long' if ratio < 1 else 'short'}: latency and capacity are off accordingly."
            )
    return found


def _probabilities(services: tuple[ServiceFit, ...]) -> list[float]:
    """Return shares of requests that are rounded and sum to 1: the largest takes the rest."""
    shares = [round(service.share, 6) for service in services]
    largest = shares.index(max(shares))
    others = sum(share for i, share in enumerate(shares) if i != largest)
    shares[largest] = round(1 - others, 6)
    return shares


def _rounded(weights: Float64Array) -> list[float]:
    return [round(float(weight), _DECIMALS) for weight in weights]


class _Dumper(yaml.SafeDumper):
    """Lists in brackets, mappings in blocks, and no anchors where services share their keys."""

    def ignore_aliases(self, data: object) -> bool:  # noqa: ARG002
        return True


_Dumper.add_representer(
    list,
    lambda dumper, data: dumper.represent_sequence("tag:yaml.org,2002:seq", data, flow_style=True),
)
