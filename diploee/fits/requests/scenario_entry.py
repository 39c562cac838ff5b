"""Entry of a scenario's `request_streams` for a fitted trace, with comments."""

from __future__ import annotations

from typing import Any

from diploee.fits.calendar_output import calendar_entry, round_digits
from diploee.fits.confidence_limits import round_shares
from diploee.fits.requests.fit import RequestFit
from diploee.fits.requests.fluctuation import FluctuationFit
from diploee.runs.sections import as_lines

_DECIMALS = 4


def _placeholder_keys() -> dict[str, Any]:
    """Return placeholder values of the keys that no trace determines.

    ASSUMPTION: the curves are those of a shipped model; a latency cap is assumed too.
    """
    return {
        "latency_cap": {"metric": "mean_e2e", "limit_s": 10},
        "power_curve": "llama3_70b_conversation_power",
        "latency_curve": "llama3_70b_conversation_latency",
    }


def request_stream(fit: RequestFit, *, pool: str) -> dict[str, Any]:
    """Return the entry of `request_streams` as plain data."""
    stream: dict[str, Any] = {
        "pool": pool,
        "request_rate_rps": round_digits(fit.week_rate_rps, 6),
    }
    if fit.fluctuation is not None and (spec := _fluctuation_keys(fit.fluctuation)):
        stream["fluctuation"] = spec
    shares = round_shares([service.share for service in fit.services], 6)
    stream["services"] = services = {}
    for service, share in zip(fit.services, shares, strict=True):
        services[service.name] = entry = {"probability": share}
        if service.output_length:
            entry["output_tokens"] = service.output_length
        entry |= _placeholder_keys()
    return stream | calendar_entry(fit.calendar, fit.weeks)


def _fluctuation_keys(fit: FluctuationFit) -> dict[str, float]:
    """Return the scenario's `fluctuation` keys; empty if requests are Poisson."""
    std = round(fit.relative_std.value, _DECIMALS)
    if not std:
        return {}
    keys = {"relative_std": std, "reference_rate_rps": round_digits(fit.rate_rps, 6)}
    # Fluctuation without correlation between minutes is as short as a scenario allows.
    time = fit.correlation_time_s
    keys["correlation_time_s"] = 5.0 if time is None else round_digits(time.value, 3)
    if fit.common_share is not None:
        keys["common_share"] = round(fit.common_share.value, _DECIMALS)
    return keys


def stream_comments(fit: RequestFit) -> list[str]:
    """Return the comments of a fitted stream, one string per comment."""
    return [
        *as_lines(fit.sections()),
        "ASSUMPTION: the trace does not tell model, latency cap and hardware; set them "
        "below.",
    ]
