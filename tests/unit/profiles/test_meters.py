"""Meters: known courses of power read through them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.signal import periodogram

from diploee import import_profile
from diploee.base.errors import ProfileError
from diploee.metrics.spectral_bands import Readings, profile_support
from diploee.profiles import known_meter

FINE_S = 0.001
H100 = known_meter("power.draw", "NVIDIA H100 80GB HBM3", 0.1)
A100 = known_meter("power.draw", "A100", 0.1)


def sine(frequency_hz, length_s=60.0):
    """A sine around 400 W, as means over the fine step."""
    t_s = np.arange(0, length_s, FINE_S) + FINE_S / 2
    return 400 + 100 * np.sin(2 * np.pi * frequency_hz * t_s)


def amplitude(readings_w, interval_s, frequency_hz):
    t_s = np.arange(readings_w.size) * interval_s
    turned = (readings_w - readings_w.mean()) * np.exp(-2j * np.pi * frequency_hz * t_s)
    return 2 * abs(turned.mean())


@pytest.mark.parametrize("frequency_hz", [0.1, 0.25, 0.4, 0.6, 0.8])
def test_a_boxcar_passes_a_sine_with_the_gain_of_its_window(frequency_hz):
    _, readings_w = replace(H100, polled_s=0.05, refresh_s=0.0).read(
        sine(frequency_hz), FINE_S
    )
    n = round(20 * round(50 * frequency_hz) / frequency_hz)  # whole periods
    gain = amplitude(readings_w[:n], 0.05, frequency_hz) / 100
    assert gain == pytest.approx(abs(np.sinc(1.01 * frequency_hz)), rel=0.01)


def test_a_sine_above_half_the_rate_of_an_a100_appears_as_a_slower_one():
    t_s, readings_w = A100.read(sine(5.55), FINE_S)
    spectrum = np.abs(np.fft.rfft(readings_w - readings_w.mean()))
    line_hz = np.fft.rfftfreq(t_s.size, 0.1)[np.argmax(spectrum)]
    assert line_hz == pytest.approx(4.45, abs=0.02)
    gain = pytest.approx(np.sinc(5.55 * 0.025), rel=0.02)
    assert amplitude(readings_w, 0.1, 4.45) / 100 == gain


def fitted_window_s(t_s, readings_w):
    """The time that an edge would take from low to high at the slope of its middle."""
    low_w, high_w = readings_w.min(), readings_w.max()
    share = (readings_w - low_w) / (high_w - low_w)
    middle = (share > 0.05) & (share < 0.95)
    return 1 / np.polyfit(t_s[middle], share[middle], 1)[0]


@pytest.mark.parametrize("window_s", [0.3, 0.8, 1.01, 1.5])
@pytest.mark.parametrize("at", [3_000, 3_037, 3_061])
def test_the_window_of_a_boxcar_is_found_from_an_edge_within_three_percent(
    window_s, at
):
    power_w = np.repeat([100.0, 700.0], [at, 6_000 - at])
    t_s, readings_w = replace(H100, window_s=window_s).read(power_w, FINE_S)
    assert fitted_window_s(t_s, readings_w) == pytest.approx(window_s, rel=0.03)


def test_a_short_burst_keeps_its_energy_and_loses_its_height():
    power_w = np.full(10_000, 1_190.0)
    power_w[4_000:4_234] = 4_400.0
    _, readings_w = H100.read(power_w, FINE_S)
    assert readings_w.max() == pytest.approx(1_190 + 3_210 * 0.234 / 1.01)
    assert (readings_w - 1_190).sum() * 0.1 == pytest.approx(3_210 * 0.234, rel=0.02)


def test_differences_of_a_counter_are_means_between_polls_and_keep_all_energy():
    rng = np.random.default_rng(0)
    power_w = rng.uniform(100, 700, (2, 5_000))
    t_s, readings_w = known_meter("energy", None, 0.1).read(power_w, FINE_S)
    assert t_s[0] == pytest.approx(0.1) and readings_w.shape == (2, 50)
    assert readings_w == pytest.approx(power_w.reshape(2, 50, 100).mean(axis=-1))


def test_a_value_is_held_until_the_next_refresh():
    _, readings_w = replace(H100, window_s=0.0, polled_s=0.025).read(
        np.arange(2_000.0), FINE_S
    )
    held_w = np.repeat(np.arange(0, 2_001, 100).clip(max=1_999), 4)
    np.testing.assert_array_equal(readings_w, held_w[:81])


@pytest.mark.parametrize(
    ("field", "gpu", "kind", "window_s", "lti"),
    [
        ("power.draw", "NVIDIA H200", "boxcar", 1.01, True),
        ("power.draw.average", "h100", "boxcar", 1.01, True),
        ("power.draw", "NVIDIA A100-SXM4-80GB", "boxcar", 0.025, True),
        ("power.draw.instant", "H100", "instant", 0.0, False),
        ("energy", "MI300X", "counter", 0.1, True),
        ("power.draw", "NVIDIA L40S", "unknown", 1.0, False),
        ("power.draw", None, "unknown", 1.0, False),
        ("other", "H100", "unknown", 1.0, False),
    ],
)
def test_a_meter_is_known_by_its_gpu_and_field(field, gpu, kind, window_s, lti):
    meter = known_meter(field, gpu, 0.1)
    assert (meter.kind, meter.window_s, meter.lti) == (kind, window_s, lti)
    assert (meter.field, meter.gpu, meter.polled_s) == (field, gpu, 0.1)
    assert meter.source != "unknown" or kind == "unknown"


def test_a_window_that_is_given_goes_before_the_known_one():
    assert known_meter("power.draw", "A100", 0.1, 0.5).window_s == 0.5
    assert known_meter("other", None, 0.1, 0.0).kind == "instant"


@pytest.mark.parametrize(
    ("meter", "n", "text"),
    [
        (
            known_meter("power.draw", "L40S", 0.1),
            5_000,
            "of L40S: unknown, .*give a known meter",
        ),
        (replace(H100, polled_s=None), 5_000, "H100.*polling to be known"),
        (H100, 500, "power of 0.5 s, expected 1.1 s at least"),
    ],
)
def test_what_no_meter_can_read_is_refused(meter, n, text):
    with pytest.raises(ProfileError, match=text):
        meter.read(np.ones(n), FINE_S)


def band_rms(power_w, low_hz, high_hz):
    at_hz, density = periodogram(power_w, 10.0, window="hann", detrend="linear")
    return np.sqrt(density[(at_hz >= low_hz) & (at_hz < high_hz)].sum() * at_hz[1])


@pytest.fixture(scope="module")
def two_levels():
    """Two levels with white noise of 150 W^2/Hz, and their means over 0.1 s."""
    rng = np.random.default_rng(3)
    lengths = rng.uniform([4_400, 5_500], [5_000, 6_100], (40, 2)).astype(int).ravel()
    power_w = np.repeat(np.tile([4_430.0, 1_230.0], 40), lengths)
    power_w += rng.normal(0, np.sqrt(150 / (2 * FINE_S)), power_w.size)
    power_w = power_w[: power_w.size // 100 * 100]
    return power_w, power_w.reshape(-1, 100).mean(axis=1)


def as_log(t_s, readings_w):
    """A log of nvidia-smi, in lines."""
    stamps = np.datetime64("2026-11-26T12:00:00.000", "us") + (t_s * 1e6).astype(
        "timedelta64[us]"
    )
    rows = (
        f"{str(at)[:23].replace('-', '/').replace('T', ' ')}, 0, {power_w:.2f} W"
        for at, power_w in zip(stamps, readings_w, strict=True)
    )
    return "\n".join(["timestamp, index, power.draw [W]", *rows])


def test_restored_readings_have_the_bands_steps_and_mean_of_the_power(
    two_levels, tmp_path
):
    power_w, truth_w = two_levels
    path = tmp_path / "smi.csv"
    path.write_text(
        as_log(*replace(H100, polled_s=0.1003).read(power_w, FINE_S)), "utf-8"
    )
    facts = {"workload": "w", "gpu": "H100", "max_reading_w": 6_000.0}
    read, restored = (
        import_profile(path, "nvidia-smi", **facts, restore=restore)
        for restore in (False, True)
    )
    assert restored.mean_power_w == pytest.approx(read.mean_power_w, rel=1e-4)
    for low_hz, high_hz in ((0.02, 0.25), (0.25, 0.44), (0.44, 0.6), (0.25, 0.6)):
        true_w = pytest.approx(band_rms(truth_w, low_hz, high_hz), rel=0.05)
        assert band_rms(restored.power_w, low_hz, high_hz) == true_w
    assert band_rms(read.power_w, 0.44, 0.6) < 0.7 * band_rms(truth_w, 0.44, 0.6)
    largest = [np.abs(of[10:] - of[:-10]).max() for of in (restored.power_w, truth_w)]
    assert largest[0] <= 1.05 * largest[1]
    origin = restored.provenance
    assert (origin.restored, origin.restored_hz, origin.bandwidth_hz) == (
        True,
        0.7,
        0.7,
    )
    support = profile_support([Readings.from_provenance(origin, "p")])
    assert (support.trusted_hz, support.flagged_hz) == pytest.approx((0.6, 0.7))
    assert support.scope(1.0, 1.0) == (
        "to 0.7 Hz on restored detail; means over 1.01 s, restored to 0.7 Hz "
        "('p') decide"
    )


def test_restoring_keeps_the_mean_and_makes_no_power_negative():
    power_w = np.repeat(np.tile([0.0, 700.0], 40), np.tile([1_900, 1_300], 40))
    _, readings_w = H100.read(power_w, FINE_S)
    restored_w = H100.restore(readings_w, 0.1)
    assert restored_w.mean() == pytest.approx(readings_w.mean(), rel=1e-9)
    assert restored_w.min() >= 0


@pytest.mark.parametrize(
    "meter",
    [
        A100,  # its window is not known well enough
        known_meter("power.draw", "H100", 0.1, 1.0),
        known_meter("power.draw", "L40S", 0.1),  # unknown, or not a mean
        known_meter("power.draw", None, 0.1),
        known_meter("energy", "H100", 0.1),
        known_meter("power.draw", "H100", 0.2),  # readings that fold 18 % into 0.7 Hz
    ],
)
def test_what_can_not_be_restored_is_refused(meter):
    with pytest.raises(ProfileError, match=r"can't be restored.*without --restore"):
        meter.restore(np.ones(100), 0.1)
