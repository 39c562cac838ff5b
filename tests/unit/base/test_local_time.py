"""Named time zones: load follows the wall clock, energy and files the time that runs
on."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from builders import tiny_library, tiny_run, tiny_scenario
from hypothesis import given
from hypothesis import strategies as st

from diploee import generate_jobs
from diploee import run as simulate
from diploee.base.clock import (
    RunClock,
    WallClock,
    Zone,
    is_skipped,
    local_ms,
    named_zone,
)
from diploee.base.errors import InputError, ScenarioError
from diploee.base.measures.streaming import ClockSums, MeasureRunner
from diploee.grid.export import Options, export_run
from diploee.grid.limits.file import Limits
from diploee.grid.limits.report import check_limits
from diploee.loads.import_counts import ImportCounts
from diploee.loads.jobs.rates import hourly_rates
from diploee.loads.services.request_trace import RequestTrace, replayed_rates
from diploee.reports.data import read_run
from diploee.scenario import Calendar, RequestReplay
from diploee.schedule import Start, StrictFifo

MS_PER_MIN, MS_PER_H, MS_PER_DAY = 60_000, 3_600_000, 86_400_000

CHANGES = [
    ("America/Chicago", "2018-03-11", 23),
    ("America/Chicago", "2018-11-04", 25),
    ("Europe/Berlin", "2018-03-25", 23),
    ("Australia/Sydney", "2018-10-07", 23),
    ("Australia/Sydney", "2018-04-01", 25),
    ("Australia/Lord_Howe", "2018-10-07", 23.5),
    ("Australia/Lord_Howe", "2018-04-01", 24.5),
    ("Asia/Tokyo", "2018-03-11", 24),
]
ZONES = sorted(
    {zone for zone, _, _ in CHANGES} | {"America/Havana", "Africa/Casablanca"}
)


def around(zone: str, day: str, **changes: Any) -> dict[str, Any]:
    """Return changes of the tiny scenario for five days about a date, in half-hours."""
    start = (datetime.fromisoformat(day) - timedelta(days=2)).date().isoformat()
    return {
        "start": start,
        "duration": "5 d",
        "resolution": "30 min",
        "facility.time_zone": zone,
        "facility.utc_offset": None,
    } | changes


@pytest.mark.parametrize(("zone", "day", "hours"), CHANGES)
def test_the_day_of_a_change_is_as_long_as_its_zone_has_it_in_files_and_in_its_limit(
    tmp_path: Path, zone: str, day: str, hours: float
) -> None:
    idle = {
        "streams.training.target_utilization": None,
        "streams.training.jobs_per_day": 1e-6,
    }
    run = tiny_run(tmp_path / "run", around(zone, day, **idle))
    stored = pq.read_table(run.folder / "facility.parquet", columns=["timestamp"])
    assert stored.schema.field("timestamp").type.tz == zone
    power_w = run.facility()["facility_power_w"].astype(float)
    assert power_w.index.is_unique and power_w.index.is_monotonic_increasing
    of_day = power_w[power_w.index.strftime("%Y-%m-%d") == day]
    assert len(of_day) == 2 * hours
    assert run.metrics["power"]["energy_mwh"] == pytest.approx(
        power_w.sum() / 2 / 1e6, rel=1e-6
    )

    mwh_of_hour = 12 * 400 / 1e6
    limit_h = 24.1 if hours >= 24 else 23.9
    report = check_limits(
        run, Limits.model_validate({"daily_energy_mwh": limit_h * mwh_of_hour})
    )
    found = sorted(report.results[0].worst, key=lambda event: event.begin)
    spans = [
        (event.begin[:13], event.end[:13], event.value / mwh_of_hour) for event in found
    ]
    days = [str(np.datetime64(day) + np.timedelta64(k, "D")) for k in (-2, 0, 1, 3)]
    expected = {
        24.0: [],
        25.0: [(f"{days[1]}T00", f"{days[2]}T00", 25)],
        24.5: [(f"{days[1]}T00", f"{days[2]}T00", 24.5)],
    }.get(
        hours,
        [
            (f"{days[0]}T00", f"{days[1]}T00", 24),
            (f"{days[2]}T00", f"{days[3]}T00", 24),
        ],
    )
    assert [span[:2] for span in spans] == [span[:2] for span in expected]
    assert [span[2] for span in spans] == pytest.approx([span[2] for span in expected])


@pytest.mark.slow
@given(
    st.sampled_from(ZONES),
    st.datetimes(datetime(2017, 1, 1), datetime(2019, 12, 1)),
    st.sampled_from([15, 30, 60, 120, 480, 1_440]),
    st.integers(1, 300),
)
def test_sums_over_clock_intervals_follow_the_wall_clock(
    zone: str, start: datetime, minutes: int, n_first: int
) -> None:
    start = start.replace(minute=0, second=0, microsecond=0)
    clock = WallClock(start.replace(tzinfo=ZoneInfo(zone)), 15 * MS_PER_MIN)
    values = np.arange(1, 1 + 4 * 24 * 40, dtype=np.int64)
    sums = ClockSums(clock, minutes * MS_PER_MIN)
    series = MeasureRunner(clock.step_ms, [sums])
    series.add(0, values[:n_first])
    series.add(n_first * clock.step_ms, values[n_first:])
    found = {int(t): (int(s), int(n)) for t, s, n in zip(*sums.result(), strict=True)}

    at_ms = np.arange(values.size) * clock.step_ms
    wall_ms = clock.local_ms(at_ms)
    new = np.diff(wall_ms // (minutes * MS_PER_MIN)) != 0
    shift_ms = np.diff(wall_ms) - clock.step_ms
    new |= (shift_ms < 0) & (-shift_ms >= minutes * MS_PER_MIN)
    edges = [0, *(np.flatnonzero(new) + 1).tolist(), values.size]
    expected = {
        int(at_ms[a]): (int(values[a:b].sum()), b - a) for a, b in pairwise(edges)
    }
    inner = dict(list(expected.items())[1:-1])
    assert inner.items() <= found.items()
    assert set(found) <= set(expected)


@pytest.mark.parametrize(("zone", "day", "hours"), CHANGES)
def test_every_hour_of_a_run_has_the_weight_of_its_wall_clock(
    zone: str, day: str, hours: float
) -> None:
    start = datetime.fromisoformat(day) - timedelta(days=2)
    clock = RunClock(start, ZoneInfo(zone), 5 * MS_PER_DAY, MS_PER_H)
    calendar = Calendar(hour_of_day=tuple(range(1, 25)))
    rates = hourly_rates(calendar, clock)
    middle_ms = (rates.edges_ms[1:] + rates.edges_ms[:-1]) // 2
    first_ms = round(start.replace(tzinfo=ZoneInfo(zone)).timestamp() * 1_000)
    on_wall = [
        datetime.fromtimestamp((first_ms + ms) / 1_000, UTC).astimezone(ZoneInfo(zone))
        for ms in middle_ms.tolist()
    ]
    weights = np.array([at.hour + 1 for at in on_wall])
    whole = slice(None, -1)  # the end of the run may cut the last
    found = rates.relative_rate / rates.relative_rate[0]
    np.testing.assert_allclose(found[whole], weights[whole] / weights[0])
    of_day = [f"{at:%Y-%m-%d}" == day for at in on_wall]
    assert np.diff(rates.edges_ms)[of_day].sum() == hours * MS_PER_H
    # The rate is a line without a step at any hour or change of the clock.
    every_ms = np.arange(0, clock.horizon_ms + 1, MS_PER_MIN)
    line = rates.at(every_ms)
    assert np.trapezoid(line, every_ms) / clock.horizon_ms == pytest.approx(1, abs=1e-4)
    steepest = np.abs(np.diff(weights)).max() / weights.mean() / 30
    assert np.abs(np.diff(line)).max() <= steepest * 2


def test_months_and_years_end_at_their_date_and_days_have_24_hours() -> None:
    zone = {"facility.time_zone": "America/Chicago", "facility.utc_offset": None}
    spans = {
        ("2018-03-01", "1 month"): 743,
        ("2018-11-01", "1 month"): 721,
        ("2018-03-01", "1 year"): 8_760,
        ("2018-03-10", "2 d"): 48,
    }
    for (start, duration), hours in spans.items():
        span = {"start": start, "duration": duration, "resolution": "1 h"}
        assert tiny_scenario(zone | span).horizon_ms == hours * MS_PER_H


BERLIN = {"facility.time_zone": "Europe/Berlin"}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"facility.time_zone": "../etc"}, "must be a time zone such as"),
        (
            BERLIN | {"facility.utc_offset": "+01:00"},
            "'time_zone' can't go with 'utc_offset'",
        ),
        (BERLIN | {"start": "2018-03-25 02:30"}, "does not exist in Europe/Berlin"),
    ],
)
def test_zones_that_can_not_be_are_refused(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(ScenarioError) as refused:
        tiny_scenario(changes)
    (problem,) = refused.value.problems
    assert words in problem and len(problem) < 500


def test_a_resolved_scenario_with_a_zone_is_read_back() -> None:
    scenario = tiny_scenario(BERLIN)
    written = scenario.model_dump(mode="json")
    assert "utc_offset" not in written["facility"]
    assert type(scenario).model_validate(written) == scenario
    assert "time_zone" not in tiny_scenario().model_dump(mode="json")["facility"]


@given(st.sampled_from(ZONES), st.integers(-2_208_988_800, 7_258_118_400))
def test_local_time_is_that_of_python(zone: str, second: int) -> None:
    there = datetime.fromtimestamp(second, UTC).astimezone(ZoneInfo(zone))
    found = local_ms(np.array([second * 1_000]), ZoneInfo(zone))[0]
    assert found == np.datetime64(there.replace(tzinfo=None), "ms").astype(np.int64)
    clock = WallClock(there)
    assert clock.time_ms(there) == 0 and clock.at(0) == there
    assert not is_skipped(there.replace(tzinfo=None), ZoneInfo(zone))


def submissions_ms(
    folder: Path, stamps: list[str], site: dict[str, Any], **keys: Any
) -> list[int]:
    """Return when a site plays the jobs of a log of these stamps."""
    rows = [f"{stamp},60,1" for stamp in stamps]
    text = "\n".join(["submit,duration,nodes", *rows, ""])
    (folder / "jobs.csv").write_text(text, "utf-8")
    replay = {"log": "jobs.csv", "rules": [{"workload": "tune"}], **keys}
    streams = {"logged": {"pool": "main", "replay": replay}}
    scenario = tiny_scenario({**site, "streams": streams}).with_folder(folder)
    return generate_jobs(scenario, tiny_library()).jobs.submit_ms.tolist()


def half_hours(first: datetime, zone: str, n_hours: int) -> list[str]:
    """Return the instants at half past of hours that run on."""
    start = first.replace(tzinfo=ZoneInfo(zone)).astimezone(UTC)
    at = [start + timedelta(minutes=60 * k + 30) for k in range(n_hours)]
    return [each.isoformat() for each in at]


CHICAGO = {"facility.time_zone": "America/Chicago"}


@pytest.mark.parametrize("start", ["2018-03-05", "2018-10-29"])
@pytest.mark.parametrize("zone", ["America/Chicago", "UTC"])
def test_a_log_replayed_by_weekday_follows_the_wall_clock(
    tmp_path: Path, start: str, zone: str
) -> None:
    site = CHICAGO | {"start": start, "duration": "3 weeks"}
    stamps = half_hours(datetime(2018, 6, 4), zone, 7 * 24)
    of_log = {"utc_offset": zone, "align": "weekday"}
    # One at every half past of the wall clock, in the hour that comes twice as well.
    expected = range(30 * MS_PER_MIN, tiny_scenario(site).horizon_ms, MS_PER_H)
    assert submissions_ms(tmp_path, stamps, site, **of_log) == list(expected)


@pytest.mark.parametrize("first", [datetime(2018, 3, 9), datetime(2018, 11, 2)])
def test_a_log_of_the_same_zone_at_its_date_keeps_every_job(
    tmp_path: Path, first: datetime
) -> None:
    site = CHICAGO | {"start": first.date().isoformat(), "duration": "5 d"}
    stamps = half_hours(first, "America/Chicago", 100)
    found = submissions_ms(
        tmp_path, stamps, site, utc_offset="America/Chicago", align="date"
    )
    assert found == [30 * MS_PER_MIN + k * MS_PER_H for k in range(100)]


@pytest.mark.parametrize(
    ("stamp", "utc_offset", "hour"),
    [
        ("2018-03-05T09:00:00+08:00", None, 1),  # an instant
        ("2018-03-05T09:00:00", "+08:00", 1),
        ("2018-03-05T09:00:00+08:00", "-06:00", 1),
        ("2018-03-05T09:00:00", None, 9),  # whoever's local time it is
    ],
)
def test_by_date_an_instant_is_played_at_its_instant_and_a_naive_stamp_at_its_clock(
    tmp_path: Path, stamp: str, utc_offset: str | None, hour: int
) -> None:
    for site_h in (0, 3):
        site = {"start": "2018-03-05", "duration": "1 d"}
        site |= {"facility.utc_offset": f"+0{site_h}:00"}
        of_log = {"align": "date"} | ({"utc_offset": utc_offset} if utc_offset else {})
        shift_h = site_h if hour == 1 else 0
        found = submissions_ms(tmp_path, [stamp], site, **of_log)
        assert found == [(hour + shift_h) * MS_PER_H]


@pytest.mark.parametrize("day", [datetime(2018, 3, 10), datetime(2018, 11, 3)])
def test_a_trace_tiled_by_weeks_follows_the_wall_clock(day: datetime) -> None:
    zone = ZoneInfo("America/Chicago")
    trace = RequestTrace(
        source="made",
        trace_format="csv",
        origin_ms=round(datetime(2018, 6, 4, tzinfo=zone).timestamp() * 1_000),
        is_relative=False,
        step_ms=MS_PER_H,
        services=("all",),
        n_requests=np.arange(1.0, 169.0)[None, :] * 3_600,
        input_tokens=(),
        output_tokens=(),
        counts=ImportCounts(n_rows=1, n_kept=1),
        zone=Zone("America/Chicago"),
    )
    clock = RunClock(day, zone, 48 * MS_PER_H, MS_PER_H)
    weekly = RequestReplay(trace="hours", tile="week")
    rates = replayed_rates(trace, weekly, clock, MS_PER_H)
    wall = [clock.wall.at(k * MS_PER_H) for k in range(48)]
    np.testing.assert_allclose(rates, [at.weekday() * 24 + at.hour + 1 for at in wall])


def test_exports_and_the_report_are_right_over_a_change(tmp_path: Path) -> None:
    changes = around("America/Chicago", "2018-11-04")
    run = tiny_run(tmp_path / "run", changes)
    written = pd.read_csv(export_run(run, "csv", tmp_path / "run.csv"))
    stamps = pd.to_datetime(written["timestamp"], utc=True)
    assert stamps.tolist() == run.facility().index.tz_convert("UTC").tolist()
    part = Options(first=datetime(2018, 11, 4), until=datetime(2018, 11, 5))
    day = pd.read_csv(export_run(run, "csv", tmp_path / "day.csv", part))
    assert len(day) == 50 and day["timestamp"].iloc[[0, -1]].tolist() == [
        "2018-11-04T00:00:00-05:00",
        "2018-11-04T23:30:00-06:00",
    ]
    data = read_run(run.folder)
    on_wall = run.facility().index.tz_localize(None).to_numpy().astype("datetime64[ms]")
    np.testing.assert_array_equal(data.local_ms, on_wall.astype(np.int64))
    spring = tiny_run(tmp_path / "spring", around("America/Chicago", "2018-03-11"))
    skipped = Options(first=datetime(2018, 3, 11, 2, 30))
    with pytest.raises(InputError, match="does not exist in America/Chicago"):
        export_run(spring, "csv", tmp_path / "no.csv", skipped)


def test_unknown_zone_is_answered_by_near_names_or_those_of_its_area() -> None:
    for name, near in (
        ("America/Chigaco", "'America/Chicago'"),
        ("US/Ohio", "'US/Alaska', 'US/Aleutian'"),
        ("Mars/Base", "'America/Chicago'"),
    ):
        with pytest.raises(ValueError, match=f"must be a time zone such as {near}"):
            named_zone(name)


class Clockwatcher:
    """Strict FIFO that notes the time and what its view calls it."""

    wants_idle = True

    def __init__(self) -> None:
        self.seen: list[tuple[int, datetime]] = []

    def select(self, view: Any) -> list[int]:
        view.wake_at(view.now_ms + MS_PER_H)
        self.seen.append((view.now_ms, view.clock.at(view.now_ms)))
        return StrictFifo().select(view)


class ActingClockwatcher(Clockwatcher):
    def decide(self, view: Any) -> list[Any]:
        self.seen.append((view.now_ms, view.facility.clock.at(view.now_ms)))
        return [Start(job) for job in self.select(view)]


@pytest.mark.parametrize("policy", [Clockwatcher, ActingClockwatcher])
def test_policies_see_the_clock_on_the_wall_of_the_site(
    policy: Any, tmp_path: Path
) -> None:
    """A run that begins at half past seven, over the night that has no hour from 2
    to 3."""
    changes = around(
        "America/Chicago", "2018-03-11", start="2018-03-10T07:30", duration="2 d"
    )
    mine = policy()
    simulate(
        tiny_scenario(changes),
        tmp_path / "run",
        profiles=tiny_library(),
        policies={"main": mine},
    )
    zone = ZoneInfo("America/Chicago")
    start = datetime(2018, 3, 10, 7, 30, tzinfo=zone).astimezone(UTC)
    assert len(mine.seen) > 40
    for now_ms, seen in mine.seen:
        expected = (start + timedelta(milliseconds=now_ms)).astimezone(zone)
        assert (seen, seen.hour) == (expected, expected.hour)
