from __future__ import annotations

from datetime import UTC, datetime

import numpy as np
import pytest
from scipy import signal

from diploee.measures.spectrum import window_spectra
from diploee.metrics.run_metrics import GridMetrics
from diploee.profiles import ProfileLibrary
from diploee.profiles.profile import Provenance

START = datetime(2018, 1, 1, tzinfo=UTC)
MW = 1e6
PUBLISHED = Provenance("reference", "", "", 0.2, 1.0, 0.44)


def spectrum_of(power_w, step_ms, readings=(PUBLISHED,)):
    metrics = GridMetrics(step_ms, START, rated_power_w=10 * MW, readings=readings)
    metrics.add(0, power_w)
    return metrics, metrics.block()["spectrum"]


def sines(amplitudes_w, frequencies_hz, duration_s=3600, step_s=0.5):
    t_s = (np.arange(int(duration_s / step_s)) + 0.5) * step_s
    pairs = zip(amplitudes_w, frequencies_hz, strict=True)
    waves = [a * np.sin(2 * np.pi * f * t_s + f) for a, f in pairs]
    return 5 * MW + np.sum(waves, axis=0)


def test_windows_equal_scipys_periodogram():
    rng = np.random.default_rng(0)
    for n in (600, 601):
        windows = rng.normal(size=(3, n)).cumsum(axis=1)
        frequency_hz, psd = window_spectra(windows, 500)
        expected_hz, expected = signal.periodogram(windows, 2.0, "hann", detrend="linear")
        np.testing.assert_allclose(frequency_hz, expected_hz)
        np.testing.assert_allclose(psd, expected, rtol=1e-9, atol=1e-9 * expected.max())


def test_full_spectrum_sums_to_the_weighted_variance():
    # Parseval, for any signal: the sum over all bins is the mean square under the Hann window.
    windows = np.random.default_rng(1).normal(size=(4, 1200)).cumsum(axis=1)
    frequency_hz, psd = window_spectra(windows, 500)
    weight = np.square(signal.get_window("hann", 1200))
    level = signal.detrend(windows, axis=-1)
    expected = (weight * level**2).sum(axis=-1) / weight.sum()
    np.testing.assert_allclose(psd.sum(axis=-1) * frequency_hz[1], expected, rtol=1e-12)


def test_full_spectrum_sums_to_the_variance_of_a_sum_of_sines():
    power_w = sines([3e4, 2e4, 1e4], [20 / 600, 100 / 600, 300 / 600])
    metrics, _ = spectrum_of(power_w, 500)
    spectrum = metrics.spectrum
    variance_mw2 = spectrum.mean_psd.sum() * spectrum.frequency_hz[1]
    assert variance_mw2 == pytest.approx((3e4**2 + 2e4**2 + 1e4**2) / 2 / MW**2, rel=1e-3)


def test_bands_and_lines_have_the_rms_of_the_sines_in_them():
    amplitudes_w, frequencies_hz = [5e4, 4e4, 3e4], [1 / 240, 1 / 10.5, 0.2]
    _, block = spectrum_of(sines(amplitudes_w, frequencies_hz), 500)
    for band, amplitude_w in zip(block["bands"][:3], amplitudes_w, strict=True):
        rms_mw = amplitude_w / np.sqrt(2) / MW
        # A window of 10 minutes holds 2.5 periods of the slowest: detrending takes some of it.
        near = pytest.approx(rms_mw, rel=0.08 if band["low_hz"] == 0.001 else 2e-3)
        assert (band["rms_p50_mw"], band["rms_p99_mw"], band["rms_max_mw"]) == (near, near, near)
    fast = [line for line in block["lines"] if line["frequency_hz"] > 0.01]
    assert [line["frequency_hz"] for line in fast] == pytest.approx([1 / 10.5, 0.2], rel=1e-3)
    assert [line["rms_mw"] * MW * np.sqrt(2) for line in fast] == pytest.approx(
        [4e4, 3e4], rel=0.01
    )


def test_white_noise_has_its_density_and_no_lines():
    noise_w = np.random.default_rng(5).normal(0, 1e4, 24 * 7200)
    metrics, block = spectrum_of(noise_w, 500)
    # One-sided density of white noise: variance over the Nyquist frequency; 287 windows, so the
    # mean over 180 bins lies within 3 standard errors of about 0.45 %.
    inside = (metrics.spectrum.frequency_hz > 0.1) & (metrics.spectrum.frequency_hz < 0.4)
    assert metrics.spectrum.mean_psd[inside].mean() == pytest.approx(1e8 / MW**2, rel=0.015)
    assert block["lines"] == []


