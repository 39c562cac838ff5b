"""Sizes that no run could hold: a slip of the keyboard is named, not left to run out of memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta

from diploee.problems import KeyPath
from diploee.scenario.job_streams import JobStream
from diploee.scenario.models import Facility, Scenario
from diploee.scenario.serving import RequestStream, Service
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


def size_problems(scenario: Scenario) -> list[tuple[KeyPath, str]]:
    """Return what is too large or too late to be simulated, each with its dotted place."""
    return [
        *_facility_problems(scenario.facility),
        *_span_problems(scenario),
        *_job_problems(scenario.streams),
        *_request_problems(scenario.request_streams),
    ]


def _facility_problems(facility: Facility) -> Iterator[tuple[KeyPath, str]]:
    for name, node in facility.node_types.items():
        for key, limit, unit in (
            ("n_gpus", MAX_DEVICES, ""),
            ("n_cpus", MAX_DEVICES, ""),
            ("gpu_tdp_w", MAX_POWER_W, " W"),
            ("cpu_tdp_w", MAX_POWER_W, " W"),
            ("idle_power_w", MAX_POWER_W, " W"),
            ("busy_power_factor", MAX_FACTOR, ""),
        ):
            if (found := getattr(node, key)) > limit:
                yield ("facility", "node_types", name, key), _too_large(found, limit, unit)
    for name, pool in facility.pools.items():
        if pool.n_nodes > MAX_NODES:
            yield ("facility", "pools", name, "n_nodes"), _too_large(pool.n_nodes, MAX_NODES)
    rated_mw = facility.rated_power_mw
    if rated_mw is not None and rated_mw > MAX_RATED_POWER_MW:
        yield ("facility", "rated_power_mw"), _too_large(rated_mw, MAX_RATED_POWER_MW, " MW")


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


def _job_problems(streams: Mapping[str, JobStream]) -> Iterator[tuple[KeyPath, str]]:
    for name, stream in streams.items():
        if stream.jobs_per_day is not None and stream.jobs_per_day > MAX_JOBS / 366:
            yield (
                ("streams", name, "jobs_per_day"),
                _too_large(stream.jobs_per_day, MAX_JOBS // 366),
            )


def _request_problems(streams: Mapping[str, RequestStream]) -> Iterator[tuple[KeyPath, str]]:
    for name, stream in streams.items():
        key_path = ("request_streams", name)
        yield from _over_limits(
            stream,
            key_path,
            ("request_rate_rps", MAX_REQUEST_RATE_RPS, " requests/s"),
            ("requests_per_day", MAX_REQUEST_RATE_RPS * S_PER_DAY, ""),
        )
        for service_name, service in stream.services.items():
            yield from _service_problems(service, (*key_path, "services", service_name))


def _service_problems(service: Service, key_path: KeyPath) -> Iterator[tuple[KeyPath, str]]:
    yield from _over_limits(
        service,
        key_path,
        ("max_request_rate_rps", MAX_REQUEST_RATE_RPS, " requests/s"),
        ("output_tokens", MAX_OUTPUT_TOKENS, ""),
        ("nodes_per_instance", MAX_NODES, ""),
        ("reserved_nodes", MAX_NODES, ""),
        ("min_instances", MAX_NODES, ""),
        ("startup_s", MAX_SCALING_S, " s"),
        ("cooldown_s", MAX_SCALING_S, " s"),
        ("scaling_interval_s", MAX_SCALING_S, " s"),
    )
    rate_rps = service.max_request_rate_rps
    if rate_rps is not None and rate_rps < MIN_INSTANCE_RATE_RPS:
        yield (
            (*key_path, "max_request_rate_rps"),
            f"must be at least {MIN_INSTANCE_RATE_RPS:g} requests/s, found {rate_rps:g}",
        )


def _over_limits(
    part: Service | RequestStream, key_path: KeyPath, *limits: tuple[str, int, str]
) -> Iterator[tuple[KeyPath, str]]:
    for key, limit, unit in limits:
        found = getattr(part, key)
        if isinstance(found, int | float) and found > limit:
            yield (*key_path, key), _too_large(found, limit, unit)


def _too_large(found: float, limit: float, unit: str = "") -> str:
    text = f"{found:,}" if abs(found) < 10**15 else f"{float(min(found, 10**300)):.3g}"
    return f"must be at most {limit:,}{unit}, found {text}"
