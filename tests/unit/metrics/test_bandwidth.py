from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from diploee.metrics.spectral_bands import Readings, profile_support
from diploee.profiles import (
    MeterModel,
    PowerProfile,
    ProfileLibrary,
    flat_profile,
    known_meter,
    read_profile,
    write_profile,
)
from diploee.profiles.meter_response import resolvable_range
from diploee.profiles.profile import Provenance


def readings(interval_s, window_s):
    flagged_hz = resolvable_range(window_s, interval_s).flagged_hz
    return Provenance("measured", "", "", interval_s, window_s, flagged_hz)


@pytest.mark.parametrize(
    ("field", "gpu", "trusted_hz", "flagged_hz", "min_step_s", "is_sampled"),
    [
        ("power.draw", "H100", 0.25, 0.44, 2.0, False),
        ("power.draw", "H200", 0.25, 0.44, 2.0, False),
        ("power.draw", "A100", 0.0, 0.0, 0.2, True),
        ("power.draw", "L40S", 0.25, 0.44, 2.0, False),
        ("energy", "H100", 0.91, 2.5, 0.2, True),
        ("other", None, 0.25, 0.44, 2.0, False),
        ("power.draw.instant", "H100", 0.0, 0.0, 0.2, True),
    ],
)
def test_window_and_sampling_together_decide_what_readings_show(
    field, gpu, trusted_hz, flagged_hz, min_step_s, is_sampled
):
    found = known_meter(field, gpu, 0.1).resolvable_range
    assert found == (trusted_hz, flagged_hz, min_step_s, is_sampled)


def test_polling_an_a100_faster_than_it_refreshes_shows_no_more():
    assert known_meter("power.draw", "A100", 0.02).resolvable_range.flagged_hz == 0.0


@pytest.mark.parametrize(
    ("window_s", "interval_s"), [(1.0, 0.1), (0.1, 0.1), (1.0, 1.0), (1.0, 0.5)]
)
def test_gain_and_folds_are_within_their_bounds_up_to_what_is_claimed(
    window_s, interval_s
):
    """The amplitude of sines read through the meter, with those that fold onto them."""
    found = resolvable_range(window_s, interval_s)
    meter = MeterModel("", None, "boxcar", window_s, polled_s=interval_s)

    def amplitude(at_hz, seen_hz):
        t_s, read = meter.read(
            np.sin(2 * np.pi * at_hz * np.arange(0, 400, 0.005)), 0.005
        )
        return 2 * abs((read * np.exp(-2j * np.pi * seen_hz * t_s)).mean())

    for at_hz, gain, fold in (
        (found.trusted_hz, 0.9, 0.1),
        (found.flagged_hz, 0.71, 1 / 3),
    ):
        passed = amplitude(at_hz, at_hz)
        folded = amplitude(1 / interval_s - at_hz, at_hz)
        assert passed >= gain * 0.98
        assert folded / passed <= fold * 1.06


def reach_of(support):
    return support.trusted_hz, support.flagged_hz, support.min_step_s


def test_reference_profiles_are_trusted_to_a_quarter_hertz():
    entries = ProfileLibrary.open().entries
    support = profile_support(entry.provenance for entry in entries)
    assert reach_of(support) == (0.25, 0.44, 2.0)
    assert support.is_lower_bound(1.9)
    assert not support.is_lower_bound(2.0)


def test_gain_of_a_one_second_average_is_that_of_the_published_facts():
    support = profile_support([readings(0.2, 1.0)])
    found = [round(support.gain(f), 2) for f in (0.25, 0.44, 0.8, 1.0)]
    assert found == [0.90, 0.71, 0.23, 0.0]


@pytest.mark.parametrize(
    ("high_hz", "status"), [(0.25, "supported"), (0.44, "flagged"), (1.0, "absent")]
)
def test_band_status_follows_the_readings(high_hz, status):
    support = profile_support([readings(0.2, 1.0)]).at_resolution(100)
    assert support.band(high_hz)[0] == status


def test_weakest_profile_decides_and_is_named():
    fast, slow = (
        Readings.from_provenance(readings(*of), name)
        for of, name in (((0.1, 0.1), "fast"), ((5.0, 5.0), "slow"))
    )
    assert profile_support([fast]).trusted_hz == 0.91
    support = profile_support([fast, slow])
    assert reach_of(support) == (0.018, 0.05, 10.0)
    assert support.scope(1.0, 1.0) == (
        "to 0.05 Hz on measured detail, to 1 Hz on finer detail; readings every 5 "
        "s ('slow') decide"
    )


def test_synthetic_profiles_have_no_meter_and_the_resolution_decides():
    synthetic = Readings.from_provenance(flat_profile().provenance, "flat")
    support = profile_support([synthetic]).at_resolution(100)
    assert reach_of(support) == (2.5, 4.0, 0.0)
    (entry,) = support.block({"flat": 1.0})["of_profiles"]
    assert (entry["name"], entry["energy_share"]) == ("synthetic, no meter", 1.0)
    both = profile_support(
        [synthetic, Readings.from_provenance(readings(0.1, 1.0), "read")]
    )
    scope = both.scope(5.0, 4.0)
    assert "to 4 Hz on synthesised detail; means over 1 s ('read') decide" in scope


def test_each_limit_has_its_share_of_the_energy():
    of = [
        Readings.from_provenance(readings(0.1, 1.0), name) for name in "aab"
    ]  # services share
    of.append(Readings.from_provenance(readings(0.1, 0.025), "c"))
    block = profile_support(of).block({"a": 1.0, "b": 2.0, "c": 1.0, "other": 4.0})
    assert [(e["name"], e["energy_share"]) for e in block["of_profiles"]] == [
        ("readings every 0.1 s fold", 0.125),
        ("means over 1 s", 0.375),
        ("constant power", 0.5),
    ]
    assert block["of_profiles"][1]["note"] == (
        "to 0.44 Hz, 'a' and 1 other, 38% of the energy of jobs and services"
    )


def test_stored_provenance_of_a_meter_is_read_back_as_it_was(tmp_path):
    origin = replace(readings(0.1, 0.025), meter=known_meter("power.draw", "A100", 0.1))
    path = tmp_path / "p.parquet"
    write_profile(PowerProfile("p", "w", 1, 100, np.ones(3), origin), path)
    assert read_profile(path).provenance == origin


def test_readings_that_fold_leave_no_band_and_say_so():
    support = profile_support(
        [Readings.from_provenance(readings(0.1, 0.0), "x")]
    ).at_resolution(100)
    reason = "readings every 0.1 s fold ('x'): fast swings show as slow ones"
    assert support.band(0.01) == ("absent", reason)


def test_resolution_limits_what_good_profiles_support():
    support = profile_support([readings(0.05, 0.1)]).at_resolution(1_000)
    assert support.band(0.25) == ("supported", "")
    reason = "the run's resolution of 1 s does not hold it"
    assert support.band(0.44) == ("absent", reason)


def test_unknown_profiles_are_taken_as_the_published_ones():
    published = profile_support([Provenance("measured", "", "", 0.2, 1.0, 0.44)])
    assert replace(profile_support([]), readings=()) == replace(published, readings=())


def test_block_makes_no_claim_on_flicker():
    block = profile_support([]).at_resolution(60_000).block()
    assert "no claim on flicker, torsion or harmonics" in block["note"]
    assert block["flagged_hz"] >= block["trusted_hz"]
