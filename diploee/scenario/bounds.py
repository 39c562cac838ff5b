"""Sizes that no run could hold: a slip of the keyboard is named, not left to run out of memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from typing import Any

from diploee.plain_data import KeyPath
from diploee.scenario.models import Scenario
from diploee.units import HOURS_PER_DAY, MS_PER_DAY, S_PER_H

S_PER_DAY = HOURS_PER_DAY * S_PER_H

MAX_NODES = 1_000_000
MAX_DEVICES = 1_000
MAX_POWER_W = 1_000_000
MAX_FACTOR = 1_000
MAX_RATED_POWER_MW = 1_000_000
MAX_SEED = 2**63 - 1
"""Tables hold seeds as signed integers of 64 bits."""
MAX_JOBS = 1_000_000_000
MAX_REQUEST_RATE_RPS = 1_000_000_000
MIN_INSTANCE_RATE_RPS = 1e-6
MAX_SCALING_S = 366 * S_PER_DAY
MAX_OUTPUT_TOKENS = 1_000_000_000
MAX_YEARS = 100
FIRST_YEAR, LAST_YEAR = 1900, 2199
"""Time stamps of these years fit every reader of the files, pandas' nanoseconds included."""


Limits = tuple[tuple[str, float, str], ...]
"""Keys of a part of a scenario with the most that each may be, and its unit."""

OF_NODES: Limits = (
    ("n_gpus", MAX_DEVICES, ""),
    ("n_cpus", MAX_DEVICES, ""),
    ("gpu_tdp_w", MAX_POWER_W, " W"),
    ("cpu_tdp_w", MAX_POWER_W, " W"),
    ("idle_power_w", MAX_POWER_W, " W"),
    ("busy_power_factor", MAX_FACTOR, ""),
)
OF_REQUESTS: Limits = (
    ("request_rate_rps", MAX_REQUEST_RATE_RPS, " requests/s"),
    ("requests_per_day", MAX_REQUEST_RATE_RPS * S_PER_DAY, ""),
)
OF_SERVICES: Limits = (
    ("max_request_rate_rps", MAX_REQUEST_RATE_RPS, " requests/s"),
    ("output_tokens", MAX_OUTPUT_TOKENS, ""),
    ("nodes_per_instance", MAX_NODES, ""),
    ("reserved_nodes", MAX_NODES, ""),
    ("min_instances", MAX_NODES, ""),
    ("startup_s", MAX_SCALING_S, " s"),
    ("cooldown_s", MAX_SCALING_S, " s"),
    ("scaling_interval_s", MAX_SCALING_S, " s"),
)


def size_problems(scenario: Scenario) -> list[tuple[KeyPath, str]]:
    """Return what is too large or too late to be simulated, each with its dotted place."""
    facility, found = scenario.facility, [*_span_problems(scenario)]

    def check(limits: Limits, *at: str | int) -> None:
        part: Any = scenario
        for key in at:
            part = part[key] if isinstance(part, Mapping) else getattr(part, str(key))
        for key, limit, unit in limits:
            value = getattr(part, key)
            if isinstance(value, int | float) and value > limit:
                found.append(((*at, key), _too_large(value, limit, unit)))

    for name in facility.node_types:
        check(OF_NODES, "facility", "node_types", name)
    for name in facility.pools:
        check((("n_nodes", MAX_NODES, ""),), "facility", "pools", name)
    check((("rated_power_mw", MAX_RATED_POWER_MW, " MW"),), "facility")
    for name in scenario.streams:
        check((("jobs_per_day", MAX_JOBS // 366, ""),), "streams", name)
    for name, stream in scenario.request_streams.items():
        check(OF_REQUESTS, "request_streams", name)
        for service_name, service in stream.services.items():
            at = ("request_streams", name, "services", service_name)
            check(OF_SERVICES, *at)
            rate_rps = service.max_request_rate_rps
            if rate_rps is not None and rate_rps < MIN_INSTANCE_RATE_RPS:
                least = f"must be at least {MIN_INSTANCE_RATE_RPS:g} requests/s"
                found.append(((*at, "max_request_rate_rps"), f"{least}, found {rate_rps:g}"))
    return found


def _span_problems(scenario: Scenario) -> Iterator[tuple[KeyPath, str]]:
    if scenario.seed > MAX_SEED:
        yield ("seed",), _too_large(scenario.seed, MAX_SEED)
    years = f"years {FIRST_YEAR} to {LAST_YEAR}"
    if not FIRST_YEAR <= scenario.start.year <= LAST_YEAR:
        yield ("start",), f"must lie in the {years}, found {scenario.start:%Y-%m-%d}"
        return
    try:
        begin = scenario.start - timedelta(milliseconds=scenario.warm_up_ms)
    except (OverflowError, ValueError):
        begin = datetime.min
    if begin.year < FIRST_YEAR:
        yield ("warm_up",), f"begins before {FIRST_YEAR}, found {scenario.warm_up}; shorten it"
        return
    try:
        horizon_ms = scenario.horizon_ms
        end = scenario.start + timedelta(milliseconds=horizon_ms)
    except (OverflowError, ValueError):
        yield ("duration",), f"ends beyond the {years}, found {scenario.duration}; shorten it"
        return
    if horizon_ms > MAX_YEARS * 366 * MS_PER_DAY or end.year > LAST_YEAR + 1:
        yield (
            ("duration",),
            f"must be at most {MAX_YEARS} years and end within the {years}, "
            f"found {scenario.duration}; shorten it",
        )
    elif horizon_ms < scenario.resolution_ms:
        yield (
            ("duration",),
            f"must be at least one interval of the resolution, "
            f"{scenario.resolution_ms / 1000:g} s, found {scenario.duration}",
        )


def _too_large(found: float, limit: float, unit: str = "") -> str:
    text = f"{found:,}" if abs(found) < 10**15 else f"{float(min(found, 10**300)):.3g}"
    return f"must be at most {limit:,}{unit}, found {text}"