def test_mean_spectrum_holds_the_band_levels_and_nothing_above_what_is_flagged():
    noise_w = np.random.default_rng(6).normal(0, 1e4, 1200)  # one window: the mean is its own
    _, block = spectrum_of(noise_w, 500)
    density = np.array(block["mean_psd_mw2_per_hz"])
    frequency_hz = np.arange(1, density.size + 1) * block["frequency_resolution_hz"]
    assert frequency_hz[-1] == pytest.approx(0.44)
    for band in block["bands"]:
        inside = (frequency_hz > band["low_hz"] - 1e-6) & (frequency_hz < band["high_hz"] - 1e-6)
        rms_mw = np.sqrt(density[inside].sum() / 600)
        assert rms_mw == pytest.approx(band["rms_max_mw"])


def test_worst_window_is_where_the_burst_is():
    power_w = np.full(6 * 1200, 1 * MW)
    burst = slice(3 * 1200 + 600, 4 * 1200 + 600)  # 35 to 45 minutes: just one window
    power_w[burst] += 2e4 * np.sin(2 * np.pi * 0.15 * 0.5 * np.arange(1200))
    _, block = spectrum_of(power_w, 500)
    band = block["bands"][2]
    assert band["worst_window"] == "2018-01-01T00:35:00+00:00"
    assert band["worst_window_strongest_hz"] == pytest.approx(0.15)
    assert band["rms_max_mw"] == pytest.approx(0.02 / np.sqrt(2), rel=1e-3)


def test_one_second_readings_claim_nothing_above_a_quarter_hertz():
    _, block = spectrum_of(sines([1e4], [0.1]), 500)
    assert [(b["high_hz"], b["flagged"]) for b in block["bands"]] == [
        (0.01, False),
        (0.1, False),
        (0.25, False),
        (0.44, True),
    ]
    assert {b["reason"] for b in block["absent"]} == {"the profiles support nothing above 0.44 Hz"}


def test_better_readings_unlock_higher_bands():
    fast = Provenance("measured", "", "", 0.1, 0.1, 4.4)
    power_w = sines([1e4], [1.5], duration_s=1200, step_s=0.1)
    _, block = spectrum_of(power_w, 100, [fast])
    assert [b["flagged"] for b in block["bands"]] == [False] * 6
    assert block["bands"][-1]["rms_max_mw"] == pytest.approx(0.01 / np.sqrt(2), rel=1e-3)
    _, block = spectrum_of(power_w, 100, [fast, PUBLISHED])
    assert len(block["bands"]) == 4


@pytest.mark.parametrize(
    ("step_ms", "n_bands", "reason"),
    [
        (1_000, 3, "the run's resolution of 1 s does not hold it"),
        (2_000, 2, "the run's resolution of 2 s does not hold it"),
        (10_000, 1, "the run's resolution of 10 s does not hold it"),
        (60_000, 0, "the run's resolution of 60 s does not hold it"),
        (700, 0, "the run's resolution of 0.7 s does not divide 5 minutes"),
    ],
)
def test_coarse_resolution_leaves_bands_out_with_the_reason(step_ms, n_bands, reason):
    _, block = spectrum_of(np.ones(4_000), step_ms)
    assert len(block["bands"]) == n_bands
    assert block["absent"][0]["reason"] == reason
    assert len(block["bands"]) + len(block["absent"]) == 6


def test_short_run_has_no_bands_with_the_reason():
    _, block = spectrum_of(np.ones(100), 1_000)
    assert block["bands"] == []
    assert {b["reason"] for b in block["absent"]} == {"the run holds no whole 10-minute window"}


def test_slow_band_says_what_it_holds():
    _, block = spectrum_of(np.ones(7200), 500)
    assert "1/600 Hz" in block["bands"][0]["note"]
    assert all("note" not in band for band in block["bands"][1:])


def test_llama_2_on_16_nodes_has_its_line_at_10_5_s():
    profile = ProfileLibrary.open().get("llama2_70b_lora-16n-1")
    metrics = GridMetrics(
        profile.dt_ms, START, rated_power_w=16 * 3520.0, readings=[profile.provenance]
    )
    metrics.add(0, profile.power_w.astype(float))
    strongest = metrics.block()["spectrum"]["lines"][0]
    assert 10.3 < strongest["period_s"] < 10.7


def test_line_of_a_strictly_periodic_load_has_no_floor_and_says_so():
    t_s = np.arange(3600) + 0.5
    square_w = 5 * MW + MW * np.sign(np.cos(2 * np.pi * t_s / 60))
    lines = spectrum_of(square_w, 1000)[1]["lines"]
    assert lines[0]["frequency_hz"] == pytest.approx(1 / 60, rel=1e-4)
    assert lines[0]["rms_mw"] == pytest.approx(4 / np.pi / np.sqrt(2), rel=2e-3)
    for line in lines:
        assert (line["over_floor"] is None) == ("reason" in line)
        assert line["over_floor"] is None or line["over_floor"] < 1e12
    assert "strictly periodic" in lines[0]["reason"]
    # What only the transform's rounding shows is no line: none is below the rounding of power.
    sine_w = 5 * MW + MW * np.cos(2 * np.pi * t_s / 60)
    assert [line["rms_mw"] > 1e-8 for line in spectrum_of(sine_w, 1000)[1]["lines"]] == [True]
