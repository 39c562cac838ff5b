"""Zones of logs against Python's own arithmetic, and laziness of the importers'
package."""

from __future__ import annotations

import subprocess
import sys
from datetime import datetime
from zoneinfo import ZoneInfo

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from diploee.base.clock import Zone, parse_zone
from diploee.base.errors import InputError
from diploee.loads.jobs.job_log import MISSING_MS

ZONES = (
    "Europe/Berlin",
    "America/Los_Angeles",
    "Australia/Sydney",
    "Asia/Kathmandu",
    "UTC",
)


@pytest.mark.parametrize(
    ("text", "minutes"),
    [("+00:00", 0), ("+08:00", 480), ("-07:30", -450), ("+14:00", 840)],
)
def test_fixed_offsets(text: str, minutes: int) -> None:
    assert parse_zone(text, "here") == Zone("", minutes)


@pytest.mark.parametrize("text", ["", "8", "+8:00", "+15:00", "+08:60", "../etc"])
def test_what_is_no_zone_is_refused(text: str) -> None:
    with pytest.raises(
        InputError, match=r"^here: unknown time zone '.*', expected a fixed offset"
    ):
        parse_zone(text, "here")


@given(
    st.sampled_from(ZONES),
    st.lists(st.datetimes(datetime(1990, 1, 1), datetime(2037, 1, 1)), max_size=20),
)
def test_local_times_of_named_zones_are_those_of_python(
    name: str, times: list[datetime]
) -> None:
    times = [
        time.replace(microsecond=time.microsecond // 1000 * 1000) for time in times
    ]
    local_ms = np.array(
        [np.datetime64(time, "ms") for time in times], dtype="datetime64[ms]"
    )
    found = parse_zone(name, "here").utc_ms(local_ms.astype(np.int64))
    zone = ZoneInfo(name)
    for time, utc_ms in zip(times, found.tolist(), strict=True):
        aware = time.replace(tzinfo=zone)
        back = datetime.fromtimestamp(aware.timestamp(), zone).replace(tzinfo=None)
        if back == time:  # not in the hour that spring leaves out
            assert utc_ms == round(aware.timestamp() * 1000)


def test_a_missing_time_stays_missing_in_every_zone() -> None:
    for zone in (Zone("Europe/Berlin"), Zone("", 480)):
        assert zone.utc_ms(np.array([MISSING_MS])).tolist() == [MISSING_MS]


@pytest.mark.parametrize(
    ("name", "minutes"),
    [("Europe/Berlin", 60), ("Australia/Sydney", 600), ("Europe/Dublin", 0)],
)
def test_the_offset_of_a_named_zone_is_that_of_its_standard_time(
    name: str, minutes: int
) -> None:
    july_ms = int(np.datetime64("2024-07-15", "ms").astype(np.int64))
    assert parse_zone(name, "here").offset_min(july_ms) == minutes


@pytest.mark.slow
def test_the_importers_are_listed_without_loading_pandas() -> None:
    code = (
        "import sys, diploee.importers as i; assert 'read_job_log' in i.__all__; "
        "i.read_job_log; print('pandas' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "False"
