"""Sizes that no run could hold: a slip of the keyboard is named, not left to run out of memory."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

from diploee.scenario.models import Scenario
from diploee.scenario.serving import RequestStream, Service
from diploee.units import HOURS_PER_DAY, MS_PER_DAY, S_PER_H

S_PER_DAY = HOURS_PER_DAY * S_PER_H

MAX_NODES = 1_000_000
MAX_DEVICES = 1_000
MAX_POWER_W = 1_000_000
MAX_RATED_POWER_MW = 1_000_000
MAX_SEED = 2**64 - 1
MAX_JOBS = 1_000_000_000
MAX_REQUEST_RATE_RPS = 1_000_000_000
MIN_INSTANCE_RATE_RPS = 1e-6
MAX_SCALING_S = 366 * S_PER_DAY
MAX_OUTPUT_TOKENS = 1_000_000_000
MAX_JITTER = 1_000
MAX_YEARS = 100
FIRST_YEAR, LAST_YEAR = 1900, 2199
"""Time stamps of these years fit every reader of the files, pandas' nanoseconds included."""

Place = tuple[str | int, ...]


def size_problems(scenario: Scenario) -> list[tuple[Place, str]]:
    """Return what is too large or too late to be simulated, each with its dotted place."""
    return [
        *_facility_problems(scenario),
        *_span_problems(scenario),
        *_job_problems(scenario),
        *_request_problems(scenario),
    ]


def _facility_problems(scenario: Scenario) -> Iterator[tuple[Place, str]]:
    facility = scenario.facility
    for name, node in facility.node_types.items():
        for key, limit, unit in (
            ("n_gpus", MAX_DEVICES, ""),
            ("n_cpus", MAX_DEVICES, ""),
            ("gpu_tdp_w", MAX_POWER_W, " W"),
            ("cpu_tdp_w", MAX_POWER_W, " W"),
            ("idle_power_w", MAX_POWER_W, " W"),
        ):
            if (found := getattr(node, key)) > limit:
                yield ("facility", "node_types", name, key), _too_large(found, limit, unit)
    for name, pool in facility.pools.items():
        if pool.n_nodes > MAX_NODES:
            yield ("facility", "pools", name, "n_nodes"), _too_large(pool.n_nodes, MAX_NODES)
    rated_mw = facility.rated_power_mw
    if rated_mw is not None and rated_mw > MAX_RATED_POWER_MW:
        yield ("facility", "rated_power_mw"), _too_large(rated_mw, MAX_RATED_POWER_MW, " MW")


def _span_problems(scenario: Scenario) -> Iterator[tuple[Place, str]]:
    if scenario.seed > MAX_SEED:
        yield ("seed",), _too_large(scenario.seed, MAX_SEED)
    years = f"years {FIRST_YEAR} to {LAST_YEAR}"
    if not FIRST_YEAR <= scenario.start.year <= LAST_YEAR:
        yield ("start",), f"must lie in the {years}, found {scenario.start:%Y-%m-%d}"
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


def _job_problems(scenario: Scenario) -> Iterator[tuple[Place, str]]:
    for name, stream in scenario.streams.items():
        if stream.jobs_per_day is not None and stream.jobs_per_day > MAX_JOBS / 366:
            yield (
                ("streams", name, "jobs_per_day"),
                _too_large(stream.jobs_per_day, MAX_JOBS // 366),
            )


def _request_problems(scenario: Scenario) -> Iterator[tuple[Place, str]]:
    for name, stream in scenario.request_streams.items():
        place = ("request_streams", name)
        yield from _over_limits(
            stream,
            place,
            ("request_rate_rps", MAX_REQUEST_RATE_RPS, " requests/s"),
            ("requests_per_day", MAX_REQUEST_RATE_RPS * S_PER_DAY, ""),
            ("minute_jitter_relative_std", MAX_JITTER, ""),
        )
        for service_name, service in stream.services.items():
            yield from _service_problems(service, (*place, "services", service_name))


def _service_problems(service: Service, place: Place) -> Iterator[tuple[Place, str]]:
    yield from _over_limits(
        service,
        place,
        ("max_request_rate_rps", MAX_REQUEST_RATE_RPS, " requests/s"),
        ("output_tokens", MAX_OUTPUT_TOKENS, ""),
        ("nodes_per_instance", MAX_NODES, ""),
        ("reserved_nodes", MAX_NODES, ""),
        ("min_instances", MAX_NODES, ""),
        ("startup_s", MAX_SCALING_S, " s"),
        ("cooldown_s", MAX_SCALING_S, " s"),
    )
    rate_rps = service.max_request_rate_rps
    if rate_rps is not None and rate_rps < MIN_INSTANCE_RATE_RPS:
        yield (
            (*place, "max_request_rate_rps"),
            f"must be at least {MIN_INSTANCE_RATE_RPS:g} requests/s, found {rate_rps:g}",
        )


def _over_limits(
    part: Service | RequestStream, place: Place, *limits: tuple[str, int, str]
) -> Iterator[tuple[Place, str]]:
    for key, limit, unit in limits:
        found = getattr(part, key)
        if isinstance(found, int | float) and found > limit:
            yield (*place, key), _too_large(found, limit, unit)


def _too_large(found: float, limit: float, unit: str = "") -> str:
    text = f"{found:,}" if abs(found) < 10**15 else f"{float(min(found, 10**300)):.3g}"
    return f"must be at most {limit:,}{unit}, found {text}"
