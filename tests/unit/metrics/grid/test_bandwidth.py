from __future__ import annotations

import pytest

from diploee.metrics.bands import profile_support
from diploee.profiles import ProfileLibrary
from diploee.profiles.profile import Provenance
from diploee.profiles.resample import usable_bandwidth_hz


def readings(interval_s, window_s):
    bandwidth_hz = usable_bandwidth_hz(interval_s, window_s)
    return Provenance("measured", "", "", interval_s, window_s, bandwidth_hz)


def test_reference_profiles_are_trusted_to_a_quarter_hertz():
    support = profile_support(entry.provenance for entry in ProfileLibrary.open().entries)
    assert support.trusted_hz == 0.25
    assert support.flagged_hz == 0.44
    assert support.min_step_s == 2.0
    assert support.is_lower_bound(1.9)
    assert not support.is_lower_bound(2.0)


def test_gain_of_a_one_second_average_is_that_of_the_published_facts():
    support = profile_support([readings(0.2, 1.0)])
    assert [round(support.gain(f), 2) for f in (0.25, 0.44, 0.8, 1.0)] == [0.90, 0.71, 0.23, 0.0]


@pytest.mark.parametrize(
    ("high_hz", "status"), [(0.25, "supported"), (0.44, "flagged"), (1.0, "absent")]
)
def test_band_status_follows_the_readings(high_hz, status):
    assert profile_support([readings(0.2, 1.0)]).at_resolution(100).band(high_hz)[0] == status


def test_weakest_profile_decides():
    fast, slow = readings(0.1, 0.1), readings(5.0, 0.0)
    assert profile_support([fast]).trusted_hz == 2.5
    support = profile_support([fast, slow])
    assert support.trusted_hz == pytest.approx(0.08)  # 80 % of 0.1 Hz, Nyquist at 5 s
    assert support.min_step_s == 5.0


def test_resolution_limits_what_good_profiles_support():
    support = profile_support([readings(0.1, 0.1)]).at_resolution(1_000)
    assert support.band(0.25) == ("supported", "")
    assert support.band(0.44) == ("absent", "the run's resolution of 1 s does not hold it")


def test_unknown_profiles_are_taken_as_the_published_ones():
    assert profile_support([]) == profile_support([Provenance("measured", "", "", 0.2, 1.0, 0.44)])


def test_block_makes_no_claim_on_flicker():
    block = profile_support([]).at_resolution(60_000).block()
    assert "no claim on flicker, torsion or harmonics" in block["note"]
    assert block["flagged_hz"] >= block["trusted_hz"]
